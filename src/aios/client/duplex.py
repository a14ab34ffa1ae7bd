"""The way over a connection that stays open, on which calls, answers and events share the road."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from aios.client.channels import Channel, ChannelClosed, open_channel
from aios.client.connections import (
    PROTOCOL_VERSION,
    SILENCE_MS_MAX,
    Envelope,
    RawEvent,
    envelope,
    request,
    result_of,
)
from aios.client.discovery import Target
from aios.errors import AnswerLost, DaemonUnreachable
from aios.model import JsonObject

BACKLOG_MAX = 1_000
"""Events that wait for a follower on this side; one that is slower is cut off and reads on from the daemon's log."""
PING_MS = 15_000
PING = b'{"jsonrpc":"2.0","method":"aios/ping","params":{}}'
CLIENT_INFO = {"name": "aiosd-python", "version": PROTOCOL_VERSION}


class DuplexStream:
    """A subscription on a connection that others use too."""

    closes_by_itself = False

    def __init__(self) -> None:
        self.answer: JsonObject = {}
        self._events: deque[RawEvent] = deque()
        self._grown = asyncio.Event()
        self._end: AnswerLost | None = None
        self._is_over = False

    def push(self, event: RawEvent) -> bool:
        """Take an event; False when the follower is too far behind, and gets no more from here."""
        if self._is_over or len(self._events) >= BACKLOG_MAX:
            self.end(None)
            return False
        self._events.append(event)
        self._grown.set()
        return True

    def end(self, cause: AnswerLost | None) -> None:
        """Say that nothing more comes; what has come is still delivered."""
        self._end, self._is_over = cause, True
        self._grown.set()

    async def __aiter__(self) -> AsyncIterator[RawEvent]:
        while True:
            while self._events:
                yield self._events.popleft()
            if self._is_over:
                break
            self._grown.clear()
            await self._grown.wait()
        if self._end is not None:
            raise self._end

    async def close(self, *, is_at_end: bool = False) -> None:
        """See `Stream.close`."""
        self._is_over = True
        self._events.clear()


class _Pending:
    """A call that waits for its answer."""

    def __init__(self, stream: DuplexStream | None) -> None:
        self.stream = stream
        self.answer: asyncio.Future[Envelope] = asyncio.get_running_loop().create_future()


class DuplexConnection:
    """One WebSocket, Unix or TCP connection, opened on first use; once cut it is of no more use.

    A reader task takes everything off the wire at once, whatever the followers do, so that no answer waits behind an event.
    """

    def __init__(self, target: Target, *, ca_file: str | None = None) -> None:
        self.target = target
        self.is_open = True
        self.session: JsonObject = {}
        self._ca_file = ca_file
        self._channel: Channel | None = None
        self._opening = asyncio.Lock()
        self._reader: asyncio.Task[None] | None = None
        self._pending: dict[int, _Pending] = {}
        self._streams: dict[str, DuplexStream] = {}

    async def ask(self, method: str, params: Any, *, timeout_ms: int) -> msgspec.Raw:
        """See `Connection.ask`."""
        return await self._exchange(await self._ready(), method, params, timeout_ms=timeout_ms)

    async def subscribe(self, params: JsonObject, *, timeout_ms: int) -> DuplexStream:
        """See `Connection.subscribe`."""
        stream = DuplexStream()
        channel = await self._ready()
        raw = await self._exchange(channel, "aios/task.subscribe", params, timeout_ms=timeout_ms, stream=stream)
        stream.answer = msgspec.json.decode(raw, type=dict[str, Any])
        return stream

    async def fetch(self, path: str, *, timeout_ms: int) -> None:
        """See `Connection.fetch`: this way has no paths."""

    async def close(self) -> None:
        """See `Connection.close`. Without `aios/shutdown`: that would cancel the session's foreground tasks."""
        self.is_open = False
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.cancel()
            await asyncio.wait([reader])
        self._break("the client was closed")

    async def _ready(self) -> Channel:
        """The opened channel, initialized. Raises: DaemonUnreachable, AiosError."""
        async with self._opening:
            if not self.is_open:
                raise DaemonUnreachable(f"the connection to {self.target.url} is closed")
            if self._channel is None:
                channel = await open_channel(self.target, ca_file=self._ca_file)
                try:
                    self._reader = asyncio.create_task(self._read(channel))
                    await self._initialize(channel)
                except BaseException as error:
                    await self.close()
                    await channel.close()
                    if isinstance(error, AnswerLost):
                        raise DaemonUnreachable(error.detail) from error
                    raise
                self._channel = channel
            return self._channel

    async def _initialize(self, channel: Channel) -> None:
        params: JsonObject = {
            "protocol_version": PROTOCOL_VERSION,
            "supported_versions": [PROTOCOL_VERSION],
            "client_info": CLIENT_INFO,
            "capabilities": {"streaming": True, "batch": True, "notifications": True},
        }
        if self.target.token:
            params["authentication"] = {"type": "bearer", "token": self.target.token}
        raw = await self._exchange(channel, "aios/initialize", params, timeout_ms=SILENCE_MS_MAX)
        self.session = msgspec.json.decode(raw, type=dict[str, Any])

    async def _exchange(
        self, channel: Channel, method: str, params: Any, *, timeout_ms: int, stream: DuplexStream | None = None
    ) -> msgspec.Raw:
        number, body = request(method, params)
        pending = self._pending[number] = _Pending(stream)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await channel.send(body)
                answer = await pending.answer
        except TimeoutError as error:
            raise AnswerLost(f"{self.target.url} did not answer {method} within {timeout_ms} ms") from error
        except ChannelClosed as error:
            raise AnswerLost(f"the connection to {self.target.url} broke: {error}") from error
        finally:
            self._pending.pop(number, None)
        return result_of(answer, number, self.target.url)

    async def _read(self, channel: Channel) -> None:
        """Take messages off the wire until it ends. Silence is answered with a ping, and more silence with an end."""
        cause = "the daemon closed the connection"
        silent_ms = 0
        try:
            while silent_ms < SILENCE_MS_MAX:
                try:
                    async with asyncio.timeout(PING_MS / 1000):
                        message = await channel.receive()
                except TimeoutError:
                    silent_ms += PING_MS
                    await channel.send(PING)
                    continue
                silent_ms = 0
                self._deliver(envelope(message, self.target.url))
            cause = f"nothing came for {SILENCE_MS_MAX} ms"
        except (ChannelClosed, AnswerLost) as error:
            cause = str(error)
        finally:
            self._break(cause)
            await channel.close()

    def _deliver(self, message: Envelope) -> None:
        if message.method is None:
            pending = self._pending.get(message.id) if isinstance(message.id, int) else None
            if pending is not None and not pending.answer.done():
                # Its events may follow at once, before the caller has run again.
                if pending.stream is not None and not isinstance(message.result, msgspec.UnsetType):
                    answer = msgspec.json.decode(message.result, type=dict[str, Any])
                    self._streams[answer["subscription_id"]] = pending.stream
                pending.answer.set_result(message)
        elif message.method.startswith("aios/task.") and message.params is not None:
            self._route(message.method.removeprefix("aios/"), message.params)

    def _route(self, kind: str, params: JsonObject) -> None:
        subscription_id, event_id = params.pop("subscription_id", ""), params.pop("event_id", "")
        stream = self._streams.get(subscription_id)
        if stream is not None and not stream.push(RawEvent(kind=kind, event_id=event_id, data=params)):
            del self._streams[subscription_id]

    def _break(self, cause: str) -> None:
        """Tell everyone who waits that this connection has ended."""
        self.is_open = False
        lost = AnswerLost(f"the connection to {self.target.url} broke: {cause}")
        for pending in self._pending.values():
            if not pending.answer.done():
                pending.answer.set_exception(lost)
        for stream in self._streams.values():
            stream.end(lost)
        self._streams.clear()
