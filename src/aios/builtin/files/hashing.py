"""Reading files for what is in them: a digest of the whole, or of head and tail where that already tells files apart."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable
from typing import Protocol

from aios.builtin.files.beneath import Identity

CHUNK_BYTES = 1024 * 1024
"""Read in one go; between two of these pause and cancel take effect."""
EDGE_BYTES = 64 * 1024
"""Of head and of tail, what a first comparison reads."""
LARGE_BYTES = 1024 * 1024
"""Files above this size are first compared by head and tail."""
DIGEST_BYTES = 32
REPORT_INTERVAL_S = 0.1


class Changed(OSError):
    """The file is not what it was when it was found."""


class Hash(Protocol):
    """What `hashlib` makes."""

    def update(self, data: bytes | memoryview, /) -> None: ...
    def digest(self) -> bytes: ...
    def hexdigest(self) -> str: ...


class Meter:
    """Counts the bytes that several threads have read, and says now and then that it is time to tell somebody."""

    def __init__(self) -> None:
        self.count = 0
        self._lock = threading.Lock()
        self._due = time.monotonic()

    def add(self, count: int) -> bool:
        """Count so many more bytes; say whether the one who counted them should report."""
        with self._lock:
            self.count += count
            now = time.monotonic()
            if now < self._due:
                return False
            self._due = now + REPORT_INTERVAL_S
            return True


def whole_digest(descriptor: int, found: Identity, passed: Callable[[int], None]) -> bytes:
    """Give the SHA-256 of a file that must still be as it was found.

    Args:
        descriptor: The open file.
        found: What it was when it was found.
        passed: Called after each chunk with its length; may wait or raise.

    Raises:
        Changed: It has become another.
        OSError: It cannot be read.
    """
    require_unchanged(descriptor, found)
    made = hashlib.sha256()
    if feed(made, descriptor, found.size, passed) != found.size:
        raise Changed("it has become shorter")
    require_unchanged(descriptor, found)
    return made.digest()


def edge_digest(descriptor: int, found: Identity, passed: Callable[[int], None]) -> bytes:
    """Give a digest of the first and last bytes of a file; arguments and errors as for `whole_digest`."""
    require_unchanged(descriptor, found)
    head = os.pread(descriptor, EDGE_BYTES, 0)
    tail = os.pread(descriptor, EDGE_BYTES, max(0, found.size - EDGE_BYTES))
    require_unchanged(descriptor, found)
    passed(len(head) + len(tail))
    return hashlib.sha256(head + tail).digest()


def feed(made: Hash, descriptor: int, count: int, passed: Callable[[int], None]) -> int:
    """Feed a file's bytes to a hash, at most `count`, and give how many there were."""
    buffer = bytearray(min(CHUNK_BYTES, max(count, 1)))
    view = memoryview(buffer)
    done = 0
    while done < count and (length := os.readv(descriptor, [view[: count - done]])):
        made.update(view[:length])
        done += length
        passed(length)
    return done


def require_unchanged(descriptor: int, found: Identity) -> None:
    """Raises: Changed, if the open file is not the one that was found, or has been written to since."""
    if Identity.of(os.fstat(descriptor)) != found:
        raise Changed("it has changed since it was found")


def same_content(one: int, other: int, passed: Callable[[int], None]) -> bool:
    """Say whether two open files hold the same, byte by byte."""
    position = 0
    while True:
        left = os.pread(one, CHUNK_BYTES, position)
        right = os.pread(other, CHUNK_BYTES, position)
        # A short read is no end: only what both gave is compared.
        length = min(len(left), len(right))
        if left[:length] != right[:length]:
            return False
        if length == 0:
            return len(left) == len(right)
        position += length
        passed(length)
