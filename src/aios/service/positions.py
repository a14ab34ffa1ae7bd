"""Where in a task's log to begin, and which kinds of events, as callers say it (protocol.md §5)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from aios.errors import ValidationFailed
from aios.model import EventKind, Task
from aios.service.subscriptions import STATUS_AND_COMPANIONS

NOW = "now"
START = "start"
DEFAULT_KINDS = frozenset(EventKind) - {EventKind.CHUNK}

_EVENT_ID = re.compile(r"evt-([0-9]{3}|[1-9][0-9]{3,14})")


def after(task: Task, position: int | str, *, path: str) -> int | None:
    """Give the number of the event after which to begin; None for `now`.

    Raises:
        ValidationFailed: It is neither `now` nor `start` nor the id of an event that the task has; `path` is where it stood.
    """
    if position == NOW:
        return None
    if position == START:
        return 0
    return event_number(task, position, path=path)


def event_number(task: Task, position: int | str, *, path: str) -> int:
    """Give the number of an event that the task has, or 0.

    Raises:
        ValidationFailed: It is no event id, or beyond the last event; `path` is where it stood.
    """
    if isinstance(position, str):
        found = _EVENT_ID.fullmatch(position)
        if found is None:
            raise _refuse(path, "is no event id; they look like evt-007")
        position = int(found[1])
    if not 0 <= position <= task.version:
        raise _refuse(path, f"is beyond the task's last event, evt-{task.version:03d}")
    return position


def kinds(names: Sequence[str] | None) -> frozenset[EventKind]:
    """Give the kinds of the names; `status` brings what belongs to it, None means all but chunk.

    Raises:
        ValidationFailed: A name is no kind.
    """
    if names is None:
        return DEFAULT_KINDS
    chosen: set[EventKind] = set()
    for name in names:
        if f"task.{name}" not in _KINDS:
            raise _refuse("/events", f"{name[:50]} is no kind of event")
        chosen.add(EventKind(f"task.{name}"))
    return frozenset(chosen | STATUS_AND_COMPANIONS if EventKind.STATUS in chosen else chosen)


_KINDS = frozenset(EventKind)


def _refuse(path: str, message: str) -> ValidationFailed:
    return ValidationFailed(f"{path[1:]} {message}", errors=[{"path": path, "message": message}])
