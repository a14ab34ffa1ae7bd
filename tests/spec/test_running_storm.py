"""Many callers steer the same tasks at random at once; whatever they do, the table holds and nothing leaks (protocol.md §4)."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import pytest

from aios.adapter import BlockingContext, Context
from tests.spec.doors import Caller, call
from tests.spec.stage import Arguments, Event, Stage, staged
from tests.spec.test_lifecycle_commands import COMMANDS, MOVES
from tests.spec.test_lifecycle_edges import TABLE

CALLERS = 4
TASKS_AT_ONCE = 8


async def lives(arguments: Arguments, ctx: Context) -> Any:
    """Do a little of everything, so that commands meet the code anywhere."""
    answer = ""
    for number in range(3):
        await ctx.progress(number * 30, f"part {number}")
        await ctx.log("info", f"part {number}")
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.step(f"a {number}", int))
            group.create_task(ctx.step(f"b {number}", asyncio.sleep, 0))
        answer = await ctx.ask(f"Part {number}?", options=["yes", "no"])
        await ctx.authenticate("api_key", f"sign in {number}")
        await ctx.in_thread(works)
    return {"answer": answer}


def works(ctx: BlockingContext) -> None:
    for number in range(3):
        ctx.checkpoint()
        ctx.log("debug", f"in a thread {number}")


async def steer(client: Caller, task_ids: list[str], seed: int) -> Counter[tuple[str, str]]:
    """Send commands at random until all tasks have ended; counts what was carried out, by task and command."""
    draw, living, done = random.Random(seed), list(task_ids), Counter[tuple[str, str]]()
    while living:
        task_id = draw.choice(living)
        command = draw.choices(list(COMMANDS), weights=[4, 5, 8, 8, 0.1])[0]
        answer = await client.ask(call(1, f"aios/task.{command}", {"task_id": task_id, **COMMANDS[command]}))
        if "result" in answer:
            done[task_id, command] += 1
        else:
            error = answer["error"]
            assert error["code"] in {-32107, -32108}, error
            if error["code"] == -32107:
                living.remove(task_id)
    return done


def assert_sound(events: list[Event], carried_out: Counter[str]) -> None:
    """Hold a task's log against the table, and against what callers were told."""
    status, moves = "pending", Counter[str]()
    for event in events:
        if event.status is None:
            continue
        assert event.data["previous_status"] == status
        assert event.status in TABLE[status], (status, event.status)
        for command, to in [(name, to) for (start, name), to in MOVES.items() if (start, to) == (status, event.status)]:
            moves[command] += 1
            assert to == event.status
        status = event.status
    assert status in {"completed", "canceled"}
    assert {name: moves[name] for name in COMMANDS} == {name: carried_out[name] for name in COMMANDS}


async def slots_taken(stage: Stage) -> int:
    async with stage.get("/metrics") as (_, reader):
        while line := (await reader.readline()).decode():
            if line.startswith("aios_slots_taken "):
                return int(float(line.split()[1]))
    raise AssertionError("no such metric")


@pytest.mark.soak
@pytest.mark.promise("4.storm.table-holds", "4.command.one-of-two-wins")
@pytest.mark.parametrize("parked", [1, 1_000])
async def test_whatever_many_callers_do_at_once_every_log_follows_the_table_and_all_slots_come_back(
    parked: int, rounds: int
) -> None:
    slots_and_parked = staged(
        limits__max_concurrent_tasks=4, limits__max_parked=parked, limits__max_parked_threads=parked
    )
    async with slots_and_parked as stage, stage.at("unix") as one, stage.at("websocket") as two:
        for number in range(max(1, rounds // 50)):
            tasks = [await stage.create(lives) for _ in range(TASKS_AT_ONCE)]
            async with stage.at("http") as three, stage.at("tcp") as four:
                callers = (one, two, three, four)
                counts = await asyncio.gather(
                    *(steer(client, tasks, number * CALLERS + each) for each, client in enumerate(callers))
                )
            for task_id in tasks:
                mine = Counter[str]()
                for count in counts:
                    mine.update({command: times for (of, command), times in count.items() if of == task_id})
                assert_sound(await stage.end(task_id), mine)
            async with asyncio.timeout(10):
                while await slots_taken(stage):
                    continue
