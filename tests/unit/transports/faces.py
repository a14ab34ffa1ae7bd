"""What the doors' own tests put in place of the service, and a peer that writes bytes."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import msgspec

from aios.config import Config, DuplexSection, HttpSection
from aios.service.call import Principal
from aios.service.connection import Connection, Reply
from aios.service.dispatcher import Service
from aios.service.key import Keys
from aios.transports.http import HttpDoor
from aios.transports.http_server import HttpServer
from aios.transports.listening import listen_tcp
from aios.transports.websocket import WebSocketDoor

TOKEN = "a-token-of-forty-characters-for-the-tests"
AUTHORIZED = f"Authorization: Bearer {TOKEN}\r\n"
PING = b'{"jsonrpc":"2.0","id":1,"method":"aios/ping"}'

Receive = Callable[["FakeConnection", bytes], Awaitable[Reply | None]]


class FakeConnection:
    def __init__(self, principal: Principal | None, send: Any) -> None:
        self.principal = principal
        self.send = send
        self.session: Any = object()
        self.transport = "fake"

    async def close(self) -> None:
        return


async def echo(connection: FakeConnection, body: bytes) -> Reply | None:
    return Reply(msgspec.json.encode({"size": len(body), "user": connection.principal and connection.principal.user}))


class FakeService:
    """Answers what `receive` says, by default the size of what came in."""

    def __init__(self, receive: Receive = echo) -> None:
        self.keys = Keys(TOKEN, -1)
        self.connections: list[dict[str, Any]] = []
        self._receive = receive

    def connect(self, principal: Principal | None, *, send: Any = None, **about: Any) -> Connection:
        self.connections.append(about)
        return cast("Connection", FakeConnection(principal, send))

    async def receive(self, connection: Any, body: bytes) -> Reply | None:
        return await self._receive(connection, body)


@asynccontextmanager
async def http_door(
    receive: Receive = echo, *, settings: HttpSection | None = None, max_message_size: int = 1 << 20, **duplex: int
) -> AsyncGenerator[tuple[HttpServer, FakeService]]:
    """An HTTP door with WebSocket before a fake service, on a free port."""
    settings = settings or HttpSection()
    config = Config(http=settings, duplex=DuplexSection(**duplex))
    fake = FakeService(receive)
    service = cast("Service", fake)
    listener = await listen_tcp("127.0.0.1", 0, door="http", tls=config.tls)
    websocket = WebSocketDoor(service=service, settings=config.duplex, is_draining=lambda: server.is_draining)
    door = HttpDoor(service=service, max_streams=settings.max_streams, unready=lambda: None, websocket=websocket)
    server = HttpServer(listener, door=door, settings=settings, duplex=config.duplex, max_message_size=max_message_size)
    await server.start()
    try:
        yield server, fake
    finally:
        await server.stop(1_000)


class Answer(msgspec.Struct):
    """An HTTP answer."""

    status: int
    fields: dict[str, str]
    body: bytes

    @property
    def error(self) -> Any:
        """Of the JSON-RPC answer in the body, whose id must be null."""
        answer = msgspec.json.decode(self.body)
        assert answer["id"] is None
        return answer["error"]


class Peer:
    """Writes bytes to the door and reads its answers; nothing waits longer than ten seconds."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def write(self, data: bytes | str) -> None:
        self.writer.write(data.encode() if isinstance(data, str) else data)

    async def answer(self) -> Answer:
        async with asyncio.timeout(10):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.strip().split("\r\n")
            fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            body = await self.reader.readexactly(int(fields.get("content-length", "0")))
        return Answer(int(first.split()[1]), fields, body)

    async def is_closed(self) -> bool:
        """Wait until the door has closed the connection; what it still wrote is thrown away."""
        async with asyncio.timeout(10):
            try:
                while await self.reader.read(65536):
                    continue
            except ConnectionError:
                return True
        return True


@asynccontextmanager
async def peer_of(server: HttpServer) -> AsyncGenerator[Peer]:
    port = re.findall(r"\d+", server.url)[-1]
    reader, writer = await asyncio.open_connection("127.0.0.1", int(port))
    try:
        yield Peer(reader, writer)
    finally:
        writer.close()


def post(
    body: bytes = PING, *, fields: str = AUTHORIZED, host: str = "localhost", kind: str = "application/json"
) -> bytes:
    """A POST of a body."""
    return (
        f"POST /aios/rpc HTTP/1.1\r\nHost: {host}\r\nContent-Type: {kind}\r\n{fields}Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body
