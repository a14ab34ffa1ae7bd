"""Random programs run under random pauses, cancels, answers and evictions: all end, with the result that was due."""

import asyncio
import random
from contextlib import suppress
from typing import Any

import pytest

from aios.adapter import BlockingContext, Context
from aios.errors import AiosError
from aios.model import JsonObject, Status, Task, TaskId
from tests.unit.engine.runner.workshop import Workshop, open_workshop

MOVES = ("yield", "log", "step", "ask", "spawn", "sleep", "nap", "thread", "group", "impatience")
LENGTH_MAX = 6
TASKS = 6
SECONDS_MAX = 30


async def program(arguments: JsonObject, ctx: Context) -> list[Any]:
    """Make moves that follow from the seed alone, and give what they gave."""
    dice = random.Random(arguments["seed"])
    moves = [dice.choice(MOVES) for _ in range(dice.randint(0, LENGTH_MAX))]
    return [await make(move, ctx, number, arguments["depth"]) for number, move in enumerate(moves)]


async def make(move: str, ctx: Context, number: int, depth: int) -> Any:
    match move:
        case "log":
            await ctx.log("info", f"move {number}")
        case "step":
            return await ctx.step(f"step {number}", slow_double, number)
        case "ask":
            return await ctx.ask(f"question {number}")
        case "impatience":
            with suppress(TimeoutError):
                async with asyncio.timeout(0.002):
                    await ctx.ask(f"impatient question {number}")
        case "sleep":
            await ctx.sleep(1_500)
        case "nap":
            await asyncio.sleep(0.001)
        case "thread":
            return await ctx.in_thread(lambda face: in_thread(face, number))
        case "spawn" if depth:
            return await ctx.spawn("test.program", {"seed": number, "depth": 0}, key=f"child {number}")
        case "group":
            async with asyncio.TaskGroup() as group:
                strands = [group.create_task(strand(ctx, number * 10 + each, depth)) for each in range(3)]
            return [each.result() for each in strands]
        case _:
            await asyncio.sleep(0)
    return number


async def strand(ctx: Context, number: int, depth: int) -> Any:
    return await make(("step", "nap", "ask", "spawn", "sleep")[number % 5], ctx, number, depth)


async def slow_double(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


def in_thread(ctx: BlockingContext, number: int) -> Any:
    ctx.checkpoint()
    doubled = ctx.step(f"in thread {number}", lambda: 2 * number)
    return [doubled, ctx.ask(f"from thread {number}") if number % 2 else None]


def due(seed: int, depth: int) -> list[Any]:
    """Say what the program gives."""
    dice = random.Random(seed)
    moves = [dice.choice(MOVES) for _ in range(dice.randint(0, LENGTH_MAX))]
    return [due_of(move, number, depth) for number, move in enumerate(moves)]


def due_of(move: str, number: int, depth: int) -> Any:
    match move:
        case "step":
            return 2 * number
        case "ask":
            return f"question {number}"
        case "thread":
            return [2 * number, f"from thread {number}" if number % 2 else None]
        case "spawn" if depth:
            return {"value": due(number, 0)}
        case "group":
            kinds = ("step", "nap", "ask", "spawn", "sleep")
            return [due_of(kinds[each % 5], each, depth) for each in range(number * 10, number * 10 + 3)]
        case _:
            return number


async def disturb(shop: Workshop, dice: random.Random, task: Task) -> bool:
    """Do something to a task; say whether it has ended."""
    now = await shop.engine.task(task.task_id)
    if now.status.is_terminal:
        return True
    try:
        if now.request is not None:
            await shop.engine.give_input(now.task_id, getattr(now.request, "prompt", ""))
        elif now.status is Status.PAUSED:
            await shop.engine.resume(now.task_id)
        elif dice.random() < 0.3:
            await shop.engine.pause(now.task_id)
    except AiosError:
        return False  # It has gone on by itself meanwhile.
    return False


async def live(shop: Workshop, dice: random.Random, canceled: set[TaskId]) -> list[Task]:
    seeds = [dice.randrange(1_000_000) for _ in range(TASKS)]
    tasks = [await shop.create("test.program", arguments={"seed": seed, "depth": 1}) for seed in seeds]
    everybody = list[Task]()
    async with asyncio.timeout(SECONDS_MAX):
        while True:
            page = await shop.store.tasks(_all())
            everybody = [task for task in page.tasks if task.spec.capability_id == "test.program"]
            ended = [await disturb(shop, dice, task) for task in everybody]
            if dice.random() < 0.02:
                victim = dice.choice(tasks)
                canceled.add(victim.task_id)
                await _quietly(shop.engine.cancel(victim.task_id))
            shop.clock.advance(dice.choice((0, 0, 0, 700)))
            await asyncio.sleep(0)
            if all(ended):
                return tasks


def _all() -> Any:
    from aios.model import TaskQuery

    return TaskQuery(principal=None, limit=500)


async def _quietly(errand: Any) -> None:
    try:
        await errand
    except AiosError:
        return


@pytest.mark.parametrize("max_parked", [1, 1_000])
async def test_every_life_ends_as_it_should_whatever_disturbs_it(rounds: int, max_parked: int) -> None:
    for seed in range(max(1, rounds // 20)):
        dice, canceled = random.Random(seed), set[TaskId]()
        async with open_workshop(
            max_concurrent_tasks=dice.choice((1, 2, 10)), max_parked=max_parked, max_parked_threads=2
        ) as shop:
            shop.registry.remove(shop.adapter.adapter_id)
            shop.adapter.offer("test.program", program)
            shop.registry.add(shop.adapter)
            for task in await live(shop, dice, canceled):
                ended = await shop.engine.task(task.task_id)
                if ended.task_id in canceled and ended.status is Status.CANCELED:
                    continue
                wanted = due(ended.spec.arguments["seed"], 1)
                assert (ended.status, ended.result) == (Status.COMPLETED, {"value": wanted}), (seed, ended.error)
                assert (ended.attempt, ended.crashes) == (1, 0)
            await shop.settle()
            assert (await shop.engine.counts())["slots"] == 0
            assert len(shop.runner) == 0
