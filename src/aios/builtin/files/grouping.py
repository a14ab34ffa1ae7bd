"""Which files may be, and which are, the same: pure arithmetic on a listing and on digests."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from aios.builtin.files.listing import Listing


@dataclass(frozen=True)
class Copy:
    """One file on disk, by all the names that the walk found for it."""

    names: list[int]


@dataclass(frozen=True)
class Group:
    """Files that hold the same. What is more than one of them is waste."""

    size: int
    digest: bytes
    copies: list[Copy]

    @property
    def wasted_bytes(self) -> int:
        """What would be free if only one copy were kept."""
        return self.size * (len(self.copies) - 1)


class Suspects:
    """The files that have the size of another file, the largest first.

    Names of one file (hard links) are one suspect: `numbers` has the first of them, `names` gives all.
    """

    def __init__(self, listing: Listing) -> None:
        self._listing = listing
        self._aliases: dict[int, list[int]] = {}
        self.numbers = array("I")
        self.hard_links = 0
        """Names that are a second name of a file already counted; they take no space of their own."""
        for _, run in groupby(sorted(range(len(listing)), key=self._falling), self._falling):
            self._take(list(run))

    def _falling(self, number: int) -> int:
        return -self._listing.sizes[number]

    def _take(self, run: list[int]) -> None:
        files: dict[tuple[int, int], int] = {}
        for number in run:
            first = files.setdefault(self._listing.inode(number), number)
            if first != number:
                self.hard_links += 1
                self._aliases.setdefault(first, []).append(number)
        if len(files) > 1:
            self.numbers.extend(files.values())

    def names(self, number: int) -> list[int]:
        """Give all names that the walk found for a suspect."""
        return sorted((number, *self._aliases.get(number, ())), key=self._listing.path)

    def narrow(
        self, numbers: Iterable[int], digest: Callable[[int], bytes | None]
    ) -> Iterator[tuple[bytes, list[int]]]:
        """Give, of suspects in their order, those runs that share size and digest with another; without digest: none."""
        for _, run in groupby(numbers, self._falling):
            same: dict[bytes, list[int]] = {}
            for number in run:
                found = digest(number)
                if found is not None:
                    same.setdefault(found, []).append(number)
            yield from ((found, members) for found, members in same.items() if len(members) > 1)

    def groups(self, numbers: Iterable[int], digest: Callable[[int], bytes | None]) -> Iterator[Group]:
        """Give the groups of files that hold the same, the largest files first, and in each the one to keep first."""
        for found, members in self.narrow(numbers, digest):
            copies = [Copy(self.names(number)) for number in members]
            copies.sort(key=self._worth)
            yield Group(self._listing.sizes[members[0]], found, copies)

    def _worth(self, copy: Copy) -> tuple[int, int, int, bytes]:
        """Order copies by which to keep: with most names (removing one of them frees nothing), oldest, shortest path."""
        number = copy.names[0]
        path = self._listing.path(number)
        return -self._listing.links[number], self._listing.mtime_ns(number), len(path), path
