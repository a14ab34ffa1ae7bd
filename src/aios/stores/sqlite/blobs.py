"""Contents of artifacts, kept as files named by their SHA-256: a file is whole and on the disk before it has its name."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Final, Protocol

from aios.errors import ArtifactNotFound
from aios.stores.failpoints import failpoint
from aios.stores.sqlite.folder import FILE_MODE, make_folder

TEMPORARY: Final = ".tmp-"


class Blobs(Protocol):
    """Where contents are kept."""

    def put(self, content: bytes) -> str:
        """Keep it, and give its hash."""
        ...

    def get(self, digest: str) -> bytes:
        """Raises: ArtifactNotFound."""
        ...


def _missing(digest: str, why: str) -> ArtifactNotFound:
    return ArtifactNotFound(f"The content {digest} {why}.", sha256=digest)


class MemoryBlobs:
    """Contents that live as long as the store."""

    def __init__(self) -> None:
        self._contents: dict[str, bytes] = {}

    def put(self, content: bytes) -> str:
        """Keep it, and give its hash."""
        digest = sha256(content).hexdigest()
        self._contents[digest] = content
        return digest

    def get(self, digest: str) -> bytes:
        """Raises: ArtifactNotFound."""
        if digest not in self._contents:
            raise _missing(digest, "is not here")
        return self._contents[digest]


class FolderBlobs:
    """Contents in a folder, in 256 folders by the first two digits."""

    def __init__(self, folder: Path) -> None:
        make_folder(folder)
        self._folder = folder
        self._lock = Lock()

    def path(self, digest: str) -> Path:
        """Say where a content lies."""
        return self._folder / digest[:2] / digest

    def put(self, content: bytes) -> str:
        """Keep it, and give its hash; it is on the disk then.

        Raises:
            OSError: The disk refused.
        """
        digest = sha256(content).hexdigest()
        path = self.path(digest)
        with self._lock:
            if path.exists():
                # It counts as new again, so that nobody collects it before the row that names it is written.
                os.utime(path)
                return digest
        make_folder(path.parent)
        self._sync(self._folder)
        temporary = path.parent / f"{TEMPORARY}{digest}-{secrets.token_hex(8)}"
        try:
            self._write(temporary, content)
            failpoint("blob.written")
            with self._lock:
                temporary.rename(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        failpoint("blob.renamed")
        self._sync(path.parent)
        return digest

    def get(self, digest: str) -> bytes:
        """Raises: ArtifactNotFound."""
        if len(digest) != 64 or not all(each in "0123456789abcdef" for each in digest):
            raise _missing(digest, "has no SHA-256 for its name")
        try:
            content = self.path(digest).read_bytes()
        except FileNotFoundError:
            raise _missing(digest, "is not here") from None
        if sha256(content).hexdigest() != digest:
            raise _missing(digest, "is damaged on the disk and is not given out")
        return content

    def remove(self, digests: Iterable[str]) -> None:
        """Let contents go that no artifact names."""
        with self._lock:
            for digest in digests:
                self.path(digest).unlink(missing_ok=True)

    @staticmethod
    def _write(path: Path, content: bytes) -> None:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
        try:
            os.fchmod(handle, FILE_MODE)
            left = memoryview(content)
            while left:
                left = left[os.write(handle, left) :]
            os.fsync(handle)
        finally:
            os.close(handle)

    @staticmethod
    def _sync(folder: Path) -> None:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
