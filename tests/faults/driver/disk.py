"""A small disk that can be filled and freed under a living daemon, and other ways to take its room away.

It is a file system in memory, mounted where only the daemon and a keeper of the place see it; we look at it through the keeper.
"""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import subprocess
from pathlib import Path

from tests.faults.driver.daemon import PATIENCE_S

CHUNK = 4096


class CannotTry(Exception):
    """This user or this machine lacks what it takes."""


class SmallDisk:
    """A disk of a few megabytes, mounted on a folder for those who enter."""

    def __init__(self, folder: Path, *, size_kib: int = 4_096) -> None:
        self.folder = folder
        self._size_kib = size_kib
        self._keeper: asyncio.subprocess.Process | None = None

    async def mount(self) -> None:
        """Make it. Raises: CannotTry."""
        if shutil.which("unshare") is None or shutil.which("nsenter") is None:
            raise CannotTry
        script = f"mount -t tmpfs -o size={self._size_kib}k tmpfs {self.folder} && echo mounted && exec cat"
        self._keeper = await asyncio.create_subprocess_exec(
            *["unshare", "--mount", "sh", "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._keeper.stdout is not None
        if await self._keeper.stdout.readline() != b"mounted\n":
            await self._keeper.wait()
            raise CannotTry

    async def unmount(self) -> None:
        """End the keeper, and the disk with it."""
        if self._keeper is not None and self._keeper.stdin is not None:
            self._keeper.stdin.close()
            await asyncio.wait_for(self._keeper.wait(), PATIENCE_S)

    @property
    def _pid(self) -> int:
        assert self._keeper is not None
        return self._keeper.pid

    @property
    def prefix(self) -> list[str]:
        """What makes a command see it."""
        return ["nsenter", f"--mount=/proc/{self._pid}/ns/mnt", "--"]

    @property
    def seen(self) -> Path:
        """Its folder, as it can be seen from outside."""
        return Path(f"/proc/{self._pid}/root{self.folder}")

    def fill(self) -> None:
        """Leave no room at all."""
        with (self.seen / "ballast").open("ab", buffering=0) as file:
            try:
                while file.write(bytes(CHUNK)):
                    pass
            except OSError:
                return

    def free(self) -> None:
        """Take away what filled it."""
        (self.seen / "ballast").unlink()


def limit_files(pid: int, size: int | None) -> None:
    """Let no file of a process grow beyond a size: for it, that is a disk without room. None: any size."""
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard if size is None else size, hard))


def obeying_modes() -> list[str]:
    """What makes a command obey the modes of files, even where root runs it. Raises: CannotTry."""
    if os.geteuid():
        return []
    if shutil.which("setpriv") is None:
        raise CannotTry
    without = "-dac_override,-dac_read_search"
    return ["setpriv", f"--bounding-set={without}", f"--inh-caps={without}", "--"]
