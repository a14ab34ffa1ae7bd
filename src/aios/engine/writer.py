"""Load, decide, commit, tell: the one way in which anything is written about a task.

Who changes a task has its turn (`Turns`), so that in this process nobody collides; what the store writes on its own (a claim, a
child that wakes its parent) shows as a `Conflict`, and the command is decided anew. What has begun is seen through even if the
caller has left, because a commit that nobody is told of would leave followers waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from msgspec.structs import replace

from aios.engine.checks import check_events
from aios.engine.clock import MILLISECOND, Clock
from aios.engine.errands import Errands
from aios.engine.pace import Pace
from aios.engine.turns import Turns
from aios.errors import (
    Conflict,
    InvalidTaskState,
    ResourceBusy,
    StoreUnavailable,
    TaskFinal,
    TaskNotFound,
    ValidationFailed,
)
from aios.failpoints import failpoint
from aios.model import Change, Limits, Progress, Step, Task, TaskId
from aios.rules.lifecycle import Command, Report, decide_all
from aios.store import Committed, Store

CONFLICTS_MAX = 16
"""How often a command is decided anew before its caller is told to try later."""
RECORDS_MAX = 64
"""How many records of a task's code share one commit."""
RELEASE_RETRY_MS = 1_000

Choose = Callable[[Task], Awaitable[Sequence[Command]]]
"""Says what is to be carried out on the task as it stands; none: nothing."""
Prepare = Callable[[Task, Sequence[Command]], Awaitable[Sequence[Command]]]


class _Record(NamedTuple):
    """What an attempt wants carried out, and who waits for it."""

    task: Task
    commands: tuple[Command, ...]
    answer: asyncio.Future[Task]


class Writer:
    """Writes changes, and knows the newest state of the tasks whose slot is held by this process.

    Args:
        prepare: Makes an attempt's commands ready for the task as it stands.
        tell: Called with each change after its commit.
    """

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        limits: Limits,
        worker: str,
        prepare: Prepare,
        tell: Callable[[Change], None],
    ) -> None:
        self._store = store
        self._prepare = prepare
        self._clock = clock
        self._limits = limits
        self._worker = worker
        self._tell = tell
        self._turns = Turns()
        self._held: dict[TaskId, Task] = {}
        self._records: dict[TaskId, list[_Record]] = {}
        """What waits to be recorded: what comes while the task's last commit is under way shares the next one."""
        self._pace = Pace(clock=clock, per_second=limits.max_progress_per_second, flush=self._flush)
        self.errands = Errands()

    async def create(self, change: Change) -> Committed:
        """Write a new task."""
        failpoint("create.decided")
        try:
            committed = await self._store.commit(change)
        except asyncio.CancelledError:
            # The store writes it all the same. (To start a task for every creation, only for this case, costs too much.)
            self.errands.start(self._tell_late(change), name="create")
            raise
        if committed.is_new:
            self._tell(replace(change, task=committed.task))
        return committed

    async def carry_out(self, task_id: TaskId, choose: Choose, *, is_caller: bool = True) -> Task:
        """Carry out what `choose` says of the task as it stands, and give the task as it is then.

        Raises:
            TaskNotFound: There is no such task.
            InvalidTaskState: Its status does not allow it.
            TaskFinal: It is terminal.
            ResourceBusy: It keeps changing.
            StoreUnavailable: Nothing was written.
        """
        return await self.errands.see_through(self._carry_out(task_id, choose, is_caller=is_caller))

    def record(self, task: Task, *commands: Command) -> asyncio.Future[Task]:
        """Carry out what the attempt wants that `task` names.

        The future raises: Conflict, where the attempt is over; as `carry_out`.
        """
        answer: asyncio.Future[Task] = asyncio.get_running_loop().create_future()
        waiting = self._records.get(task.task_id)
        if waiting is not None:
            waiting.append(_Record(task, commands, answer))
        else:
            self._records[task.task_id] = [_Record(task, commands, answer)]
            self.errands.start(self._write_records(task.task_id), name="record")
        return answer

    def progress(self, task: Task, progress: Progress) -> asyncio.Future[Task] | None:
        """Write the attempt's progress, as by `record`; or hold it for a moment, and give None. Raises: Conflict."""
        newest = self._held.get(task.task_id)
        if newest is not None:
            check_fence(task, newest)
        # What is not known to run here has nobody to write later what is held now.
        if newest is None or self._pace.admit(task, progress):
            return self.record(task, Report(progress))
        return None

    async def put_step(self, task: Task, step: Step) -> None:
        """Record a step of the attempt's code."""
        await self.errands.see_through(self._put_step(task, step))

    async def release(self, task: Task) -> None:
        """Clear the slot of this claim; if the store is out of order, as soon as it is in order again."""
        await self.errands.see_through(self._release(task))

    def claimed(self, task: Task) -> Task:
        """Take note of a claim that the store made for us; give the task as it stands, which may be later."""
        self._note(task)
        return self._held.get(task.task_id, task)

    def knows_later(self, task: Task) -> bool:
        """Whether the task has gone on since."""
        known = self._held.get(task.task_id)
        return known is not None and known.stamp > task.stamp

    async def finish(self) -> None:
        """Write what is held, and wait until all that was begun is done."""
        for task_id in self._pace.holding():
            self._flush(task_id)
        await self.errands.finish()

    async def load(self, task_id: TaskId) -> Task:
        """Give the task as it stands. Raises: TaskNotFound."""
        return self._held.get(task_id) or await self._store.task(task_id)

    async def _loaded(self, task_id: TaskId) -> Task:
        """Load in the task's turn, in which nobody else can take its slot from us."""
        task = await self.load(task_id)
        self._note(task)
        return self._held.get(task_id, task)

    async def _tell_late(self, change: Change) -> None:
        """Tell of a task whose creator has left, if it was written."""
        # Writes are made in order: once this one, of nothing, is done, so is the creation.
        await self._store.release(TaskId(""), claim=0)
        with suppress(TaskNotFound):
            self._tell(replace(change, task=await self._store.task(change.task.task_id)))

    async def _carry_out(self, task_id: TaskId, choose: Choose, *, is_caller: bool) -> Task:
        async with self._turns.of(task_id, is_caller=is_caller):
            return await self._decide(task_id, choose)

    async def _decide(self, task_id: TaskId, choose: Choose) -> Task:
        """In the task's turn."""
        for _ in range(CONFLICTS_MAX):
            task = await self._loaded(task_id)
            commands = await choose(task)
            progress = self._pace.held(task)
            if not commands and progress is None:
                return task
            reports = () if progress is None else (Report(progress),)
            change = decide_all(task, (*reports, *commands), now=self._clock.now())
            check_events(change, limits=self._limits)
            try:
                committed = await self._commit(change)
            except Conflict:
                continue
            if progress is not None:
                self._pace.written(task_id, progress)
            return committed
        raise ResourceBusy(f"Task {task_id} keeps changing; try again later.", task_id=task_id)

    async def _write_records(self, task_id: TaskId) -> None:
        async with self._turns.of(task_id, is_caller=False):
            waiting = self._records.pop(task_id)
            if len(waiting) > RECORDS_MAX:
                # A turn is for one commit: callers may come in between.
                self._records[task_id] = waiting[RECORDS_MAX:]
                self.errands.start(self._write_records(task_id), name="record")
            records = waiting[:RECORDS_MAX]
            if len(records) == 1 or not await self._write_together(task_id, records):
                for record in records:
                    await self._write_together(task_id, [record])

    async def _write_together(self, task_id: TaskId, records: Sequence[_Record]) -> bool:
        """Write records in one commit; say whether each has its answer. Of several, one that is refused spoils all."""

        async def choose(newest: Task) -> Sequence[Command]:
            for record in records:
                check_fence(record.task, newest)
            return await self._prepare(newest, [command for record in records for command in record.commands])

        try:
            task = await self._decide(task_id, choose)
        except (Conflict, InvalidTaskState, TaskFinal, ValidationFailed) as error:
            if len(records) > 1:
                return False
            _answer(records, error)
        except BaseException as error:
            # Whatever it is, those who wait must hear it.
            _answer(records, error)
        else:
            _answer(records, task)
        return True

    async def _commit(self, change: Change) -> Task:
        task_id = change.task.task_id
        failpoint("change.decided")
        try:
            task = (await self._store.commit(change)).task
        except BaseException:
            # Whatever went wrong, what was known may be so no longer.
            self._held.pop(task_id, None)
            raise
        failpoint("change.committed")
        self._note(task)
        self._tell(replace(change, task=task))
        return task

    def _note(self, task: Task) -> None:
        """Keep a task whose slot is ours. A claim made in the same transaction may have been told of before this."""
        known = self._held.get(task.task_id)
        if known is not None and known.stamp > task.stamp:
            return
        if task.worker == self._worker:
            self._held[task.task_id] = task
        else:
            self._drop(task.task_id)

    async def _put_step(self, task: Task, step: Step) -> None:
        async with self._turns.of(task.task_id, is_caller=False):
            newest = await self._loaded(task.task_id)
            check_fence(task, newest)
            await self._store.put_step(task.task_id, step, claim=task.claim)
            if newest.crashes or step.is_secret:
                # The store has written to the task as well.
                self._held.pop(task.task_id, None)

    async def _release(self, task: Task) -> None:
        async with self._turns.of(task.task_id, is_caller=False):
            failpoint("release.asked")
            try:
                await self._store.release(task.task_id, claim=task.claim)
            except StoreUnavailable:
                again_at = self._clock.now() + RELEASE_RETRY_MS * MILLISECOND
                self._clock.call_at(again_at, lambda: self.errands.start(self._release(task), name="release"))
                return
            newest = self._held.get(task.task_id)
            if newest is not None and newest.claim == task.claim:
                self._drop(task.task_id)

    def _drop(self, task_id: TaskId) -> None:
        self._held.pop(task_id, None)
        self._pace.forget(task_id)

    def _flush(self, task_id: TaskId) -> None:
        self.errands.start(self._carry_out(task_id, always(), is_caller=False), name="progress")


def check_fence(task: Task, newest: Task) -> None:
    """Refuse what an attempt says that is over. Raises: Conflict."""
    if task.claim != newest.claim or task.attempt != newest.attempt:
        raise Conflict(
            f"Attempt {task.attempt} (claim {task.claim}) of task {task.task_id} is over; "
            f"it is at attempt {newest.attempt} (claim {newest.claim}) now."
        )
    if newest.status.is_terminal:
        raise Conflict(f"Task {task.task_id} is {newest.status}; nothing its code says changes it any more.")


def always(*commands: Command) -> Choose:
    """Choose these, however the task stands."""

    async def choose(_: Task) -> Sequence[Command]:
        return commands

    return choose


def _answer(records: Sequence[_Record], outcome: Task | BaseException) -> None:
    for record in records:
        if record.answer.done():
            continue
        if isinstance(outcome, BaseException):
            record.answer.set_exception(outcome)
        else:
            record.answer.set_result(outcome)
