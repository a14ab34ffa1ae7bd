"""What a search for duplicates found, gathered group by group in bounded memory."""

from __future__ import annotations

import base64
import csv
import heapq
import io
import os
from collections import Counter
from dataclasses import dataclass

import msgspec

from aios.builtin.files.beneath import Identity
from aios.builtin.files.grouping import Copy, Group
from aios.builtin.files.listing import Listing
from aios.builtin.files.names import to_label, to_size, to_text
from aios.model import JsonObject

OPTIONS_MAX = 100
OPTIONS_BYTES_MAX = 128 * 1024
"""All options together, as JSON: the question must fit an event."""
GROUPS_SHOWN_MAX = 200
PATHS_SHOWN_MAX = 50
PATHS_BYTES_MAX = 8 * 1024
"""Paths of one group in the report's data: so many, or together so long."""
DATA_BYTES_MAX = 52 * 1024
"""All groups in the report's data, as JSON: with the totals it stays below `max_inline_size`, so an agent gets it as data."""
TABLE_BYTES_MAX = 32 * 1024 * 1024
"""The complete table, as CSV."""
KINDS_MAX = 10_000
"""Different folders or types that are counted apart; what comes later counts as `other`."""

OTHER = "other"


@dataclass(frozen=True)
class Choice:
    """A copy that may be removed, as it was found, and the one that is kept for it."""

    id: str
    path: bytes
    identity: Identity
    keeps: bytes
    kept_identity: Identity

    def to_json(self) -> JsonObject:
        """Give it for a durable step: paths as they are on disk, byte by byte."""
        return {
            "id": self.id,
            "path": base64.b64encode(self.path).decode("ascii"),
            "identity": list(self.identity),
            "keeps": base64.b64encode(self.keeps).decode("ascii"),
            "kept_identity": list(self.kept_identity),
        }

    @classmethod
    def from_json(cls, value: JsonObject) -> Choice:
        """Take it from a durable step."""
        return cls(
            id=value["id"],
            path=base64.b64decode(value["path"]),
            identity=Identity(*value["identity"]),
            keeps=base64.b64decode(value["keeps"]),
            kept_identity=Identity(*value["kept_identity"]),
        )

    def to_option(self) -> JsonObject:
        """Give it for the question."""
        path = to_text(self.path)
        return {
            "id": self.id,
            "label": f"{to_label(path, 80)} ({to_size(self.identity.size)}), a copy of {to_label(to_text(self.keeps), 80)}",
            "value": path,
            "path": path,
            "size": self.identity.size,
            "keeps": to_text(self.keeps),
        }


class _Table:
    """The complete table as CSV, up to a size."""

    def __init__(self) -> None:
        self._bytes = io.BytesIO()
        self._text = io.TextIOWrapper(self._bytes, encoding="utf-8", newline="", write_through=True)
        self._writer = csv.writer(self._text)
        self._writer.writerow(("group", "size", "sha256", "role", "path"))
        self.is_cut = False

    def add(self, group: Group, number: int, role: str, path: str) -> None:
        if self._bytes.tell() >= TABLE_BYTES_MAX:
            self.is_cut = True
        if not self.is_cut:
            self._writer.writerow((number, group.size, group.digest.hex(), role, path))

    def content(self) -> bytes:
        self._text.flush()
        return self._bytes.getvalue()


class Findings:
    """Everything the report and the question need to know of the groups; `add` the groups, the largest files first."""

    def __init__(self, listing: Listing) -> None:
        self._listing = listing
        self._shown: list[tuple[int, int, JsonObject]] = []
        self._table = _Table()
        self._options_bytes = 0
        self.groups = 0
        self.copies = 0
        """Copies more than needed."""
        self.wasted_bytes = 0
        self.linked_copies = 0
        """Copies that are not offered, because they have further names (hard links)."""
        self.by_folder: Counter[str] = Counter()
        self.by_type: Counter[str] = Counter()
        self.choices: list[Choice] = []
        self.are_more_choices = False

    def add(self, group: Group) -> None:
        """Take in a group, the copy to keep first."""
        self.groups += 1
        self.copies += len(group.copies) - 1
        self.wasted_bytes += group.wasted_bytes
        self._show(group)
        kept, *others = group.copies
        self._tabulate(group, kept, "kept")
        for copy in others:
            self._tabulate(group, copy, "copy")
            path = self._listing.path(copy.names[0])
            _count(self.by_folder, _top_folder(path), group.size)
            _count(self.by_type, _type_of(path), group.size)
            self._offer(kept, copy)

    def shown(self) -> list[JsonObject]:
        """Give the groups that waste most, the first of them first, as many as the report's data can hold."""
        room = DATA_BYTES_MAX
        taken: list[JsonObject] = []
        for _, _, group in sorted(self._shown, key=lambda entry: entry[:2], reverse=True):
            room -= len(msgspec.json.encode(group))
            if room < 0:
                break
            taken.append(group)
        return taken

    def table(self) -> tuple[bytes, bool]:
        """Give all groups as CSV, and whether even that had to be cut."""
        return self._table.content(), self._table.is_cut

    def _show(self, group: Group) -> None:
        rank = (group.wasted_bytes, -self.groups)
        if len(self._shown) < GROUPS_SHOWN_MAX:
            heapq.heappush(self._shown, (*rank, self._describe(group)))
        elif rank > self._shown[0][:2]:
            heapq.heapreplace(self._shown, (*rank, self._describe(group)))

    def _describe(self, group: Group) -> JsonObject:
        numbers = [number for copy in group.copies for number in copy.names]
        paths: list[str] = []
        room = PATHS_BYTES_MAX
        for number in numbers[:PATHS_SHOWN_MAX]:
            path = self._listing.path(number)
            room -= len(path)
            if paths and room < 0:
                break
            paths.append(to_text(path))
        described: JsonObject = {
            "size": group.size,
            "hash": f"sha256:{group.digest.hex()}",
            "copies": len(group.copies),
            "wasted_bytes": group.wasted_bytes,
            "paths": paths,
        }
        if len(numbers) > len(paths):
            described["paths_total"] = len(numbers)
        if len(numbers) > len(group.copies):
            described["hard_links"] = len(numbers) - len(group.copies)
        return described

    def _tabulate(self, group: Group, copy: Copy, role: str) -> None:
        for position, number in enumerate(copy.names):
            self._table.add(
                group, self.groups, role if position == 0 else "hard link", to_text(self._listing.path(number))
            )

    def _offer(self, kept: Copy, copy: Copy) -> None:
        number = copy.names[0]
        if self._listing.links[number] > 1:
            self.linked_copies += 1
            return
        if self.are_more_choices:
            return
        made = Choice(
            id=f"copy-{len(self.choices) + 1}",
            path=self._listing.path(number),
            identity=self._listing.identity(number),
            keeps=self._listing.path(kept.names[0]),
            kept_identity=self._listing.identity(kept.names[0]),
        )
        # The path stands in the schema, too.
        self._options_bytes += len(msgspec.json.encode(made.to_option())) + len(made.path)
        if len(self.choices) == OPTIONS_MAX or self._options_bytes > OPTIONS_BYTES_MAX:
            self.are_more_choices = True
            return
        self.choices.append(made)


def _count(counts: Counter[str], kind: str, size: int) -> None:
    counts[kind if kind in counts or len(counts) < KINDS_MAX else OTHER] += size


def _top_folder(path: bytes) -> str:
    folder, slash, _ = path.partition(b"/")
    return to_text(folder) + "/" if slash else "./"


def _type_of(path: bytes) -> str:
    ending = os.path.splitext(path)[1].lower()
    return to_text(ending) if 1 < len(ending) <= 12 else "no type"
