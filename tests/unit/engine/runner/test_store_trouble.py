"""A store that is out of order for a while: nothing is lost, and code hears of it where it can do something about it."""

import asyncio
from typing import Any

import pytest

from aios.adapter import Context
from aios.engine.runner import attempt, claim
from aios.errors import CapabilityFailed, StoreUnavailable
from aios.model import Retry, Status, Task
from aios.rules.lifecycle import Ask, Await, Command, Complete, Fail, Log
from tests.unit.engine.runner.workshop import Signal, Workshop, open_workshop


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim, "AGAIN_MS", 1)
    monkeypatch.setattr(attempt, "AGAIN_MS", 1)


class Trouble:
    """Lets the first `times` commands of a kind fail."""

    def __init__(self, shop: Workshop, kind: type[Command], times: int = 3) -> None:
        self.left = times
        self._kind = kind
        self._recorded = shop.engine.recorded
        shop.engine.recorded = self.recorded  # type: ignore[method-assign]

    def recorded(self, task: Task, *commands: Command) -> asyncio.Future[Task]:
        if self.left and any(isinstance(each, self._kind) for each in commands):
            self.left -= 1
            failed: asyncio.Future[Task] = asyncio.get_running_loop().create_future()
            failed.set_exception(StoreUnavailable("the disk is full"))
            return failed
        return self._recorded(task, *commands)


async def ask(ctx: Context) -> Any:
    return await ctx.ask("Which?")


@pytest.mark.parametrize("kind", [Complete, Fail])
async def test_the_end_of_an_attempt_is_recorded_as_soon_as_it_can_be(kind: type[Command]) -> None:
    runs = list[int]()

    async def code(_: Context) -> str:
        runs.append(1)
        if kind is Fail:
            raise CapabilityFailed("no good")
        return "done"

    async with open_workshop() as shop:
        trouble = Trouble(shop, kind)
        done = await shop.run(code)
        assert done.status is (Status.COMPLETED if kind is Complete else Status.FAILED)
        assert trouble.left == 0
        assert runs == [1]


async def test_code_that_tells_something_hears_that_it_could_not_be_written() -> None:
    async def code(ctx: Context) -> str:
        try:
            await ctx.log("info", "hello")
        except StoreUnavailable as error:
            return error.detail
        return ""

    async with open_workshop() as shop:
        Trouble(shop, Log)
        assert (await shop.run(code)).result == {"value": "the disk is full"}


async def test_code_hears_that_its_question_could_not_be_put_and_may_put_it_again() -> None:
    async def code(ctx: Context) -> Any:
        with pytest.raises(StoreUnavailable):
            await ctx.ask("Which?", name="first")
        return await ctx.ask("Which?", name="second")

    async with open_workshop() as shop:
        Trouble(shop, Ask, 1)
        task = await shop.create(code)
        await shop.wait(task, Status.INPUT_REQUIRED)
        await shop.engine.give_input(task.task_id, "a")
        assert (await shop.wait(task, Status.COMPLETED)).result == {"value": "a"}


async def test_an_attempt_that_cannot_park_tries_again() -> None:
    async def code(ctx: Context) -> str:
        await ctx.sleep(60_000)
        return "awake"

    async with open_workshop() as shop:
        trouble = Trouble(shop, Await)
        task = await shop.create(code)
        await shop.wait(task, lambda task: task.worker is None and task.claim == 1)
        assert trouble.left == 0
        shop.clock.advance(60_000)
        assert (await shop.wait(task, Status.COMPLETED)).result == {"value": "awake"}


async def test_a_strand_that_needs_a_slot_asks_until_it_is_heard() -> None:
    may_go_on, gone_on = Signal(), Signal()

    async def other() -> None:
        await may_go_on.reached()
        gone_on.set()

    async def code(ctx: Context) -> str:
        async with asyncio.TaskGroup() as group:
            group.create_task(other())
            await ctx.sleep(60_000)
        return "done"

    async with open_workshop() as shop:
        task = await shop.create(code)
        await shop.wait(task, lambda task: task.worker is None and task.claim == 1)
        trouble = Trouble(shop, Await)
        may_go_on.set()
        await gone_on.reached()
        assert trouble.left == 0
        shop.clock.advance(60_000)
        assert (await shop.wait(task, Status.COMPLETED)).result == {"value": "done"}


async def test_steps_that_cannot_be_read_are_read_later(monkeypatch: pytest.MonkeyPatch) -> None:
    left = [1, 1, 1]

    async def code(ctx: Context) -> Any:
        value = await ctx.step("first", lambda: 7)
        if ctx.attempt == 1:
            raise CapabilityFailed("once more")
        return value

    async with open_workshop() as shop:
        read = shop.engine.steps

        async def steps(task: Task) -> Any:
            if left:
                left.pop()
                raise StoreUnavailable("the disk is gone")
            return await read(task)

        monkeypatch.setattr(shop.engine, "steps", steps)
        assert (await shop.run(code, retry=Retry(max_attempts=2))).result == {"value": 7}


async def test_an_answer_is_read_later_where_it_cannot_be_read_now(monkeypatch: pytest.MonkeyPatch) -> None:
    left = [1, 1]

    async with open_workshop() as shop:
        read = shop.engine.steps

        async def steps(task: Task) -> Any:
            if left:
                left.pop()
                raise StoreUnavailable("the disk is gone")
            return await read(task)

        monkeypatch.setattr(shop.engine, "steps", steps)
        task = await shop.create(ask)
        await shop.wait(task, Status.INPUT_REQUIRED)
        await shop.engine.give_input(task.task_id, "a")
        assert (await shop.wait(task, Status.COMPLETED)).result == {"value": "a"}


async def test_an_adapter_that_is_gone_fails_the_attempt_with_a_sentence() -> None:
    async with open_workshop() as shop:
        task = await shop.create(ask, delay_ms=1_000)
        shop.registry.remove(shop.adapter.adapter_id)
        shop.clock.advance(1_000)
        failed = await shop.wait(task, Status.FAILED)
        assert failed.error is not None
        assert failed.error["message"] == "Adapter not available"
        shop.registry.add(shop.adapter)
