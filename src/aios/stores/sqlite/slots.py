"""Slots and the queue, counted and ordered in the writer's memory; rebuilt from the rows whenever these were rolled back.

What may be claimed is kept per adapter in order of claiming, so that ten thousand tasks of an adapter at its limit cost the
others nothing. A task that has left is dropped when its entry comes to the front, or when the left-overs are too many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

from aios.model import TERMINAL, Limits, Status, Task
from aios.rules.queueing import has_slot, may_enter

GARBAGE_MIN: Final = 64
"""Entries of tasks that have left, below which a heap is not tidied."""

CLAIMABLE: Final = (Status.PENDING, Status.WORKING)

_TERMINAL: Final = tuple(TERMINAL)
"""A tuple, because looking into a set calls the enumeration's own hash."""


class Entry(NamedTuple):
    """A task's place: entries sort in the order in which their tasks are claimed."""

    rank: int
    """Priority, the highest first."""
    created_at: datetime
    task_id: str
    row: int
    adapter_id: str


class Standing(NamedTuple):
    """What slots and queue are told of a stored task when they start over."""

    entry: Entry
    status: Status
    worker: str | None
    run_at: datetime | None


class Slots:
    """Who runs, who waits, and who is next."""

    def __init__(self, *, limits: Limits) -> None:
        self._limits = limits
        self._barred: set[str] = set()
        self.clear()

    def clear(self) -> None:
        """Forget what is counted and who waits, to be told again."""
        self.pending = 0
        self.running = 0
        self.of_adapter: Counter[str] = Counter()
        self.of_worker: Counter[str] = Counter()
        self.unfinished: Counter[Status] = Counter()
        self._entries: dict[int, Entry] = {}
        self._ready: dict[str, list[Entry]] = {}
        self._later: list[tuple[datetime, Entry]] = []

    def rebuild(self, standings: Iterable[Standing]) -> None:
        """Start over from all unfinished tasks and all held slots."""
        self.clear()
        for entry, status, worker, run_at in standings:
            self._count(status, 1)
            if worker is not None:
                self._take(entry.adapter_id, worker, 1)
            elif run_at is not None and status in CLAIMABLE:
                self._queue(entry, run_at)

    def enter(self, task: Task) -> None:
        """Count a task in as it now stands."""
        self._count(task.status, 1)
        if task.worker is not None:
            self._take(task.spec.adapter_id, task.worker, 1)
        elif task.run_at is not None and task.status in CLAIMABLE:
            spec = task.spec
            entry = Entry(-spec.priority.rank, spec.created_at, task.task_id, task.row, spec.adapter_id)
            self._queue(entry, task.run_at)

    def leave(self, task: Task) -> None:
        """Count a task out as it stood before."""
        self._count(task.status, -1)
        if task.worker is not None:
            self._take(task.spec.adapter_id, task.worker, -1)
        else:
            self._entries.pop(task.row, None)

    def move(self, before: Task, after: Task) -> None:
        """Count a task as it now stands, and no longer as it stood."""
        if before.status is not after.status or before.worker is not after.worker or before.run_at is not after.run_at:
            self.leave(before)
            self.enter(after)

    def _count(self, status: Status, count: int) -> None:
        if status not in _TERMINAL:
            self.unfinished[status] += count
            if status is Status.PENDING:
                self.pending += count

    def _queue(self, entry: Entry, run_at: datetime) -> None:
        if entry.task_id in self._barred:
            return
        self._entries[entry.row] = entry
        # Even what is due goes this way, so that one place says what due means: `_promote`.
        heappush(self._later, (run_at, entry))

    def _take(self, adapter_id: str, worker: str, count: int) -> None:
        self.running += count
        self.of_adapter[adapter_id] += count
        self.of_worker[worker] += count
        if count < 0:
            # Names come and go; only those that run something are kept.
            if not self.of_adapter[adapter_id]:
                del self.of_adapter[adapter_id]
            if not self.of_worker[worker]:
                del self.of_worker[worker]

    def may_enter(self, task: Task, now: datetime, *, capacity: int, worker: str) -> bool:
        """Whether a new task is accepted; `capacity` is that of the seated worker, 0 where none is."""
        if task.status is not Status.PENDING:
            return True
        is_due = (
            task.worker is None
            and task.run_at is not None
            and task.run_at <= now
            and self.of_worker.get(worker, 0) < capacity
        )
        return may_enter(
            pending=self.pending,
            running=self.running,
            running_of_adapter=self.of_adapter.get(task.spec.adapter_id, 0),
            limits=self._limits,
            is_due=is_due,
        )

    def next(self, now: datetime, *, capacity: int, worker: str) -> int | None:
        """Give the row of the task that is to be claimed now, if a slot is free for any."""
        if not self._entries:
            return None
        self._promote(now)
        if self.of_worker.get(worker, 0) >= capacity or self.running >= self._limits.max_concurrent_tasks:
            return None
        best: Entry | None = None
        for adapter_id in list(self._ready):
            if has_slot(self.running, self.of_adapter.get(adapter_id, 0), self._limits):
                first = self._first(adapter_id)
                if first is not None and (best is None or first < best):
                    best = first
        return None if best is None else best.row

    @property
    def waiting(self) -> Iterable[int]:
        """Rows of the tasks that may be claimed now or when they are due."""
        return self._entries.keys()

    def bar(self, task_ids: Iterable[str]) -> None:
        """Let tasks stand in the queue and never be next, because they could not be claimed; until the next start."""
        self._barred.update(task_ids)
        for entry in [entry for entry in self._entries.values() if entry.task_id in self._barred]:
            del self._entries[entry.row]

    def next_due(self) -> datetime | None:
        """Say when the next task becomes claimable that is not due yet."""
        later = self._later
        while later and self._entries.get(later[0][1].row) is not later[0][1]:
            heappop(later)
        return later[0][0] if later else None

    def _promote(self, now: datetime) -> None:
        later = self._later
        while later and later[0][0] <= now:
            entry = heappop(later)[1]
            if self._entries.get(entry.row) is entry:
                self._put(entry)
        if len(later) > GARBAGE_MIN + 2 * len(self._entries):
            later[:] = [each for each in later if self._entries.get(each[1].row) is each[1]]
            heapify(later)

    def _put(self, entry: Entry) -> None:
        heap = self._ready.setdefault(entry.adapter_id, [])
        if len(heap) > GARBAGE_MIN + 2 * len(self._entries):
            heap[:] = [each for each in heap if self._entries.get(each.row) is each]
            heapify(heap)
        heappush(heap, entry)

    def _first(self, adapter_id: str) -> Entry | None:
        heap = self._ready[adapter_id]
        while heap and self._entries.get(heap[0].row) is not heap[0]:
            heappop(heap)
        if heap:
            return heap[0]
        del self._ready[adapter_id]
        return None
