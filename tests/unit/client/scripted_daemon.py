"""A daemon of paper: it speaks just enough HTTP and JSON lines, and cuts its streams wherever it is told to."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from aios.errors import MethodNotFound

TASK_ID = "task-1"
TOKEN = "right-token"
UNCUT = 10**9
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


class Cut(NamedTuple):
    """Where a stream ends, counted in bytes of the whole HTTP response, and how."""

    after: int
    how: str = "close"
    """close: the socket is closed. reset: the same, with RST. end: the HTTP body is ended properly, as by a daemon that stops."""


class Reply(NamedTuple):
    """What a call is answered with."""

    result: Any = None
    error: dict[str, Any] | None = None
    status: int = 200
    headers: tuple[str, ...] = ()
    content_type: str = "application/json"
    raw: bytes | None = None


def event(kind: str, **data: Any) -> tuple[str, dict[str, Any]]:
    return f"task.{kind}", {"task_id": TASK_ID, "timestamp": "2026-01-05T10:00:00.000Z", **data}


def a_whole_task(between: Iterable[tuple[str, dict[str, Any]]] = ()) -> list[tuple[str, dict[str, Any]]]:
    return [
        event("status", status="working", previous_status="pending", attempt=1),
        *between,
        event("status", status="completed", previous_status="working", attempt=1),
        event("result", result={"answer": 42}, artifacts=[]),
    ]


class ScriptedDaemon:
    """One task with a log, on HTTP (`url`) and on a Unix socket (`socket`)."""

    def __init__(self) -> None:
        self.log: list[tuple[str, dict[str, Any]]] = []
        self.task: dict[str, Any] = {
            "task_id": TASK_ID,
            "status": "completed",
            "created_at": "2026-01-05T10:00:00.000Z",
        }
        self.cuts: list[Cut] = []
        """One for each stream that is opened, in turn; then streams are whole."""
        self.replies: dict[str, list[Reply | str]] = {}
        """Answers to the next calls of a method, before the usual one; `cut` closes the connection without one."""
        self.then: dict[str, Callable[[], Awaitable[None]]] = {}
        """What happens when the last of those was given."""
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.snapshot_at = 0
        """Events up to here were cut away."""
        self.closes_streams = True
        self.hold: asyncio.Event | None = None
        """What answers wait for."""
        self.grown = asyncio.Condition()
        self.connections = 0
        self.writers: set[asyncio.StreamWriter] = set()
        self.url = ""
        self.socket = ""

    async def append(self, *events: tuple[str, dict[str, Any]], **task: Any) -> None:
        """Let something happen to the task."""
        async with self.grown:
            self.log.extend(events)
            self.task |= task
            self.grown.notify_all()

    def calls_of(self, method: str) -> list[dict[str, Any]]:
        return [params for name, params in self.calls if name == method]

    def answer(self, method: str, params: dict[str, Any]) -> Reply | str:
        """Say what a call is answered with."""
        self.calls.append((method, params))
        if self.replies.get(method):
            reply = self.replies[method].pop(0)
            if not self.replies[method] and method in self.then:
                self.happening = asyncio.ensure_future(self.then.pop(method)())
            return reply
        match method:
            case "aios/task.get" | "aios/task.create":
                return Reply({**self.task, "task_id": TASK_ID})
            case "aios/task.subscribe":
                return Reply({"subscription_id": f"sub-{len(self.calls)}", "task_id": TASK_ID})
            case "aios/task.resubscribe":
                after = int(params["last_event_id"].removeprefix("evt-"))
                missed = [{"id": i, "event": k, "data": d} for i, k, d in self.events(after)]
                return Reply({"subscription_id": "sub-again", "task_id": TASK_ID, "missed_events": missed})
            case "aios/ping":
                return Reply({"server_time": "2026-01-05T10:00:00.000Z"})
            case "aios/initialize":
                return Reply({"protocol_version": "0.3.0", "server_info": {}, "capabilities": {}, "session": {}})
            case "aios/task.unsubscribe":
                return Reply({"success": True})
            case "aios/task.input":
                return Reply({"task_id": TASK_ID, "status": "working", "updated_at": "2026-01-05T10:00:00.000Z"})
            case _:
                return Reply(error=MethodNotFound(f"no method {method}").to_wire())

    def events(self, after: int) -> list[tuple[str, str, dict[str, Any]]]:
        """Give what a reader gets after a number, a snapshot in place of what was cut."""
        found: list[tuple[str, str, dict[str, Any]]] = []
        if after < self.snapshot_at:
            data = {"task_id": TASK_ID, "events_lost": True, "task": self.task}
            found, after = [(f"evt-{self.snapshot_at:03d}", "task.snapshot", data)], self.snapshot_at
        return found + [(f"evt-{i:03d}", k, d) for i, (k, d) in enumerate(self.log[after:], after + 1)]

    async def live(self, after: int) -> AsyncIterator[tuple[str, str, dict[str, Any]]]:
        """Give events until the task has ended."""
        while True:
            end = len(self.log)
            for each in self.events(after):
                yield each
            async with self.grown:
                if self.task["status"] in {"completed", "failed", "canceled"} and len(self.log) == end:
                    return
                while len(self.log) == end:
                    await self.grown.wait()
            after = end

    async def stream(self, params: dict[str, Any], answer: bytes) -> AsyncIterator[bytes]:
        yield b": hello\n\nretry: 100\n\nevent: message\ndata: %b\n\n" % answer
        after = 0 if params["from"] == "start" else int(params["from"].removeprefix("evt-"))
        async for event_id, kind, data in self.live(after):
            yield f"event: {kind}\nid: {event_id}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()
            yield b": keep-alive\n\n"

    async def serve_http(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next((int(x[15:]) for x in head.lower().splitlines() if x.startswith("content-length:")), 0)
        message = json.loads(await reader.readexactly(length))
        reply = self.answer(message["method"], message["params"])
        if f"authorization: bearer {TOKEN}" not in head.lower():
            reply = Reply(
                error={
                    "code": -32001,
                    "message": "Permission denied",
                    "data": {"authentication_required": True, "error_id": "AIOS-PERM-DENIED"},
                },
                status=401,
            )
        if self.hold is not None:
            await self.hold.wait()
        if isinstance(reply, str):
            return
        body = _body(message["id"], reply)
        if message["method"] == "aios/task.subscribe" and reply.error is None:
            await self.send_cut(writer, self.stream(message["params"], body))
            return
        fields = "".join(f"{each}\r\n" for each in reply.headers)
        writer.write(
            f"HTTP/1.1 {reply.status} X\r\nContent-Type: {reply.content_type}\r\nContent-Length: {len(body)}\r\n"
            f"Connection: close\r\n{fields}\r\n".encode()
            + body
        )

    async def send_cut(self, writer: asyncio.StreamWriter, parts: AsyncIterator[bytes]) -> None:
        """Send a chunked response, up to the next cut."""
        cut = self.cuts.pop(0) if self.cuts else None
        left = cut.after if cut else UNCUT
        writer.write(STREAM_HEAD[:left])
        left -= len(STREAM_HEAD)
        async for part in parts:
            if cut and cut.how == "end":
                kept = part[: max(left, 0)]
                writer.write(b"%x\r\n%b\r\n" % (len(kept), kept) if kept else b"")
                left -= len(part)
                if left <= 0:
                    writer.write(STREAM_HEAD[cut.after :] + b"0\r\n\r\n")
                    return
                continue
            chunk = b"%x\r\n%b\r\n" % (len(part), part)
            writer.write(chunk[: max(left, 0)])
            left -= len(chunk)
            await writer.drain()
            if left <= 0:
                if cut and cut.how == "reset":
                    writer.transport.abort()
                return
        if self.closes_streams:
            writer.write(b"0\r\n\r\n")

    async def serve_lines(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pumps: list[asyncio.Task[None]] = []
        try:
            while line := await reader.readline():
                message = json.loads(line)
                reply = self.answer(message["method"], message["params"])
                if isinstance(reply, str):
                    return
                if "id" in message:
                    writer.write(_body(message["id"], reply) + b"\n")
                if message["method"] == "aios/task.subscribe" and reply.error is None:
                    pumps.append(
                        asyncio.create_task(self.pump(writer, message["params"], reply.result["subscription_id"]))
                    )
        finally:
            for pump in pumps:
                pump.cancel()

    async def pump(self, writer: asyncio.StreamWriter, params: dict[str, Any], subscription_id: str) -> None:
        after = 0 if params["from"] == "start" else int(params["from"].removeprefix("evt-"))
        cut = self.cuts.pop(0) if self.cuts else None
        sent = 0
        async for event_id, kind, data in self.live(after):
            more = {"event_id": event_id, "subscription_id": subscription_id, **data}
            line = json.dumps({"jsonrpc": "2.0", "method": f"aios/{kind}", "params": more}).encode() + b"\n"
            if cut and sent + len(line) > cut.after:
                writer.write(line[: cut.after - sent])
                await writer.drain()
                writer.transport.abort() if cut.how == "reset" else writer.close()
                return
            sent += len(line)
            writer.write(line)
            await writer.drain()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_http: bool) -> None:
        self.connections += 1
        self.writers.add(writer)
        try:
            await (self.serve_http if is_http else self.serve_lines)(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.writers.discard(writer)
            writer.close()

    def drop_connections(self) -> None:
        for writer in list(self.writers):
            writer.transport.abort()


def _body(number: Any, reply: Reply) -> bytes:
    if reply.raw is not None:
        return reply.raw
    outcome = {"result": reply.result} if reply.error is None else {"error": reply.error}
    return json.dumps({"jsonrpc": "2.0", "id": None if reply.status in {401, 503} else number, **outcome}).encode()


@asynccontextmanager
async def scripted(folder: Path | None = None) -> AsyncGenerator[ScriptedDaemon]:
    """Serve a scripted daemon; with a folder also on a Unix socket there."""
    daemon = ScriptedDaemon()
    http = await asyncio.start_server(lambda r, w: daemon.accept(r, w, is_http=True), "127.0.0.1", 0)
    servers: list[asyncio.Server] = [http]
    daemon.url = f"http://127.0.0.1:{http.sockets[0].getsockname()[1]}"
    if folder is not None:
        daemon.socket = f"unix:{folder}/aios.sock"
        servers.append(
            await asyncio.start_unix_server(lambda r, w: daemon.accept(r, w, is_http=False), f"{folder}/aios.sock")
        )
    try:
        yield daemon
    finally:
        for server in servers:
            server.close()
        daemon.drop_connections()
