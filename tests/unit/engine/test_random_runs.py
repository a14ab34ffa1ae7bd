"""Random lives of many tasks at once, with crashes between: whatever happens, the house's promises hold."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest

from aios.errors import AiosError, Conflict, InvalidTaskState
from aios.model import Event, InputRequest, Progress, Retry, Status, Step, Task, TaskId, TaskQuery
from aios.rules.lifecycle import EDGES, Ask, Await, Complete, Fail, Log
from aios.testing.clock import ManualClock
from tests.unit.engine.house import House, data_of, open_house, order

TASKS = 12
LIVES = 3
UNFINISHED = tuple(status for status in Status if not status.is_terminal)
ERROR = {"code": -32603, "message": "unlucky"}


class Code:
    """Code of tasks that does random things, and stops as real code does: some time after it was told."""

    def __init__(self, house: House, dice: random.Random) -> None:
        self.house = house
        self.dice = dice
        self.running: set[asyncio.Task[None]] = set()
        self.claims: dict[TaskId, set[int]] = {}

    async def run_all(self) -> None:
        while True:
            task = await self.house.runner.taken.get()
            claims = self.claims.setdefault(task.task_id, set())
            assert task.claim not in claims, "one claim was run twice"
            claims.add(task.claim)
            started = asyncio.create_task(self.run(task))
            self.running.add(started)
            started.add_done_callback(self.running.discard)

    async def run(self, task: Task) -> None:
        engine = self.house.engine
        try:
            for number in range(self.dice.randrange(1, 6)):
                if await self.act(task, number):
                    return
            await self.end(task)
        except (Conflict, InvalidTaskState):
            for _ in range(self.dice.randrange(5)):
                await asyncio.sleep(0)
            await engine.release(task)
        except AiosError as error:
            # It has spawned deeper than it may.
            with suppress(Conflict):
                await engine.record(task, Fail(error.to_wire(), is_retryable=False))

    async def act(self, task: Task, number: int) -> bool:
        """Do one thing; say whether the code has parked by it."""
        engine = self.house.engine
        match self.dice.randrange(8):
            case 0:
                await engine.record(
                    task, Ask(InputRequest(step=f"ask#{task.claim}.{number}", prompt="?", timeout_ms=60_000))
                )
                return True
            case 1:
                child = await engine.spawn(task, order(idempotency_key=f"spawn#{number}"))
                await engine.record(task, Await(child.task_id))
                return True
            case 2:
                await engine.record(task, Await(until=self.house.clock.now()))
                return True
            case 3:
                await engine.put_step(task, Step(key=f"step#{number}", value=b"1"))
            case 4:
                await asyncio.gather(*(engine.record(task, Log("info", "x")) for _ in range(3)))
            case _:
                await self.house.progress(task, Progress(percent=self.dice.randrange(100)))
        return False

    async def end(self, task: Task) -> None:
        if self.dice.random() < 0.3:
            await self.house.engine.record(task, Fail(ERROR, is_retryable=self.dice.random() < 0.7))
        else:
            await self.house.engine.record(task, Complete(task.claim))


async def meddle(house: House, dice: random.Random, ids: list[TaskId]) -> None:
    """Ask random things of random tasks, and let time pass."""
    engine = house.engine
    for _ in range(60):
        task_id = dice.choice(ids)
        command: Callable[[], object] = dice.choice(
            [
                lambda task_id=task_id: engine.pause(task_id),
                lambda task_id=task_id: engine.resume(task_id),
                lambda task_id=task_id: engine.resume(task_id),
                lambda task_id=task_id: engine.give_input(task_id, 1),
                lambda task_id=task_id: engine.give_input(task_id, 1),
                lambda task_id=task_id: engine.cancel(task_id) if dice.random() < 0.1 else engine.task(task_id),
            ]
        )
        with suppress(AiosError):
            await command()  # pyright: ignore[reportGeneralTypeIssues]
        if dice.random() < 0.2:
            house.clock.advance(dice.randrange(3_000))


async def follow(house: House, task_id: TaskId, seen: dict[TaskId, list[Event]]) -> None:
    """Follow a task over crashes: from the last event that was seen."""
    events = seen.setdefault(task_id, [])
    async for page in house.engine.feed.follow(task_id, len(events)):
        events += page.events


async def finish(house: House) -> None:
    """Bring every task to its end, children too."""
    for _ in range(3_000):  # A busy disk may take longer for a write than a turn takes here.
        page = await house.engine.tasks(TaskQuery(principal=None, statuses=UNFINISHED, limit=1_000))
        for task in page.tasks:
            with suppress(AiosError):
                if task.status is Status.PAUSED:
                    await house.engine.resume(task.task_id)
                elif task.status is Status.INPUT_REQUIRED:
                    await house.engine.give_input(task.task_id, 1)
        if not page.tasks and not (await house.engine.counts())["slots"]:
            return
        house.clock.advance(700)
        await asyncio.sleep(0.001)
    raise AssertionError(f"some task hangs, or some slot is held for ever: {await house.engine.counts()}")


def check(task: Task, log: list[Event], seen: list[Event]) -> None:
    """Hold a task's life against what was promised of every task."""
    assert [event.number for event in log] == list(range(1, task.version + 1))
    assert [event.number for event in seen] == [event.number for event in log]
    assert [event.data for event in seen] == [event.data for event in log]
    statuses = [Status.PENDING] + [Status(data_of(event)["status"]) for event in log if event.kind == "task.status"]
    allowed = {*EDGES, (Status.WORKING, Status.WORKING)}
    assert all(step in allowed for step in pairwise(statuses)), statuses
    assert statuses[-1] is task.status
    assert sum(status.is_terminal for status in statuses) == 1
    assert all(one.at <= other.at for one, other in pairwise(log))
    companions = {Status.COMPLETED: ["task.result"], Status.FAILED: ["task.error"], Status.CANCELED: []}
    last_status = max(event.number for event in log if event.kind == "task.status")
    assert [event.kind for event in log if event.number > last_status] == companions[task.status]
    assert task.attempt <= task.spec.retry.max_attempts


async def live(
    house: House, dice: random.Random, ids: list[TaskId], seen: dict[TaskId, list[Event]], *, last: bool
) -> None:
    code = Code(house, dice)
    work = [asyncio.create_task(code.run_all())]
    work += [asyncio.create_task(follow(house, task_id, seen)) for task_id in ids]
    try:
        await meddle(house, dice, ids)
        if last:
            await finish(house)
            async with asyncio.timeout(20):
                await asyncio.gather(*work[1:])
    finally:
        for each in (*work, *code.running):
            each.cancel()
        await asyncio.gather(*work, *code.running, return_exceptions=True)


@pytest.mark.parametrize("seed", range(8))
async def test_whatever_happens_the_promises_hold(seed: int, tmp_path: Path) -> None:
    dice, clock = random.Random(seed), ManualClock()
    ids: list[TaskId] = []
    seen: dict[TaskId, list[Event]] = {}
    slots = dice.choice([1, 3, 50])
    for life in range(LIVES):
        async with open_house(
            tmp_path, clock=clock, worker=f"worker-{life}", max_concurrent_tasks=slots, max_crashes=100
        ) as house:
            if not ids:
                retry = Retry(max_attempts=3, delay_ms=500)
                ids = [(await house.create(timeout_ms=2_000, retry=retry)).task_id for _ in range(TASKS)]
            await live(house, dice, ids, seen, last=life == LIVES - 1)
            if life < LIVES - 1:
                house.store.unseat()  # And then nothing more is done in good order: the next life finds it so.
                continue
            for task_id in ids:
                check(await house.engine.task(task_id), await house.log(task_id), seen[task_id])
