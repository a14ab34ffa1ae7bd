"""Tasks that a capability spawns: a durable step records whose child is whose, and awaiting one needs no slot."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from aios.engine.ids import new_id
from aios.engine.orders import NewTask
from aios.engine.runner.book import digest_of
from aios.errors import TaskNotFound, UserCanceled, ValidationFailed
from aios.errors.wire import from_wire
from aios.failpoints import failpoint
from aios.model import JsonObject, Priority, Retry, Status, Step, Task, TaskId

if TYPE_CHECKING:
    from aios.engine.runner.run import Run


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `ctx.spawn` takes besides: those options of `aios/task.create` that mean something for a child."""

    priority: Priority = Priority.NORMAL
    timeout_ms: int | None = None
    retry: Retry = Retry()
    delay_ms: int | None = None
    run_at: datetime | None = None
    expires_in_ms: int | None = None
    metadata: JsonObject = {}


class _Record(msgspec.Struct, frozen=True):
    """What the step of a spawn holds."""

    task_id: TaskId
    attempt: int
    """Of the parent, when it spawned."""


class SpawnedChild:
    """A task that was spawned; `await` gives its result or raises its error.

    A parent that is run again gets the child that it had. Only where its last attempt failed and the child did not complete, a
    new one takes its place: another attempt would otherwise fail of the same.
    """

    def __init__(self, run: Run, new: NewTask, *, key: str | None, now: datetime) -> None:
        self._run = run
        self._key = run.book.name("spawn", new.capability_id, key)
        self._digest = digest_of(new.capability_id, [new.arguments])
        recorded = self._recorded()
        self._is_known = recorded is not None
        self._record = recorded or _Record(TaskId(new_id("task", now)), run.task.attempt)
        self._new = new
        self._now = now
        # Begun at once: whether it is awaited now, later or never, the child runs.
        self._making = run.start(self._make())

    @property
    def task_id(self) -> str:
        """The child's id."""
        return self._record.task_id

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._result().__await__()

    def _recorded(self) -> _Record | None:
        """Find the latest record: one of a later attempt stands beside the first, under the attempt's number."""
        book = self._run.book
        keys = [f"{self._key}@{attempt}" for attempt in range(self._run.task.attempt, 1, -1)]
        for key in (*keys, self._key):
            step = book.recall(key, self._digest)
            if step is not None:
                return msgspec.json.decode(step.value, type=_Record)
        return None

    async def _make(self) -> None:
        run = self._run
        if self._is_known:
            known = await self._existing()
            if known is not None and not self._is_to_be_replaced(known):
                return
            if known is not None:
                self._record = _Record(TaskId(new_id("task", self._now)), run.task.attempt)
                await self._put(f"{self._key}@{run.task.attempt}")
        else:
            await self._put(self._key)
            failpoint("spawn.recorded")
        await run.hop(run.attempt.claim.spawn, msgspec.structs.replace(self._new, task_id=self._record.task_id))

    async def _existing(self) -> Task | None:
        """Find the recorded child; there is none where the daemon went down between the record and its creation."""
        try:
            return await self._run.hop(self._run.attempt.claim.other, self._record.task_id)
        except TaskNotFound:
            return None

    def _is_to_be_replaced(self, child: Task) -> bool:
        has_come_to_nothing = child.status in (Status.FAILED, Status.CANCELED)
        return has_come_to_nothing and self._record.attempt < self._run.task.attempt

    async def _put(self, key: str) -> None:
        step = Step(key=key, digest=self._digest, value=msgspec.json.encode(self._record))
        await self._run.hop(self._run.attempt.claim.put_step, step)
        self._run.book.note(step)

    async def _result(self) -> Any:
        # Several may await it: one that gives up must not take the making from the others.
        await asyncio.shield(self._making)
        child = await self._run.waits.child(self._record.task_id)
        if child.status is Status.COMPLETED:
            return msgspec.to_builtins(child.result)
        if child.status is Status.CANCELED:
            raise UserCanceled(f"the child {child.task_id} was canceled", task_id=child.task_id)
        raise from_wire(child.error or {})


def order(run: Run, capability_id: str, arguments: JsonObject | None, options: dict[str, Any]) -> NewTask:
    """Make the order for a child. Raises: ValidationFailed."""
    try:
        given = msgspec.convert(options, Options)
    except msgspec.ValidationError as error:
        raise ValidationFailed(f"ctx.spawn({capability_id!r}) does not understand its options: {error}") from None
    return NewTask(
        capability_id=capability_id,
        principal=run.task.spec.principal,
        arguments=arguments or {},
        metadata=given.metadata,
        priority=given.priority,
        timeout_ms=given.timeout_ms,
        retry=given.retry,
        delay_ms=given.delay_ms,
        run_at=given.run_at,
        expires_in_ms=given.expires_in_ms,
    )
