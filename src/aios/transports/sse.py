"""A stream of server-sent events on one HTTP answer: opened late, kept alive, written in one go, cut when nobody reads."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing
from typing import Any

import structlog

from aios.failpoints import failpoint
from aios.model import Event
from aios.protocol.events import Snapshot
from aios.protocol.framing import KEEP_ALIVE, sse, sse_message, sse_retry
from aios.transports.admission import Headers
from aios.transports.http_guard import GuardedHttp

CHUNK_SIZE_MAX = 64 * 1024
"""Bytes of whole frames that are handed to the connection at once; then it is seen whether they go away."""
RETRY_MS = 1_000
RETRY_SPREAD_MS = 4_000
"""Readers that were all cut at once come back spread over so long."""
FAREWELL = b": the daemon stops\n\n"

_log = structlog.get_logger("aios.http")

Send = Callable[[dict[str, Any]], Awaitable[None]]


class EventStream:
    """One such answer.

    Args:
        wire: The connection it is written to.
        send: Of ASGI.
        headers: Fields of the answer besides those that every stream has.
    """

    def __init__(self, *, wire: GuardedHttp, send: Send, headers: Headers) -> None:
        self._wire = wire
        self._send = send
        self._headers = headers
        self._task: asyncio.Task[Any] | None = None
        self._is_ending = False
        self.is_open = False
        self.quiet_since = wire.loop.time()

    async def open(self) -> None:
        """Send the header and how long to wait before connecting again, once."""
        if self.is_open:
            return
        self.is_open = True
        headers = [
            (b"content-type", b"text/event-stream"),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
            *self._headers,
        ]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._write(sse_retry(RETRY_MS + secrets.randbelow(RETRY_SPREAD_MS)))

    async def message(self, body: bytes) -> None:
        """Write a JSON-RPC message. Raises: ConnectionResetError."""
        await self.open()
        await self._write(sse_message(body))

    async def follow(self, pages: AsyncGenerator[list[Event | Snapshot], None]) -> None:
        """Write a task's events, all that are ready at once, until it has no more. Raises: ConnectionResetError."""
        await self.open()
        async with aclosing(pages):
            async for page in pages:
                for chunk in _chunks(sse(event) for event in page):
                    await self._write(chunk)
                    failpoint("events.written")

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do the work of the stream; a reader that goes away and the daemon's end stop it quietly."""
        self._task = asyncio.current_task()
        self._wire.on_lost = self._stop
        try:
            await work()
            if self._wire.is_stalled:
                # The last events are under way; only who takes nothing any more is cut off.
                await self._wire.drain()
        except ConnectionResetError:
            # The server beneath takes note of it at its next step, and would else complain of an answer without an end.
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            if not self._is_ending or self._task is None:
                raise
            self._task.uncancel()
        except Exception:
            if not self.is_open:
                raise
            _log.exception("stream failed")
        finally:
            self._task = None
            self._wire.on_lost = None
        await self._close()

    def end(self) -> None:
        """Stop the work, because the daemon stops; the reader gets a last comment."""
        self._stop()

    def _stop(self) -> None:
        if self._task is not None and not self._is_ending:
            self._is_ending = True
            self._task.cancel()

    async def keep_alive(self) -> None:
        """Write a comment, unless what was written before still waits for the reader."""
        if self._task is None or self._wire.is_stalled:
            return
        await self.open()
        await self._write(KEEP_ALIVE)

    async def _write(self, frames: bytes) -> None:
        if self._wire.is_stalled:
            await self._wire.drain()
        self.quiet_since = self._wire.loop.time()
        await self._send({"type": "http.response.body", "body": frames, "more_body": True})

    async def _close(self) -> None:
        if not self.is_open and not self._is_ending:
            return
        if not self.is_open or self._wire.is_stalled:
            # Where no answer has begun, the caller must not take its end for one: what was asked for may have been done.
            self._wire.transport.abort()
            await asyncio.sleep(0)
        else:
            last = FAREWELL if self._is_ending else b""
            await self._send({"type": "http.response.body", "body": last, "more_body": False})


def _chunks(frames: Iterable[bytes]) -> Iterable[bytes]:
    """Join frames up to about `CHUNK_SIZE_MAX`."""
    waiting: list[bytes] = []
    size = 0
    for frame in frames:
        waiting.append(frame)
        size += len(frame)
        if size >= CHUNK_SIZE_MAX:
            yield b"".join(waiting)
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)
