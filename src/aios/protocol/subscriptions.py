"""Following tasks: `aios/task.subscribe`, `.unsubscribe`, `.resubscribe` (protocol.md §5)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from aios.errors import InvalidInput, ResourceBusy, SubscriptionNotFound, TaskNotFound
from aios.protocol.params import Done, Identifier, Params, View
from aios.protocol.task import TaskView

Kind = Literal["status", "progress", "artifact", "log", "chunk", "input_required", "auth_required", "result", "error"]
Kinds = Annotated[
    list[Kind],
    msgspec.Meta(
        max_length=64,
        description="`status` brings input_required, auth_required, result and error too; left out: all but chunk",
    ),
]
EventId = Annotated[str, msgspec.Meta(max_length=64, examples=["evt-007"])]


class Subscribed(View, frozen=True, kw_only=True):
    """The subscription, whose events follow this answer."""

    subscription_id: str
    task_id: str


class TaskSubscribe(Params[Subscribed], frozen=True, kw_only=True):
    """Follow a task. From `now`: its current status and, where it waits or has ended, the event that says how."""

    method = "aios/task.subscribe"
    result = Subscribed
    errors = (TaskNotFound, InvalidInput, ResourceBusy)
    task_id: Identifier
    events: Kinds | None = None
    from_: EventId = msgspec.field(default="now", name="from")
    """`now`, `start`, or the id of the last event that is known."""


class TaskUnsubscribe(Params[Done], frozen=True, kw_only=True):
    """End a subscription; the task goes on."""

    method = "aios/task.unsubscribe"
    result = Done
    errors = (SubscriptionNotFound,)
    subscription_id: Identifier


class EventView(View, frozen=True, kw_only=True):
    """An event of a task's log."""

    id: str
    event: str
    data: Any


class Resubscribed(View, frozen=True, kw_only=True):
    """The new subscription and the events that were missed; what does not fit follows as live events."""

    subscription_id: str
    task_id: str
    missed_events: list[EventView]
    events_lost: bool = False
    """Some events were cut from the log since; `task` says how things stand."""
    task: TaskView | None = None


class TaskResubscribe(Params[Resubscribed], frozen=True, kw_only=True):
    """Go on following a task after the last event that arrived."""

    method = "aios/task.resubscribe"
    result = Resubscribed
    errors = (TaskNotFound, InvalidInput, ResourceBusy)
    task_id: Identifier
    last_event_id: EventId
    events: Kinds | None = None


METHODS: tuple[type[Params[Any]], ...] = (TaskSubscribe, TaskUnsubscribe, TaskResubscribe)
