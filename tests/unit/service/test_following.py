"""However readers come, go and come again while a task runs, each sees every event once and in order."""

from __future__ import annotations

import asyncio
import random
from contextlib import aclosing

import pytest

from aios.model import Event, Task
from aios.protocol.events import Snapshot
from aios.rules.lifecycle import Log
from tests.unit.engine.house import PATIENCE_S
from tests.unit.service.desk import ALICE, Desk, open_desk

READERS = 20
GROUPS = 12


async def run(desk: Desk, task: Task, dice: random.Random) -> None:
    """Let the task say something in groups of a few lines, and end."""
    for _ in range(GROUPS):
        await desk.engine.record(task, *(Log("info", "line") for _ in range(dice.randint(1, 9))))
        if dice.random() < 0.3:
            await desk.engine.pause(task.task_id)
            await desk.engine.resume(task.task_id)
            task = await desk.engine.task(task.task_id)
    await desk.complete(task)


async def read_in_pieces(desk: Desk, task: Task, dice: random.Random) -> list[int]:
    """Read to the end, going away at any event and coming back with its id, as `EventSource` does."""
    seen: list[int] = []
    while True:
        after = f"evt-{seen[-1]:03d}" if seen else "start"
        found = await desk.service.open_task(ALICE, task.task_id, after)
        if found is None:
            return seen
        rest = dice.randint(1, 30)
        async with aclosing(desk.service.subscriptions.follow(found)) as pages:
            async for page in pages:
                seen.extend(_number(event) for event in page[:rest])
                rest -= len(page)
                if rest <= 0:
                    break


async def resubscribe(desk: Desk, task: Task, dice: random.Random) -> list[int]:
    """Read over duplex connections, each of which is lost after a while."""
    caller = await desk.opened(ALICE)
    await caller.ask("aios/task.subscribe", {"task_id": task.task_id, "from": "start"})
    await caller.hear()
    seen: list[int] = []
    while True:
        for _ in range(dice.randint(1, 15)):
            told = await caller.hear()
            seen.append(int(told["params"]["event_id"].removeprefix("evt-")))
            if told["method"] == "aios/task.result":
                return seen
        await caller.connection.close()
        caller = await desk.opened(ALICE)
        last = {"task_id": task.task_id, "last_event_id": f"evt-{seen[-1]:03d}"}
        made = await caller.ask("aios/task.resubscribe", last)
        await caller.hear()
        seen += [int(each["id"].removeprefix("evt-")) for each in made["missed_events"]]
        if made["missed_events"] and made["missed_events"][-1]["event"] == "task.result":
            return seen


def _number(event: Event | Snapshot) -> int:
    return int(event.event_id.removeprefix("evt-"))


@pytest.mark.soak
async def test_each_reader_sees_every_event_once_and_in_order(rounds: int) -> None:
    for seed in range(max(1, rounds // 20)):
        dice = random.Random(seed)
        async with open_desk() as desk, asyncio.timeout(PATIENCE_S):
            task = await desk.started(ALICE)
            readers = [
                asyncio.create_task(read(desk, task, random.Random(dice.random())))
                for read in (read_in_pieces, resubscribe)
                for _ in range(READERS)
            ]
            await run(desk, task, dice)
            last = (await desk.engine.task(task.task_id)).version
            for seen in await asyncio.gather(*readers):
                assert seen == list(range(1, last + 1)), seed
