"""The queue and the seat: who is claimed, in which order, and that every limit is exact."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from aios.errors import AiosError, QueueFull
from aios.model import Change, Priority, Retry, Status, Task, TaskId
from aios.rules.lifecycle import Await, Cancel, Complete, Fail, Start, decide
from aios.store import Committed
from tests.stores.conftest import Stores
from tests.stores.making import WORKER, Desk, Seated, new_task


async def complete(desk: Desk, task: Task) -> Task:
    return (await desk.store.commit(desk.change(task, Complete(None)))).task


async def test_a_task_is_started_by_the_commit_that_creates_it(desk: Desk) -> None:
    worker = desk.seated()
    created = await desk.create("task-1")
    assert created.status is Status.PENDING
    stored = await desk.store.task(created.task_id)
    assert (stored.status, stored.worker, stored.claim) == (Status.WORKING, WORKER, 1)
    assert await worker.until(1) == [stored]
    assert await desk.numbers("task-1") == [1]


async def test_a_delivered_change_can_be_decided_on(desk: Desk) -> None:
    worker = desk.seated()
    await desk.create("task-1")
    (claimed,) = await worker.until(1)
    assert (await complete(desk, claimed)).status is Status.COMPLETED


async def test_tasks_are_claimed_by_priority_then_age_then_id(stores: Stores) -> None:
    desk = stores.open(max_concurrent_tasks=1)
    order = [
        ("task-9", Priority.LOW, 0),
        ("task-8", Priority.NORMAL, 1),
        ("task-7", Priority.NORMAL, 0),
        ("task-6", Priority.NORMAL, 0),
        ("task-5", Priority.URGENT, 3),
        ("task-4", Priority.HIGH, 2),
        ("task-3", Priority.URGENT, 2),
    ]
    start = desk.clock.now()
    for task_id, priority, second in order:
        await desk.create(task_id, priority=priority, created_at=start + timedelta(seconds=second))
    worker = desk.seated()
    for count in range(1, len(order) + 1):
        await complete(desk, (await worker.until(count))[-1])
    assert worker.ids == ["task-3", "task-5", "task-4", "task-6", "task-7", "task-8", "task-9"]


async def test_an_adapter_at_its_limit_holds_nobody_else_up(stores: Stores) -> None:
    desk = stores.open(max_concurrent_tasks=4, max_tasks_per_tool=2)
    worker = desk.seated()
    for number in range(5):
        await desk.create(f"task-a{number}", adapter_id="a", priority=Priority.HIGH)
    for number in range(5):
        await desk.create(f"task-b{number}", adapter_id="b")
    tasks = await worker.until(4)
    assert worker.ids == ["task-a0", "task-a1", "task-b0", "task-b1"]
    await complete(desk, tasks[2])
    assert (await worker.until(5))[-1].task_id == "task-b2"
    await complete(desk, tasks[0])
    assert (await worker.until(6))[-1].task_id == "task-a2"


async def test_a_seat_never_has_more_than_its_capacity(stores: Stores) -> None:
    desk = stores.open()
    worker = desk.seated(capacity=3)
    for number in range(6):
        await desk.create(f"task-{number}")
    tasks = await worker.until(3)
    assert (await desk.store.counts())["slots"] == 3
    await complete(desk, tasks[0])
    await worker.until(4)
    assert (await desk.store.counts())["slots"] == 3


async def test_with_32_creators_at_once_exactly_the_queue_and_the_slots_are_filled(stores: Stores) -> None:
    desk = stores.open(max_concurrent_tasks=5, max_queue_size=20)
    worker = desk.seated()
    accepted: list[str] = []
    refused: list[QueueFull] = []

    async def creator(number: int) -> None:
        for piece in range(4):
            try:
                accepted.append((await desk.create(f"task-{number:02}-{piece}")).task_id)
            except QueueFull as error:
                refused.append(error)

    await asyncio.gather(*map(creator, range(32)))
    assert (len(accepted), len(refused)) == (25, 128 - 25)
    assert refused[0].data == {"max_queue_size": 20}
    await worker.until(5)
    counts = await desk.store.counts()
    assert (counts[Status.PENDING], counts[Status.WORKING], counts["slots"]) == (20, 5, 5)


async def test_limits_hold_at_every_moment_while_tasks_come_and_go(stores: Stores) -> None:
    """Seen from the log: of all changes in the order of their commits, never more than the limit hold a slot."""
    desk = stores.open(max_concurrent_tasks=7, max_tasks_per_tool=3, max_queue_size=10_000)
    worker = desk.seated()
    running: dict[str, set[str]] = {}
    done = 0

    async def creator(number: int) -> None:
        for piece in range(10):
            await desk.create(f"task-{number:02}-{piece}", adapter_id=f"adapter-{number % 4}")

    async def finisher() -> None:
        nonlocal done
        while done < 320:
            for task in (await worker.until(done + 1))[done:]:
                mine = running.setdefault(task.spec.adapter_id, set())
                mine.add(task.task_id)
                assert len(mine) <= 3
                assert sum(map(len, running.values())) <= 7
                done += 1
                # Left before the commit that frees the slot, since the next claim is in the same commit.
                mine.discard(task.task_id)
                await complete(desk, task)

    await asyncio.gather(finisher(), *map(creator, range(32)))
    assert len(set(worker.ids)) == 320
    assert (await desk.store.counts())["slots"] == 0


async def test_a_full_queue_takes_one_more_exactly_while_a_slot_is_free(stores: Stores) -> None:
    desk = stores.open(max_concurrent_tasks=2, max_tasks_per_tool=1, max_queue_size=1)
    desk.seated()
    await desk.create("task-a1", adapter_id="a")
    await desk.create("task-a2", adapter_id="a")
    with pytest.raises(QueueFull):
        await desk.create("task-a3", adapter_id="a")
    with pytest.raises(QueueFull):
        await desk.create("task-b0", adapter_id="b", run_at=desk.clock.now() + timedelta(seconds=1))
    await desk.create("task-b1", adapter_id="b")
    with pytest.raises(QueueFull):
        await desk.create("task-c1", adapter_id="c")


async def test_without_a_seat_no_slot_is_free(stores: Stores) -> None:
    desk = stores.open(max_queue_size=1)
    await desk.create("task-1")
    with pytest.raises(QueueFull):
        await desk.create("task-2")


async def test_what_goes_on_is_never_refused(stores: Stores) -> None:
    desk = stores.open(max_concurrent_tasks=1, max_queue_size=1)
    worker = desk.seated()
    await desk.create("task-1", retry=Retry(max_attempts=2))
    await desk.create("task-2")
    (first,) = await worker.until(1)
    retried = (await desk.store.commit(desk.change(first, Fail({"code": 1, "message": "no"})))).task
    assert (retried.status, retried.attempt) == (Status.WORKING, 2)


async def test_a_delayed_task_is_claimed_when_its_time_has_come(stores: Stores) -> None:
    desk = stores.open()
    worker = desk.seated()
    later = desk.clock.now() + timedelta(seconds=10)
    await desk.create("task-1", run_at=later, not_before=later)
    assert await worker.until_told(1) == later
    desk.clock.advance(9_999)
    desk.store.wake()
    await desk.create("task-2")
    await worker.until(1)
    assert worker.ids == ["task-2"]
    desk.clock.advance(1)
    desk.store.wake()
    await worker.until(2)
    assert worker.ids == ["task-2", "task-1"]
    assert worker.due is None


async def test_a_canceled_task_is_never_claimed(stores: Stores) -> None:
    desk = stores.open(max_concurrent_tasks=1)
    worker = desk.seated()
    for task_id in ("task-1", "task-2", "task-3"):
        await desk.create(task_id)
    await desk.carry_out("task-2", Cancel())
    await complete(desk, (await worker.until(1))[0])
    await complete(desk, (await worker.until(2))[1])
    assert worker.ids == ["task-1", "task-3"]


async def test_after_unseating_nothing_is_claimed(desk: Desk) -> None:
    worker = desk.seated()
    await desk.create("task-1")
    await worker.until(1)
    desk.store.unseat()
    await desk.create("task-2")
    assert (await desk.store.task(TaskId("task-2"))).status is Status.PENDING
    again = desk.seated(worker="worker-2")
    assert [task.worker for task in await again.until(1)] == ["worker-2"]


async def test_a_task_that_cannot_be_started_does_not_hold_up_the_others(desk: Desk) -> None:
    def start(task: Task, now: Any) -> Change:
        if task.task_id == "task-bad":
            raise ValueError("a rule is broken")
        return decide(task, Start(WORKER), now=now)

    worker = desk.seated(start=start)
    await desk.create("task-bad", priority=Priority.URGENT)
    await desk.create("task-good")
    assert [task.task_id for task in await worker.until(1)] == ["task-good"]
    assert (await desk.store.task(TaskId("task-bad"))).status is Status.PENDING


async def test_a_claim_that_cannot_be_written_does_not_make_every_write_fail(desk: Desk) -> None:
    def start(task: Task, now: Any) -> Change:
        change = decide(task, Start(WORKER), now=now)
        if task.task_id == "task-bad":
            # A row that the log refuses: this number is taken.
            return replace(change, events=change.events * 2)
        return change

    worker = desk.seated(start=start)
    await desk.create("task-bad", priority=Priority.URGENT)
    await desk.create("task-good")
    assert [task.task_id for task in await worker.until(1)] == ["task-good"]
    assert (await desk.store.task(TaskId("task-bad"))).status is Status.PENDING
    await complete(desk, (await worker.until(1))[0])
    assert (await desk.store.counts())["slots"] == 0


async def test_a_write_that_fails_does_not_keep_the_claims_beside_it_from_being_made(desk: Desk) -> None:
    await desk.create("task-1")
    worker = desk.seated(capacity=0)
    bad = new_task("task-bad", desk.clock, arguments={"not json": object()})
    answers = await desk.commit_all([Change(task=bad, before=None)])
    assert isinstance(answers[0], AiosError)
    worker = desk.seated()
    await asyncio.gather(desk.store.commit(Change(task=bad, before=None)), return_exceptions=True)
    assert [task.task_id for task in await worker.until(1)] == ["task-1"]


async def test_ten_thousand_tasks_of_a_blocked_adapter_cost_the_others_nothing(stores: Stores) -> None:
    desk = stores.open(max_concurrent_tasks=50, max_tasks_per_tool=1, max_queue_size=20_000)
    changes = [
        Change(task=new_task(f"task-a{n:05}", desk.clock, adapter_id="a", priority=Priority.HIGH), before=None)
        for n in range(10_000)
    ]
    answers = await desk.commit_all(changes)
    assert all(isinstance(answer, Committed) for answer in answers)
    worker = desk.seated()
    assert [task.task_id for task in await worker.until(1)] == ["task-a00000"]
    started = asyncio.get_running_loop().time()
    for number in range(200):
        await desk.create(f"task-b{number}", adapter_id="b")
        await complete(desk, (await worker.until(number + 2))[-1])
    # A scan of the queue at every commit would take minutes.
    assert asyncio.get_running_loop().time() - started < 15


class TestWaking:
    """A parent that awaits its child (`Change.awaits`)."""

    async def parent_and_child(self, desk: Desk, worker: Seated) -> tuple[Task, Task]:
        await desk.create("task-parent")
        await desk.create("task-child", parent_task_id="task-parent", depth=1)
        parent, child = await worker.until(2)
        return parent, child

    async def test_the_end_of_the_child_wakes_the_parent_in_the_same_commit(self, desk: Desk) -> None:
        worker = desk.seated()
        parent, child = await self.parent_and_child(desk, worker)
        await desk.store.commit(desk.change(parent, Await(child=child.task_id)))
        assert (await desk.store.task(parent.task_id)).worker is None
        await complete(desk, child)
        woken = await desk.store.task(parent.task_id)
        assert (woken.worker, woken.claim, woken.version) == (WORKER, 2, parent.version)
        assert (await worker.until(3))[-1] == woken

    async def test_a_child_that_has_ended_already_wakes_the_parent_at_once(self, desk: Desk) -> None:
        worker = desk.seated()
        parent, child = await self.parent_and_child(desk, worker)
        await complete(desk, child)
        await desk.store.commit(desk.change(parent, Await(child=child.task_id)))
        assert (await worker.until(3))[-1].task_id == parent.task_id

    async def test_a_wait_survives_a_restart(self, durable: Stores) -> None:
        desk = durable.open()
        parent, child = await self.parent_and_child(desk, desk.seated())
        await desk.store.commit(desk.change(parent, Await(child=child.task_id)))
        desk = await durable.reopen(desk)
        worker = desk.seated()
        await complete(desk, await desk.store.task(child.task_id))
        assert [task.task_id for task in await worker.until(1)] == [parent.task_id]

    async def test_a_change_made_before_the_parent_was_woken_does_not_put_it_to_sleep_again(self, desk: Desk) -> None:
        worker = desk.seated(capacity=2)
        parent, child = await self.parent_and_child(desk, worker)
        await desk.create("task-other", priority=Priority.URGENT)
        waiting = (await desk.store.commit(desk.change(parent, Await(child=child.task_id)))).task
        stale = desk.change(waiting, Cancel())
        await complete(desk, child)
        answers = await desk.commit_all([stale])
        assert not isinstance(answers[0], Committed)

    async def test_only_the_awaited_child_wakes(self, desk: Desk) -> None:
        worker = desk.seated()
        parent, child = await self.parent_and_child(desk, worker)
        await desk.create("task-other", parent_task_id="task-parent", depth=1)
        other = (await worker.until(3))[-1]
        await desk.store.commit(desk.change(parent, Await(child=child.task_id)))
        await complete(desk, other)
        assert (await desk.store.task(parent.task_id)).worker is None
