"""Slots: held while code runs, given back once, found again after a crash; and the times that the store watches."""

from __future__ import annotations

from datetime import timedelta

from aios.model import InputRequest, Retry, SessionId, Status, Step, TaskId
from aios.rules.lifecycle import (
    Answer,
    Ask,
    Cancel,
    Complete,
    Lost,
    Pause,
    Resume,
    Start,
    TimeOut,
)
from tests.stores.conftest import Stores
from tests.stores.making import WORKER, Desk, half_way


async def slots(desk: Desk) -> int:
    return (await desk.store.counts())["slots"]


async def test_a_canceled_task_holds_its_slot_until_its_code_has_ended(stores: Stores) -> None:
    desk = stores.open(max_concurrent_tasks=1)
    worker = desk.seated()
    await desk.create("task-1")
    await desk.create("task-2")
    (first,) = await worker.until(1)
    canceled = (await desk.store.commit(desk.change(first, Cancel()))).task
    assert canceled.worker == WORKER
    assert (await desk.store.task(TaskId("task-2"))).status is Status.PENDING
    await desk.store.release(first.task_id, claim=first.claim)
    assert (await worker.until(2))[-1].task_id == "task-2"
    after = await desk.store.task(first.task_id)
    assert (after.worker, after.status, after.version) == (None, Status.CANCELED, canceled.version)


async def test_a_slot_is_given_back_once(stores: Stores) -> None:
    desk = stores.open(max_concurrent_tasks=2)
    worker = desk.seated()
    await desk.create("task-1")
    await desk.create("task-2")
    first, _ = await worker.until(2)
    await desk.store.commit(desk.change(first, Cancel()))
    for _ in range(3):
        await desk.store.release(first.task_id, claim=first.claim)
    assert await slots(desk) == 1


async def test_a_release_of_an_older_claim_or_of_nothing_changes_nothing(desk: Desk) -> None:
    await desk.create("task-1")
    running = await desk.carry_out("task-1", Start(WORKER))
    await desk.store.release(running.task_id, claim=running.claim - 1)
    await desk.store.release(TaskId("task-none"), claim=1)
    assert await desk.store.task(running.task_id) == running


async def test_a_resumed_task_whose_code_had_parked_is_claimed_again(stores: Stores) -> None:
    """The resume came while the worker still held the slot, and the code parked none the less."""
    desk = stores.open()
    worker = desk.seated()
    await desk.create("task-1")
    (first,) = await worker.until(1)
    await desk.carry_out("task-1", Pause(None), Resume(None))
    await desk.store.release(first.task_id, claim=first.claim)
    again = (await worker.until(2))[-1]
    assert (again.claim, again.worker) == (2, WORKER)
    assert again.deadline_at is not None


async def test_time_in_the_slot_counts_when_it_is_given_back(desk: Desk) -> None:
    await desk.create("task-1", timeout_ms=10_000)
    running = await desk.carry_out("task-1", Start(WORKER))
    desk.clock.advance(4_000)
    await desk.store.release(running.task_id, claim=running.claim)
    released = await desk.store.task(running.task_id)
    assert (released.used_ms, released.deadline_at, released.run_at) == (4_000, None, desk.clock.now())


async def test_a_paused_task_is_not_claimed(desk: Desk) -> None:
    worker = desk.seated()
    await desk.create("task-1")
    (first,) = await worker.until(1)
    await desk.store.commit(desk.change(first, Pause(None)))
    await desk.store.release(first.task_id, claim=first.claim)
    await desk.create("task-2")
    await worker.until(2)
    assert worker.ids == ["task-1", "task-2"]
    await desk.carry_out("task-1", Resume(None))
    assert (await worker.until(3))[-1].task_id == "task-1"


async def test_a_retry_waits_for_its_delay(stores: Stores) -> None:
    desk = stores.open()
    worker = desk.seated()
    await desk.create("task-1", timeout_ms=1_000, retry=Retry(max_attempts=2, delay_ms=500))
    (first,) = await worker.until(1)
    desk.clock.advance(1_000)
    await desk.store.commit(desk.change(first, TimeOut()))
    await desk.store.release(first.task_id, claim=first.claim)
    due = (await desk.store.task(first.task_id)).run_at
    assert due == desk.clock.now() + timedelta(milliseconds=500)
    assert await worker.until_told(2) == due
    desk.clock.advance(500)
    desk.store.wake()
    again = (await worker.until(2))[-1]
    assert (again.attempt, again.claim) == (2, 2)


async def test_what_a_worker_held_when_it_vanished_is_lost(durable: Stores) -> None:
    desk = durable.open()
    worker = desk.seated()
    for number in range(4):
        await desk.create(f"task-{number}")
    tasks = await worker.until(4)
    await desk.store.commit(desk.change(tasks[0], Complete(None)))
    canceled = (await desk.store.commit(desk.change(tasks[1], Cancel()))).task
    desk = await durable.reopen(desk)
    lost = await desk.store.lost()
    assert {task.task_id for task in lost} == {"task-1", "task-2", "task-3"}
    assert await slots(desk) == 3
    assert canceled in lost
    for task in lost:
        await desk.store.commit(desk.change(task, Lost(max_crashes=10)))
    assert await desk.store.lost() == []
    assert await slots(desk) == 0
    rerun = desk.seated(worker="worker-2")
    assert {task.task_id for task in await rerun.until(2)} == {"task-2", "task-3"}
    assert await desk.store.lost() == []
    stored = await desk.store.task(TaskId("task-1"))
    assert (stored.status, stored.worker, stored.version) == (Status.CANCELED, None, canceled.version)


async def test_limits_count_the_slots_of_vanished_workers_until_they_are_found(durable: Stores) -> None:
    desk = durable.open(max_concurrent_tasks=1)
    await desk.create("task-1")
    await desk.seated().until(1)
    desk = await durable.reopen(desk, max_concurrent_tasks=1)
    worker = desk.seated(worker="worker-2")
    await desk.create("task-2")
    (lost,) = await desk.store.lost()
    await desk.store.commit(desk.change(lost, Lost(max_crashes=0)))
    assert [task.task_id for task in await worker.until(1)] == ["task-2"]


async def test_expiry_requests_and_deadlines_come_due_in_the_order_of_their_times(desk: Desk) -> None:
    start = desk.clock.now()

    def second(number: int) -> object:
        return start + timedelta(seconds=number)

    await desk.create("task-expires", expires_at=second(3), run_at=None)
    await desk.create("task-runs", timeout_ms=2_000, expires_at=second(1))
    await desk.carry_out("task-runs", Start(WORKER))
    await desk.create("task-asks")
    request = InputRequest(step="ask:1", prompt="?", timeout_ms=1_500)
    await desk.carry_out("task-asks", Start(WORKER), Ask(request))
    await desk.create("task-plain", run_at=None)
    assert await desk.store.next_overdue() == start + timedelta(milliseconds=1_500)
    assert await desk.store.overdue(start, limit=10) == []
    overdue = await desk.store.overdue(start + timedelta(seconds=3), limit=10)
    assert [task.task_id for task in overdue] == ["task-asks", "task-runs", "task-expires"]
    assert [task.task_id for task in await desk.store.overdue(start + timedelta(seconds=9), limit=1)] == ["task-asks"]
    await desk.carry_out("task-asks", Answer(Step(key="ask:1", value=b"1"), None))
    await desk.carry_out("task-runs", Complete(None))
    assert await desk.store.next_overdue() == start + timedelta(seconds=3)
    await desk.carry_out("task-expires", Cancel())
    assert await desk.store.next_overdue() is None


async def test_a_timed_out_attempt_that_does_not_give_its_slot_back_comes_due_again(desk: Desk) -> None:
    start = desk.clock.now()
    await desk.create("task-1", timeout_ms=20_000, retry=Retry(max_attempts=3, delay_ms=1_000))
    claim = (await desk.carry_out("task-1", Start(WORKER))).claim
    desk.clock.advance(20_000)
    await desk.carry_out("task-1", TimeOut())
    assert await desk.store.next_overdue() == start + timedelta(seconds=41)
    await desk.store.release(TaskId("task-1"), claim=claim)
    assert await desk.store.next_overdue() is None


async def test_parents_of_unfinished_children_are_named_once_with_whether_they_have_ended(desk: Desk) -> None:
    for parent in ("task-lives", "task-ended", "task-done"):
        await desk.create(parent)
    for number, parent in enumerate(("task-lives", "task-lives", "task-ended", "task-done", "task-gone")):
        await desk.create(f"task-c{number}", parent_task_id=TaskId(parent))
    for ended in ("task-ended", "task-c3"):
        await desk.carry_out(ended, Cancel())
    found = await desk.store.parents()
    assert sorted(found) == [("task-ended", True), ("task-gone", True), ("task-lives", False)]


async def test_children_and_foreground_are_the_unfinished_ones(desk: Desk) -> None:
    await desk.create("task-p", session_id="sess-1")
    for number in range(3):
        await desk.create(f"task-c{number}", parent_task_id="task-p", session_id="sess-1", depth=1)
    await desk.create("task-d", session_id="sess-1", is_detached=True)
    await desk.create("task-o", session_id="sess-2")
    await desk.carry_out("task-c1", Cancel())
    children = await desk.store.children(TaskId("task-p"))
    assert [task.task_id for task in children] == ["task-c0", "task-c2"]
    foreground = await desk.store.foreground(SessionId("sess-1"))
    assert [task.task_id for task in foreground] == ["task-c0", "task-c2", "task-p"]


async def test_counts_tell_statuses_and_slots(durable: Stores) -> None:
    desk = durable.open()
    await desk.finish("task-1")
    await desk.finish("task-2")
    await desk.create("task-3")
    await desk.carry_out("task-3", Cancel())
    await desk.create("task-4")
    await desk.create("task-5")
    await desk.carry_out("task-5", Start(WORKER), half_way())
    expected = dict.fromkeys(Status, 0) | {
        Status.COMPLETED: 2,
        Status.CANCELED: 1,
        Status.PENDING: 1,
        Status.WORKING: 1,
        "slots": 1,
    }
    assert await desk.store.counts() == expected
    desk = await durable.reopen(desk)
    assert await desk.store.counts() == expected
