"""Events and other notifications as JSON-RPC messages (protocol.md §2, §5, §8)."""

from __future__ import annotations

from typing import Any

import msgspec

from aios.model import Event

_encode = msgspec.json.Encoder().encode


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """In place of events that were cut: how the task stands (protocol.md §5).

    `number` is that of the task's last event; what follows comes after it.
    """

    number: int
    data: bytes
    """JSON: `{task_id, events_lost: true, task}`."""

    @property
    def event_id(self) -> str:
        """The public id of the task's last event."""
        return f"evt-{self.number:03d}"


SNAPSHOT = "task.snapshot"


def name(event: Event | Snapshot) -> str:
    """Give the event's name on the wire, `task.status`."""
    return event.kind if isinstance(event, Event) else SNAPSHOT


def notification(event: Event | Snapshot, subscription_id: str) -> bytes:
    """Make the notification that carries an event on duplex transports: its data, `event_id` and `subscription_id`."""
    head = (
        f'{{"jsonrpc":"2.0","method":"aios/{name(event)}","params":{{"event_id":"{event.event_id}",'
        f'"subscription_id":"{subscription_id}",'
    )
    return head.encode() + event.data[1:] + b"}"


def message(method: str, params: Any) -> bytes:
    """Make any other notification."""
    return _encode({"jsonrpc": "2.0", "method": method, "params": params})


class StreamStart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Params of `aios/stream.start`."""

    stream_id: str
    task_id: str


class StreamChunk(msgspec.Struct, frozen=True, kw_only=True):
    """Params of `aios/stream.chunk`; `index` counts from 0."""

    stream_id: str
    index: int
    data: Any


class StreamProgress(msgspec.Struct, frozen=True, kw_only=True):
    """Params of `aios/stream.progress`."""

    stream_id: str
    progress: int
    message: str


class StreamEnd(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Params of `aios/stream.end`: the result, or why there is none."""

    stream_id: str
    result: Any = msgspec.UNSET
    error: Any = msgspec.UNSET
