"""The seam to the store: what the engine asks of SQLite, and of PostgreSQL later.

One contract, one suite (`tests/stores/`). All writes go through `commit` and `release`; each is one transaction or none, and
is on disk before it is answered. A store knows nothing of the lifecycle: it compares versions, keeps slots and the queue exact,
and hands tasks to the seated worker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol

from aios.model import (
    Artifact,
    ArtifactId,
    Change,
    EventKind,
    EventPage,
    Record,
    Session,
    SessionId,
    Status,
    Step,
    Task,
    TaskId,
    TaskPage,
    TaskQuery,
)


class Committed(Record, frozen=True, kw_only=True):
    """What a commit wrote."""

    task: Task
    is_new: bool = True
    """False where an idempotency key led to a task that was there before; nothing was written then."""


class Seat:
    """A worker's standing order: run what may run, up to `capacity` slots.

    After every write, inside the same transaction, the store claims for the seat while slots are free: of the claimable tasks
    (`Task`) the highest priority first, then the oldest `created_at`, then task_id; never past the limits in all and per
    adapter, never past `capacity` slots of this worker. What it claimed it hands to `deliver` after the transaction is on disk.
    """

    def __init__(
        self,
        *,
        worker: str,
        capacity: int,
        start: Callable[[Task, datetime], Change],
        deliver: Callable[[Sequence[Change], datetime | None], None],
    ) -> None:
        self.worker = worker
        self.capacity = capacity
        self.start = start
        """Pure; called in the store's thread: the change that claims this task for this worker now."""
        self.deliver = deliver
        """Called in the store's thread, must not block: the changes that were written, and when the next task that cannot
        be claimed yet becomes due (None: none). Also called with no changes when only the due time has changed."""


class Health(Record, frozen=True, kw_only=True):
    """Whether the store can do its work."""

    is_writable: bool
    reason: str = ""
    """A sentence for the operator, where it cannot."""


class Store(Protocol):
    """Durable tasks, their log, steps and artifacts. Methods may be awaited from any event loop."""

    async def commit(self, change: Change) -> Committed:
        """Write the change in one transaction and answer when the disk has it.

        A creation (`before` is None) is refused exactly when `max_queue_size` tasks are pending and no slot is free for it
        (`rules/queueing.py`). A terminal task wakes the parent that awaits it, and loses its steps that hold secrets.

        Raises:
            Conflict: The version, the claim or the stamp has moved on; nothing was written.
            QueueFull: The queue has no room; nothing was written.
            ValidationFailed: The idempotency key was used with another request, or an artifact's id is another task's.
            StoreUnavailable: The disk refused; nothing was written.
        """
        ...

    async def release(self, task_id: TaskId, *, claim: int) -> None:
        """Clear the slot that this claim holds, because its code has ended or parked.

        Version and events stay as they are. If the task is still pending or working it becomes claimable at its `run_at`, or
        at once where that has passed. A claim that is no longer the task's changes nothing.
        """
        ...

    def seat(self, seat: Seat) -> None:
        """Give the worker's standing order; one per store. Tasks may be delivered before this returns."""
        ...

    def wake(self) -> None:
        """Look for claimable tasks now: something that was not due may be."""
        ...

    def unseat(self) -> None:
        """Claim nothing more."""
        ...

    async def task(self, task_id: TaskId) -> Task:
        """Raises: TaskNotFound."""
        ...

    async def tasks(self, query: TaskQuery) -> TaskPage:
        """List tasks as summaries: without `arguments` and `result`, so that a page stays small.

        `total` is exact up to 10 000. A page ends early, with `has_more`, when its metadata alone fill some megabytes.
        All of the query's tags must be present.

        Raises:
            ValidationFailed: The cursor is not of this query.
        """
        ...

    async def children(self, parent: TaskId) -> list[Task]:
        """The parent's children that are not terminal."""
        ...

    async def parents(self) -> list[tuple[TaskId, bool]]:
        """Tasks that have children which are not terminal; True beside one that has itself ended, or is gone."""
        ...

    async def foreground(self, session_id: SessionId) -> list[Task]:
        """The session's tasks that are neither terminal nor detached."""
        ...

    async def events_after(
        self,
        task_id: TaskId,
        number: int,
        *,
        limit: int,
        kinds: frozenset[EventKind] | None = None,
        max_bytes: int | None = None,
    ) -> EventPage:
        """Events with a greater number, in order, at most `limit` and (past the first) `max_bytes` of data.

        An unknown task has none.
        """
        ...

    async def steps(self, task_id: TaskId) -> list[Step]:
        """All recorded steps of a task."""
        ...

    async def put_step(self, task_id: TaskId, step: Step, *, claim: int) -> None:
        """Record a step and set the task's `crashes` back to 0, without an event or a new version.

        Raises:
            Conflict: The claim is no longer the task's, or the task is terminal.
            StoreUnavailable: The disk refused.
        """
        ...

    async def artifact(self, artifact_id: ArtifactId) -> Artifact:
        """The newest version. Raises: ArtifactNotFound."""
        ...

    async def artifacts(self, task_id: TaskId) -> list[Artifact]:
        """The newest version of each, in the order in which they were first made."""
        ...

    async def put_blob(self, content: bytes) -> str:
        """Keep content by its SHA-256 (hex), which is returned; it is on disk then. Raises: StoreUnavailable."""
        ...

    async def blob(self, sha256: str) -> bytes:
        """The content, checked against its hash. Raises: ArtifactNotFound."""
        ...

    async def lost(self) -> list[Task]:
        """Tasks whose slot is held by a worker that no longer lives; to be asked once at start."""
        ...

    async def overdue(self, now: datetime, *, limit: int) -> list[Task]:
        """Tasks for which a stored time has passed: `expires_at` of one that never started, `due_at` of a request,
        `deadline_at` of an attempt.
        """
        ...

    async def next_overdue(self) -> datetime | None:
        """The earliest such time that any unfinished task has."""
        ...

    async def recent_durations(self, capability_id: str, *, limit: int) -> list[int]:
        """Milliseconds from start to end of the capability's last completed tasks, newest first."""
        ...

    async def put_session(self, session: Session) -> None:
        """Write a session, new or changed."""
        ...

    async def session(self, session_id: SessionId) -> Session:
        """Raises: SessionNotFound."""
        ...

    async def purge(self, ended_before: datetime, *, limit: int) -> int:
        """Delete up to `limit` tasks that ended before, with everything that is theirs; returns how many."""
        ...

    async def counts(self) -> dict[Status | str, int]:
        """Tasks by status, and `slots` taken: for metrics and `aios doctor`."""
        ...

    def health(self) -> Health:
        """Whether the last write worked; a failed one is tried again by the next."""
        ...

    async def close(self) -> None:
        """Write what waits, then let go of everything."""
        ...
