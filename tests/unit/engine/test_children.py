"""Tasks that tasks spawn: theirs by principal and session, found again by a re-run, canceled with their parent."""

from __future__ import annotations

import asyncio

import pytest

from aios.errors import Conflict, QueueFull, ValidationFailed
from aios.model import Priority, SessionId, Status, Task
from aios.rules.lifecycle import Await
from tests.unit.engine.house import open_house, order


async def test_a_child_has_its_parents_principal_session_and_one_level_more() -> None:
    async with open_house() as house:
        parent = await house.started(principal="ann", session_id=SessionId("sess-1"))
        child = await house.engine.spawn(parent, order(principal="mallory", priority=Priority.HIGH))
        assert child.spec.parent_task_id == parent.task_id
        assert (child.spec.principal, child.spec.session_id, child.spec.depth) == ("ann", "sess-1", 1)
        assert child.spec.priority is Priority.HIGH


async def test_a_parent_waits_without_a_slot_and_is_woken_by_its_childs_end() -> None:
    async with open_house(max_concurrent_tasks=1) as house:
        parent = await house.started()
        spawned = await house.engine.spawn(parent, order())
        assert house.runner.taken.empty()
        waiting = await house.engine.record(parent, Await(spawned.task_id))
        assert (waiting.status, waiting.worker) == (Status.WORKING, None)
        child = await house.runner.next()
        assert child.task_id == spawned.task_id
        await house.complete(child)
        again = await house.runner.next()
        assert (again.task_id, again.claim) == (parent.task_id, 2)


async def test_a_parent_that_awaits_a_child_that_has_ended_goes_on_at_once() -> None:
    async with open_house() as house:
        parent = await house.started()
        await house.engine.spawn(parent, order())
        child = await house.runner.next()
        await house.complete(child)
        await house.engine.record(parent, Await(child.task_id))
        assert (await house.runner.next()).task_id == parent.task_id


async def test_a_parents_end_cancels_its_unfinished_children_and_theirs() -> None:
    async with open_house() as house:
        parent = await house.started()
        await house.engine.spawn(parent, order())
        child = await house.runner.next()
        await house.engine.spawn(child, order())
        grandchild = await house.runner.next()
        await house.engine.spawn(parent, order())
        finished = await house.complete(await house.runner.next())
        await house.complete(parent)
        for task in (child, grandchild):
            await house.wait(task.task_id, Status.CANCELED)
        assert (await house.engine.task(finished.task_id)).status is Status.COMPLETED


async def test_a_child_spawned_while_its_parent_ends_does_not_survive_it(rounds: int) -> None:
    async with open_house(max_concurrent_tasks=1_000, max_tasks_per_tool=1_000) as house:
        for number in range(rounds):
            parent = await house.started()
            spawn, end = house.engine.spawn(parent, order()), house.complete(parent)
            if number % 2:
                child, _ = await asyncio.gather(spawn, end, return_exceptions=True)
            else:
                _, child = await asyncio.gather(end, spawn, return_exceptions=True)
            if isinstance(child, Task):
                canceled = await house.wait(child.task_id, Status.CANCELED)
                await house.engine.release(canceled)
            else:
                assert isinstance(child, Conflict)
            while not house.runner.taken.empty():
                house.runner.taken.get_nowait()


async def test_a_re_run_that_spawns_under_the_same_step_is_given_the_same_child() -> None:
    async with open_house() as house:
        parent = await house.started()
        first = await house.engine.spawn(parent, order(idempotency_key="spawn:echo:1"))
        await house.runner.next()
        assert (await house.engine.spawn(parent, order(idempotency_key="spawn:echo:1"))).task_id == first.task_id
        assert (await house.engine.spawn(parent, order(idempotency_key="spawn:echo:2"))).task_id != first.task_id
        other = await house.create(idempotency_key="spawn:echo:1")
        assert other.task_id != first.task_id


async def test_nesting_ends_at_its_cap() -> None:
    async with open_house(max_depth=2) as house:
        task = await house.started()
        for _ in range(2):
            await house.engine.spawn(task, order())
            task = await house.runner.next()
        with pytest.raises(ValidationFailed, match="2 deep"):
            await house.engine.spawn(task, order())


async def test_an_attempt_that_is_over_spawns_nothing() -> None:
    async with open_house() as house:
        parent = await house.started()
        await house.engine.cancel(parent.task_id)
        with pytest.raises(Conflict):
            await house.engine.spawn(parent, order())


async def test_a_child_needs_room_in_the_queue_as_any_task_does() -> None:
    async with open_house(max_concurrent_tasks=1, max_queue_size=1) as house:
        parent = await house.started()
        await house.engine.spawn(parent, order())
        with pytest.raises(QueueFull):
            await house.engine.spawn(parent, order())


async def test_a_childs_arguments_must_be_json() -> None:
    async with open_house() as house:
        parent = await house.started()
        with pytest.raises(ValidationFailed, match="arguments"):
            await house.engine.spawn(parent, order(arguments={"text": float("inf")}))
