"""Engine and runner together, with real code on real lanes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from aios.adapter import Context
from aios.adapters.functions import Adapter
from aios.engine.engine import Engine
from aios.engine.orders import NewTask
from aios.engine.registry import Registry
from aios.engine.runner import Runner
from aios.engine.vault import Vault
from aios.errors import CapabilityFailed
from aios.model import Limits, Retry, Status, Task, TaskId, TaskQuery
from aios.stores.sqlite import SqliteStore
from aios.testing.clock import ManualClock
from tests.unit.engine.house import KEY, PATIENCE_S

demo = Adapter("org.example.demo")
counts: dict[str, int] = {}


def count(name: str) -> int:
    counts[name] = counts.get(name, 0) + 1
    return counts[name]


@demo.capability("compat.demo.nest", name="Nest")
async def nest(ctx: Context, depth: int) -> dict[str, int]:
    if depth == 0:
        return {"depth": 0}
    inner = await ctx.spawn("compat.demo.nest", {"depth": depth - 1})
    return {"depth": inner["depth"] + 1}


@demo.capability("compat.demo.fan", name="Fan")
async def fan(ctx: Context, width: int) -> dict[str, list[int]]:
    children = [ctx.spawn("compat.demo.nest", {"depth": 1}) for _ in range(width)]
    return {"depths": [(await child)["depth"] for child in children]}


@demo.capability("compat.demo.ask", name="Ask")
async def ask(ctx: Context) -> dict[str, Any]:
    return {"answer": await ctx.ask("Which?", options=["a", "b"])}


@demo.capability("compat.demo.hang", name="Hang")
async def hang(ctx: Context) -> None:
    await ctx.progress(percent=1, message="hanging")
    try:
        await asyncio.Event().wait()
    finally:
        count("hang ended")


@demo.capability("compat.demo.host", name="Host")
async def host(ctx: Context) -> None:
    await ctx.spawn("compat.demo.hang")


@demo.capability("compat.demo.flaky", name="Flaky")
async def flaky(ctx: Context) -> dict[str, int]:
    if ctx.attempt < 3:
        raise CapabilityFailed("not yet")
    return {"attempt": ctx.attempt}


@demo.capability("compat.demo.steps", name="Steps")
async def steps(ctx: Context, name: str) -> dict[str, int]:
    first = await ctx.step("first", count, name)
    await ctx.ask("Go on?")
    return {"first": first, "second": await ctx.step("second", count, name)}


@demo.capability("compat.demo.bad", name="Bad")
async def bad(ctx: Context) -> dict[str, float]:
    return {"value": float("nan")}


class Home:
    """An engine that runs real code."""

    def __init__(self, engine: Engine, clock: ManualClock) -> None:
        self.engine = engine
        self.clock = clock

    async def create(self, name: str, **options: Any) -> Task:
        return await self.engine.create(NewTask(capability_id=f"compat.demo.{name}", principal="owner", **options))

    async def wait(self, task_id: TaskId, status: Status) -> Task:
        async with asyncio.timeout(PATIENCE_S):
            return await self.engine.until(task_id, lambda task: task.status is status, None)

    async def run(self, name: str, **options: Any) -> Task:
        """Run a task to its end."""
        order = NewTask(capability_id=f"compat.demo.{name}", principal="owner", **options)
        async with asyncio.timeout(PATIENCE_S):
            return await self.engine.run(order, lambda task: task.status.is_terminal, None)

    async def children(self, count: int) -> list[Task]:
        """Wait for so many tasks that another has spawned."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                page = await self.engine.tasks(TaskQuery(principal=None))
                found = [task for task in page.tasks if task.spec.parent_task_id is not None]
                if len(found) >= count:
                    return found

    async def slots(self) -> int:
        return (await self.engine.counts())["slots"]


@asynccontextmanager
async def open_home(
    path: Path, *, clock: ManualClock | None = None, worker: str = "w", **caps: int
) -> AsyncGenerator[Home]:
    clock, limits, vault, registry = clock or ManualClock(), Limits(**caps), Vault(KEY), Registry()
    registry.add(demo)
    store = SqliteStore.open(path, limits=limits, now=clock.now)
    engine = Engine(store=store, registry=registry, clock=clock, limits=limits, vault=vault, worker=worker)
    try:
        await engine.start(Runner(engine=engine, registry=registry, clock=clock, limits=limits, vault=vault))
        try:
            yield Home(engine, clock)
        finally:
            await engine.stop(1_000)
    finally:
        await store.close()


async def test_with_one_slot_in_all_parents_and_children_end_without_a_deadlock(tmp_path: Path) -> None:
    async with open_home(tmp_path, max_concurrent_tasks=1) as home:
        assert (await home.run("nest", arguments={"depth": 8})).result == {"depth": 8}
        assert (await home.run("fan", arguments={"width": 5})).result == {"depths": [1] * 5}
        assert await home.slots() == 0


async def test_a_task_nested_deeper_than_it_may_fails_all_the_way_up(tmp_path: Path) -> None:
    async with open_home(tmp_path, max_depth=3) as home:
        failed = await home.run("nest", arguments={"depth": 4})
        assert failed.status is Status.FAILED
        assert "3 deep" in str(failed.error)


async def test_input_right_after_the_question_reaches_the_code(tmp_path: Path, rounds: int) -> None:
    async with open_home(tmp_path) as home:
        for number in range(rounds):
            task = await home.create("ask")
            await home.wait(task.task_id, Status.INPUT_REQUIRED)
            answer = "ab"[number % 2]
            await home.engine.give_input(task.task_id, answer)
            assert (await home.wait(task.task_id, Status.COMPLETED)).result == {"answer": answer}


async def test_a_canceled_tasks_code_is_stopped_and_its_slot_comes_back(tmp_path: Path) -> None:
    counts.clear()
    async with open_home(tmp_path, max_concurrent_tasks=1) as home:
        task = await home.create("hang")
        await home.engine.until(task.task_id, lambda task: task.progress is not None, None)
        await home.engine.cancel(task.task_id)
        assert (await home.run("flaky", retry=Retry(max_attempts=3))).result == {"attempt": 3}
        assert counts == {"hang ended": 1}


async def test_an_attempt_that_overruns_is_stopped_and_its_slot_comes_back(tmp_path: Path) -> None:
    async with open_home(tmp_path, max_concurrent_tasks=1) as home:
        task = await home.create("hang", timeout_ms=1_000)
        await home.wait(task.task_id, Status.WORKING)
        home.clock.advance(1_000)
        failed = await home.wait(task.task_id, Status.FAILED)
        assert failed.error is not None
        assert failed.error["code"] == -32005
        assert (await home.run("nest", arguments={"depth": 0})).status is Status.COMPLETED


async def test_a_paused_task_gives_its_slot_to_another_and_goes_on_where_it_was(tmp_path: Path) -> None:
    async with open_home(tmp_path, max_concurrent_tasks=1) as home:
        task = await home.create("hang")
        await home.wait(task.task_id, Status.WORKING)
        await home.engine.pause(task.task_id)
        assert (await home.run("nest", arguments={"depth": 0})).status is Status.COMPLETED
        assert (await home.engine.resume(task.task_id)).status is Status.WORKING
        assert (await home.engine.cancel(task.task_id)).status is Status.CANCELED


async def test_a_parents_cancel_stops_its_children_and_frees_their_slots(tmp_path: Path) -> None:
    async with open_home(tmp_path, max_concurrent_tasks=2) as home:
        parent = await home.create("host")
        await home.wait(parent.task_id, Status.WORKING)
        (child,) = await home.children(1)
        await home.engine.cancel(parent.task_id)
        assert (await home.wait(child.task_id, Status.CANCELED)).status is Status.CANCELED
        both = await asyncio.gather(*(home.run("nest", arguments={"depth": 0}) for _ in range(2)))
        assert [task.status for task in both] == [Status.COMPLETED] * 2


async def test_finished_steps_are_not_run_twice_by_another_process(tmp_path: Path) -> None:
    counts.clear()
    clock = ManualClock()
    async with open_home(tmp_path, clock=clock) as home:
        task = await home.create("steps", arguments={"name": "x"})
        await home.wait(task.task_id, Status.INPUT_REQUIRED)
    async with open_home(tmp_path, clock=clock, worker="another") as home:
        await home.engine.give_input(task.task_id, "yes")
        done = await home.wait(task.task_id, Status.COMPLETED)
        assert done.result == {"first": 1, "second": 2}


async def test_a_result_that_is_not_json_fails_the_task_with_a_sentence(tmp_path: Path) -> None:
    async with open_home(tmp_path) as home:
        failed = await home.run("bad")
        assert failed.status is Status.FAILED
        assert "nan, which JSON has no word for, at /value" in str(failed.error)


@pytest.mark.parametrize("slots", [1, 4])
async def test_many_tasks_at_once_all_end_and_no_slot_is_left(tmp_path: Path, slots: int) -> None:
    async with open_home(tmp_path, max_concurrent_tasks=slots) as home:
        done = await asyncio.gather(*(home.run("nest", arguments={"depth": number % 3}) for number in range(30)))
        assert [task.result for task in done] == [{"depth": number % 3} for number in range(30)]
        assert await home.slots() == 0
