"""`system.files.search`: where something is, by name, kind, size, time or content."""

from __future__ import annotations

import stat
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from typing import Annotated, Literal

from msgspec import Meta

from aios.adapter import BlockingContext
from aios.builtin.files.beneath import Passage, Root, real_path
from aios.builtin.files.entries import describe, fitting, to_instant
from aios.builtin.files.hashing import Meter
from aios.builtin.files.names import to_count, to_text
from aios.builtin.files.sifting import TextFinder, Wanted
from aios.builtin.files.tool import files
from aios.builtin.files.walking import PATTERNS_MAX, Found, Globs, Rules, Tally, Walk
from aios.model import JsonObject


@dataclass(kw_only=True)
class Search:
    """One search: what it looks for, and what it came across."""

    ctx: BlockingContext
    names: Globs
    wanted: Wanted
    text: TextFinder | None
    count: int = 0
    tally: Tally = field(default_factory=Tally)
    _meter: Meter = field(default_factory=Meter)

    def matches(self, root: Root, rules: Rules) -> Generator[JsonObject]:
        """Give every entry that fits, in no order."""
        walk = Walk(root, rules, checkpoint=self.ctx.checkpoint, seen=self._report)
        self.tally = walk.tally
        with Passage(root) as passage, closing(walk.entries()) as entries:
            for found in entries:
                match = self._look_at(found, walk, passage)
                if match is not None:
                    self.count += 1
                    yield match

    def _report(self, tally: Tally) -> None:
        if self._meter.add(1):
            folders = to_count(tally.folders, "folder", "folders")
            self.ctx.progress(None, f"{folders} searched, {to_count(self.count, 'match', 'matches')}")

    def _look_at(self, found: Found, walk: Walk, passage: Passage) -> JsonObject | None:
        folder = walk.listing.parts(found.folder)
        path = b"/".join((*folder, found.name))
        if not self.names.matches(found.name, lambda: path):
            return None
        try:
            facts = found.entry.stat(follow_symlinks=False)
            if not self.wanted.fits(facts):
                return None
            match = {"path": to_text(path), **describe(facts)}
            if self.text is None:
                return match
            if not stat.S_ISREG(facts.st_mode):
                return None
            with passage.opened(folder, found.name) as descriptor:
                line = self.text.find(descriptor)
            return None if line is None else {**match, **line}
        except FileNotFoundError:
            return None
        except OSError:
            self.tally.unreadable.add(path)
            return None


@files.capability(
    "system.files.search",
    name="Search files",
    permission="low",
    permission_id="aios.permission.filesystem.files.read",
    scope="{root}",
    timeout_ms=3_600_000,
    category="files",
    examples=[{"root": "~", "name": "*.pdf", "min_size": 1_000_000}, {"root": "~/notes", "text": "insurance"}],
)
def search(
    ctx: BlockingContext,
    root: str,
    name: str = "*",
    text: str | None = None,
    ignore_case: bool = True,
    type: Literal["any", "file", "folder", "link", "other"] = "any",
    min_size: Annotated[int, Meta(ge=0)] = 0,
    max_size: Annotated[int, Meta(ge=0)] | None = None,
    modified_after: str | None = None,
    modified_before: str | None = None,
    exclude: Annotated[Sequence[str], Meta(max_length=PATTERNS_MAX)] = (),
    cross_mounts: bool = False,
    max_results: Annotated[int, Meta(ge=1, le=2000)] = 200,
    max_file_bytes: Annotated[int, Meta(ge=1, le=64 * 1024 * 1024)] = 8 * 1024 * 1024,
) -> JsonObject:
    """Search a folder and all that is in it for files by name, kind, size, time or text.

    Args:
        ctx: The task.
        root: The folder; `~` is the home folder of the daemon's user. No link is followed.
        name: A pattern for names (`*.pdf`), or for paths in the folder if it has a `/` (`2025/*/report*`).
        text: Only text files that contain this.
        ignore_case: Whether upper and lower case are the same, in names and in text.
        type: Only entries of this kind.
        min_size: Only files of at least so many bytes.
        max_size: Only files of at most so many bytes.
        modified_after: Only what was written at this time or later, like `2026-01-31T12:00:00Z`.
        modified_before: Only what was written before this time.
        exclude: Neither files nor folders that fit one of these patterns.
        cross_mounts: Enter folders on other file systems.
        max_results: Stop after so many.
        max_file_bytes: Look for text in so much of each file.
    """
    after, before = to_instant(modified_after, "modified_after"), to_instant(modified_before, "modified_before")
    looked = Search(
        ctx=ctx,
        names=Globs([name], ignore_case=ignore_case),
        wanted=Wanted(type=type, min_size=min_size, max_size=max_size, modified_after=after, modified_before=before),
        text=TextFinder(text, ignore_case=ignore_case, bytes_max=max_file_bytes, checkpoint=ctx.checkpoint)
        if text
        else None,
    )
    with Root(real_path(root)) as opened:
        rules = Rules(exclude=Globs(exclude), cross_mounts=cross_mounts)
        with closing(looked.matches(opened, rules)) as matches:
            return _result(opened, looked, matches, max_results)


def _result(root: Root, search: Search, matches: Iterable[JsonObject], max_results: int) -> JsonObject:
    first = list(islice(matches, max_results + 1))
    taken, is_cut = fitting(sorted(first[:max_results], key=lambda match: match["path"]))
    return {
        "root": root.shown,
        "matches": taken,
        "truncated": is_cut or len(first) > max_results,
        "folders": search.tally.folders,
        "unreadable": search.tally.unreadable.count,
        "partly_read": search.text.cut if search.text else 0,
    }
