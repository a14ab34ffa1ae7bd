"""Load, decide, commit, wake: everything that happens to a task happens here."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from aios.engine.clock import Clock
from aios.engine.feed import Feed
from aios.engine.orders import NewTask
from aios.engine.recorder import TaskRunner
from aios.engine.registry import Registry
from aios.engine.vault import Vault
from aios.model import (
    Artifact,
    ArtifactId,
    EventKind,
    EventPage,
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
from aios.store import Health, Store

if TYPE_CHECKING:
    from aios.rules.lifecycle import Command


class Engine:
    """The daemon's heart: the only writer, on the main loop alone.

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
        self._worker = worker
        self._retention_days = retention_days

    async def start(self, runner: TaskRunner | None = None) -> None:
        """Deal with what the last process left, then run tasks with `runner` (None: a gateway, which runs none)."""
        raise NotImplementedError

    async def stop(self, grace_ms: int) -> None:
        """Claim nothing more, stop the runner, write what is held. The store stays open."""
        raise NotImplementedError

    async def create(self, new: NewTask) -> Task:
        """Accept a task; it is on disk when this returns. An idempotency key that is known gives the task it made.

        Raises:
            CapabilityNotFound: Nobody offers it.
            ValidationFailed: The arguments do not fit the schema, or the key was used with another request.
            InvalidParams: Arguments and metadata are over `max_input_size`.
            QueueFull: `max_queue_size` tasks are pending and no slot is free.
        """
        raise NotImplementedError

    async def task(self, task_id: TaskId) -> Task:
        """The task as it stands. Raises: TaskNotFound."""
        raise NotImplementedError

    async def tasks(self, query: TaskQuery) -> TaskPage:
        """List tasks. Raises: ValidationFailed for a bad cursor."""
        raise NotImplementedError

    async def cancel(self, task_id: TaskId, reason: str | None = None) -> Task:
        """Cancel at once; the code is stopped afterwards. Raises: TaskNotFound, TaskFinal."""
        raise NotImplementedError

    async def pause(self, task_id: TaskId, reason: str | None = None) -> Task:
        """Pause a working task. Raises: TaskNotFound, TaskFinal, InvalidTaskState."""
        raise NotImplementedError

    async def resume(self, task_id: TaskId, reason: str | None = None) -> Task:
        """Let a paused task go on. Raises: TaskNotFound, TaskFinal, InvalidTaskState."""
        raise NotImplementedError

    async def give_input(self, task_id: TaskId, value: Any) -> Task:
        """Answer a task's question. Raises: TaskNotFound, TaskFinal, InvalidTaskState, InvalidInput (it still waits)."""
        raise NotImplementedError

    async def authenticate(self, task_id: TaskId, response: JsonObject) -> Task:
        """Give a task its sign-in. Raises: TaskNotFound, TaskFinal, InvalidTaskState, InvalidInput (it still waits)."""
        raise NotImplementedError

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
        raise NotImplementedError

    async def artifacts(self, task_id: TaskId) -> list[Artifact]:
        """The newest version of each artifact of a task."""
        raise NotImplementedError

    async def artifact(self, artifact_id: ArtifactId) -> Artifact:
        """Raises: ArtifactNotFound."""
        raise NotImplementedError

    async def artifact_content(self, artifact: Artifact, part: int) -> tuple[bytes, str]:
        """One part's content and its mime type. Raises: ArtifactNotFound where we do not have it."""
        raise NotImplementedError

    async def estimate(self, capability_id: str) -> int | None:
        """How long the capability may take, in ms: the median of what was, else what its descriptor says, else None."""
        raise NotImplementedError

    async def foreground(self, session_id: SessionId) -> list[Task]:
        """The session's tasks that are neither terminal nor detached."""
        raise NotImplementedError

    async def put_session(self, session: Session) -> None:
        """Write a session, new or changed."""
        raise NotImplementedError

    async def session(self, session_id: SessionId) -> Session:
        """Raises: SessionNotFound."""
        raise NotImplementedError

    async def counts(self) -> dict[Status | str, int]:
        """Tasks by status, and `slots` taken."""
        raise NotImplementedError

    def health(self) -> Health:
        """Whether the store can write."""
        raise NotImplementedError

    async def until(self, task_id: TaskId, done: Callable[[Task], bool], timeout_ms: int | None) -> Task:
        """See `Feed.until`."""
        raise NotImplementedError

    # The rest is what running code uses: see `recorder.Recorder`.

    async def record(self, task: Task, *commands: Command) -> Task:
        """See `Recorder.record`."""
        raise NotImplementedError

    async def progress(self, task: Task, progress: Progress) -> None:
        """See `Recorder.progress`."""
        raise NotImplementedError

    async def steps(self, task: Task) -> list[Step]:
        """See `Recorder.steps`."""
        raise NotImplementedError

    async def put_step(self, task: Task, step: Step) -> None:
        """See `Recorder.put_step`."""
        raise NotImplementedError

    async def release(self, task: Task) -> None:
        """See `Recorder.release`."""
        raise NotImplementedError

    async def put_content(self, content: bytes) -> str:
        """See `Recorder.put_content`."""
        raise NotImplementedError

    async def spawn(self, parent: Task, new: NewTask) -> Task:
        """See `Recorder.spawn`."""
        raise NotImplementedError
