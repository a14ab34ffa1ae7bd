"""A claim that comes while the code of an earlier one is still being unwound."""

from collections.abc import Awaitable, Callable

import pytest

from aios.adapter import Context
from aios.model import Status, Task
from tests.unit.engine.runner.workshop import Signal, Workshop, open_workshop


async def pause(shop: Workshop, task: Task) -> None:
    await shop.engine.pause(task.task_id)


async def cancel(shop: Workshop, task: Task) -> None:
    await shop.engine.cancel(task.task_id)


@pytest.mark.parametrize("stop", [pause, cancel])
async def test_code_is_not_begun_again_if_its_task_was_stopped_while_the_old_code_was_leaving(
    stop: Callable[[Workshop, Task], Awaitable[None]],
) -> None:
    leaving, may_leave, runs = Signal(), Signal(), list[str]()

    async def slow_to_leave(ctx: Context) -> str:
        runs.append("run")
        try:
            return await ctx.ask("Which?")
        finally:
            if len(runs) == 1:
                leaving.set()
                await may_leave.reached()

    async with open_workshop(max_parked=1) as shop:
        task = await shop.create(slow_to_leave)
        await shop.wait(task, Status.INPUT_REQUIRED)
        await shop.wait(await shop.create(shop.offer(lambda ctx: ctx.ask("Else?"), "other")), Status.INPUT_REQUIRED)
        await leaving.reached()
        await shop.engine.give_input(task.task_id, "a")
        await shop.wait(task, lambda task: task.worker is not None)
        await stop(shop, task)
        may_leave.set()
        await shop.released(task)
        await shop.settle()
        assert runs == ["run"]
        if stop is pause:
            await shop.engine.resume(task.task_id)
            assert (await shop.wait(task, Status.COMPLETED)).result == {"value": "a"}
