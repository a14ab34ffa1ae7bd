"""What running code records: fenced by its claim and attempt, many at once in few commits."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aios.errors import Conflict, InvalidTaskState, StoreUnavailable, ValidationFailed
from aios.model import Retry, Status, Step, Task
from aios.rules.lifecycle import Await, Complete, Fail, Log
from tests.unit.engine.house import House, data_of, open_house


class Commits:
    """Counts commits, and refuses those it is told to."""

    def __init__(self, house: House, monkeypatch: pytest.MonkeyPatch) -> None:
        self._commit = house.store.commit
        self.count = 0
        self.is_refusing = False
        monkeypatch.setattr(house.store, "commit", self.commit)

    async def commit(self, change: Any) -> Any:
        self.count += 1
        if self.is_refusing:
            raise StoreUnavailable("the disk is full")
        return await self._commit(change)


def line(number: int) -> Log:
    return Log("info", str(number))


async def test_what_is_recorded_at_once_shares_commits_and_keeps_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_house() as house:
        task = await house.started()
        commits = Commits(house, monkeypatch)
        await asyncio.gather(*(house.engine.record(task, line(number)) for number in range(200)))
        told = [data_of(event).get("message") for event in await house.log(task.task_id, 1)]
        assert told == [str(number) for number in range(200)]
        assert commits.count <= 5


async def test_of_what_is_recorded_at_once_only_what_is_wrong_is_refused() -> None:
    async with open_house(max_event_size=1_000) as house:
        task = await house.started()
        results = await asyncio.gather(
            house.engine.record(task, line(1)),
            house.engine.record(task, Log("info", "x", {"quotes": '"' * 500})),
            house.engine.record(task, Complete("done")),
            house.engine.record(task, line(2)),
            return_exceptions=True,
        )
        assert isinstance(results[1], ValidationFailed)
        assert isinstance(results[2], Task)
        assert isinstance(results[3], Conflict)
        assert await house.kinds(task.task_id) == ["status working", "log", "status completed", "result"]


async def test_a_full_disk_is_told_to_all_who_wait_and_nothing_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_house() as house:
        task = await house.started()
        commits = Commits(house, monkeypatch)
        commits.is_refusing = True
        results = await asyncio.gather(
            *(house.engine.record(task, line(number)) for number in range(9)), return_exceptions=True
        )
        assert all(isinstance(each, StoreUnavailable) for each in results)
        commits.is_refusing = False
        assert (await house.complete(task)).version == 3


async def test_a_caller_does_not_wait_behind_what_code_has_queued(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_house() as house:
        task = await house.started()
        records = [asyncio.create_task(house.engine.record(task, line(number))) for number in range(1_000)]
        await records[0]
        canceled = await house.engine.cancel(task.task_id)
        assert canceled.version < 500
        results = await asyncio.gather(*records, return_exceptions=True)
        assert isinstance(results[-1], Conflict)


async def test_what_an_older_claim_or_attempt_says_is_refused() -> None:
    async with open_house() as house:
        first = await house.started(retry=Retry(max_attempts=2))
        await house.engine.release(first)
        second = await house.runner.next()
        await house.engine.record(second, Fail({"code": 1, "message": "x"}))
        third = await house.runner.next()
        assert [(each.claim, each.attempt) for each in (first, second, third)] == [(1, 1), (2, 1), (3, 2)]
        for stale in (first, second):
            for saying in (
                house.engine.record(stale, line(1)),
                house.engine.record(stale, Complete(1)),
                house.engine.put_step(stale, Step(key="step")),
            ):
                with pytest.raises(Conflict):
                    await saying
        assert (await house.complete(third)).status is Status.COMPLETED


async def test_the_release_of_an_older_claim_changes_nothing() -> None:
    async with open_house() as house:
        first = await house.started()
        await house.engine.release(first)
        second = await house.runner.next()
        await house.engine.release(first)
        assert (await house.engine.task(first.task_id)).worker == second.worker


async def test_what_code_ends_with_while_its_task_is_paused_is_applied_at_resume() -> None:
    async with open_house() as house:
        task = await house.started()
        await house.engine.pause(task.task_id)
        kept = await house.complete(task, "late")
        assert (kept.status, kept.worker) == (Status.PAUSED, None)
        with pytest.raises(InvalidTaskState):
            await house.complete(task, "again")
        resumed = await house.engine.resume(task.task_id)
        assert (resumed.status, resumed.result) == (Status.COMPLETED, "late")
        kinds = ["status working", "status paused", "status working", "status completed", "result"]
        assert await house.kinds(task.task_id) == kinds


async def test_a_step_sets_the_crashes_back_and_what_follows_builds_on_that() -> None:
    async with open_house() as house:
        task = await house.started()
        await house.engine.put_step(task, Step(key="step:a#1", value=b"1"))
        await house.engine.record(task, line(1))
        secret = Step(key="step:b#1", value=house.vault.seal(b"2", "x"), is_secret=True)
        await house.engine.put_step(task, secret)
        assert (await house.complete(task)).status is Status.COMPLETED
        assert [step.key for step in await house.engine.steps(task)] == ["step:a#1"]


@pytest.mark.parametrize("step", [Step(key=""), Step(key="a\0b"), Step(key="k", value=b"x" * 101)])
async def test_a_step_keeps_to_its_caps(step: Step) -> None:
    async with open_house(max_step_size=100) as house:
        task = await house.started()
        with pytest.raises(ValidationFailed):
            await house.engine.put_step(task, step)


async def test_a_task_that_sleeps_wakes_when_its_time_has_come() -> None:
    async with open_house() as house:
        task = await house.started()
        until = house.clock.now().replace(second=30)
        asleep = await house.engine.record(task, Await(until=until))
        assert (asleep.worker, asleep.deadline_at) == (None, None)
        house.clock.advance(29_999)
        assert house.runner.taken.empty()
        house.clock.advance(1)
        assert (await house.runner.next()).claim == 2
