"""A change in the making: the task as it stands after the steps so far, and the events that say so."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from msgspec.structs import replace

from aios.model import Artifact, Change, Event, EventKind, Status, Step, Task, TaskId, wire_time
from aios.rules import events

MILLISECOND: Final = timedelta(milliseconds=1)


class Draft:
    """What the deciding functions write on. It lives for one decision and never leaves it.

    Args:
        task: The task as it is stored.
        now: The time of the decision.
    """

    __slots__ = ("_before", "_timestamp", "artifacts", "at", "awaits", "events", "now", "steps", "task")

    def __init__(self, task: Task, *, now: datetime) -> None:
        self._before = task
        self._timestamp = ""
        self.task = task
        self.now = now
        self.at = max(task.updated_at, now)
        """When it happens, as the log says it: a clock that was set back does not turn the log's time back."""
        self.events: list[Event] = []
        self.steps: tuple[Step, ...] = ()
        self.artifacts: tuple[Artifact, ...] = ()
        self.awaits: TaskId | None = None

    @property
    def timestamp(self) -> str:
        """`at` for the wire, formatted once."""
        if not self._timestamp:
            self._timestamp = wire_time(self.at)
        return self._timestamp

    def become(self, **fields: Any) -> None:
        """Give the task these values."""
        self.task = replace(self.task, **fields)

    def add(self, kind: EventKind, data: bytes) -> None:
        """Append an event; its number follows the last one's."""
        number = self._before.version + len(self.events) + 1
        self.events.append(Event(number=number, kind=kind, at=self.at, data=data))

    def move(self, status: Status, reason: str | None = None, **fields: Any) -> None:
        """Take one step along the table and say so."""
        task = self.task
        self.task = replace(task, status=status, **fields)
        self._say_status(status, previous=task.status, reason=reason)

    def begin_attempt(self, attempt: int, **fields: Any) -> None:
        """Take the one self-step there is. A task that never started stays pending and has none to show."""
        self.task = replace(self.task, attempt=attempt, begun_by=None, **fields)
        if self.task.status is Status.WORKING:
            self._say_status(Status.WORKING, previous=Status.WORKING, reason="retry")

    def used_ms(self) -> int:
        """Say for how long this attempt has held a slot up to now."""
        task = self.task
        if task.deadline_at is None:
            return task.used_ms
        left = (task.deadline_at - self.now) // MILLISECOND
        return max(task.used_ms, task.spec.timeout_ms - left)

    def change(self) -> Change:
        """Give what has come together, to be written only if nobody else has changed or claimed the task."""
        if self.events:
            self.become(version=self.events[-1].number, updated_at=self.at)
        return Change(
            task=self.task,
            before=self._before.version,
            claim=self._before.claim,
            events=tuple(self.events),
            steps=self.steps,
            artifacts=self.artifacts,
            awaits=self.awaits,
        )

    def _say_status(self, status: Status, *, previous: Status, reason: str | None) -> None:
        task = self.task
        data = events.status(
            task.task_id, self.timestamp, status=status, previous=previous, attempt=task.attempt, reason=reason
        )
        self.add(EventKind.STATUS, data)
