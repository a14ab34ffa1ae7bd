"""`system.files.list`: what is in a folder."""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta

from aios.adapter import BlockingContext
from aios.builtin.files.beneath import Passage, Root, real_path
from aios.builtin.files.entries import describe, fitting, link_target
from aios.builtin.files.names import to_text
from aios.builtin.files.tool import files
from aios.builtin.files.walking import ENTRIES_PER_CHECK, Globs
from aios.model import JsonObject


@files.capability(
    "system.files.list",
    name="List a folder",
    permission="low",
    permission_id="aios.permission.filesystem.files.read",
    scope="{path}",
    category="files",
    examples=[{"path": "~/Documents"}, {"path": "~", "pattern": "*.pdf", "hidden": False}],
)
def list_folder(
    ctx: BlockingContext,
    path: str,
    pattern: str = "*",
    hidden: bool = True,
    after: str = "",
    limit: Annotated[int, Meta(ge=1, le=5000)] = 1000,
) -> JsonObject:
    """List what is in a folder, by name.

    Args:
        ctx: The task.
        path: The folder; `~` is the home folder of the daemon's user.
        pattern: Only names that fit it, like `*.pdf`.
        hidden: Also names that begin with a dot.
        after: Only names after this one: the last of an answer that was truncated brings the next.
        limit: At most so many entries.
    """
    globs = Globs([pattern.replace("/", "")])
    count = 0

    def names(descriptor: int) -> Iterator[str]:
        nonlocal count
        with os.scandir(descriptor) as entries:
            for number, entry in enumerate(entries):
                if number % ENTRIES_PER_CHECK == 0:
                    ctx.checkpoint()
                name = os.fsencode(entry.name)
                if (hidden or not name.startswith(b".")) and globs.matches(name, lambda: b""):
                    count += 1
                    if to_text(name) > after:
                        yield entry.name

    with Root(real_path(path)) as root, Passage(root) as passage, passage.listed(()) as descriptor:
        first = heapq.nsmallest(limit + 1, names(descriptor), key=lambda name: to_text(os.fsencode(name)))
        entries, is_cut = fitting(_described(descriptor, first[:limit]))
        return {
            "path": root.shown,
            "entries": entries,
            "count": count,
            "truncated": is_cut or len(first) > limit,
        }


def _described(descriptor: int, names: list[str]) -> Iterator[JsonObject]:
    for name in names:
        raw = os.fsencode(name)
        try:
            entry = {"name": to_text(raw), **describe(os.stat(raw, dir_fd=descriptor, follow_symlinks=False))}
        except OSError:
            # It vanished between listing and looking, or is of a kind that cannot be looked at.
            entry = {"name": to_text(raw), "type": "other"}
        target = link_target(descriptor, raw) if entry["type"] == "link" else None
        yield entry if target is None else {**entry, "target": target}
