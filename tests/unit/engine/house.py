"""An engine with a real store, a clock that a test moves, and a runner that does only what a test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec

from aios.adapter import Capability, Context
from aios.engine.engine import Engine
from aios.engine.orders import NewTask
from aios.engine.registry import Registry
from aios.engine.vault import Vault
from aios.model import Event, JsonObject, Limits, Progress, Status, Task, TaskId
from aios.rules.lifecycle import Complete
from aios.stores.sqlite import SqliteStore
from aios.testing.clock import ManualClock

PATIENCE_S = 20
KEY = bytes(range(32))
ECHO = Capability(
    id="compat.demo.echo",
    name="Echo",
    adapter_id="demo",
    category="demo",
    input={"type": "object", "properties": {"text": {"type": "string"}}, "additionalProperties": False},
)
SLOW = Capability(id="compat.demo.slow", name="Slow", adapter_id="demo", timeout_ms=5_000, estimated_duration_ms=700)


class DemoAdapter:
    """Offers capabilities that nobody runs: the test does their work."""

    def __init__(self, *capabilities: Capability, adapter_id: str = "demo") -> None:
        self.adapter_id = adapter_id
        self.name = "Demo"
        self.version = "1.0.0"
        self._capabilities = capabilities or (ECHO, SLOW)

    def capabilities(self) -> Iterable[Capability]:
        return self._capabilities

    async def run(self, capability_id: str, arguments: JsonObject, ctx: Context) -> Any:
        raise AssertionError("the test does the work")


class ScriptedRunner:
    """Notes what it is told; the test is its code."""

    def __init__(self) -> None:
        self.taken: asyncio.Queue[Task] = asyncio.Queue()
        self.changes: list[Task] = []
        self.is_stopped = False

    def start(self) -> None:
        self.is_stopped = False

    async def stop(self, grace_ms: int) -> None:
        self.is_stopped = True

    def take(self, task: Task) -> None:
        self.taken.put_nowait(task)

    def changed(self, task: Task) -> None:
        self.changes.append(task)

    async def next(self) -> Task:
        """Give the next task that is to be run."""
        async with asyncio.timeout(PATIENCE_S):
            return await self.taken.get()


class House:
    """What a test has in its hands."""

    def __init__(self, *, store: SqliteStore, clock: ManualClock, limits: Limits, worker: str) -> None:
        registry = Registry()
        registry.add(DemoAdapter())
        self.store = store
        self.clock = clock
        self.runner = ScriptedRunner()
        self.vault = Vault(KEY)
        self.engine = Engine(
            store=store, registry=registry, clock=clock, limits=limits, vault=self.vault, worker=worker
        )

    async def create(self, capability_id: str = ECHO.id, **options: Any) -> Task:
        return await self.engine.create(order(capability_id, **options))

    async def started(self, **options: Any) -> Task:
        """Create a task and let it be claimed."""
        await self.create(**options)
        return await self.runner.next()

    async def complete(self, task: Task, result: Any = "done") -> Task:
        return await self.engine.record(task, Complete(result))

    async def progress(self, task: Task, progress: Progress) -> None:
        """Report, and wait until it is written, or held."""
        written = self.engine.progress(task, progress)
        if written is not None:
            await written

    async def wait(self, task_id: TaskId, done: Callable[[Task], bool] | Status) -> Task:
        """Wait until the task is so, in real time."""
        if isinstance(done, Status):
            wanted = done
            return await self.wait(task_id, lambda task: task.status is wanted)
        async with asyncio.timeout(PATIENCE_S):
            return await self.engine.until(task_id, done, None)

    async def log(self, task_id: TaskId, after: int = 0) -> list[Event]:
        """Give what is in the task's log now."""
        return (await self.store.events_after(task_id, after, limit=100_000)).events

    async def kinds(self, task_id: TaskId) -> list[str]:
        """Give the kinds of event in the log, statuses with theirs."""
        return [told(event) for event in await self.log(task_id)]

    async def follow(self, task_id: TaskId, after: int = 0, **options: Any) -> list[Event]:
        """Follow a task to its end."""
        events: list[Event] = []
        async with asyncio.timeout(PATIENCE_S), aclosing(self.engine.feed.follow(task_id, after, **options)) as pages:
            async for page in pages:
                events += page.events
        return events


def order(capability_id: str = ECHO.id, *, principal: str = "owner", **options: Any) -> NewTask:
    return NewTask(capability_id=capability_id, principal=principal, **options)


def told(event: Event) -> str:
    if event.kind != "task.status":
        return event.kind.removeprefix("task.")
    return "status " + data_of(event)["status"]


def data_of(event: Event) -> JsonObject:
    return msgspec.json.decode(event.data)


@asynccontextmanager
async def open_house(
    path: Path | Literal[":memory:"] = ":memory:",
    *,
    clock: ManualClock | None = None,
    worker: str = "worker-1",
    has_runner: bool = True,
    **limits: int,
) -> AsyncGenerator[House]:
    """Open a house on a store; leaving it stops the engine in good order."""
    clock = clock or ManualClock()
    caps = Limits(**limits)
    house = House(store=SqliteStore.open(path, limits=caps, now=clock.now), clock=clock, limits=caps, worker=worker)
    try:
        await house.engine.start(house.runner if has_runner else None)
        yield house
        await house.engine.stop(0)
    finally:
        await house.store.close()
