"""What the store tests build tasks, changes and workers with; commands are decided by the real rules."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final

from aios.model import Change, Limits, Progress, Task, TaskId, TaskSpec
from aios.rules.lifecycle import Command, Complete, Report, Start, decide, decide_all
from aios.store import Committed, Seat, Store
from aios.testing.clock import ManualClock

WAIT_S: Final = 20.0
"""How long a test waits for what must come; far longer than it takes."""
WORKER: Final = "worker-1"

_SPEC_FIELDS: Final = frozenset(TaskSpec.__struct_fields__)


def new_task(task_id: str, clock: ManualClock, **fields: Any) -> Task:
    """Make a task that was not stored yet; fields of the specification and of the task may be given alike."""
    now = clock.now()
    spec_fields: dict[str, Any] = {
        "capability_id": "compat.shop.compare",
        "adapter_id": "com.example.shop",
        "principal": "owner",
        "created_at": now,
        **{name: value for name, value in fields.items() if name in _SPEC_FIELDS},
    }
    task_fields: dict[str, Any] = {
        "updated_at": now,
        "run_at": now,
        **{name: value for name, value in fields.items() if name not in _SPEC_FIELDS},
    }
    return Task(task_id=TaskId(task_id), spec=TaskSpec(**spec_fields), **task_fields)


class Desk:
    """A store, its clock, and short ways to ask it."""

    def __init__(self, store: Store, clock: ManualClock, limits: Limits) -> None:
        self.store = store
        self.clock = clock
        self.limits = limits

    def change(self, task: Task, *commands: Command) -> Change:
        """Decide the commands one after the other, as one change."""
        return decide_all(task, commands, now=self.clock.now())

    async def create(self, task_id: str, **fields: Any) -> Task:
        """Store a new task."""
        committed = await self.store.commit(Change(task=new_task(task_id, self.clock, **fields), before=None))
        return committed.task

    async def carry_out(self, task_id: str, *commands: Command) -> Task:
        """Decide the commands on the task as it is stored, and commit each."""
        task = await self.store.task(TaskId(task_id))
        for command in commands:
            task = (await self.store.commit(self.change(task, command))).task
        return task

    async def finish(self, task_id: str, result: Any = None, **fields: Any) -> Task:
        """Store a task and bring it to its end."""
        await self.create(task_id, **fields)
        return await self.carry_out(task_id, Start(WORKER), Complete(result))

    async def numbers(self, task_id: str, after: int = 0) -> list[int]:
        """Give the numbers of the task's events."""
        page = await self.store.events_after(TaskId(task_id), after, limit=1_000)
        return [event.number for event in page.events]

    async def commit_all(self, changes: Sequence[Change]) -> list[Committed | BaseException]:
        """Commit all at the same time."""
        return list(await asyncio.gather(*map(self.store.commit, changes), return_exceptions=True))

    def seated(
        self,
        capacity: int = 100,
        worker: str = WORKER,
        start: Callable[[Task, datetime], Change] | None = None,
    ) -> Seated:
        """Seat a worker, which claims by the rules if it is not told how."""
        return Seated(self, capacity, worker, start or (lambda task, now: decide(task, Start(worker), now=now)))


class Seated:
    """A worker that collects what it is handed."""

    def __init__(self, desk: Desk, capacity: int, worker: str, start: Callable[[Task, datetime], Change]) -> None:
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self.claimed: list[Change] = []
        self.due: datetime | None = None
        self.told = 0
        seat = Seat(
            worker=worker,
            capacity=capacity,
            start=start,
            deliver=lambda changes, due: self._deliver(list(changes), due),
        )
        desk.store.seat(seat)

    def _deliver(self, changes: list[Change], due: datetime | None) -> None:
        self._loop.call_soon_threadsafe(self._take, changes, due)

    def _take(self, changes: list[Change], due: datetime | None) -> None:
        self.claimed += changes
        self.due = due
        self.told += 1
        self._news.set()

    @property
    def ids(self) -> list[str]:
        """Ids of what was claimed, in order."""
        return [change.task.task_id for change in self.claimed]

    async def until(self, count: int) -> list[Task]:
        """Wait until so many tasks were claimed in all, and give them."""
        async with asyncio.timeout(WAIT_S):
            while len(self.claimed) < count:
                self._news.clear()
                await self._news.wait()
        return [change.task for change in self.claimed]

    async def until_told(self, times: int) -> datetime | None:
        """Wait until it was told something so many times, and give the due time that it knows then."""
        async with asyncio.timeout(WAIT_S):
            while self.told < times:
                self._news.clear()
                await self._news.wait()
        return self.due


def half_way() -> Report:
    """Make a report of progress."""
    return Report(Progress(percent=50, message="half way"))
