"""The service over a real engine whose running code is the test, and callers on every kind of connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import msgspec

from aios.errors.wire import from_wire
from aios.model import Event, InputRequest, JsonObject, Task
from aios.protocol import jsonrpc
from aios.protocol.events import Snapshot
from aios.rules.lifecycle import Ask, Complete
from aios.service.call import CLIENT, OPERATOR, Principal
from aios.service.connection import Connection, Reply
from aios.service.dispatcher import Service
from aios.service.key import OWNER, Keys
from aios.service.subscriptions import Subscription
from aios.testing.clock import ManualClock, ManualTimer
from tests.unit.engine.house import PATIENCE_S, House, open_house

TOKEN = "the-owners-token"
ALICE = Principal("alice", frozenset({CLIENT}))
BOB = Principal("bob", frozenset({CLIENT}))
OPAL = Principal("opal", frozenset({CLIENT, OPERATOR}))
ECHO = "compat.demo.echo"
TURNS_MAX = 1_000_000
HELLO: JsonObject = {"protocol_version": "0.3.0"}


class NotingClock(ManualClock):
    """A manual clock that a test can ask to tell when somebody wants to be called."""

    def __init__(self) -> None:
        super().__init__()
        self._asked: dict[datetime, asyncio.Event] = {}

    def call_at(self, when: datetime, call: Callable[[], None]) -> ManualTimer:
        self._asked.setdefault(when, asyncio.Event()).set()
        return super().call_at(when, call)

    async def asked_for(self, ms: int) -> None:
        """Wait until somebody has asked to be called so long from now."""
        async with asyncio.timeout(PATIENCE_S):
            await self._asked.setdefault(self.now() + timedelta(milliseconds=ms), asyncio.Event()).wait()


class Caller:
    """Somebody who calls."""

    def __init__(self, service: Service, connection: Connection) -> None:
        self._service = service
        self.connection = connection
        self.replies: list[Reply] = []
        self.heard: asyncio.Queue[JsonObject] = asyncio.Queue()
        """What was written to this caller, answers included, in order."""

    async def write(self, body: bytes) -> None:
        self.heard.put_nowait(msgspec.json.decode(body))

    async def send(self, body: bytes) -> Any:
        """Send a body and do with the reply what a door does."""
        async with asyncio.timeout(PATIENCE_S):
            reply = await self._service.receive(self.connection, body)
        if reply is None:
            return None
        self.replies.append(reply)
        if reply.body:
            await self.write(reply.body)
        for subscription in reply.subscriptions:
            self.connection.start(subscription)
        return msgspec.json.decode(reply.body) if reply.body else None

    async def answer(self, method: str, params: JsonObject | None = None) -> JsonObject:
        """Ask, and give the whole answer."""
        answer = await self.send(jsonrpc.request(1, method, params or {}))
        assert answer["jsonrpc"] == "2.0"
        assert answer["id"] == 1
        return answer

    async def ask(self, method: str, params: JsonObject | None = None) -> Any:
        """Ask, and give the result or raise the error."""
        answer = await self.answer(method, params)
        if "error" in answer:
            assert answer["error"]["data"]["error_id"]
            raise from_wire(answer["error"])
        return answer["result"]

    async def tell(self, method: str, params: JsonObject | None = None) -> Any:
        """Send a notification."""
        return await self.send(msgspec.json.encode({"jsonrpc": "2.0", "method": method, "params": params or {}}))

    async def hear(self) -> JsonObject:
        """Give the next thing that was written to this caller."""
        async with asyncio.timeout(PATIENCE_S):
            return await self.heard.get()

    async def create(self, **options: Any) -> str:
        """Create a task to be run by the test."""
        made = await self.ask("aios/task.create", {"capability_id": ECHO, "options": {"async": True, **options}})
        return made["task_id"]


class Desk:
    """What a test has in its hands."""

    def __init__(self, house: House, clock: NotingClock) -> None:
        self.house = house
        self.engine = house.engine
        self.clock = clock
        self.service = Service(
            engine=house.engine,
            keys=Keys(TOKEN, owner_uid=1_000),
            server_info={"name": "aios-daemon", "version": "9.9.9"},
        )
        self._connections: list[Connection] = []

    def caller(self, principal: Principal | None = OWNER, *, is_duplex: bool = False, **options: Any) -> Caller:
        """Connect somebody; one who is not duplex is on HTTP."""
        connection = self.service.connect(principal, transport="test", is_duplex=is_duplex, **options)
        caller = Caller(self.service, connection)
        if is_duplex:
            connection.send = caller.write
        self._connections.append(connection)
        return caller

    async def opened(self, principal: Principal | None = OWNER) -> Caller:
        """Connect somebody over a duplex transport and let them introduce themselves."""
        caller = self.caller(principal, is_duplex=True)
        await caller.ask("aios/initialize", HELLO)
        await caller.hear()
        return caller

    async def started(self, principal: Principal = OWNER, **options: Any) -> Task:
        """Create a task and begin to run it."""
        await self.caller(principal).create(**options)
        return await self.house.runner.next()

    async def complete(self, task: Task, result: Any = None) -> Task:
        return await self.engine.record(task, Complete({"done": True} if result is None else result))

    async def waiting(self, principal: Principal = OWNER) -> Task:
        """Create a task and let it put a question."""
        task = await self.started(principal)
        request = InputRequest(step="ask:1", prompt="Which one?", options=["a", "b"])
        return await self.engine.record(task, Ask(request))

    async def read(self, subscription: Subscription | None, pages: int | None = None) -> list[Event | Snapshot]:
        """Read a subscription to its end, or so many pages."""
        assert subscription is not None
        read: list[Event | Snapshot] = []
        async with asyncio.timeout(PATIENCE_S), aclosing(self.service.subscriptions.follow(subscription)) as stream:
            async for page in stream:
                read += page
                pages = None if pages is None else pages - 1
                if pages == 0:
                    break
        return read

    async def close(self) -> None:
        for connection in self._connections:
            await connection.close()


async def until(condition: Callable[[], object]) -> None:
    """Let others run until the condition holds."""
    for _ in range(TURNS_MAX):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came to that")


@asynccontextmanager
async def open_desk(**limits: Any) -> AsyncGenerator[Desk]:
    clock = NotingClock()
    async with open_house(clock=clock, **limits) as house:
        desk = Desk(house, clock)
        try:
            yield desk
        finally:
            await desk.close()
