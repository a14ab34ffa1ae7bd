"""How code runs: what blocks harms nobody else, what is paused stands still, what ends late is kept (protocol.md §4)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from aios.adapter import BlockingContext, Context
from aios.errors import CapabilityFailed
from aios.model import TaskId
from tests.spec.doors import call
from tests.spec.stage import BLOCKING, CAPABILITY, ONCE, Arguments, Code, Gate, Stage, staged


async def returns(arguments: Arguments, ctx: Context) -> Any:
    return {"done": True}


@pytest.mark.promise("4.run.blocking-code-delays-nobody")
async def test_an_async_capability_that_blocks_delays_no_other_answer() -> None:
    async with staged() as stage:
        release, blocking = Gate(), [Gate() for _ in range(12)]

        def blocker(number: int) -> Callable[[Arguments, Context], Any]:
            async def code(arguments: Arguments, ctx: Context) -> Any:
                blocking[number].open()
                release.block()
                return {"number": number}

            return code

        blockers = [await stage.create(blocker(number), capability_id=BLOCKING) for number in range(len(blocking))]
        await blocking[0].passed()
        try:
            # All that is asked now is answered while they block: calls, events, and other capabilities' work.
            others = [await stage.create(returns) for _ in range(20)]
            for task_id in others:
                assert (await stage.end(task_id))[-1].data["result"] == {"done": True}
            assert (await stage.task(blockers[0]))["status"] == "working"
            assert (await stage.call("aios/task.pause", task_id=blockers[0]))["status"] == "paused"
            assert (await stage.call("aios/task.cancel", task_id=blockers[1]))["status"] == "canceled"
            assert not release.is_open
        finally:
            release.open()
        await stage.call("aios/task.resume", task_id=blockers[0])
        for number, task_id in enumerate(blockers):
            last = (await stage.end(task_id))[-1]
            assert last.status == "canceled" if number == 1 else last.data["result"] == {"number": number}


@pytest.mark.promise("4.run.blocking-code-delays-nobody")
async def test_threads_that_block_delay_no_other_answer(stage: Stage) -> None:
    release, started = Gate(), Gate()

    def work(ctx: BlockingContext) -> Any:
        started.open()
        release.block()

    async def code(arguments: Arguments, ctx: Context) -> Any:
        return await ctx.in_thread(work, is_last=True)

    blockers = [await stage.create(code) for _ in range(8)]
    await started.passed()
    try:
        assert (await stage.end(await stage.create(returns)))[-1].data["result"] == {"done": True}
    finally:
        release.open()
    for task_id in blockers:
        assert (await stage.end(task_id))[-1].data["result"] == {"value": None}


@pytest.mark.promise("4.pause.stops-the-code", "4.slot.waiting-holds-none")
async def test_children_of_a_task_group_stand_still_while_their_task_is_paused() -> None:
    async with staged(limits__max_concurrent_tasks=1) as stage:
        ticks, moving = [0, 0, 0], Gate()

        async def child(number: int) -> None:
            while True:
                ticks[number] += 1
                if all(ticks):
                    moving.open()
                await asyncio.sleep(0)

        async def code(arguments: Arguments, ctx: Context) -> Any:
            async with asyncio.TaskGroup() as group:
                for number in range(len(ticks)):
                    group.create_task(child(number))

        task_id = await stage.create(code)
        await moving.passed()
        await stage.call("aios/task.pause", task_id=task_id)
        # The only slot is free again when no code of the task runs any more.
        await stage.end(await stage.create(returns))
        stood = list(ticks)
        await stage.end(await stage.create(returns))
        assert ticks == stood
        moving = Gate()
        ticks[:] = [0, 0, 0]
        await stage.call("aios/task.resume", task_id=task_id)
        async with asyncio.timeout(10):
            await moving.passed()
        await stage.call("aios/task.cancel", task_id=task_id)
        await stage.end(await stage.create(returns))
        stood = list(ticks)
        await stage.end(await stage.create(returns))
        assert ticks == stood, "a canceled task's code has ended too"


@pytest.mark.promise("4.pause.outcome-is-kept")
@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_thread_that_ends_while_its_task_is_paused_has_its_result_after_resume(is_restarted: bool) -> None:
    started, go_on, runs = Gate(), Gate(), list[int]()

    def work(ctx: BlockingContext) -> Any:
        runs.append(1)
        started.open()
        go_on.block()
        return {"ducks": 3}

    async def code(arguments: Arguments, ctx: Context) -> Any:
        return await ctx.in_thread(work, is_last=True)

    with TemporaryDirectory(prefix="aios-") as folder:
        plays: dict[str, Code] = {}
        async with staged(folder=Path(folder), code=plays) as stage:
            task_id = await stage.create(code, capability_id=ONCE)
            await started.passed()
            await stage.call("aios/task.pause", task_id=task_id)
            go_on.open()
            await kept(stage, task_id)
            shown = await stage.task(task_id)
            assert (shown["status"], "result" in shown) == ("paused", False)
            if not is_restarted:
                await stage.call("aios/task.resume", task_id=task_id)
                assert (await stage.end(task_id))[-1].data["result"] == {"ducks": 3}
        async with staged(folder=Path(folder), code=plays) as stage:
            if is_restarted:
                await stage.call("aios/task.resume", task_id=task_id)
            assert (await stage.end(task_id))[-1].data["result"] == {"ducks": 3}
    assert runs == [1]


async def kept(stage: Stage, task_id: str) -> None:
    """Wait until what the code came to is on disk. No caller can see that, so the engine is asked."""
    async with asyncio.timeout(10):
        while (await stage.daemon.daemon.engine.task(TaskId(task_id))).outcome is None:
            await stage.task(task_id)


@pytest.mark.promise("4.spawn.one-slot-in-all", "4.spawn.child")
async def test_a_parent_that_waits_for_its_child_needs_no_second_slot() -> None:
    async with staged(limits__max_concurrent_tasks=1) as stage:

        async def child(arguments: Arguments, ctx: Context) -> Any:
            depth = arguments["depth"]
            if depth == 0:
                return {"depth": 0}
            below = await ctx.spawn(CAPABILITY, {**arguments, "depth": depth - 1})
            return {"depth": below["depth"] + 1}

        task_id = await stage.create(child, arguments={"depth": 5})
        assert (await stage.end(task_id))[-1].data["result"] == {"depth": 5}
        tasks = (await stage.call("aios/task.list", sort={"field": "created_at", "order": "asc"}))["tasks"]
        assert [task.get("parent_task_id") for task in tasks] == [None, *(task["task_id"] for task in tasks[:-1])]


@pytest.mark.promise("4.spawn.child")
async def test_a_childs_error_is_raised_in_its_parent_and_a_parents_end_cancels_its_children(stage: Stage) -> None:
    async def fails(arguments: Arguments, ctx: Context) -> Any:
        raise CapabilityFailed("no more ducks", code=-32050, retryable=False)

    async def waits(arguments: Arguments, ctx: Context) -> Any:
        await Gate().passed()

    failing, waiting = stage.named(fails), stage.named(waits)

    async def parent(arguments: Arguments, ctx: Context) -> Any:
        try:
            await ctx.spawn(CAPABILITY, failing)
        except Exception as error:
            await ctx.log("info", str(error), code=getattr(error, "wire_code", None))
        await ctx.spawn(CAPABILITY, waiting)

    task_id = await stage.create(parent)
    async with stage.follow(task_id) as follower:
        told = await follower.until("task.log")
        assert (told.data["message"], told.data["fields"]["code"]) == ("no more ducks", -32050)
    mine: list[Any] = []
    async with asyncio.timeout(10):
        while len(mine) < 2:
            listed = await stage.call("aios/task.list", pagination={"limit": 10})
            mine = [each for each in listed["tasks"] if each.get("parent_task_id") == task_id]
    await stage.call("aios/task.cancel", task_id=task_id)
    child = next(each["task_id"] for each in mine if each["status"] != "failed")
    assert (await stage.end(child))[-1].status == "canceled"


@pytest.mark.promise("2.lost-connection")
@pytest.mark.parametrize("door", ["http", "websocket", "unix"])
async def test_a_caller_who_leaves_cancels_nothing(door: str, stage: Stage) -> None:
    started, go_on = Gate(), Gate()

    async def code(arguments: Arguments, ctx: Context) -> Any:
        started.open()
        await go_on.passed()
        return {"done": True}

    params = {"capability_id": CAPABILITY, "arguments": stage.named(code), "metadata": {"tags": [f"left-{door}"]}}
    async with stage.at(door) as client:
        asking = asyncio.ensure_future(client.ask(call(1, "aios/task.create", params)))
        await started.passed()
        asking.cancel()
    go_on.open()
    [task] = (await stage.call("aios/task.list", filter={"tags": [f"left-{door}"]}))["tasks"]
    assert (await stage.end(task["task_id"]))[-1].data["result"] == {"done": True}
