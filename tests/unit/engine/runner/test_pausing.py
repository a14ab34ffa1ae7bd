"""Pause stops all of an attempt's code, gives its slot to others, and loses nothing."""

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any

import pytest

from aios.adapter import BlockingContext, Context
from aios.errors import InvalidTaskState, TaskFinal, TaskTimeout
from aios.model import Status, Task
from tests.unit.engine.runner.workshop import Signal, Workshop, open_workshop


class Ticker:
    """Counts its turns, at each of which it awaits."""

    def __init__(self) -> None:
        self.ticks = 0
        self.begun = Signal()

    async def run(self) -> None:
        while True:
            self.ticks += 1
            if self.ticks > 3:
                self.begun.set()
            await asyncio.sleep(0)


async def paused(shop: Workshop, task: Task) -> Task:
    """Pause, and wait until no code of the task runs any more."""
    await shop.engine.pause(task.task_id)
    return await shop.released(task)


async def assert_holds_and_goes_on(shop: Workshop, task: Task, tickers: list[Ticker]) -> None:
    for ticker in tickers:
        await ticker.begun.reached()
    held = await paused(shop, task)
    assert held.status is Status.PAUSED
    counted = [ticker.ticks for ticker in tickers]
    await shop.settle()
    assert [ticker.ticks for ticker in tickers] == counted
    await shop.engine.resume(task.task_id)
    await shop.wait(task, lambda task: task.worker is not None)
    await shop.settle()
    assert all(ticker.ticks > before for ticker, before in zip(tickers, counted, strict=True))


async def test_the_tasks_of_a_task_group_stop_and_go_on() -> None:
    tickers = [Ticker(), Ticker(), Ticker()]

    async def code(_: Context) -> None:
        async with asyncio.TaskGroup() as group:
            for ticker in tickers[1:]:
                group.create_task(ticker.run())
            await tickers[0].run()

    async with open_workshop() as shop:
        await assert_holds_and_goes_on(shop, await shop.create(code), tickers)


async def test_what_is_gathered_and_what_is_started_and_forgotten_stops_and_goes_on() -> None:
    tickers = [Ticker(), Ticker(), Ticker()]

    async def code(_: Context) -> None:
        strays = [asyncio.create_task(tickers[0].run())]
        await asyncio.gather(tickers[1].run(), tickers[2].run(), *strays)

    async with open_workshop() as shop:
        await assert_holds_and_goes_on(shop, await shop.create(code), tickers)


async def test_a_paused_task_gives_its_slot_to_another() -> None:
    ticker = Ticker()

    async def code(_: Context) -> None:
        await ticker.run()

    async with open_workshop(max_concurrent_tasks=1) as shop:
        task = await shop.create(code)
        await ticker.begun.reached()
        await shop.engine.pause(task.task_id)
        assert (await shop.run("test.nothing")).status is Status.COMPLETED


async def test_a_sleep_that_ended_meanwhile_takes_effect_at_resume() -> None:
    asleep, woken = Signal(), Signal()

    async def code(_: Context) -> str:
        asleep.set()
        await asyncio.sleep(0.05)
        woken.set()
        return "woken"

    async with open_workshop() as shop:
        task = await shop.create(code)
        await asleep.reached()
        await paused(shop, task)
        await shop.settle(nap_ms=100)
        assert not woken.is_set
        await shop.engine.resume(task.task_id)
        assert (await shop.wait(task, Status.COMPLETED)).result == {"value": "woken"}


async def test_a_thread_of_to_thread_keeps_the_slot_until_it_ends_and_its_value_waits_for_resume() -> None:
    begun, may_end, gone_on = Signal(), Signal(), Signal()

    def work() -> int:
        begun.set()
        may_end.wait()
        return 7

    async def code(_: Context) -> int:
        value = await asyncio.to_thread(work)
        gone_on.set()
        return value

    async with open_workshop() as shop:
        task = await shop.create(code)
        await begun.reached()
        await shop.engine.pause(task.task_id)
        await shop.settle()
        assert (await shop.store.task(task.task_id)).worker is not None
        may_end.set()
        await shop.released(task)
        await shop.settle()
        assert not gone_on.is_set
        await shop.engine.resume(task.task_id)
        assert (await shop.wait(task, Status.COMPLETED)).result == {"value": 7}


async def test_cancel_reaches_the_code_of_a_paused_task() -> None:
    begun, ended = Signal(), Signal()
    told = list[str]()

    async def code(_: Context) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            told.append("cleaned up")
            raise
        finally:
            ended.set()

    async with open_workshop(max_concurrent_tasks=1) as shop:
        task = await shop.create(code)
        await begun.reached()
        await paused(shop, task)
        assert (await shop.engine.cancel(task.task_id)).status is Status.CANCELED
        await ended.reached()
        assert told == ["cleaned up"]
        assert (await shop.run("test.nothing")).status is Status.COMPLETED


async def test_a_thread_stops_at_its_next_call_of_the_context() -> None:
    begun, may_go, passed = Signal(), Signal(), Signal()

    def work(ctx: BlockingContext) -> str:
        begun.set()
        may_go.wait()
        ctx.checkpoint()
        passed.set()
        return "done"

    async def code(ctx: Context) -> str:
        return await ctx.in_thread(work)

    async with open_workshop() as shop:
        task = await shop.create(code)
        await begun.reached()
        await shop.engine.pause(task.task_id)
        await shop.settle()
        assert (await shop.store.task(task.task_id)).worker is not None
        may_go.set()
        await shop.released(task)
        assert not passed.is_set
        await shop.engine.resume(task.task_id)
        assert (await shop.wait(task, Status.COMPLETED)).result == {"value": "done"}


@pytest.mark.parametrize("is_good", [True, False])
async def test_the_outcome_of_a_thread_that_ends_while_paused_is_kept_and_applied_at_resume(is_good: bool) -> None:
    begun, may_end = Signal(), Signal()
    runs = list[int]()

    def work(ctx: BlockingContext) -> dict[str, Any]:
        runs.append(ctx.attempt)
        begun.set()
        may_end.wait()
        if not is_good:
            raise ValueError("no good")
        return {"made": "in the pause"}

    async def code(ctx: Context) -> Any:
        return await ctx.in_thread(work, is_last=True)

    async with open_workshop() as shop:
        task = await shop.create(code)
        await begun.reached()
        await shop.engine.pause(task.task_id)
        await shop.settle()
        may_end.set()
        held = await shop.released(task)
        assert held.status is Status.PAUSED
        assert held.outcome is not None
        ended = await shop.engine.resume(task.task_id)
        if is_good:
            assert (ended.status, ended.result) == (Status.COMPLETED, {"made": "in the pause"})
        else:
            assert ended.status is Status.FAILED
            assert ended.error is not None
            assert ended.error["data"]["detail"] == "no good"
        assert runs == [1]


async def test_hooks_are_called_when_the_task_is_paused_goes_on_and_is_canceled() -> None:
    begun, ended, told = Signal(), Signal(), list[str]()

    async def code(ctx: Context) -> None:
        with ctx.pausing(pause=lambda: told.append("pause"), resume=lambda: told.append("resume")):
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                told.append("ended")
                ended.set()

    async with open_workshop() as shop:
        task = await shop.create(code)
        await begun.reached()
        await paused(shop, task)
        await shop.engine.resume(task.task_id)
        await shop.wait(task, lambda task: task.worker is not None)
        await shop.settle()
        await paused(shop, task)
        await shop.engine.cancel(task.task_id)
        await ended.reached()
        assert told == ["pause", "resume", "pause", "resume", "ended"]


async def test_a_timeout_of_the_context_counts_working_time_only() -> None:
    begun, may_end = Signal(), Signal()

    async def code(ctx: Context) -> str:
        async with ctx.timeout(500):
            begun.set()
            await may_end.reached()
        return "in time"

    async with open_workshop() as shop:
        task = await shop.create(code)
        await begun.reached()
        await paused(shop, task)
        await shop.settle(nap_ms=600)
        may_end.set()
        await shop.engine.resume(task.task_id)
        assert (await shop.wait(task, lambda task: task.status.is_terminal)).result == {"value": "in time"}


async def test_a_timeout_of_the_context_that_runs_out_is_raised_in_the_code() -> None:
    async def code(ctx: Context) -> str:
        try:
            async with ctx.timeout(10):
                await asyncio.Event().wait()
        except TaskTimeout as error:
            return error.detail
        return ""

    async with open_workshop() as shop:
        done = await shop.run(code)
        assert done.result == {"value": "the code worked for longer than the 10 ms that it gave itself"}


async def test_a_thread_that_did_not_notice_the_pause_just_goes_on() -> None:
    begun, may_go = Signal(), Signal()

    def work(ctx: BlockingContext) -> str:
        begun.set()
        may_go.wait()
        ctx.log("info", "going on")
        return "done"

    async def code(ctx: Context) -> str:
        return await ctx.in_thread(work)

    async with open_workshop() as shop:
        task = await shop.create(code)
        await begun.reached()
        await shop.engine.pause(task.task_id)
        await shop.settle()
        await shop.engine.resume(task.task_id)
        await shop.settle()
        may_go.set()
        done = await shop.wait(task, Status.COMPLETED)
        assert (done.result, done.claim) == ({"value": "done"}, 1)


async def test_a_task_that_is_paused_before_its_code_begins_begins_at_resume() -> None:
    runs = list[str]()

    async def code(ctx: Context) -> None:
        runs.append(ctx.task_id)

    async with open_workshop() as shop:
        capability = shop.offer(code)
        task = await shop.create(capability)
        await shop.wait(task, Status.WORKING)
        await _quietly(shop.engine.pause(task.task_id))
        await shop.settle()
        await _quietly(shop.engine.resume(task.task_id))
        await shop.wait(task, Status.COMPLETED)
        assert runs == [task.task_id]


async def test_pausing_and_resuming_at_any_moment_loses_nothing_and_runs_nothing_twice(rounds: int) -> None:
    runs = list[str]()

    async def code(ctx: Context) -> int:
        runs.append(ctx.task_id)
        for number in range(5):
            await ctx.log("info", f"line {number}")
            await asyncio.sleep(0)
        return 5

    async with open_workshop() as shop:
        capability = shop.offer(code)
        for number in range(rounds):
            task = await shop.create(capability)
            for _ in range(number % 7):
                await asyncio.sleep(0)
            for _ in range(number % 4):
                await _toggle(shop, task)
            done = await shop.wait(task, lambda task: task.status.is_terminal)
            assert (done.status, done.result) == (Status.COMPLETED, {"value": 5})
            assert runs.count(task.task_id) == 1
        assert (await shop.engine.counts())["slots"] == 0


async def _toggle(shop: Workshop, task: Task) -> None:
    for call in (shop.engine.pause, shop.engine.resume):
        await _quietly(call(task.task_id))


async def _quietly(call: Awaitable[Task]) -> None:
    """Do what may come too late."""
    with suppress(InvalidTaskState, TaskFinal):
        await call
