"""The worker's seat: says how a task is started, and passes on what the store has claimed for us."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime

from aios.engine.clock import Clock, Timer
from aios.errors import StoreUnavailable
from aios.model import Change, Task, TaskId
from aios.rules.lifecycle import Start, decide
from aios.store import Seat, Store


class Scheduler:
    """Sits in the store and lets it claim tasks for this worker, up to `capacity` slots.

    Args:
        claimed: Called on the main loop with each change by which a task was claimed.
    """

    def __init__(
        self, *, store: Store, clock: Clock, worker: str, capacity: int, claimed: Callable[[Change], None]
    ) -> None:
        self._store = store
        self._clock = clock
        self._worker = worker
        self._capacity = capacity
        self._claimed = claimed
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: Timer | None = None

    def start(self) -> None:
        """Take the seat."""
        self._loop = asyncio.get_running_loop()
        self._store.seat(
            Seat(worker=self._worker, capacity=self._capacity, start=self._start_task, deliver=self._deliver)
        )

    async def stop(self) -> None:
        """Leave the seat; what was claimed for it until now has been told when this returns."""
        if self._loop is None:
            return
        self._store.unseat()
        self._set_timer(None)
        with suppress(StoreUnavailable):
            # Writes are made in order: once this one, of nothing, is done, so is the last that claimed.
            await self._store.release(TaskId(""), claim=0)

    def _start_task(self, task: Task, now: datetime) -> Change:
        return decide(task, Start(self._worker), now=now)

    def _deliver(self, changes: Sequence[Change], due: datetime | None) -> None:
        """In the store's thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._delivered, changes, due)

    def _delivered(self, changes: Sequence[Change], due: datetime | None) -> None:
        self._set_timer(due)
        for change in changes:
            self._claimed(change)

    def _set_timer(self, due: datetime | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if due is None else self._clock.call_at(due, self._store.wake)
