"""The way over HTTP: calls by POST, subscriptions as server-sent events on the answer to the POST."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager, suppress
from typing import Any

import httpx2
import msgspec

from aios.client.connections import (
    ANSWER_SIZE_MAX,
    CONNECT_TIMEOUT_MS,
    PROTOCOL_VERSION,
    SILENCE_MS_MAX,
    Envelope,
    RawEvent,
    Refused,
    envelope,
    request,
    result_of,
)
from aios.client.discovery import Target, describe
from aios.client.tls import trust, trust_nobody
from aios.errors import AnswerLost, DaemonUnreachable
from aios.errors.wire import from_wire
from aios.model import JsonObject

CONNECTIONS_MAX = 1_000
"""Each followed task holds one."""
IDLE_CONNECTIONS_MAX = 20
KEEP_ALIVE = {"TCP_KEEPIDLE": 20, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""Seconds of silence before the kernel asks, between its questions, and how many go unanswered before it gives up."""
END_WAIT_MS = 50
EVENT_SIZE_MAX = 16 * 1024 * 1024

SSE = "text/event-stream"
JSON = "application/json"


def _socket_options() -> list[tuple[int, int, int]]:
    """Let the kernel find out that the other side is gone while an answer is held back for minutes."""
    options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)]
    for name, value in KEEP_ALIVE.items():
        # Not every system has each of them.
        if (number := getattr(socket, name, None)) is not None:
            options.append((socket.IPPROTO_TCP, number, value))
    return options


class HttpConnection:
    """A pool of HTTP connections to one daemon; each call is on its own, so there is nothing to be cut but the call."""

    is_open = True

    def __init__(self, target: Target, *, ca_file: str | None = None) -> None:
        endpoint = target.endpoint
        host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
        headers = {"AIOS-Version": PROTOCOL_VERSION, "Content-Type": JSON}
        if target.token:
            headers["Authorization"] = f"Bearer {target.token}"
        self.target = target
        self._http = httpx2.AsyncClient(
            base_url=f"{endpoint.scheme}://{host}:{endpoint.port}{endpoint.path}",
            headers=headers,
            # No proxy, .netrc or redirect may take the token elsewhere.
            trust_env=False,
            follow_redirects=False,
            transport=httpx2.AsyncHTTPTransport(
                verify=trust(ca_file) if endpoint.scheme == "https" else trust_nobody(),
                trust_env=False,
                limits=httpx2.Limits(max_connections=CONNECTIONS_MAX, max_keepalive_connections=IDLE_CONNECTIONS_MAX),
                socket_options=_socket_options(),
            ),
        )

    async def ask(self, method: str, params: Any, *, timeout_ms: int) -> msgspec.Raw:
        """See `Connection.ask`."""
        number, body = request(method, params)
        response = await self._send("POST", "/aios/rpc", timeout_ms=timeout_ms, accept=JSON, body=body)
        return result_of(self._opened(response, await self._body(response)), number, self.target.url)

    async def subscribe(self, params: JsonObject, *, timeout_ms: int) -> HttpStream:
        """See `Connection.subscribe`. The stream may be silent longer than a call: keep-alives measure it."""
        number, body = request("aios/task.subscribe", params)
        response = await self._send("POST", "/aios/rpc", timeout_ms=SILENCE_MS_MAX, accept=SSE, body=body)
        if not response.headers.get("content-type", "").startswith(SSE):
            result_of(self._opened(response, await self._body(response)), number, self.target.url)
            raise AnswerLost(f"{self.target.url} answers a subscription without a stream")
        stream = HttpStream(response, self.target.url)
        try:
            await stream.open(number)
        except BaseException:
            await stream.close()
            raise
        return stream

    async def fetch(self, path: str, *, timeout_ms: int) -> bytes:
        """See `Connection.fetch`."""
        response = await self._send("GET", path, timeout_ms=timeout_ms, accept="*/*")
        content = await self._body(response)
        if response.is_success:
            return content
        answer = self._opened(response, content)
        raise from_wire(answer.error or {"message": f"status {response.status_code}"})

    async def close(self) -> None:
        """See `Connection.close`."""
        self.is_open = False
        await self._http.aclose()

    async def _send(
        self, verb: str, path: str, *, timeout_ms: int, accept: str, body: bytes | None = None
    ) -> httpx2.Response:
        timeout = httpx2.Timeout(timeout_ms / 1000, connect=CONNECT_TIMEOUT_MS / 1000)
        # Compressed events would wait in a proxy's buffer until there are enough.
        headers = {"Accept": accept, "Accept-Encoding": "identity"}
        sending = self._http.build_request(verb, path, content=body, headers=headers, timeout=timeout)
        with self._explained():
            return await self._http.send(sending, stream=True)

    async def _body(self, response: httpx2.Response) -> bytes:
        """Read the whole body, up to the cap."""
        parts: list[bytes] = []
        size = 0
        try:
            with self._explained():
                async for part in response.aiter_bytes():
                    size += len(part)
                    if size > ANSWER_SIZE_MAX:
                        raise AnswerLost(f"the answer is larger than {ANSWER_SIZE_MAX} bytes")
                    parts.append(part)
        finally:
            await response.aclose()
        return b"".join(parts)

    @contextmanager
    def _explained(self) -> Generator[None]:
        """Say of a failure whether anything can have been done."""
        try:
            yield
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            raise DaemonUnreachable(f"no daemon answers at {self.target.url}: {describe(error)}") from error
        except httpx2.TransportError as error:
            raise AnswerLost(f"the connection to {self.target.url} broke: {describe(error)}") from error

    def _opened(self, response: httpx2.Response, content: bytes) -> Envelope:
        """Decode a JSON answer; what the door itself refused is raised here, with its status."""
        status, kind = response.status_code, response.headers.get("content-type", "")
        if not kind.startswith(JSON):
            said = f"{self.target.url} answers, but not as an AIOS daemon does: status {status}, {kind or 'no content type'}"
            # A proxy that lost the daemon cannot say whether the request had reached it.
            raise AnswerLost(said) if status in {502, 504} else DaemonUnreachable(said)
        answer = envelope(content, self.target.url)
        if status in {httpx2.codes.TOO_MANY_REQUESTS, httpx2.codes.SERVICE_UNAVAILABLE}:
            raise Refused(from_wire(answer.error or {}), retry_after_ms=_retry_after_ms(response))
        return answer


class HttpStream:
    """A subscription whose events come on the answer to the POST that made it."""

    closes_by_itself = True

    def __init__(self, response: httpx2.Response, where: str) -> None:
        self.answer: JsonObject = {}
        self._response = response
        self._where = where
        self._frames = aiter(httpx2.EventSource(response, max_event_size=EVENT_SIZE_MAX))

    async def open(self, number: int) -> None:
        """Read up to the answer, which precedes the first event. Raises: AiosError."""
        async for frame in self._read():
            if frame.event == "message" and frame.data:
                self.answer = msgspec.json.decode(result_of(envelope(frame.data, self._where), number, self._where))
                return
        raise AnswerLost(f"{self._where} closed a subscription before it was answered")

    async def __aiter__(self) -> AsyncIterator[RawEvent]:
        async for frame in self._read():
            if frame.event.startswith("task.") and frame.data:
                yield RawEvent(kind=frame.event, event_id=frame.id, data=_object(frame.data, self._where))

    async def close(self, *, is_at_end: bool = False) -> None:
        """See `Stream.close`. At the end the daemon closes too, and the connection may serve another call."""
        if is_at_end:
            # If its end does not come with the last event, the connection is given up: that costs only itself.
            with suppress(TimeoutError, AnswerLost):
                async with asyncio.timeout(END_WAIT_MS / 1000):
                    async for _ in self._read():
                        pass
        await self._response.aclose()

    async def _read(self) -> AsyncIterator[httpx2.ServerSentEvent]:
        try:
            async for frame in self._frames:
                yield frame
        except httpx2.TransportError as error:
            raise AnswerLost(f"the stream from {self._where} broke: {describe(error)}") from error


def _object(data: str, where: str) -> JsonObject:
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise AnswerLost(f"{where} sent an event that is not JSON: {error}") from error


def _retry_after_ms(response: httpx2.Response) -> int | None:
    """`Retry-After` in seconds; as a date, which our doors do not send, it is passed over."""
    value = response.headers.get("retry-after", "")
    return int(value) * 1000 if value.isdecimal() else None
