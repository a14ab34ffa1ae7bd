"""A runner at work: real engine, real store, real lanes, and a clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from concurrent.futures import Future
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec

from aios.adapter import Context
from aios.engine.engine import Engine
from aios.engine.orders import NewTask
from aios.engine.registry import Registry
from aios.engine.runner import Runner
from aios.engine.vault import Vault
from aios.model import EventKind, JsonObject, Limits, Status, Task, TaskId
from aios.stores.sqlite import SqliteStore
from aios.testing.adapters import ScriptedAdapter
from aios.testing.clock import ManualClock

PATIENCE_S = 20
KEY = bytes(range(32))
Code = Callable[[Context], Coroutine[Any, Any, Any]]


class Signal:
    """Something that happens once; it may be set in any thread, and waited for in any thread or on any loop."""

    def __init__(self) -> None:
        self._future: Future[None] = Future()

    @property
    def is_set(self) -> bool:
        return self._future.done()

    def set(self) -> None:
        if not self._future.done():
            self._future.set_result(None)

    async def reached(self) -> None:
        """Wait on an event loop."""
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.shield(asyncio.wrap_future(self._future))

    def wait(self) -> None:
        """Wait in a thread."""
        self._future.result(PATIENCE_S)


class Workshop:
    """What a test has in its hands."""

    def __init__(self, *, store: SqliteStore, clock: ManualClock, limits: Limits, worker: str) -> None:
        self.store = store
        self.clock = clock
        self.adapter = ScriptedAdapter()
        self.adapter.offer("test.nothing", _nothing)
        self.adapter.offer("test.nap", _nap)
        self.registry = Registry()
        self.registry.add(self.adapter)
        self.vault = Vault(KEY)
        self.engine = Engine(
            store=store, registry=self.registry, clock=clock, limits=limits, vault=self.vault, worker=worker
        )
        self.runner = Runner(engine=self.engine, registry=self.registry, clock=clock, limits=limits, vault=self.vault)

    def offer(self, code: Code, name: str = "code", **fields: Any) -> str:
        """Offer code as the capability `test.<name>`."""

        async def script(_: JsonObject, ctx: Context) -> Any:
            return await code(ctx)

        self.registry.remove(self.adapter.adapter_id)
        self.adapter.offer(f"test.{name}", script, **fields)
        self.registry.add(self.adapter)
        return f"test.{name}"

    async def create(self, capability: Code | str, **options: Any) -> Task:
        """Have a task run; code that is not offered yet is offered first."""
        capability_id = capability if isinstance(capability, str) else self.offer(capability)
        return await self.engine.create(NewTask(capability_id=capability_id, principal="owner", **options))

    async def run(self, capability: Code | str, **options: Any) -> Task:
        """Have a task run to its end."""
        task = await self.create(capability, **options)
        return await self.wait(task, lambda task: task.status.is_terminal)

    async def wait(self, task: Task, done: Status | Callable[[Task], bool]) -> Task:
        """Wait until a task is so."""
        if isinstance(done, Status):
            wanted = done
            return await self.wait(task, lambda task: task.status is wanted)
        async with asyncio.timeout(PATIENCE_S):
            return await self.engine.until(task.task_id, done, None)

    async def released(self, task: Task) -> Task:
        """Wait until a task's slot has been given back."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                # A release is told to nobody. Something that runs meanwhile lets time pass, and the lane do what it has.
                newest = await self.store.task(task.task_id)
                if newest.worker is None:
                    return newest
                await asyncio.sleep(0)

    async def settle(self, nap_ms: int = 0) -> None:
        """Let the lane do all that is ready, by running another task there to its end."""
        done = await self.run("test.nap", arguments={"ms": nap_ms})
        assert done.status is Status.COMPLETED

    async def logged(self, task_id: TaskId, kind: EventKind) -> list[JsonObject]:
        """Give the data of a task's events of one kind."""
        page = await self.store.events_after(task_id, 0, limit=1_000, kinds=frozenset({kind}))
        return [msgspec.json.decode(event.data) for event in page.events if event.kind is kind]


@asynccontextmanager
async def open_workshop(
    path: Path | Literal[":memory:"] = ":memory:",
    *,
    clock: ManualClock | None = None,
    worker: str = "worker-1",
    grace_ms: int = 0,
    **limits: int,
) -> AsyncGenerator[Workshop]:
    """Open a workshop; leaving it stops engine and runner in good order."""
    clock = clock or ManualClock()
    caps = Limits(**limits)
    shop = Workshop(store=SqliteStore.open(path, limits=caps, now=clock.now), clock=clock, limits=caps, worker=worker)
    try:
        await shop.engine.start(shop.runner)
        try:
            yield shop
        finally:
            await shop.engine.stop(grace_ms)
    finally:
        await shop.store.close()


async def _nothing(_: JsonObject, ctx: Context) -> None:
    await asyncio.sleep(0)


async def _nap(arguments: JsonObject, ctx: Context) -> None:
    for _ in range(20):
        await asyncio.sleep(0)
    await asyncio.sleep(arguments["ms"] / 1000)
