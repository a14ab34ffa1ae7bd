"""The heart of the daemon: what may be asked of tasks, put together from the parts that know how."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from aios.engine import history, orders
from aios.engine.answers import check_input, checked_sign_in
from aios.engine.artifacts import Artifacts
from aios.engine.checks import check_step, checked, checked_progress
from aios.engine.clock import Clock
from aios.engine.estimates import Estimates
from aios.engine.feed import Feed
from aios.engine.keeper import Keeper
from aios.engine.orders import NewTask
from aios.engine.recorder import TaskRunner
from aios.engine.registry import Registry
from aios.engine.scheduler import Scheduler
from aios.engine.values import plain
from aios.engine.vault import Vault, place
from aios.engine.writer import Writer, always, check_fence
from aios.errors import InvalidInput, InvalidParams, ValidationFailed
from aios.failpoints import failpoint
from aios.model import (
    Artifact,
    ArtifactId,
    AuthRequest,
    Change,
    EventKind,
    EventPage,
    InputRequest,
    JsonObject,
    Limits,
    Progress,
    Session,
    SessionId,
    Status,
    Step,
    Task,
    TaskId,
    TaskPage,
    TaskQuery,
)
from aios.rules.lifecycle import Answer, Authenticate, Cancel, Command, HandBack, Pause, Resume
from aios.store import Health, Store

REASON_CHARACTERS_MAX = 1_000


class Engine:
    """The only writer, and the only one who knows the time. All of it is called on the main loop alone.

    Args:
        worker: A name for this process, random at each start.
        retention_days: How long an ended task is kept.
    """

    def __init__(
        self,
        *,
        store: Store,
        registry: Registry,
        clock: Clock,
        limits: Limits,
        vault: Vault,
        worker: str,
        retention_days: int = 30,
    ) -> None:
        self.registry = registry
        self.clock = clock
        self.limits = limits
        self.feed = Feed(store=store, clock=clock)
        self._store = store
        self._vault = vault
        self._artifacts = Artifacts(store=store, limits=limits)
        self._writer = Writer(
            store=store,
            clock=clock,
            limits=limits,
            worker=worker,
            prepare=self._artifacts.prepared,
            tell=self._tell,
        )
        self._estimates = Estimates(store=store, registry=registry)
        self._keeper = Keeper(
            store=store, clock=clock, limits=limits, writer=self._writer, retention_days=retention_days
        )
        self._scheduler = Scheduler(
            store=store, clock=clock, worker=worker, capacity=limits.max_concurrent_tasks, claimed=self._claimed
        )
        self._runner: TaskRunner | None = None
        self._is_stopping = False

    async def start(self, runner: TaskRunner | None = None) -> None:
        """Deal with what the last process left, then run tasks with `runner` (None: a gateway, which runs none).

        Raises:
            StoreUnavailable: The store cannot be written.
        """
        await self._keeper.start()
        if runner is not None:
            self._runner = runner
            runner.start()
            self._scheduler.start()

    async def stop(self, grace_ms: int) -> None:
        """Claim nothing more, stop the runner, write what is held. The store stays open."""
        self._is_stopping = True
        await self._scheduler.stop()
        if self._runner is not None:
            await self._runner.stop(grace_ms)
        failpoint("stop.runner_ended")
        self._keeper.stop()
        await self._writer.finish()

    # What callers ask

    async def create(self, new: NewTask) -> Task:
        """Accept a task; it is on disk when this returns. An idempotency key that is known gives the task it made.

        Raises:
            CapabilityNotFound: Nobody offers it.
            ValidationFailed: The arguments do not fit the schema, or the key was used with another request.
            InvalidParams: Something is out of range, or arguments and metadata are over `max_input_size`.
            QueueFull: `max_queue_size` tasks are pending and no slot is free.
        """
        return (await self._writer.create(self._ordered(new))).task

    async def run(self, new: NewTask, done: Callable[[Task], bool], timeout_ms: int | None) -> Task:
        """Create a task, then wait until `done` says so of it or the time is up. Raises: as `create`."""
        change = self._ordered(new)
        with self.feed.expecting(change.task.task_id):
            task = (await self._writer.create(change)).task
            return await self.feed.until(task.task_id, done, timeout_ms)

    @asynccontextmanager
    async def followed(self, new: NewTask) -> AsyncGenerator[Task]:
        """Create a task for one who follows it inside the block, and whom that costs no read. Raises: as `create`."""
        change = self._ordered(new)
        with self.feed.expecting(change.task.task_id, is_reader=True):
            yield (await self._writer.create(change)).task

    async def task(self, task_id: TaskId) -> Task:
        """The task as it stands. Raises: TaskNotFound."""
        return await self._writer.load(task_id)

    async def tasks(self, query: TaskQuery) -> TaskPage:
        """List tasks. Raises: ValidationFailed for a bad cursor."""
        return await self._store.tasks(query)

    async def until(self, task_id: TaskId, done: Callable[[Task], bool], timeout_ms: int | None) -> Task:
        """See `Feed.until`."""
        return await self.feed.until(task_id, done, timeout_ms)

    async def cancel(self, task_id: TaskId, reason: str | None = None) -> Task:
        """Cancel at once; the code is stopped afterwards. Raises: TaskNotFound, TaskFinal."""
        return await self._carry_out(task_id, Cancel(_checked_reason(reason)))

    async def pause(self, task_id: TaskId, reason: str | None = None) -> Task:
        """Pause a working task. Raises: TaskNotFound, TaskFinal, InvalidTaskState."""
        return await self._carry_out(task_id, Pause(_checked_reason(reason)))

    async def resume(self, task_id: TaskId, reason: str | None = None) -> Task:
        """Let a paused task go on. Raises: TaskNotFound, TaskFinal, InvalidTaskState."""
        return await self._carry_out(task_id, Resume(_checked_reason(reason)))

    async def give_input(self, task_id: TaskId, value: Any) -> Task:
        """Answer a task's question. Raises: TaskNotFound, TaskFinal, InvalidTaskState, InvalidInput (it still waits)."""
        try:
            value = plain(value, what="The answer", bytes_max=self.limits.max_step_size)
        except ValidationFailed as refused:
            raise InvalidInput(
                refused.detail, errors=[{"path": "/input", "message": refused.detail.rstrip(".")}]
            ) from None

        async def answer(task: Task) -> Sequence[Command]:
            # A task that asks nothing gets its refusal from the rules, whatever the step.
            step = ""
            if isinstance(task.request, InputRequest):
                check_input(task.request, value, registry=self.registry)
                step = task.request.step
            return (Answer(Step(key=step, value=msgspec.json.encode(value)), "input_provided"),)

        return await self._writer.carry_out(task_id, answer)

    async def authenticate(self, task_id: TaskId, response: JsonObject) -> Task:
        """Give a task its sign-in. Raises: TaskNotFound, TaskFinal, InvalidTaskState, InvalidInput (it still waits)."""

        async def authenticate(task: Task) -> Sequence[Command]:
            step = Step(key="", is_secret=True)
            if isinstance(task.request, AuthRequest):
                given = msgspec.json.encode(checked_sign_in(task.request, response))
                key = task.request.step
                step = Step(key=key, value=self._vault.seal(given, place(task_id, key)), is_secret=True)
            return (Authenticate(step, "authenticated"),)

        return await self._writer.carry_out(task_id, authenticate)

    async def events(
        self,
        task_id: TaskId,
        after: int,
        *,
        limit: int,
        kinds: frozenset[EventKind] | None = None,
        max_bytes: int | None = None,
    ) -> EventPage:
        """Read the task's log after a number, without waiting; see `Store.events_after`."""
        return await self._store.events_after(task_id, after, limit=limit, kinds=kinds, max_bytes=max_bytes)

    async def transitions(self, task: Task) -> list[JsonObject]:
        """The task's `state_history`, read from its log (protocol.md §4)."""
        return await history.transitions(
            task,
            lambda after: self._store.events_after(task.task_id, after, limit=history.PAGE_EVENTS, kinds=history.KINDS),
        )

    async def artifacts(self, task_id: TaskId) -> list[Artifact]:
        """The newest version of each artifact of a task."""
        return await self._store.artifacts(task_id)

    async def artifact(self, artifact_id: ArtifactId) -> Artifact:
        """Raises: ArtifactNotFound."""
        return await self._store.artifact(artifact_id)

    async def artifact_content(self, artifact: Artifact, part: int) -> tuple[bytes, str]:
        """One part's content and its mime type. Raises: ArtifactNotFound where it is not kept here."""
        return await self._artifacts.content(artifact, part)

    async def estimate(self, capability_id: str) -> int | None:
        """How long the capability may take, in ms: the median of what was, else what its descriptor says, else None.

        Raises:
            CapabilityNotFound: Nobody offers it.
        """
        return await self._estimates.of(capability_id)

    async def foreground(self, session_id: SessionId) -> list[Task]:
        """The session's tasks that are neither terminal nor detached."""
        return await self._store.foreground(session_id)

    async def put_session(self, session: Session) -> None:
        """Write a session, new or changed."""
        await self._store.put_session(session)

    async def session(self, session_id: SessionId) -> Session:
        """Raises: SessionNotFound."""
        return await self._store.session(session_id)

    async def counts(self) -> dict[Status | str, int]:
        """Tasks by status, and `slots` taken."""
        return await self._store.counts()

    def health(self) -> Health:
        """Whether the store can write."""
        return self._store.health()

    # What running code asks: see `recorder.Recorder`

    def recorded(self, task: Task, *commands: Command) -> asyncio.Future[Task]:
        """See `Recorder.recorded`."""
        ready = [checked(each, limits=self.limits, registry=self.registry) for each in commands]
        return self._writer.record(task, *ready)

    async def record(self, task: Task, *commands: Command) -> Task:
        """See `Recorder.record`."""
        return await self.recorded(task, *commands)

    def progress(self, task: Task, progress: Progress) -> asyncio.Future[Task] | None:
        """See `Recorder.progress`."""
        return self._writer.progress(task, checked_progress(progress, limits=self.limits))

    async def steps(self, task: Task) -> list[Step]:
        """See `Recorder.steps`."""
        return await self._store.steps(task.task_id)

    async def put_step(self, task: Task, step: Step) -> None:
        """See `Recorder.put_step`."""
        check_step(step, limits=self.limits)
        await self._writer.put_step(task, step)

    async def release(self, task: Task) -> None:
        """See `Recorder.release`."""
        await self._writer.release(task)

    async def put_content(self, content: bytes) -> str:
        """See `Recorder.put_content`."""
        return await self._artifacts.put_content(content)

    async def spawn(self, parent: Task, new: NewTask) -> Task:
        """See `Recorder.spawn`."""
        check_fence(parent, await self._writer.load(parent.task_id))
        bytes_max = self.limits.max_input_size
        child = msgspec.structs.replace(
            new,
            arguments=plain(new.arguments, what="The child's arguments", bytes_max=bytes_max),
            metadata=plain(new.metadata, what="The child's metadata", bytes_max=bytes_max),
        )
        change = self._ordered(child, parent=parent)
        self._keeper.will_spawn(parent.task_id)
        task = (await self._writer.create(change)).task
        await self._keeper.has_spawned(parent.task_id)
        return task

    # Inside

    def _ordered(self, new: NewTask, *, parent: Task | None = None) -> Change:
        capability = self.registry.capability(new.capability_id)
        orders.check(new, self.limits)
        self.registry.validate(capability, new.arguments)
        return orders.creation(new, capability, now=self.clock.now(), limits=self.limits, parent=parent)

    async def _carry_out(self, task_id: TaskId, command: Command) -> Task:
        return await self._writer.carry_out(task_id, always(command))

    def _tell(self, change: Change) -> None:
        """Tell everybody of a commit."""
        self.feed.wake(change)
        self._keeper.note(change.task)
        self._estimates.note(change.task)
        # A claim that was made in the same transaction may have been told of before: the runner hears no old news.
        if self._runner is not None and change.before is not None and not self._writer.knows_later(change.task):
            self._runner.changed(change.task)

    def _claimed(self, change: Change) -> None:
        """Hand a claimed task to the runner, unless something has happened to it since."""
        failpoint("claim.told")
        self.feed.wake(change)
        self._keeper.note(change.task)
        task = self._writer.claimed(change.task)
        is_ours_to_run = (
            task.status is Status.WORKING
            and task.claim == change.task.claim
            and task.attempt == change.task.attempt
            and task.worker == change.task.worker
        )
        if self._is_stopping:
            self._writer.errands.start(self.record(change.task, HandBack()), name="hand back")
        elif is_ours_to_run and self._runner is not None:
            self._runner.take(task)
        else:
            self._writer.errands.start(self.release(change.task), name="release")


def _checked_reason(reason: str | None) -> str | None:
    if reason is not None and len(reason) > REASON_CHARACTERS_MAX:
        message = f"longer than {REASON_CHARACTERS_MAX} characters"
        raise InvalidParams(f"The reason is {message}.", errors=[{"path": "/reason", "message": message}])
    return reason
