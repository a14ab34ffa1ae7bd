"""Durable steps: run once, found again, and not mistaken for another."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from aios.adapter import BlockingContext, Context
from aios.errors import CapabilityFailed, StepNameRepeated
from aios.model import Retry, Status, Step, Task
from tests.unit.engine.runner.workshop import Signal, Workshop, open_workshop

TWICE = Retry(max_attempts=2)


class Counted:
    """A function that is to run once."""

    def __init__(self) -> None:
        self.calls = list[Any]()

    def work(self, argument: Any = None) -> Any:
        self.calls.append(argument)
        return {"tuple": (1, 2), "argument": argument}

    async def work_slowly(self, argument: Any = None) -> Any:
        await asyncio.sleep(0)
        return self.work(argument)


async def steps_of(shop: Workshop, task: Task) -> list[Step]:
    return await shop.store.steps(task.task_id)


async def test_a_recorded_step_is_not_run_again_by_another_attempt() -> None:
    counted, values = Counted(), list[Any]()

    async def code(ctx: Context) -> None:
        values.append(await ctx.step("slow", counted.work_slowly, "a"))
        values.append(await ctx.step("quick", counted.work, "b"))
        if ctx.attempt == 1:
            raise CapabilityFailed("once more")

    async with open_workshop() as shop:
        done = await shop.run(code, retry=TWICE)
        assert done.status is Status.COMPLETED
        assert {step.key for step in await steps_of(shop, done)} == {"step:slow#1", "step:quick#1"}
    assert counted.calls == ["a", "b"]
    first_run, second_run = values[:2], values[2:]
    assert first_run == second_run == [{"tuple": [1, 2], "argument": each} for each in "ab"]


async def test_steps_of_one_name_are_told_apart_by_their_occurrence_or_their_key() -> None:
    counted = Counted()

    async def code(ctx: Context) -> list[Any]:
        values = [(await ctx.step("same", counted.work, number))["argument"] for number in range(3)]
        values.append((await ctx.step("same", counted.work, "keyed", key="mine"))["argument"])
        values.append((await ctx.step("same", counted.work, "keyed", key="mine"))["argument"])
        if ctx.attempt == 1:
            raise CapabilityFailed("once more")
        return values

    async with open_workshop() as shop:
        done = await shop.run(code, retry=TWICE)
        assert done.result == {"value": [0, 1, 2, "keyed", "keyed"]}
    assert counted.calls == [0, 1, 2, "keyed"]


async def test_a_step_that_failed_is_run_again() -> None:
    calls = list[int]()

    async def work(attempt: int) -> str:
        calls.append(attempt)
        if attempt == 1:
            raise CapabilityFailed("not yet")
        return "done"

    async def code(ctx: Context) -> str:
        return await ctx.step("work", lambda: work(ctx.attempt))

    async with open_workshop() as shop:
        assert (await shop.run(code, retry=TWICE)).result == {"value": "done"}
    assert calls == [1, 2]


@pytest.mark.parametrize("what", ["function", "arguments"])
async def test_a_step_that_has_become_another_fails_the_task_for_good(what: str) -> None:
    counted = Counted()

    async def code(ctx: Context) -> None:
        if ctx.attempt == 1:
            await ctx.step("work", counted.work, 1)
            raise CapabilityFailed("once more")
        await ctx.step("work", *((counted.work_slowly, 1) if what == "function" else (counted.work, 2)))

    async with open_workshop() as shop:
        done = await shop.run(code, retry=Retry(max_attempts=5))
        assert (done.status, done.attempt) == (Status.FAILED, 2)
        assert done.error is not None
        assert done.error["message"] == "capability changed"
        assert done.error["data"]["error_id"] == "AIOS-CAPABILITY-CHANGED"


async def test_two_open_steps_of_one_name_are_an_error_that_says_so() -> None:
    may_end = Signal()

    async def code(ctx: Context) -> str:
        async def first() -> None:
            await ctx.step("same", may_end.reached)

        one = asyncio.create_task(first())
        await asyncio.sleep(0)
        try:
            await ctx.step("same", may_end.reached)
        except StepNameRepeated as error:
            may_end.set()
            await one
            await ctx.step("same", may_end.reached)
            return error.detail
        return ""

    async with open_workshop() as shop:
        done = await shop.run(code)
        assert done.result is not None
        assert "need different names, or a key each" in done.result["value"]


async def test_steps_are_read_only_where_there_can_be_some(monkeypatch: pytest.MonkeyPatch) -> None:
    read = list[int]()

    async def code(ctx: Context) -> None:
        if ctx.attempt == 1:
            raise CapabilityFailed("once more")

    async with open_workshop() as shop:
        steps = shop.engine.steps

        async def counted(task: Task) -> list[Step]:
            read.append(task.attempt)
            return await steps(task)

        monkeypatch.setattr(shop.engine, "steps", counted)
        await shop.run("test.nothing")
        assert read == []
        await shop.run(code, retry=TWICE)
        assert read == [2]


async def test_a_secret_step_is_sealed_in_the_store_and_hidden_in_errors() -> None:
    async def code(ctx: Context) -> None:
        secret = await ctx.step("token", lambda: {"token": "canary-5f3a"}, secret=True)
        if ctx.attempt == 1:
            raise CapabilityFailed("once more")
        raise ValueError(f"cannot use {secret['token']}")

    async with open_workshop() as shop:
        kept = list[Step]()
        task = await shop.create(code, retry=Retry(max_attempts=2, delay_ms=1_000))
        await shop.wait(task, lambda task: task.attempt == 2)
        kept += await steps_of(shop, task)
        shop.clock.advance(1_000)
        done = await shop.wait(task, Status.FAILED)
        assert done.error is not None
        assert done.error["data"]["detail"] == "cannot use •••"
    assert kept[0].is_secret
    assert b"canary-5f3a" not in kept[0].value


@pytest.mark.parametrize(
    ("value", "sentence"),
    [(float("nan"), "nan"), (object(), "not JSON"), ("x" * 2_000, "at most 1000 are allowed")],
)
async def test_a_value_that_cannot_be_kept_fails_the_attempt_with_a_sentence(value: Any, sentence: str) -> None:
    async def code(ctx: Context) -> None:
        await ctx.step("work", lambda: value)

    async with open_workshop(max_step_size=1_000) as shop:
        done = await shop.run(code)
        assert done.error is not None
        assert sentence in done.error["data"]["detail"]
        assert "step 'work'" in done.error["data"]["detail"]


async def test_a_thread_has_durable_steps_too() -> None:
    counted = Counted()

    def work(ctx: BlockingContext) -> Any:
        value = ctx.step("work", counted.work, 1)
        ctx.step("after", counted.work, 2, secret=True)
        if ctx.attempt == 1:
            raise CapabilityFailed("once more")
        return value

    async def code(ctx: Context) -> Any:
        return await ctx.in_thread(work, is_last=True)

    async with open_workshop() as shop:
        done = await shop.run(code, retry=TWICE)
        assert done.result == {"tuple": [1, 2], "argument": 1}
    assert counted.calls == [1, 2]


async def test_a_long_sleep_gives_the_slot_back_and_is_not_slept_anew(tmp_path: Path) -> None:
    runs = list[int]()

    async def code(ctx: Context) -> str:
        runs.append(1)
        await ctx.sleep(60_000)
        return "awake"

    async with open_workshop(tmp_path) as shop:
        task = await shop.create(code)
        asleep = await shop.wait(task, lambda task: task.run_at is not None and task.worker is None and task.claim == 1)
        assert asleep.status is Status.WORKING
        clock = shop.clock
    async with open_workshop(tmp_path, clock=clock, worker="worker-2") as shop:
        shop.offer(code)
        clock.advance(60_000)
        assert (await shop.wait(task, Status.COMPLETED)).result == {"value": "awake"}
    assert runs == [1, 1]


async def test_a_sleep_beside_working_code_does_not_hold_that_up() -> None:
    ticks = list[int]()
    enough = Signal()

    async def tick() -> None:
        while not enough.is_set:
            ticks.append(1)
            if len(ticks) > 50:
                enough.set()
            await asyncio.sleep(0.001)

    async def code(ctx: Context) -> int:
        async with asyncio.TaskGroup() as group:
            group.create_task(tick())
            await ctx.sleep(2_000)
        return len(ticks)

    async with open_workshop() as shop:
        task = await shop.create(code)
        await enough.reached()
        await shop.wait(task, lambda task: task.worker is None)
        shop.clock.advance(2_000)
        assert (await shop.wait(task, Status.COMPLETED)).claim == 2


async def test_a_short_sleep_keeps_the_slot() -> None:
    async def code(ctx: Context) -> None:
        await ctx.sleep(1)

    async with open_workshop() as shop:
        assert (await shop.run(code)).claim == 1
