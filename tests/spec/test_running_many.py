"""Very many tasks that wait for an answer at once: they cost disk, not memory (protocol.md §12)."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncGenerator, Iterable
from itertools import islice
from typing import Any

import msgspec
import psutil
import pytest

from aios.adapter import Context
from tests.spec.doors import Caller, call
from tests.spec.stage import CAPABILITY, Arguments, Stage, staged

CROWD = 20
"""Waiting tasks for each round: 2 000 in 100 rounds."""
CROWD_MAX = 100_000
PARKED_MAX = 100
AT_ONCE = 100
"""Calls under way at once; a connection may have 200."""
GROWTH_MAX = 128 * 1024 * 1024
"""Bytes by which the process may grow: the store's page caches (64 MiB to write, 8 MiB for each reader) and what the allocator
does not give back. The ballast of 100 000 alone would be six times that."""


class Ballast:
    """Something that code holds on to while it waits, if it is kept in memory."""

    def __init__(self, alive: weakref.WeakSet[Ballast]) -> None:
        self.bytes = bytes(8 * 1024)
        alive.add(self)


async def ask_all(client: Caller, method: str, params: Iterable[dict[str, Any]]) -> AsyncGenerator[Any]:
    """Call a method many times over one connection; gives the results in the order of the params, and keeps none."""
    left = iter(params)
    while page := list(islice(left, AT_ONCE)):
        for number, each in enumerate(page):
            await client.door.send(msgspec.json.encode(call(number, method, each)))
        answers = [await client.answer() for _ in page]
        for answer in sorted(answers, key=lambda answer: answer["id"]):
            yield answer["result"]


async def waiting(stage: Stage) -> int:
    """How many tasks wait for an answer."""
    async with stage.get("/metrics") as (_, reader):
        while line := (await reader.readline()).decode():
            if line.startswith('aios_tasks{status="input_required"}'):
                return int(float(line.split()[1]))
    raise AssertionError("no such metric")


async def come_to_wait(client: Caller, numbers: range, code: Arguments) -> list[str]:
    """Create tasks, each of which is answered when it waits for an answer itself; gives their ids."""
    orders = ({"capability_id": CAPABILITY, "arguments": {**code, "number": number}} for number in numbers)
    tasks: list[str] = []
    async for task in ask_all(client, "aios/task.create", orders):
        assert task["status"] == "input_required"
        tasks.append(task["task_id"])
    return tasks


@pytest.mark.soak
@pytest.mark.promise("12.memory.bounded")
async def test_very_many_questions_wait_in_bounded_memory_and_each_gets_its_own_answer(rounds: int) -> None:
    alive = weakref.WeakSet[Ballast]()

    async def asks(arguments: Arguments, ctx: Context) -> Any:
        number, ballast = arguments["number"], Ballast(alive)
        return {"answer": await ctx.ask(f"What about {number}?"), "number": number, "ballast": len(ballast.bytes)}

    crowd = min(CROWD * rounds, CROWD_MAX)
    async with staged(limits__max_parked=PARKED_MAX) as stage, stage.at("unix") as client:
        code, process = stage.named(asks), psutil.Process()
        first = await come_to_wait(client, range(crowd // 4), code)
        before = process.memory_info().rss
        tasks = first + await come_to_wait(client, range(crowd // 4, crowd), code)
        assert process.memory_info().rss - before < GROWTH_MAX
        assert await waiting(stage) == crowd
        async with asyncio.timeout(10):
            while len(alive) > PARKED_MAX:
                await waiting(stage)
        # From all over the crowd: the oldest are out of memory since long, the youngest are parked.
        chosen = {number: tasks[number] for number in range(0, crowd, max(1, crowd // 50))}
        answers = [{"task_id": task_id, "input": f"answer {number}"} for number, task_id in chosen.items()]
        assert {each["status"] async for each in ask_all(client, "aios/task.input", answers)} == {"working"}
        for number, task_id in chosen.items():
            expected = {"answer": f"answer {number}", "number": number, "ballast": 8 * 1024}
            assert (await stage.end(task_id))[-1].data["result"] == expected
        assert await waiting(stage) == crowd - len(chosen)
