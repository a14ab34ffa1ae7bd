"""Digests of many files, taken batch by batch, so that each batch can be a durable step.

A daemon that was killed walks the tree again, which takes seconds, and then gets back what it had read before, which may have
taken hours. A recorded digest counts only for the very file it was taken of: same device, inode, size and times.
"""

from __future__ import annotations

import base64
import hashlib
import struct
from collections.abc import Iterable, Mapping

from aios.builtin.files.hashing import DIGEST_BYTES
from aios.builtin.files.listing import Listing

BATCH_FILES = 4096
"""Files in a batch at most: their record has some 260 kB, well below the 1 MiB that a step may have."""
BATCH_BYTES = 512 * 1024 * 1024
"""A batch ends with the file that reaches this: a crash costs at most so much reading, or one file."""

_KEY_BYTES = 16
_KEY = struct.Struct("=QQqqq")
_ROW = struct.Struct(f"{_KEY_BYTES}s{DIGEST_BYTES}s")

_UNREAD, _TRIED, _KNOWN = range(3)


class Digests:
    """What is known of the files of a listing.

    Args:
        listing: The files.
        numbers: Those to take digests of, in this order.
    """

    def __init__(self, listing: Listing, numbers: Iterable[int]) -> None:
        self._listing = listing
        self._numbers = list(numbers)
        self._position = 0
        self._values = bytearray(DIGEST_BYTES * len(listing))
        self._states = bytearray(len(listing))
        self._index: dict[bytes, int] = {}

    def __call__(self, number: int) -> bytes | None:
        """Give a file's digest; None where it could not be taken."""
        if self._states[number] != _KNOWN:
            return None
        return bytes(self._values[DIGEST_BYTES * number : DIGEST_BYTES * (number + 1)])

    def next_batch(self) -> list[int]:
        """Give the next files that nobody has tried to read, those of a folder together; none left: an empty list."""
        while self._position < len(self._numbers) and self._states[self._numbers[self._position]]:
            self._position += 1
        batch: list[int] = []
        weight = 0
        for position in range(self._position, len(self._numbers)):
            if len(batch) == BATCH_FILES or weight >= BATCH_BYTES:
                break
            number = self._numbers[position]
            if not self._states[number]:
                batch.append(number)
                weight += self._listing.sizes[number]
        return sorted(batch, key=self._listing.folder)

    def record(self, batch: Iterable[int], found: Mapping[int, bytes]) -> str:
        """Take note of what a batch gave, and give it as the text of a record."""
        self._index = {}
        for number in batch:
            self._states[number] = _TRIED
        rows = bytearray()
        for number, digest in found.items():
            self._put(number, digest)
            rows += _ROW.pack(self._key(number), digest)
        return base64.b64encode(rows).decode("ascii")

    def recall(self, record: str) -> list[int]:
        """Take over what an earlier run recorded, and give the files that need not be read again for it.

        Of a file that is not there any more, or has changed, nothing is taken.
        """
        if not self._index:
            self._index = {self._key(number): number for number in self._numbers}
        spared: list[int] = []
        for key, digest in _ROW.iter_unpack(base64.b64decode(record)):
            number = self._index.get(key)
            if number is not None and self._states[number] != _KNOWN:
                self._put(number, digest)
                spared.append(number)
        return spared

    def _put(self, number: int, digest: bytes) -> None:
        self._values[DIGEST_BYTES * number : DIGEST_BYTES * (number + 1)] = digest
        self._states[number] = _KNOWN

    def _key(self, number: int) -> bytes:
        return hashlib.blake2b(_KEY.pack(*self._listing.identity(number)), digest_size=_KEY_BYTES).digest()
