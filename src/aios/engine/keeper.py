"""What happens because time has passed, or because the last process did not end well.

Times are stored with their tasks; the keeper only remembers the nearest, so that a commit costs a comparison and not a read.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta

import structlog

from aios.engine.clock import MILLISECOND, Clock, Timer
from aios.engine.writer import Writer, always
from aios.errors import AiosError, StoreUnavailable, TaskFinal, TaskNotFound
from aios.failpoints import failpoint
from aios.model import Limits, Status, Task, TaskId
from aios.rules.lifecycle import Cancel, Command, Expire, Lost, RequestTimeout, TimeOut, stuck_at
from aios.store import Store

SWEEP_TASKS = 256
"""How many tasks are dealt with at once."""
PURGE_TASKS = 500
TRY_AGAIN_MS = 1_000
"""When a sweep could do nothing for a task (the disk is full, say), how long it waits."""
PURGE_EVERY = timedelta(hours=1)
PARENT_ENDED = "parent_ended"

_log = structlog.get_logger("aios.engine")


def due_at(task: Task) -> datetime | None:
    """Say when time next does something to the task."""
    if task.status is Status.PENDING:
        return task.spec.expires_at if task.started_at is None else None
    if task.request is not None:
        return task.request.due_at
    return None if task.status.is_terminal else task.deadline_at or stuck_at(task)


def overdue_command(task: Task, now: datetime) -> Command | None:
    """Say what time does to the task now."""
    due = due_at(task)
    if due is None or due > now:
        return None
    if task.status is Status.PENDING:
        return Expire()
    # Every daemon draws for itself, so that tasks that failed together do not come back together.
    return RequestTimeout() if task.request is not None else TimeOut(jitter=random.random())  # noqa: S311


class Keeper:
    """Keeps deadlines, expiry, retention; cancels children whose parent has ended."""

    def __init__(self, *, store: Store, clock: Clock, limits: Limits, writer: Writer, retention_days: int) -> None:
        self._store = store
        self._clock = clock
        self._limits = limits
        self._writer = writer
        self._retention = timedelta(days=retention_days)
        self._next: datetime | None = None
        self._timer: Timer | None = None
        self._purge_timer: Timer | None = None
        self._is_running = False
        self._is_sweeping = False
        self._parents: set[TaskId] = set()
        """Tasks that have spawned and not ended: theirs are the children to look for."""

    async def start(self) -> None:
        """Set right what the last process left: lost workers, what came due since, children of ended parents.

        Raises:
            StoreUnavailable: Tasks of the last process are still held by it; nothing may be run now.
        """
        if not all(await self._each(await self._store.lost(), self._mark_lost)):
            raise StoreUnavailable(
                "The tasks that the last process ran could not be taken over; see the log for the reason."
            )
        await self._find_parents()
        self._is_running = True
        await self._sweep()
        self._purge_at(self._clock.now())

    def stop(self) -> None:
        """Do nothing any more."""
        self._is_running = False
        for timer in (self._timer, self._purge_timer):
            if timer is not None:
                timer.cancel()

    def note(self, task: Task) -> None:
        """Take a commit into account."""
        due = due_at(task)
        if due is not None:
            self._arm(due)
        if task.status.is_terminal and task.task_id in self._parents:
            self._parents.discard(task.task_id)
            self._writer.errands.start(self._cancel_children(task.task_id), name="cancel children")

    def will_spawn(self, parent: TaskId) -> None:
        """Know a task for a parent, before its child is written."""
        self._parents.add(parent)

    async def has_spawned(self, parent: TaskId) -> None:
        """Look whether the parent has ended while its child was being written."""
        if (await self._writer.load(parent)).status.is_terminal:
            self._parents.discard(parent)
            await self._cancel_children(parent)

    # Times

    def _arm(self, due: datetime) -> None:
        if not self._is_running or (self._next is not None and self._next <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._next = due
        self._timer = self._clock.call_at(due, self._ring)

    def _ring(self) -> None:
        self._next = None
        if not self._is_sweeping:
            self._writer.errands.start(self._sweep(), name="overdue")

    async def _sweep(self) -> None:
        """Deal with all that is overdue, then wait for what comes next."""
        self._is_sweeping = True
        try:
            retry_at = self._clock.now() + TRY_AGAIN_MS * MILLISECOND
            while tasks := await self._store.overdue(self._clock.now(), limit=SWEEP_TASKS):
                if not any(await self._each(tasks, self._overtake)):
                    self._next = None
                    self._arm(retry_at)
                    return
            upcoming = await self._store.next_overdue()
            if upcoming is not None:
                self._arm(upcoming)
        except AiosError as error:
            _log.warning("cannot look for what is overdue", error=str(error))
            self._arm(self._clock.now() + TRY_AGAIN_MS * MILLISECOND)
        finally:
            self._is_sweeping = False

    async def _overtake(self, task: Task) -> bool:
        done: list[Command] = []

        async def choose(newest: Task) -> Sequence[Command]:
            command = overdue_command(newest, self._clock.now())
            done[:] = [] if command is None else [command]
            return done

        await self._writer.carry_out(task.task_id, choose)
        return bool(done)

    # Crashes and children

    async def _mark_lost(self, task: Task) -> bool:
        await self._writer.carry_out(task.task_id, always(Lost(max_crashes=self._limits.max_crashes)))
        failpoint("lost.marked")
        return True

    async def _find_parents(self) -> None:
        """Know again who has children, and cancel those whose parent has ended meanwhile."""
        for parent, has_ended in await self._store.parents():
            if has_ended:
                await self._cancel_children(parent)
            else:
                self._parents.add(parent)

    async def _cancel_children(self, parent: TaskId) -> None:
        async def cancel(child: Task) -> bool:
            await self._writer.carry_out(child.task_id, always(Cancel(reason=PARENT_ENDED)))
            return True

        await self._each(await self._store.children(parent), cancel)

    async def _each(self, tasks: Sequence[Task], do: Callable[[Task], Awaitable[bool]]) -> list[bool]:
        """Do it to each, many in one commit; one that fails holds up none."""
        results: list[bool] = []
        for start in range(0, len(tasks), SWEEP_TASKS):
            some = tasks[start : start + SWEEP_TASKS]
            results += await asyncio.gather(*(self._try(task, do) for task in some))
        return results

    async def _try(self, task: Task, do: Callable[[Task], Awaitable[bool]]) -> bool:
        try:
            return await do(task)
        except (TaskFinal, TaskNotFound):
            # It has gone on by itself.
            return True
        except AiosError as error:
            _log.warning("a task could not be kept", task_id=task.task_id, error=str(error))
            return False

    # Retention

    def _purge_at(self, when: datetime) -> None:
        if self._is_running:
            self._purge_timer = self._clock.call_at(
                when, lambda: self._writer.errands.start(self._purge(), name="retention")
            )

    async def _purge(self) -> None:
        """Delete what ended before the time for which it is kept, a part at a time so that nobody waits."""
        try:
            is_full = True
            while is_full and self._is_running:
                gone = await self._store.purge(self._clock.now() - self._retention, limit=PURGE_TASKS)
                is_full = gone == PURGE_TASKS
        finally:
            self._purge_at(self._clock.now() + PURGE_EVERY)
