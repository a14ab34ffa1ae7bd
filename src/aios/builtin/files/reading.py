"""Reading many files in a few threads, batch by batch, each batch a durable step."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from aios.adapter import BlockingContext, Context
from aios.builtin.files.beneath import Identity, Passage, Root
from aios.builtin.files.digests import Digests
from aios.builtin.files.hashing import Changed, Meter
from aios.builtin.files.listing import Listing
from aios.builtin.files.walking import Examples

WORKERS = min(4, os.cpu_count() or 1)
"""Threads that read at the same time; more would only make a disk seek."""


@dataclass(frozen=True)
class Kind:
    """What is read of each file."""

    step: str
    """Name of the durable steps."""
    read: Callable[[int, Identity, Callable[[int], None]], bytes]
    """Given an open file, gives its digest; calls back with the number of bytes that it has read."""
    weight: Callable[[int], int]
    """How many bytes will be read of the file with a number."""


@dataclass
class Batch:
    """Files that are being read now, by all threads together."""

    kind: Kind
    waiting: deque[int]
    found: dict[int, bytes] = field(default_factory=dict[int, bytes])


class Reading:
    """Reads the files of a listing.

    Args:
        ctx: The task.
        root: Where the files are.
        listing: The files.
        report: Called now and then, with the context of the thread that calls and the meter.
    """

    def __init__(
        self, ctx: Context, root: Root, listing: Listing, report: Callable[[BlockingContext, Meter], None]
    ) -> None:
        self.changed = Examples()
        self.unreadable = Examples()
        self._ctx = ctx
        self._root = root
        self._listing = listing
        self._report = report
        self._meter = Meter()
        self._lock = threading.Lock()

    async def digests(self, kind: Kind, numbers: Iterable[int]) -> Digests:
        """Take a digest of each file; those that an interrupted run has recorded are not read again."""
        digests = Digests(self._listing, numbers)
        self._meter = Meter()
        while batch := digests.next_batch():
            reading = Batch(kind, deque(batch))
            record = await self._ctx.step(kind.step, self._step(digests, reading))
            if reading.waiting:
                self._meter.add(sum(kind.weight(number) for number in digests.recall(record)))
        return digests

    def _step(self, digests: Digests, batch: Batch) -> Callable[[], Awaitable[str]]:
        async def read_batch() -> str:
            numbers = list(batch.waiting)
            work = partial(self._work, batch)
            # Not a TaskGroup: that would go on where a thread says that it was canceled, as if it had read all.
            await asyncio.gather(*(self._ctx.in_thread(work) for _ in range(min(WORKERS, len(numbers)))))
            return digests.record(numbers, batch.found)

        return read_batch

    def _work(self, batch: Batch, ctx: BlockingContext) -> None:
        """Take file after file, until none is left."""
        with Passage(self._root) as passage:
            while True:
                ctx.checkpoint()
                try:
                    number = batch.waiting.popleft()
                except IndexError:
                    return
                self._read(passage, number, batch, ctx)

    def _read(self, passage: Passage, number: int, batch: Batch, ctx: BlockingContext) -> None:
        left = batch.kind.weight(number)

        def passed(count: int) -> None:
            nonlocal left
            left -= count
            self._count(count, ctx)
            ctx.checkpoint()

        folder = self._listing.parts(self._listing.folder(number))
        try:
            with passage.opened(folder, self._listing.name(number)) as descriptor:
                batch.found[number] = batch.kind.read(descriptor, self._listing.identity(number), passed)
        except (Changed, FileNotFoundError, NotADirectoryError):
            self._note(self.changed, number)
        except OSError:
            self._note(self.unreadable, number)
        # What cannot be read is done with, too.
        self._count(left, ctx)

    def _count(self, count: int, ctx: BlockingContext) -> None:
        if self._meter.add(count):
            self._report(ctx, self._meter)

    def _note(self, examples: Examples, number: int) -> None:
        with self._lock:
            examples.add(self._listing.path(number))
