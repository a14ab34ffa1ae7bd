"""A running daemon on which a test puts code of its own, and steers and follows it through the doors alone.

The code is an `async def` inside the test, so that what it does and what must come of it stand side by side:

    async def code(arguments: Arguments, ctx: Context) -> Any:
        return {"answer": await ctx.ask("Go on?")}

    task_id = await stage.create(code)
    await stage.reach(task_id, "input_required")
    await stage.call("aios/task.input", task_id=task_id, input="yes")
    assert (await stage.end(task_id))[-1].data["result"] == {"answer": "yes"}

It runs on the daemon's lanes, in other threads: a `Gate` is how a test and such code wait for each other.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from aios.adapter import Context
from aios.testing.adapters import ScriptedAdapter
from aios.testing.connected import Connected, connected
from tests.spec.doors import PATIENCE_S, Caller, Message, call, caller, chunks, frames, is_last, read_head

Arguments = dict[str, Any]
Code = Callable[[Arguments, Context], Awaitable[Any]]

CAPABILITY = "spec.code"
"""Runs the code that the argument `code` names."""
BLOCKING = "spec.blocking"
"""The same, for code that blocks its event loop: the daemon keeps a capability apart once it was seen to do that."""
ONCE = "spec.once"
"""The same, but of the kind that must not run twice (`on_crash: fail`)."""
OTHER = "spec.other"
"""The same, of another adapter."""


class Gate:
    """Something that code waits for until the test opens it, or the other way round; over threads and loops."""

    def __init__(self) -> None:
        self._opened = threading.Event()
        self._lock = threading.Lock()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    @property
    def is_open(self) -> bool:
        """Whether it was opened."""
        return self._opened.is_set()

    def open(self) -> None:
        """Let everyone through, from now on."""
        with self._lock:
            self._opened.set()
            waiting, self._waiting = self._waiting, []
        for loop, future in waiting:
            loop.call_soon_threadsafe(_resolve, future)

    async def passed(self) -> None:
        """Wait until it is open."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if self._opened.is_set():
                return
            future: asyncio.Future[None] = loop.create_future()
            self._waiting.append((loop, future))
        try:
            await future
        finally:
            with self._lock:
                self._waiting = [waiter for waiter in self._waiting if waiter[1] is not future]

    def block(self) -> None:
        """Wait until it is open, and let nothing else run on this thread meanwhile."""
        assert self._opened.wait(PATIENCE_S), "nobody opened the gate"


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class Event(msgspec.Struct, frozen=True):
    """An event as a follower got it."""

    id: str
    kind: str
    data: Message

    @property
    def number(self) -> int:
        """Its number inside the task."""
        return int(self.id.removeprefix("evt-"))

    @property
    def status(self) -> str | None:
        """The status that it tells, if it tells one."""
        return str(self.data["status"]) if self.kind == "task.status" else None


class Follower:
    """A task's events over one event stream."""

    def __init__(self, body: AsyncGenerator[Message]) -> None:
        self._body = body
        self.seen: list[Event] = []

    async def next(self) -> Event | None:
        """Wait for the next event; None when the stream has ended."""
        async with asyncio.timeout(PATIENCE_S):
            frame = await anext(self._body, None)
        if frame is None:
            return None
        event = Event(id=frame["id"], kind=frame["event"], data=msgspec.json.decode(frame["data"]))
        self.seen.append(event)
        return event

    async def until(self, kind: str, **data: Any) -> Event:
        """Read on to the next event of a kind whose data have these members."""
        while (event := await self.next()) is not None:
            if event.kind == kind and data.items() <= event.data.items():
                return event
        raise AssertionError(f"no {kind} with {data} among {self.seen}")

    async def rest(self) -> list[Event]:
        """Read to the end; gives all that was seen."""
        while await self.next() is not None:
            pass
        return self.seen


class Stage:
    """The daemon, and the code that tests have put on it."""

    def __init__(self, daemon: Connected, code: dict[str, Code]) -> None:
        self.daemon = daemon
        self._code = code
        self._names = (f"code-{number}" for number in itertools.count(len(code) + 1))

    def named(self, code: Code) -> Arguments:
        """Put code on the stage; gives the arguments with which it is run."""
        name = next(self._names)
        self._code[name] = code
        return {"code": name}

    async def create(
        self,
        code: Code,
        *,
        arguments: Arguments | None = None,
        metadata: Message | None = None,
        capability_id: str = CAPABILITY,
        **options: Any,
    ) -> str:
        """Create a task that runs the code, not waiting for it; gives its id."""
        order: Message = {
            "capability_id": capability_id,
            "arguments": {**self.named(code), **(arguments or {})},
            "options": {"async": True, **options},
            "metadata": metadata or {},
        }
        return str((await self.call("aios/task.create", **order))["task_id"])

    async def call(self, method: str, **params: Any) -> Any:
        """Call a method over HTTP and give its result."""
        async with caller("http", self.daemon) as asking:
            return await asking.result(method, params)

    async def refused(self, method: str, **params: Any) -> Any:
        """Call a method over HTTP and give its error."""
        async with caller("http", self.daemon) as asking:
            return await asking.error(method, params)

    async def task(self, task_id: str, *, include_history: bool = False) -> Any:
        """The task as `task.get` shows it."""
        return await self.call("aios/task.get", task_id=task_id, include_history=include_history)

    @asynccontextmanager
    async def follow(self, task_id: str, *, after: str | None = None) -> AsyncGenerator[Follower]:
        """Read the task's events, all kinds, from the first or after one."""
        fields = {} if after is None else {"Last-Event-ID": after}
        async with self.get(f"/aios/tasks/{task_id}/events", fields) as (status, reader):
            assert status == 200, status
            yield Follower(frames(chunks(reader)))

    @asynccontextmanager
    async def get(
        self, path: str, fields: Mapping[str, str] | None = None
    ) -> AsyncGenerator[tuple[int, asyncio.StreamReader]]:
        """Get something over HTTP: the status, and a reader that stands at the body."""
        place = urlsplit(self.daemon.url)
        reader, writer = await asyncio.open_connection(place.hostname, place.port, limit=16 * 1024 * 1024)
        try:
            given = {"Host": place.netloc, "Authorization": f"Bearer {self.daemon.token}", **(fields or {})}
            head = "".join(f"{name}: {value}\r\n" for name, value in given.items())
            writer.write(f"GET {path} HTTP/1.1\r\n{head}\r\n".encode())
            status, _ = await read_head(reader)
            yield status, reader
        finally:
            writer.transport.abort()

    async def reach(self, task_id: str, status: str) -> Event:
        """Wait until the task has come to a status, and to what that status brings with it."""
        if status == "pending":
            assert (await self.task(task_id))["status"] == "pending"
            return Event(id="evt-000", kind="task.status", data={"status": status})
        async with self.follow(task_id) as follower:
            reached = await follower.until("task.status", status=status)
            if status in {"input_required", "auth_required"}:
                await follower.until(f"task.{status}")
            return reached

    async def end(self, task_id: str) -> list[Event]:
        """All events of a task, when it has ended."""
        async with self.follow(task_id) as follower:
            events = await follower.rest()
        assert is_last(events[-1].kind, events[-1].data), events[-1]
        assert [event.number for event in events] == list(range(1, len(events) + 1))
        return events

    async def clear(self) -> None:
        """Cancel what still runs, which would otherwise be waited for when the daemon stops."""
        running = (await self.call("aios/task.list", filter={"status": ["working"]}, pagination={"limit": 1_000}))[
            "tasks"
        ]
        async with self.at("http") as client:
            for task in running:
                await client.ask(call(1, "aios/task.cancel", {"task_id": task["task_id"]}))

    @asynccontextmanager
    async def at(self, door: str) -> AsyncGenerator[Caller]:
        """A caller at a door of one's own."""
        async with caller(door, self.daemon) as asking:
            yield asking


@asynccontextmanager
async def staged(
    *, folder: Path | None = None, code: dict[str, Code] | None = None, **flags: Any
) -> AsyncGenerator[Stage]:
    """A daemon with a stage; settings by names with `__` for the dot, as `limits__max_queue_size=5`.

    For one that is to go on with an earlier one's data: that one's `folder`, and the same dict of `code`.
    """
    plays: dict[str, Code] = {} if code is None else code

    async def run(arguments: Arguments, ctx: Context) -> Any:
        return await plays[arguments["code"]](arguments, ctx)

    adapter = ScriptedAdapter({CAPABILITY: run, BLOCKING: run})
    adapter.offer(ONCE, run, on_crash="fail")
    other = ScriptedAdapter({OTHER: run}, adapter_id="test.other")
    settings = {name.replace("__", "."): value for name, value in flags.items()}
    async with connected(adapters=[adapter, other], folder=folder, flags=settings) as daemon:
        yield Stage(daemon, plays)
