"""Contents of artifacts, kept as files named by their SHA-256: a file is whole and on the disk before it has its name."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from hashlib import sha256
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Final, Protocol

from aios.errors import ArtifactNotFound
from aios.failpoints import failpoint
from aios.stores.sqlite.folder import FILE_MODE, make_folder

UNFINISHED: Final = "unfinished"
"""Folder of files that have no name yet; what lies there when a store opens was left by a crash."""
ORPHAN_AGE: Final = timedelta(hours=1)
"""Age from which a content that no artifact names is let go: before it, the row that names it may still be on its way."""
SWEPT_FILES_MAX: Final = 1_000
"""Files that one sweep looks at; the next one goes on where it stopped, in steps of whole folders."""

_HEX: Final = frozenset("0123456789abcdef")
_FOLDERS: Final = [f"{number:02x}" for number in range(256)]


class Blobs(Protocol):
    """Where contents are kept. Times are the store's, given by its clock."""

    def put(self, content: bytes, now: datetime) -> str:
        """Keep it, and give its hash; it is on the disk then."""
        ...

    def get(self, digest: str) -> bytes:
        """Raises: ArtifactNotFound."""
        ...

    def candidates(self) -> list[str]:
        """Give some contents that have not been looked at for long, to see whether any artifact names them."""
        ...

    def remove(self, digests: Iterable[str], before: datetime) -> None:
        """Let those of the contents go that were last put before."""
        ...


def _missing(digest: str, why: str) -> ArtifactNotFound:
    return ArtifactNotFound(f"The content {digest} {why}.", sha256=digest)


class MemoryBlobs:
    """Contents that live as long as the store."""

    def __init__(self) -> None:
        self._contents: dict[str, tuple[bytes, datetime]] = {}

    def put(self, content: bytes, now: datetime) -> str:
        """Keep it, and give its hash."""
        digest = sha256(content).hexdigest()
        self._contents[digest] = (content, now)
        return digest

    def get(self, digest: str) -> bytes:
        """Raises: ArtifactNotFound."""
        if digest not in self._contents:
            raise _missing(digest, "is not here")
        return self._contents[digest][0]

    def candidates(self) -> list[str]:
        """Give all."""
        return list(self._contents)

    def remove(self, digests: Iterable[str], before: datetime) -> None:
        """Let those of the contents go that were last put before."""
        for digest in digests:
            if digest in self._contents and self._contents[digest][1] < before:
                del self._contents[digest]


class FolderBlobs:
    """Contents in a folder, in 256 folders by the first two digits. A file's time is when it was last put."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._unfinished = folder / UNFINISHED
        self._lock = Lock()
        self._swept = 0
        make_folder(self._unfinished)
        for path in self._unfinished.iterdir():
            path.unlink()

    def put(self, content: bytes, now: datetime) -> str:
        """Keep it, and give its hash; it is on the disk then.

        Raises:
            OSError: The disk refused.
        """
        digest = sha256(content).hexdigest()
        path = self._path(digest)
        if not self._renew(path, now):
            if not path.parent.exists():
                make_folder(path.parent)
                _sync_folder(self._folder)
            temporary = self._unfinished / f"{digest}-{secrets.token_hex(8)}"
            try:
                _write(temporary, content, now)
                failpoint("blob.written")
                with self._lock:
                    temporary.rename(path)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
            failpoint("blob.renamed")
        # Also where the file was there: whoever put it may not have come to this line yet.
        _sync_folder(path.parent)
        return digest

    def get(self, digest: str) -> bytes:
        """Raises: ArtifactNotFound."""
        if len(digest) != 64 or not _HEX.issuperset(digest):
            raise _missing(repr(digest), "has no SHA-256 for its name")
        try:
            content = self._path(digest).read_bytes()
        except FileNotFoundError:
            raise _missing(digest, "is not here") from None
        if sha256(content).hexdigest() != digest:
            raise _missing(digest, "is damaged on the disk and is not given out")
        return content

    def candidates(self) -> list[str]:
        """Give the contents of the next folders, at most of all of them."""
        found: list[str] = []
        for name in islice(self._next_folders(), len(_FOLDERS)):
            folder = self._folder / name
            if folder.exists():
                found += [entry.name for entry in os.scandir(folder)]
            if len(found) >= SWEPT_FILES_MAX:
                break
        return found

    def remove(self, digests: Iterable[str], before: datetime) -> None:
        """Let those of the contents go that were last put before."""
        with self._lock:
            for digest in digests:
                path = self._path(digest)
                if path.exists() and path.stat().st_mtime < before.timestamp():
                    path.unlink()

    def _path(self, digest: str) -> Path:
        return self._folder / digest[:2] / digest

    def _next_folders(self) -> Iterator[str]:
        while True:
            yield _FOLDERS[self._swept]
            self._swept = (self._swept + 1) % len(_FOLDERS)

    def _renew(self, path: Path, now: datetime) -> bool:
        """Make a content count as new, if it is there, so that nobody lets it go before the row that names it is written."""
        with self._lock:
            if not path.exists():
                return False
            _date(path, now)
            return True


def _date(path: Path, now: datetime) -> None:
    os.utime(path, (now.timestamp(), now.timestamp()))


def _write(path: Path, content: bytes, now: datetime) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
    try:
        os.fchmod(handle, FILE_MODE)
        left = memoryview(content)
        while left:
            left = left[os.write(handle, left) :]
        os.fsync(handle)
    finally:
        os.close(handle)
    _date(path, now)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
