"""A folder, and the only way to what lies beneath it.

Every file is opened component by component from a descriptor of the root, and no component may be a link. So whatever is
renamed or replaced by a link while we work, nothing outside the root is ever opened or removed. It also opens paths that are
longer than the system takes in one piece (PATH_MAX, 4096 bytes).
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import NamedTuple, Self

from aios.builtin.files.names import to_text
from aios.errors import FileMissing, PermissionDenied, ValidationFailed

Parts = tuple[bytes, ...]
"""A path relative to the root, by its components; the root itself is `()`."""

# A folder that is only passed through need not be readable, where the system knows the difference.
_PASS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A FIFO must not hang the one who opens it, a terminal must not become ours.
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class Identity(NamedTuple):
    """What tells that a file is still the same and unchanged."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, found: os.stat_result) -> Identity:
        """Take it from what `stat` says."""
        return cls(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


class NotRegular(OSError):
    """What was opened is a folder, a device, a socket or a pipe."""


def real_path(path: str) -> bytes:
    """Expand `~` and resolve links, so that the path is where the thing really is."""
    if "\0" in path:
        raise ValidationFailed("A path cannot contain the character U+0000.", errors=[_error(path, "U+0000")])
    return os.path.realpath(os.path.expanduser(os.fsencode(path)))


def _error(path: str, message: str) -> dict[str, str]:
    return {"path": "", "message": message, "value": path[:200]}


class Root:
    """A folder that was opened once and is held, to be left by nobody.

    Args:
        path: Where it really is; see `real_path`.

    Raises:
        FileMissing: There is no such folder.
        ValidationFailed: It is not a folder.
        PermissionDenied: The daemon may not read it.
    """

    def __init__(self, path: bytes) -> None:
        self.path = path
        self.shown = to_text(path)
        try:
            self.descriptor = os.open(path, _LIST)
        except FileNotFoundError:
            raise FileMissing(f"There is no folder {self.shown!r}; check the path.") from None
        except NotADirectoryError:
            raise ValidationFailed(f"{self.shown!r} is not a folder; give the folder it is in.") from None
        except PermissionError:
            raise PermissionDenied(f"The daemon may not read the folder {self.shown!r}.") from None
        found = os.fstat(self.descriptor)
        self.device = found.st_dev
        self.inode = found.st_ino
        self._users = 1
        self._lock = threading.Lock()

    def hold(self) -> None:
        """Keep the folder open until one more has let go: a thread may still be in it when its task has been canceled.

        Raises:
            OSError: All have let go already.
        """
        with self._lock:
            if self._users == 0:
                raise OSError(errno.EBADF, "the folder is closed", self.shown)
            self._users += 1

    def close(self) -> None:
        """Let go of the folder; the last one closes it."""
        with self._lock:
            self._users -= 1
            if self._users == 0:
                os.close(self.descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Passage:
    """One thread's way beneath a root. It stands in the folder where it was last, so that neighbours cost one call."""

    def __init__(self, root: Root) -> None:
        root.hold()
        self._root = root
        self._folder: Parts = ()
        self._descriptor = root.descriptor

    def enter(self, folder: Sequence[bytes]) -> int:
        """Go to a folder and give its descriptor, which stays the passage's own and is good until the next call.

        Raises:
            OSError: Some component is missing, is a link, or may not be passed.
        """
        wanted = tuple(folder)
        known = len(self._folder)
        if self._folder != wanted[:known]:
            self._leave()
            known = 0
        try:
            for name in wanted[known:]:
                inner = os.open(name, _PASS, dir_fd=self._descriptor)
                self._leave()
                self._descriptor = inner
        except OSError:
            self._leave()
            raise
        self._folder = wanted
        return self._descriptor

    def _leave(self) -> None:
        if self._descriptor != self._root.descriptor:
            os.close(self._descriptor)
        self._descriptor, self._folder = self._root.descriptor, ()

    @contextmanager
    def listed(self, folder: Parts) -> Generator[int]:
        """Open a folder for reading its entries."""
        descriptor = os.open(folder[-1] if folder else b".", _LIST, dir_fd=self.enter(folder[:-1]))
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def opened(self, folder: Parts, name: bytes) -> Generator[int]:
        """Open a regular file for reading.

        Raises:
            NotRegular: It is something else.
            OSError: It is missing, is a link, or may not be read.
        """
        descriptor = os.open(name, READ, dir_fd=self.enter(folder))
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise NotRegular(f"{to_text(name)} is not a regular file")
            yield descriptor
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Hold nothing any more."""
        self._leave()
        self._root.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
