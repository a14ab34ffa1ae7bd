"""What stands before the HTTP door: uvicorn's httptools protocol, with the caps and deadlines that it lacks.

httptools is four times as fast as h11 and takes 50 MB of headers, two Hosts or none, and waits for ever. So here is counted and
timed what comes in, before anything is kept: the bytes and number of header fields, the bytes of the body, the time for each
part of a request, and the time for which a peer reads nothing. One sweep a second looks at all deadlines; requests set no timers.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any, cast

import httptools
import msgspec
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from aios.config import HttpSection
from aios.errors import InvalidRequest, ResourceBusy
from aios.protocol import jsonrpc
from aios.transports.admission import Admission, Fields, Headers, Refused
from aios.transports.gathering import Gathering

LINGER_MS = 2_000
"""How long what a refused peer still sends is read and thrown away, so that it gets to read the refusal."""
TOLERATED_CONNECTIONS = 256
"""Connections over `max_connections` that are told so; those beyond are cut without a word."""
SHORT_HEADER_SIZE = 1_024
"""A request that came within so many bytes needs no counting."""
RETRY_AFTER = (b"retry-after", b"5")
NOT_HTTP = Refused(400, InvalidRequest("this is not a request of HTTP/1.1"))


class Gate(msgspec.Struct, kw_only=True):
    """What all connections of a door share."""

    settings: HttpSection
    admission: Admission
    max_body_size: int
    max_output_size: int
    write_timeout_ms: int
    state: ServerState = msgspec.field(default_factory=ServerState)
    changed: asyncio.Event = msgspec.field(default_factory=asyncio.Event)
    """Set whenever a connection is lost."""


class Incoming:
    """One request as it comes in, and the connection under it: what the door finds in `scope["extensions"]["aios"]`."""

    __slots__ = ("fields", "refused", "size", "wire")

    def __init__(self, wire: GuardedHttp) -> None:
        self.wire = wire
        self.fields: Fields = {}
        self.size = 0
        self.refused: Refused | None = None
        """Why the rest of it is not read; whoever waits for its body must look here."""

    async def answer_refused(self, scope: Any, receive: Any, send: Any) -> None:
        """Stand in for the door: an ASGI application, so that answers keep the order of the requests."""
        status, headers, body = answer_of(self.refused or NOT_HTTP)
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


class GuardedHttp(HttpToolsProtocol):
    """One HTTP connection, counted and timed."""

    def __init__(self, *, config: Config, gate: Gate) -> None:
        super().__init__(config, gate.state, {})
        self._gate = gate
        self._settings = gate.settings
        self._door = self.app
        self._request = Incoming(self)
        self._in_head = False
        self._in_message = False
        self._is_cut = False
        self._is_over = False
        self._is_long = False
        """The header being read may be longer than is allowed: it did not come in one small piece."""
        self._unseen = 0
        """Bytes that went in since the parser last gave out the end of a header or a piece of a body."""
        self._deadline = math.inf
        self._unsent = 0
        """Bytes of an answer that the peer had not taken at the last sweep."""
        self._stalled_since = 0.0
        self.on_lost: Callable[[], object] | None = None
        """Called when the connection goes away under an answer."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.out = Gathering(transport, self.loop)
        super().connection_made(cast("asyncio.Transport", self.out))
        self._allow(self._settings.header_timeout_ms)
        over = len(self.connections) - self._settings.max_connections
        self._is_over = over > 0
        if over > TOLERATED_CONNECTIONS:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._gate.changed.set()
        if self.on_lost is not None:
            self.on_lost()

    def data_received(self, data: bytes) -> None:
        if self._is_cut:
            return
        self._unseen += len(data)
        self._is_long = self._unseen > SHORT_HEADER_SIZE
        parser: Any = self.parser
        try:
            parser.feed_data(data)
            if self._unseen > self._settings.max_header_size:
                self._request.refused = self._header_too_large()
                self._cut()
        except httptools.HttpParserUpgrade:
            if self._should_upgrade():
                self.transport = self.out.bare()
                self.handle_websocket_upgrade()
        except httptools.HttpParserError:
            self._cut()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._request = Incoming(self)
        self.scope["extensions"] = {"aios": self._request}  # type: ignore[typeddict-item]
        self._in_head = self._in_message = True
        self._allow(self._settings.header_timeout_ms)

    def on_header(self, name: bytes, value: bytes) -> None:
        # What comes after a chunked body is not part of the header and is thrown away.
        if self._in_head:
            self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._unseen = 0
        self._allow(self._settings.body_timeout_ms)
        request = self._request
        request.fields = dict(self.headers)
        self.expect_100_continue = b"expect" in request.fields and request.fields[b"expect"].lower() == b"100-continue"
        try:
            self._judge(request)
            self.app = self._door
        except Refused as refused:
            request.refused = refused
            self.app = request.answer_refused
        self._begin(request)
        parser: Any = self.parser
        # Whatever the peer wanted to change to, or was to send only after our word, does not come.
        if parser.should_upgrade() or (request.refused is not None and self.expect_100_continue):
            self._owe_nothing_more()

    def _begin(self, request: Incoming) -> None:
        """Let the application begin to work on the request whose header is complete."""
        super().on_headers_complete()

    def _owe_nothing_more(self) -> None:
        if self._is_busy:
            self.cycle.keep_alive = False

    def _judge(self, request: Incoming) -> None:
        """Raises: Refused, for a request that the door shall not see."""
        if self._is_over:
            raise Refused(503, ResourceBusy("the daemon has as many connections as it may have"), RETRY_AFTER)
        size = len(self.url)
        if len(self.headers) > self._settings.max_headers or (
            self._is_long
            and size + sum(len(name) + len(value) for name, value in self.headers) > self._settings.max_header_size
        ):
            raise self._header_too_large()
        if self.url[:1] != b"/" and self.url != b"*":
            raise Refused(400, InvalidRequest("the request's target must be a path"))
        self._gate.admission.check(self.headers, request.fields)
        length = request.fields.get(b"content-length")
        if length is not None and int(length) > self._gate.max_body_size:
            raise self._body_too_large()

    def on_body(self, body: bytes) -> None:
        self._unseen = 0
        request = self._request
        request.size += len(body)
        if request.refused is not None:
            return
        if request.size > self._gate.max_body_size:
            request.refused = self._body_too_large()
            self._tell_refused()
        else:
            self._keep(body)

    def _keep(self, body: bytes) -> None:
        """Take in a piece of the body."""
        super().on_body(body)

    def _tell_refused(self) -> None:
        """End the wait of whoever waits for the rest of the body."""
        self.cycle.message_event.set()

    def on_chunk_header(self) -> None:
        self._unseen = 0

    def on_message_complete(self) -> None:
        self._in_message = False
        self._unseen = 0
        self._rest()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        self.on_lost = None
        self._rest()
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())

    @property
    def _is_busy(self) -> bool:
        """Whether an answer is owed."""
        cycle: Any = self.cycle
        return cycle is not None and not cycle.response_complete

    def _allow(self, duration_ms: int) -> None:
        self._deadline = self.loop.time() + duration_ms / 1000

    def _rest(self) -> None:
        """Set the deadline of a connection: for the next request, or for the rest of one that was answered before its end."""
        if self._is_busy:
            if not self._in_message:
                self._deadline = math.inf
        else:
            self._allow(LINGER_MS if self._in_message else self._settings.keep_alive_ms)

    def _cut(self) -> None:
        """Give up a connection whose bytes make no sense, with a word if no answer is under way."""
        self._is_cut = True
        if self._is_busy or self.transport.is_closing():
            self.transport.close()
            return
        status, headers, body = answer_of(self._request.refused or NOT_HTTP)
        lines = [b"%b: %b\r\n" % field for field in headers]
        self.transport.write(b"".join([STATUS_LINE[status], *lines, b"connection: close\r\n\r\n", body]))
        self._allow(LINGER_MS)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        else:
            self.transport.close()

    def _should_upgrade(self) -> bool:
        return self._request.refused is None and super()._should_upgrade()

    def _header_too_large(self) -> Refused:
        most = f"{self._settings.max_headers} fields and {self._settings.max_header_size} bytes"
        return Refused(431, InvalidRequest(f"a request's header may have {most}; this one has more"))

    def _body_too_large(self) -> Refused:
        most = self._gate.max_body_size
        error = InvalidRequest(f"a message may have {most} bytes (limits.max_message_size)", max_message_size=most)
        return Refused(413, error)

    def sweep(self, now: float) -> None:
        """Look at the deadline, and whether the peer reads; called for every connection about once a second."""
        unsent = self.transport.get_write_buffer_size()
        if unsent and not self._is_cut:
            self._watch_reading(unsent, now)
            return
        self._unsent = 0
        if now < self._deadline:
            return
        if self._is_cut or self.transport.is_closing():
            self.transport.abort()
        elif not self._in_message:
            self.transport.close()
        elif not (self._is_busy and self._in_head):
            self._request.refused = Refused(408, InvalidRequest("the rest of the request did not come in time"))
            self._deadline = now + LINGER_MS / 1000
            if self._is_busy:
                self._owe_nothing_more()
                self._tell_refused()
            else:
                self._cut()

    def _watch_reading(self, unsent: int, now: float) -> None:
        """Cut a peer off that takes nothing of its answer; a slow one is borne with as long as it takes something."""
        if not 0 < self._unsent <= unsent:
            self._stalled_since = now
        self._unsent = unsent
        if now - self._stalled_since > self._gate.write_timeout_ms / 1000:
            self.transport.abort()

    @property
    def is_stalled(self) -> bool:
        """Whether the peer reads more slowly than is written to it."""
        return self.flow.write_paused

    async def drain(self) -> None:
        """Wait until the peer has read nearly all; cut it off when that takes too long.

        Raises:
            ConnectionResetError: The connection is no more.
        """
        try:
            async with asyncio.timeout(self._gate.write_timeout_ms / 1000):
                await self.flow.drain()
        except TimeoutError:
            self.transport.abort()
            raise ConnectionResetError("the peer reads nothing") from None
        if self.transport.is_closing():
            raise ConnectionResetError("the peer is gone")


def answer_of(refused: Refused) -> tuple[int, Headers, bytes]:
    """Give status, header and body of a refusal: a JSON-RPC error whose id is null."""
    body = jsonrpc.failure(None, refused.error)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        *refused.headers,
    ]
    return refused.status, headers, body
