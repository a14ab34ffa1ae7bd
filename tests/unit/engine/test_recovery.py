"""What the next process makes of what the last one left behind."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from aios.errors import StoreUnavailable
from aios.model import Change, InputRequest, Limits, Retry, Status, Task, TaskId
from aios.rules.lifecycle import Ask, HandBack
from aios.store import Committed
from aios.stores.sqlite import SqliteStore
from aios.testing.clock import ManualClock
from tests.unit.engine.house import House, open_house, order


class Crashed(Exception):
    """The process has vanished."""


async def crash(house: House) -> None:
    """End the house without a word: nothing is handed back."""
    house.store.unseat()
    raise Crashed


async def test_a_task_whose_process_vanished_is_run_again_under_the_same_attempt(tmp_path: Path) -> None:
    clock, task_id = ManualClock(), TaskId("")
    with suppress(Crashed):
        async with open_house(tmp_path, clock=clock) as house:
            task_id = (await house.started(retry=Retry(max_attempts=3))).task_id
            await crash(house)
    async with open_house(tmp_path, clock=clock, worker="worker-2") as house:
        again = await house.runner.next()
        assert (again.task_id, again.attempt, again.claim, again.crashes) == (task_id, 1, 2, 1)
        await house.complete(again)
        assert await house.kinds(task_id) == ["status working", "status completed", "result"]


async def test_a_task_that_takes_its_process_with_it_too_often_fails(tmp_path: Path) -> None:
    clock, task_id = ManualClock(), TaskId("")
    for number in range(3):
        with suppress(Crashed):
            async with open_house(tmp_path, clock=clock, worker=f"worker-{number}", max_crashes=2) as house:
                task = await house.started() if number == 0 else await house.runner.next()
                task_id = task.task_id
                await crash(house)
    async with open_house(tmp_path, clock=clock, worker="worker-9", max_crashes=2) as house:
        failed = await house.engine.task(task_id)
        assert (failed.status, failed.crashes) == (Status.FAILED, 3)
        assert failed.error is not None
        assert failed.error["data"]["error_id"] == "AIOS-WORKER-LOST"
        assert house.runner.taken.empty()


async def test_what_came_due_while_nobody_was_there_is_dealt_with_before_anything_runs(tmp_path: Path) -> None:
    clock = ManualClock()
    async with open_house(tmp_path, clock=clock, has_runner=False) as house:
        expired = await house.create(expires_in_ms=1_000)
        alive = await house.create()
    clock.advance(5_000)
    async with open_house(tmp_path, clock=clock, worker="worker-2") as house:
        assert (await house.engine.task(expired.task_id)).status is Status.FAILED
        assert (await house.runner.next()).task_id == alive.task_id


async def test_a_question_asked_before_a_restart_can_be_answered_after_it(tmp_path: Path) -> None:
    clock = ManualClock()
    async with open_house(tmp_path, clock=clock) as house:
        task = await house.started()
        question = InputRequest(step="ask:1", prompt="?", timeout_ms=60_000)
        await house.engine.record(task, Ask(question))
    async with open_house(tmp_path, clock=clock, worker="worker-2") as house:
        await house.engine.give_input(task.task_id, "yes")
        assert (await house.runner.next()).task_id == task.task_id
    clock.advance(30_000)
    async with open_house(tmp_path, clock=clock, worker="worker-3") as house:
        assert (await house.engine.task(task.task_id)).status is Status.WORKING


async def test_the_due_time_of_a_question_survives_a_restart(tmp_path: Path) -> None:
    clock = ManualClock()
    async with open_house(tmp_path, clock=clock) as house:
        task = await house.started()
        question = InputRequest(step="ask:1", prompt="?", timeout_ms=60_000)
        await house.engine.record(task, Ask(question))
    async with open_house(tmp_path, clock=clock, worker="worker-2") as house:
        clock.advance(60_000)
        assert (await house.runner.next()).task_id == task.task_id


async def family(house: House) -> tuple[Task, Task]:
    """Let a task spawn a child, and end without its children being canceled any more."""
    parent = await house.started()
    child = await house.engine.spawn(parent, order())
    return parent, child


async def test_children_whose_parent_ended_just_before_a_crash_are_canceled_at_the_next_start(tmp_path: Path) -> None:
    clock, child_id = ManualClock(), TaskId("")
    with suppress(Crashed):
        async with open_house(tmp_path, clock=clock, max_concurrent_tasks=1) as house:
            parent, child = await family(house)
            child_id = child.task_id
            vars(vars(house.engine)["_keeper"])["_parents"] = set[TaskId]()
            await house.engine.cancel(parent.task_id)
            await crash(house)
    async with open_house(tmp_path, clock=clock, worker="worker-2") as house:
        assert (await house.engine.task(child_id)).status is Status.CANCELED


async def test_parents_from_before_a_restart_still_cancel_their_children(tmp_path: Path) -> None:
    clock = ManualClock()
    async with open_house(tmp_path, clock=clock, max_concurrent_tasks=1) as house:
        parent, child = await family(house)
        await house.engine.pause(parent.task_id)
    async with open_house(tmp_path, clock=clock, worker="worker-2", has_runner=False) as house:
        await house.engine.cancel(parent.task_id)
        await house.wait(child.task_id, Status.CANCELED)


async def test_what_was_claimed_just_before_the_engine_stops_is_handed_back() -> None:
    async with open_house() as house:
        task = await house.started()
        engine = vars(house.engine)
        engine["_is_stopping"] = True
        house.store.unseat()
        vars(engine["_scheduler"])["_claimed"](Change(task=task, before=0))
        await engine["_writer"].finish()
        handed = await house.store.task(task.task_id)
        assert (handed.worker, handed.crashes, handed.attempt) == (None, 0, 1)
        assert house.runner.taken.empty()


async def test_a_stop_under_load_leaves_no_slot_taken(tmp_path: Path) -> None:
    async with open_house(tmp_path, max_concurrent_tasks=50) as house:

        async def flood() -> None:
            for _ in range(20):
                await house.create()

        floods = [asyncio.create_task(flood()) for _ in range(10)]
        running = [await house.runner.next() for _ in range(5)]
        await house.engine.stop(0)
        running += [house.runner.taken.get_nowait() for _ in range(house.runner.taken.qsize())]
        await asyncio.gather(*floods)
        for task in running:
            await house.engine.record(task, HandBack())
        counts = await house.engine.counts()
        assert counts["slots"] == 0
        assert counts["pending"] + counts["working"] == 200


async def test_a_task_that_was_canceled_before_its_claim_was_told_is_not_run_and_its_slot_comes_back() -> None:
    async with open_house(max_concurrent_tasks=1) as house:
        task = await house.started()
        await house.engine.cancel(task.task_id)
        vars(vars(house.engine)["_scheduler"])["_claimed"](Change(task=task, before=0))
        other = await house.create()
        assert (await house.runner.next()).task_id == other.task_id


async def test_nothing_is_run_while_the_last_process_cannot_be_cleared_away(tmp_path: Path) -> None:
    clock = ManualClock()
    with suppress(Crashed):
        async with open_house(tmp_path, clock=clock) as house:
            await house.started()
            await crash(house)
    limits = Limits()
    store = SqliteStore.open(tmp_path, limits=limits, now=clock.now)
    house = House(store=store, clock=clock, limits=limits, worker="worker-2")

    async def refuse(change: Change) -> Committed:
        raise StoreUnavailable("the disk is full")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "commit", refuse)
        with pytest.raises(StoreUnavailable, match="taken over"):
            await house.engine.start(house.runner)
    await house.engine.start(house.runner)
    assert (await house.runner.next()).claim == 2
    await house.engine.stop(0)
    await store.close()
