"""The HTTP door: `POST /aios/rpc`, event streams, artifacts, health and metrics, as one ASGI application (protocol.md §2).

What reaches the service is a body and a principal; everything that speaks of HTTP is settled here. `POST /aios/rpc` is looked at
first and goes the shortest way.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

import structlog

from aios.errors import AuthenticationRequired, InternalError, InvalidRequest, NotFound, ResourceBusy
from aios.service.call import Principal
from aios.service.connection import Connection, Reply
from aios.service.dispatcher import Service
from aios.service.handshake import EXTENSIONS
from aios.service.subscriptions import Subscription
from aios.transports.admission import Fields, Headers, Refused, credential, unauthorized
from aios.transports.http_guard import RETRY_AFTER, Incoming, answer_of
from aios.transports.sse import EventStream, Send

RPC = "/aios/rpc"
GRACE_MS = 5_000
"""How long a call goes on after its caller has gone: enough for what was asked in passing, and no wait for ever."""
REQUEST_ID_SIZE_MAX = 128
JSON = (b"content-type", b"application/json")

_log = structlog.get_logger("aios.http")

Receive = Callable[[], Awaitable[dict[str, Any]]]
Scope = dict[str, Any]


class Visit:
    """One request on its way through the door."""

    __slots__ = ("headers", "incoming", "path", "receive", "scope", "send")

    def __init__(self, scope: Scope, receive: Receive, send: Send, headers: Headers) -> None:
        self.scope = scope
        self.receive = receive
        self.send = send
        self.incoming: Incoming = scope["extensions"]["aios"]
        self.headers = headers
        """Fields that every answer to this request has."""
        self.path: list[str] = []

    @property
    def fields(self) -> Fields:
        """The request's header."""
        return self.incoming.fields

    async def body(self) -> bytes:
        """Read the whole body.

        Raises:
            Refused: It is too long, or did not come in time.
            ConnectionResetError: The caller is gone.
        """
        parts: list[bytes] = []
        while True:
            message = await self.receive()
            if self.incoming.refused is not None:
                raise self.incoming.refused
            if message["type"] != "http.request":
                raise ConnectionResetError("the caller is gone")
            if not message["more_body"]:
                return message["body"] if not parts else b"".join([*parts, message["body"]])
            parts.append(message["body"])

    async def answer(self, status: int, headers: Headers, body: bytes) -> None:
        """Write a whole answer."""
        fields = [*headers, *self.headers]
        if status != 204:
            fields.append((b"content-length", b"%d" % len(body)))
        await self.send({"type": "http.response.start", "status": status, "headers": fields})
        await self.send({"type": "http.response.body", "body": body})

    async def refuse(self, refused: Refused) -> None:
        """Write the door's own answer."""
        status, headers, body = answer_of(refused)
        await self.send({"type": "http.response.start", "status": status, "headers": [*headers, *self.headers]})
        await self.send({"type": "http.response.body", "body": body})


Page = Callable[[Visit, Any], Awaitable[None]]
"""Answers a GET; its second argument is the principal, or None at a page that needs no credential."""


class HttpDoor:
    """The application.

    Args:
        service: Whom all calls go to.
        max_streams: Event streams open at once; past it callers are told to come again, nobody is thrown out.
        unready: Why the daemon takes no requests now; None: it does.
        websocket: What takes a connection that changes to WebSocket.
    """

    def __init__(
        self,
        *,
        service: Service,
        max_streams: int,
        unready: Callable[[], str | None],
        websocket: Callable[[Scope, Receive, Send], Awaitable[None]],
    ) -> None:
        self._service = service
        self._max_streams = max_streams
        self._unready = unready
        self._websocket = websocket
        self._pages: dict[str, tuple[Page, bool]] = {}
        self._request_ids = count(1)
        self._request_prefix = f"req-{secrets.token_hex(6)}-".encode()
        self.is_draining = False
        self.streams: set[EventStream] = set()

    def add_page(self, pattern: str, page: Page, *, is_open: bool = False) -> None:
        """Put something at a path to be read by GET; `*` stands for one segment, found in `Visit.path`.

        One that `is_open` needs no credential.
        """
        self._pages[pattern] = (page, is_open)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; nothing that goes wrong here reaches the server beneath."""
        if scope["type"] != "http":
            await self._websocket(scope, receive, send)
            return
        visit = Visit(scope, receive, send, self.headers(scope["extensions"]["aios"].fields))
        try:
            if scope["path"] == RPC:
                await self._rpc(visit)
            else:
                await self._get(visit)
        except Refused as refused:
            await visit.refuse(refused)
        except ConnectionResetError:
            return
        except Exception:
            await visit.refuse(failed(scope["path"]))

    def admit_call(self, fields: Fields) -> Principal:
        """Look at the header of a call, before its body comes. Raises: Refused."""
        _check_content(fields)
        principal = self.authenticate(fields)
        if self.is_draining:
            raise _busy("the daemon is stopping")
        return principal

    async def call(self, principal: Principal, fields: Fields, body: bytes) -> tuple[int, bytes]:
        """Carry out a call whose answer is one body; gives that and its status."""
        reply = await self._service.receive(self._connect(principal, fields), body)
        if reply is None or not reply.body:
            return 202, b""
        return 400 if reply.is_unreadable else 200, reply.body

    async def _rpc(self, visit: Visit) -> None:
        if visit.scope["method"] != "POST":
            raise _not_allowed(b"POST")
        principal = self.admit_call(visit.fields)
        body = await visit.body()
        if wants_stream(visit.fields):
            await self._rpc_stream(visit, principal, body)
        else:
            status, answer = await self.call(principal, visit.fields, body)
            await visit.answer(status, [JSON] if answer else [], answer)

    async def _rpc_stream(self, visit: Visit, principal: Principal, body: bytes) -> None:
        """Answer as events: notifications, the answer, then what the subscriptions that it made bring."""
        stream = self.stream(visit)
        connection = self._connect(principal, visit.fields, send=stream.message)

        async def work() -> None:
            reply = await self._received(connection, body)
            if not stream.is_open and (reply is None or reply.is_unreadable):
                await visit.answer(400 if reply else 202, [JSON] if reply else [], reply.body if reply else b"")
            elif reply is not None:
                await stream.message(reply.body)
                if len(reply.subscriptions) == 1:
                    await self._pump(stream, reply.subscriptions[0])
                elif reply.subscriptions:
                    async with asyncio.TaskGroup() as pumps:
                        for subscription in reply.subscriptions:
                            pumps.create_task(self._pump(stream, subscription))

        await self.run(stream, work)

    async def _received(self, connection: Connection, body: bytes) -> Reply | None:
        """Let the service work; after the caller has gone it may go on for a while."""
        working = asyncio.ensure_future(self._service.receive(connection, body))
        try:
            return await asyncio.shield(working)
        except asyncio.CancelledError:
            asyncio.get_running_loop().call_later(GRACE_MS / 1000, working.cancel)
            raise

    async def _pump(self, stream: EventStream, subscription: Subscription) -> None:
        try:
            await stream.follow(self._service.subscriptions.follow(subscription))
        except ConnectionResetError:
            return

    def _connect(self, principal: Principal, fields: Fields, send: Any = None) -> Connection:
        return self._service.connect(
            principal,
            transport="http",
            is_duplex=False,
            send=send,
            session_id=_text(fields.get(b"aios-session-id")),
            version=_text(fields.get(b"aios-version")),
        )

    async def _get(self, visit: Visit) -> None:
        page, is_open = self._find(visit)
        if visit.scope["method"] not in {"GET", "HEAD"}:
            raise _not_allowed(b"GET, HEAD")
        await page(visit, None if is_open else self.authenticate(visit.fields))

    def _find(self, visit: Visit) -> tuple[Page, bool]:
        path = visit.scope["path"]
        if (found := self._pages.get(path)) is not None:
            return found
        segments = path.split("/")
        for pattern, found in self._pages.items():
            wanted = pattern.split("/")
            if len(wanted) == len(segments) and all(
                want in {"*", segment} for want, segment in zip(wanted, segments, strict=True)
            ):
                visit.path = [segment for want, segment in zip(wanted, segments, strict=True) if want == "*"]
                return found
        raise Refused(404, NotFound(f"there is nothing here; calls go to POST {RPC}"))

    def authenticate(self, fields: Fields) -> Principal:
        """Say who asks. Raises: Refused, 401."""
        try:
            return self._service.keys.authenticate(credential(fields))
        except AuthenticationRequired as error:
            raise unauthorized(error.detail) from error

    def stream(self, visit: Visit) -> EventStream:
        """Make the stream that answers a request. Raises: Refused, 503 when there are too many or the daemon stops."""
        if self.is_draining:
            raise _busy("the daemon is stopping")
        if len(self.streams) >= self._max_streams:
            raise _busy(f"{self._max_streams} event streams are open (http.max_streams)")
        return EventStream(wire=visit.incoming.wire, send=visit.send, headers=visit.headers)

    async def run(self, stream: EventStream, work: Callable[[], Awaitable[None]]) -> None:
        """Do the work of a stream while it is counted, kept alive, and ended when the daemon stops."""
        self.streams.add(stream)
        try:
            await stream.run(work)
        finally:
            self.streams.discard(stream)

    def unready(self) -> str | None:
        """Why the daemon is not ready to be called; None if it is."""
        return "the daemon is stopping" if self.is_draining else self._unready()

    def headers(self, fields: Fields) -> Headers:
        """Give the fields that every answer to such a request has: its id, or one of ours, and its extensions that we know."""
        given = fields.get(b"aios-request-id")
        if not given or len(given) > REQUEST_ID_SIZE_MAX or not given.isascii():
            given = b"%b%d" % (self._request_prefix, next(self._request_ids))
        headers = [(b"aios-request-id", given)]
        if b"aios-extensions" in fields:
            asked = {each.strip() for each in fields[b"aios-extensions"].decode("latin-1").split(",")}
            known = ", ".join(each for each in EXTENSIONS if each in asked)
            headers.append((b"aios-extensions", known.encode()))
        return headers


def failed(path: str) -> Refused:
    """Log the exception at hand, and make the answer that tells nothing of it but where to look."""
    trace_id = secrets.token_hex(8)
    _log.exception("request failed", trace_id=trace_id, path=path)
    sentence = "something went wrong that nobody foresaw; the daemon's log has it under this trace_id"
    return Refused(500, InternalError(sentence, trace_id=trace_id), (b"connection", b"close"))


def wants_stream(fields: Fields) -> bool:
    """Whether the caller wants the answer as events."""
    return b"text/event-stream" in fields.get(b"accept", b"")


def _check_content(fields: Fields) -> None:
    """Raises: Refused, 415, for a body that is not plain UTF-8 JSON."""
    kind = fields.get(b"content-type", b"")
    if kind != b"application/json":
        media, *parameters = (part.strip().lower() for part in kind.split(b";"))
        if media != b"application/json":
            raise Refused(415, InvalidRequest("send Content-Type: application/json"))
        for parameter in parameters:
            name, _, value = parameter.partition(b"=")
            if name == b"charset" and value.strip(b'"') not in {b"utf-8", b"utf8"}:
                raise Refused(415, InvalidRequest("JSON is UTF-8; no other charset is read"))
    if fields.get(b"content-encoding", b"identity").lower() != b"identity":
        raise Refused(415, InvalidRequest("a compressed body is not read; send it without Content-Encoding"))


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("latin-1")


def _not_allowed(methods: bytes) -> Refused:
    return Refused(405, InvalidRequest(f"only {methods.decode()} here"), (b"allow", methods))


def _busy(reason: str) -> Refused:
    return Refused(503, ResourceBusy(reason), RETRY_AFTER)
