"""What the writer counts in memory is what the rows say, after any sequence of writes, refused and failed ones among them."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from aios.errors import AiosError
from aios.model import Priority, Progress, Retry, Status, Step, Task
from aios.rules.lifecycle import (
    Await,
    Cancel,
    Command,
    Complete,
    Fail,
    HandBack,
    Lost,
    Pause,
    Report,
    Resume,
)
from aios.stores.sqlite import SqliteStore
from aios.stores.sqlite.slots import Slots
from aios.stores.sqlite.writer import standings
from tests.stores.conftest import Stores
from tests.stores.making import Desk

COMMANDS: tuple[Command, ...] = (
    Report(Progress(percent=1)),
    Complete("done"),
    Fail({"code": -32603, "message": "no"}),
    Pause(None),
    Resume(None),
    Cancel(None),
    HandBack(),
    Lost(max_crashes=1),
    Await(),
)


class Someone:
    """A caller who does one thing after the other, whatever is answered."""

    def __init__(self, desk: Desk, random: Random, name: str, ids: list[str]) -> None:
        self._desk = desk
        self._random = random
        self._name = name
        self._ids = ids
        self._made = 0

    async def live(self, deeds: int) -> None:
        """Do so many things."""
        for _ in range(deeds):
            deed = self._random.choice(
                (self._create, self._command, self._command, self._release, self._step, self._tick)
            )
            try:
                await deed()
            except AiosError:
                continue  # Refused, which is an answer.

    async def _create(self) -> None:
        self._made += 1
        task_id = f"task-{self._name}-{self._made}"
        self._ids.append(task_id)
        later = self._random.choice((0, 0, 0, 500))
        fields: dict[str, Any] = {
            "adapter_id": self._random.choice("abc"),
            "priority": self._random.choice(list(Priority)),
            "retry": Retry(max_attempts=2, delay_ms=self._random.choice((0, 200))),
            "run_at": self._desk.clock.now() + timedelta(milliseconds=later),
        }
        if self._random.random() < 0.05:
            fields["arguments"] = {"not json": object()}
        if len(self._ids) > 3 and self._random.random() < 0.3:
            fields["parent_task_id"] = self._random.choice(self._ids)
        await self._desk.create(task_id, **fields)

    async def _some_task(self) -> Task:
        return await self._desk.store.task(self._random.choice(self._ids or ["task-none"]))  # type: ignore[arg-type]

    async def _command(self) -> None:
        task = await self._some_task()
        command = self._random.choice(COMMANDS)
        if isinstance(command, Await):
            command = Await(child=self._random.choice(self._ids))  # type: ignore[arg-type]
        await self._desk.store.commit(self._desk.change(task, command))

    async def _release(self) -> None:
        task = await self._some_task()
        await self._desk.store.release(task.task_id, claim=task.claim)

    async def _step(self) -> None:
        task = await self._some_task()
        step = Step(key=f"step:{self._random.randrange(3)}", is_secret=self._random.random() < 0.5)
        await self._desk.store.put_step(task.task_id, step, claim=task.claim)

    async def _tick(self) -> None:
        self._desk.clock.advance(self._random.randrange(100))
        self._desk.store.wake()


def counted(slots: Slots) -> dict[str, Any]:
    """Give all that is counted, without what is zero."""
    return {
        "pending": slots.pending,
        "running": slots.running,
        "of_adapter": dict(slots.of_adapter),
        "of_worker": dict(slots.of_worker),
        "unfinished": {status: count for status, count in slots.unfinished.items() if count},
        "waiting": sorted(slots.waiting),
    }


@pytest.mark.parametrize("seed", range(6))
async def test_counters_and_queue_agree_with_the_rows(stores: Stores, seed: int) -> None:
    desk = stores.open(max_concurrent_tasks=6, max_tasks_per_tool=3, max_queue_size=12)
    assert isinstance(desk.store, SqliteStore)
    desk.seated()
    ids: list[str] = []
    callers = [Someone(desk, Random(seed * 100 + n), f"{n}", ids) for n in range(8)]
    for _ in range(5):
        await asyncio.gather(*(caller.live(30) for caller in callers))
        live, fresh = await desk.store._writer.write(lambda transaction: _both(desk, transaction.database))
        assert live == fresh
        assert live["running"] <= 6
        assert all(count <= 3 for count in live["of_adapter"].values())
        assert live["pending"] <= 12
        assert (await desk.store.counts())[Status.PENDING] == live["pending"]
    assert len(ids) > 50


def _both(desk: Desk, database: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Count in memory and from the rows, in the writing thread and between two writes."""
    assert isinstance(desk.store, SqliteStore)
    fresh = Slots(limits=desk.limits)
    fresh.rebuild(standings(database))
    return counted(desk.store._writer.slots), counted(fresh)
