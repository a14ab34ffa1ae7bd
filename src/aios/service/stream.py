"""Telling what happens during a call, before its answer: `aios/stream.*` notifications (protocol.md §8)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

import msgspec

from aios.engine.ids import new_id
from aios.errors import AiosError
from aios.model import Event, EventKind, Status, Task
from aios.protocol.capability import Invoked
from aios.protocol.events import StreamChunk, StreamEnd, StreamProgress, StreamStart, message
from aios.protocol.params import WAIT_MAX_MS
from aios.service.call import Call
from aios.service.connection import Send
from aios.service.task import is_settled

KINDS = frozenset({EventKind.STATUS, EventKind.PROGRESS, EventKind.CHUNK})


class _Progress(msgspec.Struct):
    percent: float | int | None = None
    message: str | None = None


class _Reported(msgspec.Struct):
    progress: _Progress


class _Piece(msgspec.Struct):
    index: int
    data: msgspec.Raw


class _StatusOf(msgspec.Struct):
    status: Status


_status_of = msgspec.json.Decoder(_StatusOf).decode
_reported = msgspec.json.Decoder(_Reported).decode
_piece = msgspec.json.Decoder(_Piece).decode


async def tell(call: Call, task: Task, *, send: Send, outcome: Callable[[Call, Task], Awaitable[Invoked]]) -> Invoked:
    """Send start, chunks and progress as they come, then the end, and give the outcome for the answer.

    A chunk's index begins at 0 again with each attempt, which makes the chunks before void.

    Raises:
        AiosError: As `outcome`; the end told it too.
    """
    stream_id = new_id("stream", call.engine.clock.now())
    is_heard = await _tell_events(call, task, send, stream_id)
    task = await call.engine.until(task.task_id, is_settled, WAIT_MAX_MS)
    try:
        result = await outcome(call, task)
    except AiosError as error:
        if is_heard:
            await _send(send, "aios/stream.end", StreamEnd(stream_id=stream_id, error=error.to_wire()))
        raise
    if is_heard:
        await _send(send, "aios/stream.end", StreamEnd(stream_id=stream_id, result=result.data))
    return result


async def _tell_events(call: Call, task: Task, send: Send, stream_id: str) -> bool:
    """Tell what happens until the task has ended or waits for someone; False once nobody listens any more."""
    if not await _send(send, "aios/stream.start", StreamStart(stream_id=stream_id, task_id=task.task_id)):
        return False
    async with aclosing(call.engine.feed.follow(task.task_id, 0, kinds=KINDS)) as pages:
        async for page in pages:
            for event in page.events:
                if not await _tell(send, stream_id, event):
                    return False
            if await _waits(call, task, page.events):
                return True
    return True


async def _waits(call: Call, task: Task, events: list[Event]) -> bool:
    """Whether the task waits for someone, and these events are the last before that."""
    said = [_status_of(event.data).status for event in events if event.kind is EventKind.STATUS]
    if not said or said[-1] not in {Status.INPUT_REQUIRED, Status.AUTH_REQUIRED}:
        return False
    return is_settled(await call.engine.task(task.task_id))


async def _tell(send: Send, stream_id: str, event: Event) -> bool:
    if event.kind is EventKind.CHUNK:
        piece = _piece(event.data)
        return await _send(
            send, "aios/stream.chunk", StreamChunk(stream_id=stream_id, index=piece.index, data=piece.data)
        )
    if event.kind is EventKind.PROGRESS:
        progress = _reported(event.data).progress
        return await _send(
            send,
            "aios/stream.progress",
            StreamProgress(stream_id=stream_id, progress=int(progress.percent or 0), message=progress.message or ""),
        )
    return True


async def _send(send: Send, method: str, params: Any) -> bool:
    try:
        await send(message(method, params))
    except OSError:
        return False  # The caller has gone; its task goes on.
    return True
