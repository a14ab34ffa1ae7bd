"""What time does: deadlines, expiry, questions that nobody answers, retention."""

from __future__ import annotations

from typing import Any

import pytest

from aios.errors import Conflict, StoreUnavailable, TaskNotFound
from aios.model import InputRequest, Retry, Status, Task
from aios.rules.lifecycle import Ask, Log
from tests.unit.engine.house import House, open_house

MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS


async def test_an_attempt_that_overruns_fails_the_task_and_its_late_result_is_dropped() -> None:
    async with open_house() as house:
        task = await house.started(timeout_ms=30_000)
        house.clock.advance(29_999)
        assert (await house.engine.task(task.task_id)).status is Status.WORKING
        house.clock.advance(1)
        failed = await house.wait(task.task_id, Status.FAILED)
        assert failed.error is not None
        assert (failed.error["code"], failed.error["message"]) == (-32005, "Timeout")
        assert failed.error["data"]["timeout_ms"] == 30_000
        assert failed.error["data"]["elapsed_ms"] == 30_000
        assert failed.worker == "worker-1"
        with pytest.raises(Conflict):
            await house.complete(task)


async def test_an_attempt_that_overruns_is_retried_only_after_its_code_has_stopped() -> None:
    async with open_house() as house:
        task = await house.started(timeout_ms=1_000, retry=Retry(max_attempts=2))
        house.clock.advance(1_000)
        retried = await house.wait(task.task_id, lambda now: now.attempt == 2)
        assert (retried.status, retried.worker) == (Status.WORKING, "worker-1")
        assert house.runner.changes[-1].attempt == 2
        with pytest.raises(Conflict):
            await house.engine.record(task, Log("info", "late"))
        assert house.runner.taken.empty()
        await house.engine.release(retried)
        again = await house.runner.next()
        assert (again.attempt, again.claim, again.used_ms) == (2, 2, 0)


async def test_the_clock_of_an_attempt_stands_while_the_task_is_paused() -> None:
    async with open_house() as house:
        task = await house.started(timeout_ms=10_000)
        house.clock.advance(6_000)
        await house.engine.pause(task.task_id)
        house.clock.advance(DAY_MS)
        resumed = await house.engine.resume(task.task_id)
        assert resumed.status is Status.WORKING
        house.clock.advance(3_999)
        assert (await house.engine.task(task.task_id)).status is Status.WORKING
        house.clock.advance(1)
        await house.wait(task.task_id, Status.FAILED)


async def test_a_task_that_does_not_start_in_time_expires() -> None:
    async with open_house(max_concurrent_tasks=1) as house:
        blocker = await house.started()
        task = await house.create(expires_in_ms=5_000)
        house.clock.advance(5_000)
        failed = await house.wait(task.task_id, Status.FAILED)
        assert failed.error is not None
        assert failed.error["code"] == -32005
        await house.complete(blocker)
        assert house.runner.taken.empty()


async def test_a_task_that_has_started_does_not_expire() -> None:
    async with open_house() as house:
        task = await house.started(expires_in_ms=5_000)
        house.clock.advance(6_000)
        assert (await house.complete(task)).status is Status.COMPLETED


async def test_a_question_that_nobody_answers_goes_back_to_the_code() -> None:
    async with open_house() as house:
        task = await house.started()
        question = InputRequest(step="ask:1", prompt="?", timeout_ms=MINUTE_MS)
        await house.engine.record(task, Ask(question))
        house.clock.advance(MINUTE_MS)
        again = await house.runner.next()
        (step,) = await house.engine.steps(again)
        assert (again.status, step.key, step.is_timeout) == (Status.WORKING, "ask:1", True)


async def test_many_that_fall_due_together_are_all_dealt_with() -> None:
    async with open_house(max_concurrent_tasks=400, max_tasks_per_tool=400) as house:
        tasks = [await house.started(timeout_ms=1_000 + number % 3) for number in range(300)]
        house.clock.advance(1_002)
        for task in tasks:
            await house.wait(task.task_id, Status.FAILED)


async def test_no_commit_costs_a_read_of_times(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_house() as house:
        reads: list[object] = []
        monkeypatch.setattr(house.store, "overdue", reads.append)
        monkeypatch.setattr(house.store, "next_overdue", lambda: reads.append(None))
        for _ in range(20):
            await house.complete(await house.started(timeout_ms=5_000))
        assert reads == []


class FullDisk:
    """Refuses the next writes."""

    def __init__(self, house: House, times: int) -> None:
        self._commit = house.store.commit
        self.times = times

    async def commit(self, change: Any) -> Any:
        if self.times:
            self.times -= 1
            raise StoreUnavailable("the disk is full")
        return await self._commit(change)


async def test_a_deadline_that_could_not_be_written_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_house() as house:
        task = await house.started(timeout_ms=1_000)
        disk = FullDisk(house, times=3)
        monkeypatch.setattr(house.store, "commit", disk.commit)
        for _ in range(100):
            house.clock.advance(1_000)
            if (await house.engine.task(task.task_id)).status is Status.FAILED:
                break
            await house.store.next_overdue()
        assert (await house.wait(task.task_id, Status.FAILED)).status is Status.FAILED
        assert disk.times == 0


async def test_a_look_for_what_is_overdue_that_fails_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_house() as house:
        task = await house.started(timeout_ms=1_000)
        overdue, refusals = house.store.overdue, [1, 2]

        async def refuse(now: Any, *, limit: int) -> list[Task]:
            if refusals:
                refusals.pop()
                raise StoreUnavailable("the disk cannot be read")
            return await overdue(now, limit=limit)

        monkeypatch.setattr(house.store, "overdue", refuse)
        for _ in range(100):
            house.clock.advance(1_000)
            if (await house.engine.task(task.task_id)).status is Status.FAILED:
                break
            await house.store.next_overdue()
        assert (await house.wait(task.task_id, Status.FAILED)).error is not None
        assert refusals == []


async def test_a_slot_is_given_back_as_soon_as_the_disk_has_room_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_house(max_concurrent_tasks=1) as house:
        task = await house.started()
        await house.engine.cancel(task.task_id)
        await house.create()
        release, refusals = house.store.release, [1, 2]

        async def refuse(task_id: Any, *, claim: int) -> None:
            if refusals:
                refusals.pop()
                raise StoreUnavailable("the disk is full")
            await release(task_id, claim=claim)

        monkeypatch.setattr(house.store, "release", refuse)
        await house.engine.release(task)
        house.clock.advance(1_000)
        while refusals:
            await house.store.next_overdue()
        house.clock.advance(1_000)
        assert (await house.runner.next()).task_id != task.task_id


async def ended(house: House) -> Task:
    return await house.complete(await house.started())


async def test_what_ended_thirty_days_ago_is_deleted_within_the_hour_and_nothing_else() -> None:
    async with open_house() as house:
        old = [await ended(house) for _ in range(3)]
        house.clock.advance(DAY_MS)
        young, running = await ended(house), await house.started(timeout_ms=100 * DAY_MS)
        house.clock.advance(29 * DAY_MS)
        for _ in range(200):
            house.clock.advance(MINUTE_MS)
            await house.store.next_overdue()
        for task in old:
            with pytest.raises(TaskNotFound):
                await house.engine.task(task.task_id)
        assert (await house.engine.task(young.task_id)).status is Status.COMPLETED
        assert (await house.engine.task(running.task_id)).status is Status.WORKING
