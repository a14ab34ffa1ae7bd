"""The two faces between engine and runner: what running code's keeper may ask of the engine, and what the engine tells it.

All of it happens on the main loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from aios.model import Progress, Step, Task, TaskId

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from aios.engine.orders import NewTask
    from aios.rules.lifecycle import Command


class Recorder(Protocol):
    """What the runner may ask of the engine.

    `task` is always the task as the attempt knows it: its `claim` and `attempt` are the fence. Once either has moved on, or the
    task is terminal, every method raises `Conflict`: the code has nothing left to say, and is to be stopped.
    """

    async def record(self, task: Task, *commands: Command) -> Task:
        """Carry out commands of the running code in one commit, decided on the task's newest version.

        Values are checked first: JSON that anybody can read, and within the caps; artifacts have their large parts moved out.

        Raises:
            Conflict: The attempt is over.
            InvalidTaskState: The task is paused (or waits); ask again when it goes on.
            ValidationFailed: A value is not JSON or too large; the sentence says which and where.
            StoreUnavailable: Nothing was written.
        """
        ...

    def recorded(self, task: Task, *commands: Command) -> asyncio.Future[Task]:
        """The same for one who goes on meanwhile. The future raises as `record`, but for what is refused at once.

        Raises:
            ValidationFailed: As `record`.
        """
        ...

    def progress(self, task: Task, progress: Progress) -> asyncio.Future[Task] | None:
        """Report progress, at most `max_progress_per_second` times a second: what comes between is held, the latest wins,
        and is written before the task's next other event. None: it is held. The future raises as that of `recorded`.

        Raises:
            Conflict: The attempt is over.
            ValidationFailed: As `record`.
        """
        ...

    async def steps(self, task: Task) -> list[Step]:
        """The task's recorded steps."""
        ...

    async def put_step(self, task: Task, step: Step) -> None:
        """Record a step. Raises: Conflict, ValidationFailed (over `max_step_size`), StoreUnavailable."""
        ...

    async def release(self, task: Task) -> None:
        """Give back the slot of this claim: its code has ended or parked. A claim that is over changes nothing."""
        ...

    async def put_content(self, content: bytes) -> str:
        """Keep an artifact's content on disk and give its SHA-256. Raises: ValidationFailed (over `max_artifact_size`)."""
        ...

    async def spawn(self, parent: Task, new: NewTask) -> Task:
        """Create a child of a running task: principal and session are the parent's, whatever `new` says.

        The parent chooses the child's `task_id` and records it before it asks; a re-run looks whether there is such a task.

        Raises:
            ValidationFailed: Nested deeper than `max_depth`, or the arguments do not fit.
            CapabilityNotFound, QueueFull: As for any task.
        """
        ...

    async def task(self, task_id: TaskId) -> Task:
        """The task as it stands. Raises: TaskNotFound."""
        ...

    async def until(self, task_id: TaskId, done: Callable[[Task], bool], timeout_ms: int | None) -> Task:
        """Wait, without polling, until `done` says so of the task or the time is up; give the task as it is then."""
        ...


class TaskRunner(Protocol):
    """What the engine tells the runner; the methods but `stop` return at once."""

    def start(self) -> None:
        """Get ready; called once, before the first task."""
        ...

    async def stop(self, grace_ms: int) -> None:
        """Let running attempts reach a step boundary within the time; cancel and hand back those left."""
        ...

    def take(self, task: Task) -> None:
        """Run this task: it was claimed for us, or go on where its code is parked here."""
        ...

    def changed(self, task: Task) -> None:
        """Take note that somebody committed something about a task; maybe one that is not run here."""
        ...
