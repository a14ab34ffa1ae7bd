"""One search for duplicates: walk the tree, compare heads and tails, hash what is left, report."""

from __future__ import annotations

import base64

from aios.adapter import BlockingContext, Context
from aios.builtin.files.beneath import Root
from aios.builtin.files.digests import Digests
from aios.builtin.files.findings import Findings
from aios.builtin.files.grouping import Suspects
from aios.builtin.files.hashing import EDGE_BYTES, LARGE_BYTES, Meter, edge_digest, whole_digest
from aios.builtin.files.listing import Listing
from aios.builtin.files.names import to_count, to_size
from aios.builtin.files.reading import Kind, Reading
from aios.builtin.files.report import notes_of_search, parts_of_search
from aios.builtin.files.walking import Examples, Rules, Tally, Walk
from aios.model import JsonObject

WALK, COMPARE, HASH, REPORT = 1, 2, 3, 4
"""The phases, by their number in the task's progress."""

_MESSAGES = {WALK: "looking through folders", COMPARE: "comparing heads", HASH: "hashing", REPORT: "reporting"}
# Where each phase begins and ends, of the whole search. How far a walk is nobody knows.
_SPANS = {WALK: (0.0, 0.0), COMPARE: (0.0, 0.05), HASH: (0.05, 0.98), REPORT: (0.98, 1.0)}


class Comparison:
    """The work of one search.

    Args:
        ctx: The task.
        root: Where to look.
        rules: What to take in.
        steps: How many steps the whole task has, for its progress.
        share: How much of the whole task's progress this is.
    """

    def __init__(self, ctx: Context, root: Root, rules: Rules, *, steps: int, share: float) -> None:
        self._ctx = ctx
        self._root = root
        self._rules = rules
        self._steps = steps
        self._share = share
        self._phase = WALK
        self._total = 0
        self._tally = Tally()
        self._changed = Examples()

    async def run(self) -> JsonObject:
        """Search to the end, emit the report, and give what the rest of the task must know, as a durable step keeps it."""
        await self._enter(WALK)
        listing = await self._ctx.in_thread(self._walk)
        suspects = await self._ctx.in_thread(lambda _: Suspects(listing))
        digests = await self._compare(listing, suspects)
        await self._enter(REPORT)
        findings = await self._ctx.in_thread(lambda ctx: _gather(ctx, listing, suspects, digests))
        totals = self._totals(suspects, findings)
        notes = notes_of_search(self._tally, findings, hard_links=suspects.hard_links, changed=self._changed)
        parts = await self._ctx.in_thread(lambda _: parts_of_search(totals, findings, notes))
        return {
            "totals": totals,
            "report": await self._ctx.artifact("Duplicate files", "report", parts),
            "path": base64.b64encode(self._root.path).decode("ascii"),
            "device": self._root.device,
            "inode": self._root.inode,
            "choices": [choice.to_json() for choice in findings.choices],
        }

    def _walk(self, ctx: BlockingContext) -> Listing:
        meter = Meter()

        def seen(tally: Tally) -> None:
            if meter.add(1):
                counted = f"{to_count(tally.files, 'file', 'files')}, {to_size(tally.bytes)}"
                ctx.progress(0, f"{_MESSAGES[WALK]}: {counted}", WALK, self._steps)

        walk = Walk(self._root, self._rules, checkpoint=ctx.checkpoint, seen=seen)
        self._tally = walk.tally
        return walk.run()

    async def _compare(self, listing: Listing, suspects: Suspects) -> Digests:
        """Read what must be read to know which suspects are the same."""
        reading = Reading(self._ctx, self._root, listing, self._report)
        sizes = listing.sizes
        large = [number for number in suspects.numbers if sizes[number] > LARGE_BYTES]
        await self._enter(COMPARE, 2 * EDGE_BYTES * len(large))
        edges = await reading.digests(Kind("compare", edge_digest, lambda _: 2 * EDGE_BYTES), large)
        wanted = [number for _, members in suspects.narrow(large, edges) for number in members]
        wanted += [number for number in suspects.numbers if sizes[number] <= LARGE_BYTES]
        await self._enter(HASH, sum(sizes[number] for number in wanted))
        digests = await reading.digests(Kind("hash", whole_digest, sizes.__getitem__), wanted)
        self._changed = reading.changed
        self._tally.unreadable.merge(reading.unreadable)
        return digests

    def _report(self, ctx: BlockingContext, meter: Meter) -> None:
        ctx.progress(*self._progress(meter.count))

    async def _enter(self, phase: int, total: int = 0) -> None:
        self._phase, self._total = phase, total
        await self._ctx.progress(*self._progress(0))

    def _progress(self, count: int) -> tuple[float, str, int, int]:
        start, end = _SPANS[self._phase]
        count = min(count, self._total)
        done = start + (end - start) * count / self._total if self._total else start
        message = _MESSAGES[self._phase]
        if self._total:
            message += f": {to_size(count)} of {to_size(self._total)}"
        return round(100 * self._share * done, 1), message, self._phase, self._steps

    def _totals(self, suspects: Suspects, findings: Findings) -> JsonObject:
        return {
            "root": self._root.shown,
            "files": self._tally.files,
            "bytes": self._tally.bytes,
            "folders": self._tally.folders,
            "groups": findings.groups,
            "copies": findings.copies,
            "wasted_bytes": findings.wasted_bytes,
            "hard_links": suspects.hard_links,
            "links": self._tally.links,
            "unreadable": self._tally.unreadable.count,
            "changed": self._changed.count + self._tally.vanished.count,
        }


def _gather(ctx: BlockingContext, listing: Listing, suspects: Suspects, digests: Digests) -> Findings:
    findings = Findings(listing)
    for group in suspects.groups(suspects.numbers, digests):
        ctx.checkpoint()
        findings.add(group)
    return findings
