"""Spawned tasks: awaited without a slot, found again on a re-run, their errors raised in the parent."""

import asyncio
from typing import Any

import pytest

from aios.adapter import BlockingContext, Context
from aios.errors import AiosError, CapabilityFailed, CapabilityNotFound, UserCanceled
from aios.model import Priority, Retry, Status, TaskQuery
from tests.unit.engine.runner.workshop import Signal, open_workshop


async def double(ctx: Context) -> dict[str, Any]:
    return {"of": ctx.task_id}


async def test_with_one_slot_a_parent_that_waits_for_its_children_at_once_gives_way_to_them() -> None:
    async def code(ctx: Context) -> list[Any]:
        return [each["of"] for each in await asyncio.gather(*(ctx.spawn("test.double", {"n": n}) for n in range(3)))]

    async with open_workshop(max_concurrent_tasks=1) as shop:
        shop.offer(double, "double")
        done = await shop.run(code)
        assert done.status is Status.COMPLETED
        assert len(set(done.result["value"])) == 3


async def test_the_childs_id_is_known_at_once_and_is_the_tasks() -> None:
    async def code(ctx: Context) -> bool:
        child = ctx.spawn("test.double")
        told = child.task_id
        return (await child)["of"] == told

    async with open_workshop() as shop:
        shop.offer(double, "double")
        assert (await shop.run(code)).result == {"value": True}


async def test_an_error_of_the_child_is_raised_in_the_parent_as_the_class_it_was() -> None:
    async def failing(_: Context) -> None:
        raise CapabilityFailed("out of stock", code=-32050, data={"left": 0}, retryable=False)

    async def code(ctx: Context) -> dict[str, Any]:
        try:
            await ctx.spawn("test.failing")
        except CapabilityFailed as error:
            return error.to_wire()
        return {}

    async with open_workshop() as shop:
        shop.offer(failing, "failing")
        done = await shop.run(code)
        assert (done.result["code"], done.result["message"], done.result["data"]["left"]) == (-32050, "out of stock", 0)


async def test_a_child_that_cannot_be_made_is_an_error_where_it_is_awaited() -> None:
    async def code(ctx: Context) -> str:
        child = ctx.spawn("test.nowhere")
        try:
            await child
        except CapabilityNotFound:
            return "not found"
        return ""

    async with open_workshop() as shop:
        assert (await shop.run(code)).result == {"value": "not found"}


async def test_a_child_that_is_canceled_is_an_error_in_the_parent() -> None:
    begun, children = Signal(), list[str]()

    async def hanging(ctx: Context) -> None:
        children.append(ctx.task_id)
        begun.set()
        await asyncio.Event().wait()

    async def code(ctx: Context) -> str:
        try:
            await ctx.spawn("test.hanging")
        except UserCanceled:
            return "canceled"
        return ""

    async with open_workshop(max_concurrent_tasks=1) as shop:
        shop.offer(hanging, "hanging")
        task = await shop.create(code)
        await begun.reached()
        await shop.engine.cancel(children[0])  # type: ignore[arg-type]
        assert (await shop.wait(task, Status.COMPLETED)).result == {"value": "canceled"}


async def test_another_attempt_finds_the_child_it_had_and_replaces_one_that_failed() -> None:
    runs = dict[str, list[int]]()

    async def fine(ctx: Context) -> dict[str, int]:
        runs.setdefault("fine", []).append(1)
        return {"runs": len(runs["fine"])}

    async def flaky(ctx: Context) -> dict[str, int]:
        runs.setdefault("flaky", []).append(1)
        if len(runs["flaky"]) == 1:
            raise CapabilityFailed("not yet")
        return {"runs": len(runs["flaky"])}

    async def code(ctx: Context) -> list[Any]:
        values = [(await ctx.spawn("test.fine"))["runs"], (await ctx.spawn("test.flaky"))["runs"]]
        if ctx.attempt == 2:
            raise CapabilityFailed("once more")
        return values

    async with open_workshop() as shop:
        shop.offer(fine, "fine")
        shop.offer(flaky, "flaky")
        done = await shop.run(code, retry=Retry(max_attempts=3))
        assert (done.attempt, done.result) == (3, {"value": [1, 2]})
        assert {name: len(each) for name, each in runs.items()} == {"fine": 1, "flaky": 2}


async def test_options_reach_the_child_and_unknown_ones_are_refused() -> None:
    async def code(ctx: Context) -> str:
        await ctx.spawn("test.double", priority="high", timeout_ms=5_000, metadata={"tags": ["x"]}, key="one")
        try:
            ctx.spawn("test.double", colour="red")
        except AiosError as error:
            return error.detail
        return ""

    async with open_workshop() as shop:
        shop.offer(double, "double")
        done = await shop.run(code)
        assert "colour" in done.result["value"]
        page = await shop.engine.tasks(TaskQuery(principal=None, capability_glob="test.double"))
        (child,) = page.tasks
        assert (child.spec.priority, child.spec.timeout_ms) == (Priority.HIGH, 5_000)
        assert (child.spec.metadata, child.spec.parent_task_id) == ({"tags": ["x"]}, done.task_id)


async def test_a_thread_runs_a_child_and_waits_for_it() -> None:
    def work(ctx: BlockingContext) -> Any:
        return ctx.run("test.double")["of"] != ctx.task_id

    async def code(ctx: Context) -> Any:
        return await ctx.in_thread(work, is_last=True)

    async with open_workshop(max_concurrent_tasks=1) as shop:
        shop.offer(double, "double")
        assert (await shop.run(code)).result == {"value": True}


@pytest.mark.parametrize("what", ["child", "sleep"])
async def test_a_strand_that_can_go_on_while_another_waits_gets_a_slot_again(what: str) -> None:
    may_go_on, gone_on = Signal(), Signal()

    async def slow(_: Context) -> str:
        await gone_on.reached()
        return "ended"

    async def other() -> None:
        await may_go_on.reached()
        gone_on.set()

    async def code(ctx: Context) -> str:
        async with asyncio.TaskGroup() as group:
            group.create_task(other())
            if what == "child":
                await ctx.spawn("test.slow")
            else:
                await ctx.sleep(60_000)
        return "done"

    async with open_workshop() as shop:
        shop.offer(slow, "slow")
        task = await shop.create(code)
        await shop.wait(task, lambda task: task.worker is None and task.claim == 1)
        may_go_on.set()
        await gone_on.reached()
        if what == "sleep":
            shop.clock.advance(60_000)
        assert (await shop.wait(task, Status.COMPLETED)).result == {"value": "done"}


async def test_a_parent_that_is_paused_while_it_waits_goes_on_when_both_have_come() -> None:
    begun, may_end = Signal(), Signal()

    async def slow(_: Context) -> str:
        begun.set()
        await may_end.reached()
        return "ended"

    async def code(ctx: Context) -> Any:
        return await ctx.spawn("test.slow")

    async with open_workshop() as shop:
        shop.offer(slow, "slow")
        task = await shop.create(code)
        await begun.reached()
        await shop.wait(task, lambda task: task.worker is None)
        await shop.engine.pause(task.task_id)
        await shop.engine.resume(task.task_id)
        await shop.wait(task, lambda task: task.claim == 2 and task.worker is None)
        await shop.engine.pause(task.task_id)
        may_end.set()
        await shop.settle(nap_ms=20)
        assert (await shop.store.task(task.task_id)).status is Status.PAUSED
        await shop.engine.resume(task.task_id)
        assert (await shop.wait(task, Status.COMPLETED)).result == {"value": "ended"}
