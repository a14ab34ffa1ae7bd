"""Walking a real tree, in which everything may happen: unreadable folders, loops of links, mounts, files that vanish meanwhile.

Whatever cannot be looked at is counted, with a few examples, and the walk goes on.
"""

from __future__ import annotations

import fnmatch
import os
import re
from array import array
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

from aios.builtin.files.beneath import Identity, Passage, Root
from aios.builtin.files.listing import ROOT, Listing
from aios.builtin.files.names import to_text

EXAMPLES_MAX = 10
"""So many of the things that went wrong are named; the rest is only counted."""
PATTERNS_MAX = 100
"""In one list of patterns; each is tried on every name."""
ENTRIES_PER_CHECK = 256
"""So many entries are looked at before pause and cancel are asked about again."""


class Globs:
    """Patterns for names (`*.jpg`) or, where they have a `/`, for paths relative to the root (`photos/*/raw`)."""

    def __init__(self, patterns: Iterable[str], *, ignore_case: bool = False) -> None:
        flags = re.IGNORECASE if ignore_case else 0
        compiled = [
            ("/" in pattern, re.compile(os.fsencode(fnmatch.translate(pattern.rstrip("/"))), flags))
            for pattern in patterns
        ]
        self._for_names = [pattern for is_path, pattern in compiled if not is_path]
        self._for_paths = [pattern for is_path, pattern in compiled if is_path]

    def __bool__(self) -> bool:
        return bool(self._for_names or self._for_paths)

    def matches(self, name: bytes, path: Callable[[], bytes]) -> bool:
        """Say whether any pattern fits; `path` is asked for only where it matters."""
        if any(pattern.match(name) for pattern in self._for_names):
            return True
        return bool(self._for_paths) and any(pattern.match(path()) for pattern in self._for_paths)


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What a walk takes in."""

    include: Globs = field(default_factory=lambda: Globs(()))
    """Only files that fit one of these; empty: all."""
    exclude: Globs = field(default_factory=lambda: Globs(()))
    """Neither files nor folders that fit one of these."""
    min_size: int = 0
    follow_links: bool = False
    """Enter folders that a link leads to, if they lie beneath the root."""
    cross_mounts: bool = False
    """Enter folders on another file system."""


@dataclass
class Examples:
    """Things of one kind: how many, and the first of them by name."""

    count: int = 0
    paths: list[str] = field(default_factory=list[str])

    def add(self, path: bytes) -> None:
        """Count one more."""
        self.count += 1
        if len(self.paths) < EXAMPLES_MAX:
            self.paths.append(to_text(path)[:300])

    def merge(self, other: Examples) -> None:
        """Count others' things too."""
        self.count += other.count
        self.paths = (self.paths + other.paths)[:EXAMPLES_MAX]


@dataclass
class Tally:
    """What a walk saw on its way."""

    files: int = 0
    bytes: int = 0
    folders: int = 0
    links: int = 0
    special: int = 0
    """Devices, sockets and pipes."""
    unreadable: Examples = field(default_factory=Examples)
    vanished: Examples = field(default_factory=Examples)
    outside: Examples = field(default_factory=Examples)
    """Links that lead out of the root."""
    mounts: Examples = field(default_factory=Examples)
    """Folders on other file systems."""


@dataclass(frozen=True)
class Found:
    """One entry of a folder, as the walk meets it."""

    entry: os.DirEntry[str]
    folder: int
    name: bytes


class Walk:
    """One walk through a tree.

    Args:
        root: Where it starts, and what it never leaves.
        rules: What it takes in.
        checkpoint: Called often; may wait or raise.
        seen: Called as often, with what has been seen so far.
    """

    def __init__(
        self, root: Root, rules: Rules, *, checkpoint: Callable[[], None], seen: Callable[[Tally], None]
    ) -> None:
        self.tally = Tally()
        self.listing = Listing()
        self._root = root
        self._rules = rules
        self._checkpoint = checkpoint
        self._seen = seen
        self._pending = array("I", [ROOT])
        self._visited: set[int] = set()
        self._looked_at = 0

    def run(self) -> Listing:
        """Walk to the end and give the files that fit the rules."""
        for found in self.entries():
            self._take(found)
        return self.listing

    def entries(self) -> Generator[Found]:
        """Give every entry that is not excluded; folders among them are entered afterwards."""
        with Passage(self._root) as passage:
            while self._pending:
                yield from self._visit(passage, self._pending.pop())
        self._seen(self.tally)

    def _visit(self, passage: Passage, folder: int) -> Iterator[Found]:
        try:
            with passage.listed(self.listing.parts(folder)) as descriptor:
                if not self._may_enter(folder, os.fstat(descriptor)):
                    return
                self.tally.folders += 1
                with os.scandir(descriptor) as entries:
                    for entry in entries:
                        self._pass_check()
                        name = os.fsencode(entry.name)
                        if self._rules.exclude.matches(name, partial(self._path, folder, name)):
                            continue
                        if entry.is_dir(follow_symlinks=False):
                            self._pending.append(self.listing.add_folder(folder, name))
                        yield Found(entry, folder, name)
        except (FileNotFoundError, NotADirectoryError):
            self.tally.vanished.add(self._path(folder))
        except OSError:
            self.tally.unreadable.add(self._path(folder))

    def _pass_check(self) -> None:
        self._looked_at += 1
        if self._looked_at % ENTRIES_PER_CHECK == 1:
            self._checkpoint()
            self._seen(self.tally)

    def _may_enter(self, folder: int, found: os.stat_result) -> bool:
        # A folder can be reached twice, by a link or by a mount of something above it.
        identity = found.st_dev << 64 | found.st_ino
        if identity in self._visited:
            return False
        self._visited.add(identity)
        if found.st_dev != self._root.device and not self._rules.cross_mounts:
            self.tally.mounts.add(self._path(folder))
            return False
        return True

    def _path(self, folder: int, name: bytes | None = None) -> bytes:
        return b"/".join((*self.listing.parts(folder), *(() if name is None else (name,))))

    def _take(self, found: Found) -> None:
        entry = found.entry
        if entry.is_symlink():
            self.tally.links += 1
            if self._rules.follow_links:
                self._follow(found)
        elif entry.is_file(follow_symlinks=False):
            self._take_file(found)
        elif not entry.is_dir(follow_symlinks=False):
            self.tally.special += 1

    def _take_file(self, found: Found) -> None:
        path = partial(self._path, found.folder, found.name)
        if self._rules.include and not self._rules.include.matches(found.name, path):
            return
        try:
            facts = found.entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            self.tally.vanished.add(path())
            return
        except OSError:
            self.tally.unreadable.add(path())
            return
        self.tally.files += 1
        self.tally.bytes += facts.st_size
        if facts.st_size >= self._rules.min_size:
            self.listing.add(found.folder, found.name, Identity.of(facts), links=facts.st_nlink)

    def _follow(self, found: Found) -> None:
        """Enter the folder that a link leads to under its real path, so that no path we keep goes through a link.

        A link to a file adds nothing: it takes no space, and the file is met where it is.
        """
        here = self._path(found.folder, found.name)
        target = os.path.realpath(self._root.path + b"/" + here)
        if target != self._root.path and not target.startswith(self._root.path.rstrip(b"/") + b"/"):
            self.tally.outside.add(here)
        elif target != self._root.path and os.path.isdir(target):
            folder = ROOT
            for name in target[len(self._root.path) :].strip(b"/").split(b"/"):
                folder = self.listing.add_folder(folder, name)
            self._pending.append(folder)
