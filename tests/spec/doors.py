"""A small raw client for each of the five doors, so that one test can be run on all of them.

They are written against protocol.md alone and share nothing with `aios.client`: what that one gets wrong on both sides would
otherwise pass.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Protocol
from urllib.parse import urlsplit

import msgspec
import websockets

from aios.testing.connected import Connected

PATIENCE_S = 20
NAMES = ("http", "websocket", "unix", "tcp", "stdio")
DUPLEX = ("websocket", "unix", "tcp", "stdio")

Message = dict[str, Any]


def call(id: Any, method: str, params: Any = None) -> Message:
    """A request."""
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": {} if params is None else params}


class Door(Protocol):
    """One way to the daemon."""

    name: str

    async def send(self, body: bytes) -> None:
        """Send bytes as one message."""
        ...

    async def next(self) -> Any:
        """Give the next message that came, decoded. Raises: EOFError when the daemon has closed the connection."""
        ...

    async def half(self) -> None:
        """Send half a message."""
        ...

    async def close(self) -> None:
        """Go away without a word."""
        ...


class Caller:
    """Calls over a door: tells answers from notifications."""

    def __init__(self, door: Door) -> None:
        self.door = door
        self.told: deque[Message] = deque()
        """Notifications that came while an answer was waited for."""

    async def ask(self, message: Any) -> Any:
        """Send a message, or bytes, and give the answer."""
        await self.door.send(message if isinstance(message, bytes) else msgspec.json.encode(message))
        return await self.answer()

    async def answer(self) -> Any:
        """Give the next message that is no notification."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                message = await self.door.next()
                if "method" not in message:
                    return message
                self.told.append(message)

    async def notification(self) -> Message:
        """Give the next notification."""
        if self.told:
            return self.told.popleft()
        async with asyncio.timeout(PATIENCE_S):
            message = await self.door.next()
        assert "method" in message, message
        return message

    async def result(self, method: str, params: Any = None) -> Any:
        """Call a method and give its result."""
        answer = await self.ask(call(1, method, params))
        assert "result" in answer, answer
        return answer["result"]

    async def error(self, method: str, params: Any = None) -> Any:
        """Call a method and give its error."""
        answer = await self.ask(call(1, method, params))
        assert "error" in answer, answer
        return answer["error"]

    async def events(self) -> list[tuple[str, str, Message]]:
        """Give a task's events up to the last, as `(event_id, kind, data)`."""
        seen: list[tuple[str, str, Message]] = []
        while not seen or not is_last(*seen[-1][1:]):
            message = await self.notification()
            params = dict(message["params"])
            params.pop("subscription_id", None)
            seen.append((params.pop("event_id"), message["method"].removeprefix("aios/"), params))
        return seen


def is_last(kind: str, data: Message) -> bool:
    """Whether a task tells nothing after this event."""
    return kind in {"task.result", "task.error"} or (kind == "task.status" and data["status"] == "canceled")


class HttpDoor:
    """Each message one POST; what an event stream brings is queued as if it were notifications."""

    name = "http"

    def __init__(self, daemon: Connected, token: str | None) -> None:
        self._daemon = daemon
        self._token = token
        self._inbox: asyncio.Queue[Any] = asyncio.Queue()
        self._posts: set[asyncio.Task[None]] = set()
        self.statuses: list[int] = []

    async def send(self, body: bytes) -> None:
        """See `Door`."""
        post = asyncio.create_task(self._post(body))
        self._posts.add(post)
        post.add_done_callback(self._posts.discard)

    async def next(self) -> Any:
        """See `Door`."""
        message = await self._inbox.get()
        if isinstance(message, EOFError):
            raise message
        return message

    async def half(self) -> None:
        """See `Door`."""
        self._posts.add(asyncio.create_task(self._half()))

    async def _half(self) -> None:
        place = urlsplit(self._daemon.url)
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        writer.write(f"POST /aios/rpc HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Le".encode())
        self.statuses.append((await read_head(reader))[0])
        await reader.read()
        writer.close()
        self._inbox.put_nowait(EOFError())

    async def close(self) -> None:
        """See `Door`."""
        for post in list(self._posts):
            post.cancel()
        await asyncio.gather(*self._posts, return_exceptions=True)

    async def _post(self, body: bytes) -> None:
        place = urlsplit(self._daemon.url)
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        credential = f"Authorization: Bearer {self._token}\r\n" if self._token is not None else ""
        kind = "text/event-stream" if b"subscribe" in body or b'"stream":true' in body else "application/json"
        writer.write(
            f"POST /aios/rpc HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Type: application/json\r\nAccept: {kind}\r\n"
            f"{credential}Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        try:
            status, fields = await read_head(reader)
            self.statuses.append(status)
            if fields.get("content-type") == "text/event-stream":
                async for frame in frames(chunks(reader)):
                    self._inbox.put_nowait(_as_message(frame))
            elif (length := int(fields["content-length"])) > 0:
                self._inbox.put_nowait(msgspec.json.decode(await reader.readexactly(length)))
        finally:
            writer.close()


def _as_message(frame: Message) -> Any:
    if frame["event"] == "message":
        return msgspec.json.decode(frame["data"])
    data = msgspec.json.decode(frame["data"])
    return {"method": f"aios/{frame['event']}", "params": {**data, "event_id": frame["id"]}}


async def read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    """Read status and fields of an HTTP answer."""
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").strip().split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return int(first.split()[1]), {name.lower(): value.strip() for name, _, value in pairs}


async def chunks(reader: asyncio.StreamReader) -> AsyncGenerator[bytes]:
    """Read a chunked body."""
    while size := int(await reader.readline(), 16):
        yield (await reader.readexactly(size + 2))[:-2]


async def frames(body: AsyncGenerator[bytes]) -> AsyncGenerator[Message]:
    """Read server-sent events as the HTML standard says; comments and `retry` are left out."""
    rest, frame = b"", dict[str, str]()
    async for chunk in body:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            name, _, value = line.decode().partition(":")
            if name:
                frame[name] = value.removeprefix(" ")
            elif "data" in frame:
                yield frame
                frame = {}
            elif not line:
                frame = {}


class WebSocketDoor:
    """One text frame a message."""

    name = "websocket"

    def __init__(self, socket: websockets.ClientConnection) -> None:
        self._socket = socket

    async def send(self, body: bytes) -> None:
        """See `Door`."""
        await self._socket.send(body, text=True)

    async def next(self) -> Any:
        """See `Door`."""
        try:
            return msgspec.json.decode(await self._socket.recv())
        except websockets.ConnectionClosed as closed:
            raise EOFError from closed

    async def half(self) -> None:
        """See `Door`."""
        # A frame of a hundred bytes of which one comes.
        self._socket.transport.write(b"\x81\xe4\x00\x00\x00\x00{")

    async def close(self) -> None:
        """See `Door`."""
        self._socket.transport.abort()


class LineDoor:
    """One line a message."""

    def __init__(self, name: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.name = name
        self._reader = reader
        self._writer = writer

    async def send(self, body: bytes) -> None:
        """See `Door`."""
        self._writer.write(body + b"\n")
        await self._writer.drain()

    async def next(self) -> Any:
        """See `Door`."""
        try:
            line = await self._reader.readline()
        except ConnectionError as error:
            raise EOFError from error
        if not line:
            raise EOFError
        return msgspec.json.decode(line)

    async def half(self) -> None:
        """See `Door`."""
        self._writer.write(b'{"jsonrpc":')

    async def close(self) -> None:
        """See `Door`."""
        self._writer.transport.abort()


class StdioDoor:
    """`Content-Length` framing over two pipes."""

    name = "stdio"

    def __init__(self, reader: asyncio.StreamReader, stdin: int) -> None:
        self._reader = reader
        self._stdin = stdin

    async def send(self, body: bytes) -> None:
        """See `Door`."""
        await self.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    async def write(self, data: bytes) -> None:
        """Write bytes as they are."""
        await asyncio.to_thread(_write_all, self._stdin, data)

    async def next(self) -> Any:
        """See `Door`."""
        try:
            head = await self._reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as end:
            raise EOFError from end
        fields = dict(line.split(": ") for line in head.decode().strip().split("\r\n"))
        return msgspec.json.decode(await self._reader.readexactly(int(fields["Content-Length"])))

    async def half(self) -> None:
        """See `Door`."""
        await self.write(b"Content-Length: 100\r\n\r\n{")

    async def line(self) -> str:
        """Give the next line, where the door was spoken to in lines."""
        async with asyncio.timeout(PATIENCE_S):
            return (await self._reader.readline()).decode()

    async def close(self) -> None:
        """See `Door`."""


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


async def open_door(name: str, daemon: Connected, *, token: str | None) -> Door:
    """Go to a door. Over WebSocket the token goes into the header, over TCP into the handshake."""
    limit = 64 * 1024 * 1024
    if name == "http":
        return HttpDoor(daemon, token)
    if name == "websocket":
        fields = {} if token is None else {"Authorization": f"Bearer {token}"}
        return WebSocketDoor(
            await websockets.connect(
                daemon.websocket_url, additional_headers=fields, max_size=limit, proxy=None, compression=None
            )
        )
    if name == "unix":
        return LineDoor(name, *await asyncio.open_unix_connection(daemon.socket_path, limit=limit))
    if name == "tcp":
        place = urlsplit(daemon.tcp_url)
        return LineDoor(name, *await asyncio.open_connection(place.hostname, place.port, limit=limit))
    reader = asyncio.StreamReader(limit=limit)
    pipe = os.fdopen(os.dup(daemon.stdout), "rb", buffering=0)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return StdioDoor(reader, daemon.stdin)


def initialize(name: str, token: str | None) -> Message:
    """The handshake, with the credential where the door has no header for it."""
    params: Message = {"protocol_version": "0.3.0", "client_info": {"name": "spec", "version": "1"}}
    if name == "tcp" and token is not None:
        params["authentication"] = {"type": "bearer", "token": token}
    return call("init", "aios/initialize", params)


@asynccontextmanager
async def caller(
    name: str, daemon: Connected, *, handshake: bool = True, token: str | None = ""
) -> AsyncGenerator[Caller]:
    """A caller at a door, introduced where that is needed; with the daemon's own token unless it is given another or none."""
    door = await open_door(name, daemon, token=daemon.token if token == "" else token)
    try:
        made = Caller(door)
        if handshake and name != "http":
            answer = await made.ask(initialize(name, daemon.token))
            assert "result" in answer, answer
        yield made
    finally:
        await door.close()
