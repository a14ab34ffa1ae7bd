"""Progress is told at most twenty times a second, and the last of it is never lost."""

from __future__ import annotations

import asyncio

import pytest

from aios.engine.pace import Pace
from aios.errors import Conflict
from aios.model import Progress, Status, Task, TaskId, TaskSpec
from aios.rules.lifecycle import Fail, Log
from aios.testing.clock import ManualClock
from tests.unit.engine.house import House, data_of, open_house


async def percents(house: House, task_id: str) -> list[float]:
    log = await house.log(task_id)  # pyright: ignore[reportArgumentType]
    return [data_of(event)["progress"]["percent"] for event in log if event.kind == "task.progress"]


async def test_the_first_report_is_written_at_once_and_the_latest_of_the_rest_when_its_time_has_come() -> None:
    async with open_house() as house:
        task = await house.started()
        for percent in range(10):
            await house.progress(task, Progress(percent=percent))
        assert await percents(house, task.task_id) == [0]
        following = asyncio.create_task(house.wait(task.task_id, lambda now: now.version == 3))
        house.clock.advance(50)
        assert (await following).progress == Progress(percent=9)
        assert await percents(house, task.task_id) == [0, 9]


async def test_a_second_of_reports_becomes_twenty_events_and_no_more() -> None:
    async with open_house() as house:
        task = await house.started()
        for step in range(1_000):
            await house.progress(task, Progress(percent=step / 10))
            house.clock.advance(1)
        await house.complete(task)
        told = await percents(house, task.task_id)
        assert len(told) <= 21
        assert told == sorted(told)
        assert told[-1] == 99.9


def test_what_is_reported_while_another_report_is_being_written_waits_for_its_own_time() -> None:
    clock, flushed = ManualClock(), list[TaskId]()
    pace = Pace(clock=clock, per_second=20, flush=flushed.append)
    spec = TaskSpec(capability_id="a.b", adapter_id="a", principal="p", created_at=clock.now())
    task = Task(task_id=TaskId("task-1"), spec=spec, status=Status.WORKING, updated_at=clock.now())
    assert pace.admit(task, Progress(percent=1))
    assert not pace.admit(task, Progress(percent=2))
    clock.advance(50)
    assert len(flushed) == 1
    under_way = pace.held(task)
    assert under_way is not None
    for percent in range(3, 13):
        assert not pace.admit(task, Progress(percent=percent))
        clock.advance(1)
    pace.written(task.task_id, under_way)
    assert pace.held(task) == Progress(percent=12)
    clock.advance(49)
    assert len(flushed) == 1
    clock.advance(1)
    assert len(flushed) == 2


async def test_what_is_held_is_written_before_the_tasks_next_event_whoever_causes_it() -> None:
    async with open_house() as house:
        for cause in ("log", "complete", "fail", "pause", "cancel"):
            task = await house.started()
            await house.progress(task, Progress(percent=1))
            await house.progress(task, Progress(percent=2))
            match cause:
                case "log":
                    await house.engine.record(task, Log("info", "x"))
                case "complete":
                    await house.complete(task)
                case "fail":
                    await house.engine.record(task, Fail({"code": 1, "message": "x"}))
                case "pause":
                    await house.engine.pause(task.task_id)
                case _:
                    await house.engine.cancel(task.task_id)
            kinds = await house.kinds(task.task_id)
            assert kinds[:3] == ["status working", "progress", "progress"], cause
            assert len(kinds) > 3
            assert await percents(house, task.task_id) == [1, 2]
            house.clock.advance(1_000)
            assert await percents(house, task.task_id) == [1, 2]


async def test_what_is_held_is_written_when_the_engine_stops(tmp_path: object) -> None:
    async with open_house() as house:
        task = await house.started()
        await house.progress(task, Progress(percent=1))
        await house.progress(task, Progress(percent=2))
        await house.engine.stop(0)
        assert await percents(house, task.task_id) == [1, 2]


async def test_an_attempt_that_is_over_is_told_so_even_if_its_report_would_be_held() -> None:
    async with open_house() as house:
        task = await house.started()
        await house.progress(task, Progress(percent=1))
        await house.engine.cancel(task.task_id)
        with pytest.raises(Conflict):
            await house.progress(task, Progress(percent=2))


async def test_a_held_report_of_an_older_claim_is_not_told_under_a_later_one() -> None:
    async with open_house() as house:
        task = await house.started()
        await house.progress(task, Progress(percent=1))
        await house.progress(task, Progress(percent=2))
        await house.engine.release(task)
        again = await house.runner.next()
        assert again.claim == 2
        await house.complete(again)
        assert await percents(house, task.task_id) == [1]


async def test_a_percentage_beyond_its_ends_is_put_back_there() -> None:
    async with open_house() as house:
        first, second = await house.started(), await house.started()
        await house.progress(first, Progress(percent=100.00000001))
        await house.progress(second, Progress(percent=-3))
        assert await percents(house, first.task_id) == [100]
        assert await percents(house, second.task_id) == [0]
