"""The data folder: whose it is, what may read it, and that only one daemon works in it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Final

from aios.errors import StoreUnavailable
from aios.stores.sqlite.connections import DATABASE

LOCK: Final = "aios.lock"
FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600


def make_folder(folder: Path) -> None:
    """Make a folder that its owner alone can enter, whatever the umask; one that is there keeps its mode."""
    missing = [folder, *folder.parents]
    missing = missing[: next((n for n, each in enumerate(missing) if each.exists()), len(missing))]
    for each in reversed(missing):
        each.mkdir(mode=FOLDER_MODE, exist_ok=True)
        each.chmod(FOLDER_MODE)


def make_private(path: Path) -> None:
    """Make sure that a file exists and that its owner alone can read it."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    try:
        os.fchmod(handle, FILE_MODE)
    finally:
        os.close(handle)


class FolderLock:
    """A lock on the folder, held until `release` or until the process ends, however it ends."""

    def __init__(self, folder: Path) -> None:
        """Take the lock.

        Raises:
            StoreUnavailable: Another process has it.
        """
        self._handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            os.fchmod(self._handle, FILE_MODE)
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(self._handle, 0)
            os.pwrite(self._handle, f"{os.getpid()}\n".encode(), 0)
        except BlockingIOError:
            owner = os.pread(self._handle, 32, 0).decode("ascii", "replace").strip()
            os.close(self._handle)
            raise StoreUnavailable(
                f"The data folder {folder} is in use by another daemon (process {owner or 'unknown'}); "
                "stop that one or choose another folder."
            ) from None
        except BaseException:
            os.close(self._handle)
            raise

    def release(self) -> None:
        """Let the next one in."""
        os.close(self._handle)


def make_database_file(folder: Path) -> None:
    """Make the database's file before SQLite does, so that it and its companions have the right mode from the start."""
    make_private(folder / DATABASE)
