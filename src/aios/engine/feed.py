"""Reading the log live: a follower is a cursor, woken when the log has grown."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from aios.engine.clock import Clock
from aios.model import Change, EventKind, EventPage, Task, TaskId
from aios.store import Store


class Feed:
    """Wakes those who wait for a task, after each commit."""

    def __init__(self, *, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def wake(self, change: Change) -> None:
        """Tell the followers of a task what has been committed; in whatever order commits are told."""
        raise NotImplementedError

    def follow(
        self, task_id: TaskId, after: int, *, kinds: frozenset[EventKind] | None = None
    ) -> AsyncIterator[EventPage]:
        """Give the task's events with a greater number, those stored and then those to come, each once and in order.

        A page that says `is_cut` tells that events were cut away before its first. With `kinds`, others are left out, but the
        terminal status never is. Ends after the terminal status and its companions. A follower that reads slowly costs a cursor.
        Close it (`aclosing`) where it is left early.

        Raises:
            TaskNotFound: At the first step.
        """
        raise NotImplementedError

    async def until(self, task_id: TaskId, done: Callable[[Task], bool], timeout_ms: int | None) -> Task:
        """Wait until `done` says so of the task, without polling; give it as it is then, or when the time is up.

        Raises:
            TaskNotFound: There is no such task.
        """
        raise NotImplementedError
