"""Code that comes to an odd end, or to none."""

import asyncio
import gc

import pytest

from aios.adapter import BlockingContext, Context
from aios.engine.runner.attempt import Attempt
from aios.engine.runner.run import Run
from aios.model import Retry, Status
from aios.rules.lifecycle.ending import ENDING_MS_MIN
from tests.unit.engine.runner.workshop import Signal, open_workshop


class Sealed:
    """What raises when it is looked at: an unbound proxy, say."""

    @property
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride]
        raise RuntimeError("not bound to anything")


class Speechless(Exception):
    """An error without words."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize("is_blocking", [False, True])
@pytest.mark.parametrize("is_raised", [False, True])
async def test_code_that_ends_with_what_cannot_be_looked_at_has_ended_all_the_same(
    is_blocking: bool, is_raised: bool
) -> None:
    def work(_: BlockingContext) -> Sealed:
        if is_raised:
            raise Speechless
        return Sealed()

    async def code(ctx: Context) -> Sealed:
        return await ctx.in_thread(work, is_last=True) if is_blocking else work(None)  # type: ignore[arg-type]

    async with open_workshop() as shop:
        assert (await shop.run(code)).status is Status.FAILED
        assert (await shop.engine.counts())["slots"] == 0


async def test_code_that_hangs_for_ever_keeps_its_slot_but_not_its_task_working() -> None:
    begun, may_end = Signal(), Signal()

    def work(ctx: BlockingContext) -> None:
        begun.set()
        may_end.wait()

    async def code(ctx: Context) -> None:
        await ctx.in_thread(work, is_last=True)

    async with open_workshop() as shop:
        task = await shop.create(code, timeout_ms=1_000, retry=Retry(max_attempts=5, delay_ms=200))
        await begun.reached()
        shop.clock.advance(1_000)
        await shop.wait(task, lambda task: task.attempt == 2)
        shop.clock.advance(200 + ENDING_MS_MIN)
        failed = await shop.wait(task, Status.FAILED)
        assert failed.error is not None
        assert (failed.attempt, failed.error["code"]) == (2, -32005)
        assert (await shop.engine.counts())["slots"] == 1
        may_end.set()
        await shop.released(task)


async def test_what_an_attempt_held_is_free_with_its_end_and_waits_for_no_collection() -> None:
    async def code(ctx: Context) -> str:
        await ctx.progress(50)
        await ctx.log("info", "half")
        return "done"

    async with open_workshop() as shop:
        gc.collect()
        gc.disable()
        try:
            await shop.run(code)
            await shop.settle()
            await asyncio.sleep(0)
            # The type, because dead proxies are among all objects, and cannot be asked for their class.
            assert [each for each in gc.get_objects() if type(each) in (Run, Attempt)] == []
        finally:
            gc.enable()


@pytest.mark.parametrize("how", ["evicted", "canceled", "timed out"])
async def test_what_an_attempt_held_is_free_when_it_is_stopped_however_that_comes(how: str) -> None:
    async def code(ctx: Context) -> str:
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(ctx.ask("Which?", timeout_ms=1_000))
        return str(asking.result())

    async with open_workshop(max_parked=1) as shop:
        capability = shop.offer(code)
        gc.collect()
        gc.disable()
        try:
            tasks = [await shop.create(capability) for _ in range(5)]
            for task in tasks:
                await shop.wait(task, Status.INPUT_REQUIRED)
                if how == "canceled":
                    await shop.engine.cancel(task.task_id)
            if how == "timed out":
                shop.clock.advance(1_000)
                for task in tasks:
                    await shop.wait(task, Status.FAILED)
            await shop.settle()
            await asyncio.sleep(0)
            left = [each for each in gc.get_objects() if type(each) is Run]
            assert len(left) <= (1 if how == "evicted" else 0)
        finally:
            gc.enable()
