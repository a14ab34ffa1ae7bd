"""Calls and event streams as bytes on sockets: quick, and without anything that would mend a broken connection.

A call ends in one of three ways: it has a result, it is `Refused`, or it is `Lost` (the reply did not come, so nobody knows what
became of it). A daemon that cannot be reached at all has never heard of the call: `Unsent`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any, NamedTuple

ANSWER_S = 20.0
"""How long a daemon that lives may take for an answer."""
SIZE_MAX = 8 * 1024 * 1024

Json = dict[str, Any]


class Lost(Exception):
    """The connection broke before the reply came."""


class Unsent(Exception):
    """There was nobody to call."""


class Refused(Exception):
    """The daemon answered with an error."""

    def __init__(self, error: Json) -> None:
        super().__init__(json.dumps(error))
        self.error = error
        self.code: int = error["code"]


class Frame(NamedTuple):
    """One server-sent event."""

    event: str
    id: str
    data: bytes


class Http:
    """One kept connection; made when it is needed, made anew when it broke."""

    def __init__(self, port: int, token: str) -> None:
        self._port = port
        self._fields = f"Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n"
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._id = 0

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def call(self, method: str, params: Json) -> Any:
        """Call. Raises: Refused, Lost, Unsent."""
        self._id += 1
        status, body = await self.post({"jsonrpc": "2.0", "id": self._id, "method": method, "params": params})
        if status == 503:
            # The door itself has refused it: the daemon is stopping.
            raise Unsent
        return _result(json.loads(body), self._id)

    async def batch(self, method: str, many: list[Json]) -> list[Any]:
        """Make calls of one method together; a refused one gives its error."""
        calls = [{"jsonrpc": "2.0", "id": number, "method": method, "params": each} for number, each in enumerate(many)]
        _, body = await self.post(calls)
        answers = {answer["id"]: answer for answer in json.loads(body)}
        return [answers[number].get("result", answers[number].get("error")) for number in range(len(many))]

    async def post(self, message: Any) -> tuple[int, bytes]:
        """Post a message; gives status and body. Raises: Lost, Unsent."""
        return await self._request(
            "POST", "/aios/rpc", json.dumps(message).encode(), "Content-Type: application/json\r\n"
        )

    async def get(self, path: str) -> tuple[int, bytes]:
        """Get a page. Raises: Lost, Unsent."""
        return await self._request("GET", path, b"", "")

    async def _request(self, verb: str, path: str, body: bytes, fields: str) -> tuple[int, bytes]:
        reader, writer = await self._connected()
        try:
            head = f"{verb} {path} HTTP/1.1\r\n{self._fields}{fields}Content-Length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
            async with asyncio.timeout(ANSWER_S):
                status, headers = await _head(reader)
                return status, await reader.readexactly(int(headers.get("content-length", "0")))
        except (OSError, EOFError) as error:
            self.close()
            raise Lost from error
        except BaseException:
            self.close()
            raise

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is None or self._streams[0].at_eof():
            self.close()
            self._streams = await _connect(self._port)
        return self._streams

    async def events(
        self, path: str, *, last_event_id: str | None = None, message: Json | None = None
    ) -> AsyncGenerator[Frame]:
        """Read a stream of events on a connection of its own, to its proper end.

        Args:
            path: What to get, where there is no message.
            last_event_id: Go on after this event.
            message: Post this call and have its answer and events as a stream.

        Raises:
            Lost: The stream broke off.
            Refused: There is none.
        """
        reader, writer = await _connect(self._port)
        try:
            body = b"" if message is None else json.dumps(message).encode()
            again = f"Last-Event-ID: {last_event_id}\r\n" if last_event_id else ""
            start = f"GET {path}" if message is None else "POST /aios/rpc"
            fields = f"{self._fields}{again}Accept: text/event-stream\r\nContent-Type: application/json\r\n"
            writer.write(f"{start} HTTP/1.1\r\n{fields}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            status, headers = await _head(reader)
            if status == 204:
                return
            if status != 200:
                text = await reader.readexactly(int(headers.get("content-length", "0")))
                if status == 503:
                    raise Unsent
                assert text.startswith(b"{"), f"{start} was answered with {status}, {headers}: {text[:200]!r}"
                raise Refused(json.loads(text)["error"])
            async for frame in _frames(reader):
                yield frame
        except (OSError, EOFError) as error:
            raise Lost from error
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


async def _connect(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    try:
        return await asyncio.open_connection("127.0.0.1", port, limit=SIZE_MAX)
    except OSError as error:
        raise Unsent from error


async def _head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    start, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    fields = dict(line.lower().split(": ", 1) for line in lines if line)
    return int(start.split(" ")[1]), fields


async def _frames(reader: asyncio.StreamReader) -> AsyncGenerator[Frame]:
    """Take frames out of a chunked body."""
    rest = b""
    while size := int(await reader.readline() or _end(), 16):
        rest += await reader.readexactly(size)
        await reader.readexactly(2)
        *frames, rest = rest.split(b"\n\n")
        for frame in frames:
            fields = dict(line.split(b": ", 1) for line in frame.split(b"\n") if not line.startswith(b":"))
            if b"data" in fields:
                yield Frame(fields[b"event"].decode(), fields.get(b"id", b"").decode(), fields[b"data"])


def _end() -> bytes:
    raise EOFError


def _result(answer: Json, id: int) -> Any:
    assert answer["id"] == id, answer
    if "error" in answer:
        raise Refused(answer["error"])
    return answer["result"]


class Lines:
    """A connection to the Unix socket: calls, and the notifications that come between their answers."""

    def __init__(self) -> None:
        self.notes: asyncio.Queue[Json | None] = asyncio.Queue(100_000)
        """Notifications; None when there will be no more."""
        self._waiting: dict[int, asyncio.Future[Json]] = {}
        self._reading: asyncio.Task[None] | None = None
        self._writer: asyncio.StreamWriter
        self._id = 0

    async def open(self, path: str) -> None:
        """Connect and shake hands. Raises: Lost, Unsent."""
        try:
            reader, self._writer = await asyncio.open_unix_connection(path, limit=SIZE_MAX)
        except OSError as error:
            raise Unsent from error
        self._reading = asyncio.create_task(self._read(reader))
        await self.call(
            "aios/initialize",
            {"protocol_version": "0.3.0", "client_info": {"name": "faults", "version": "1"}, "capabilities": {}},
        )

    async def close(self) -> None:
        if self._reading is not None:
            self._writer.close()
            self._reading.cancel()
            await asyncio.wait({self._reading})

    async def call(self, method: str, params: Json) -> Any:
        """Call. Raises: Refused, Lost."""
        if self._reading is None or self._reading.done():
            raise Lost
        self._id += 1
        future = self._waiting[self._id] = asyncio.get_running_loop().create_future()
        message = {"jsonrpc": "2.0", "id": self._id, "method": method, "params": params}
        self._writer.write(json.dumps(message).encode() + b"\n")
        async with asyncio.timeout(ANSWER_S):
            return _result(await future, self._id)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while line := await reader.readline():
                message = json.loads(line)
                if "method" in message:
                    self.notes.put_nowait(message)
                else:
                    self._waiting.pop(message["id"]).set_result(message)
        except OSError:
            pass
        except json.JSONDecodeError:
            # The daemon died in the middle of a line.
            pass
        finally:
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(Lost())
            self.notes.put_nowait(None)
