"""Creating: idempotency keys, the queue's exact size, priorities, estimates."""

from __future__ import annotations

import asyncio

import pytest

from aios.errors import QueueFull, ValidationFailed
from aios.model import Priority, Retry, SessionId, Status, Task
from tests.unit.engine.house import ECHO, SLOW, open_house


async def test_the_same_key_and_request_give_the_same_task_even_from_another_session() -> None:
    async with open_house() as house:
        first = await house.create(idempotency_key="k", arguments={"text": "a"}, session_id=SessionId("sess-1"))
        again = await house.create(idempotency_key="k", arguments={"text": "a"}, session_id=SessionId("sess-2"))
        assert again.task_id == first.task_id
        assert (await house.create(idempotency_key="k", principal="else")).task_id != first.task_id


@pytest.mark.parametrize(
    "other",
    [
        {"arguments": {"text": "b"}},
        {"metadata": {"x": 1}},
        {"priority": Priority.HIGH},
        {"timeout_ms": 5},
        {"retry": Retry(max_attempts=2)},
        {"is_detached": True},
        {"delay_ms": 5},
        {"capability_id": SLOW.id},
    ],
)
async def test_the_same_key_with_another_request_is_refused(other: dict[str, object]) -> None:
    async with open_house() as house:
        await house.create(idempotency_key="k", arguments={"text": "a"})
        with pytest.raises(ValidationFailed):
            await house.create(**{"idempotency_key": "k", "arguments": {"text": "a"}, **other})  # pyright: ignore[reportArgumentType]


async def test_the_order_of_members_does_not_make_another_request() -> None:
    async with open_house() as house:
        first = await house.create(idempotency_key="k", metadata={"a": 1, "b": {"c": 2, "d": 3}})
        again = await house.create(idempotency_key="k", metadata={"b": {"d": 3, "c": 2}, "a": 1})
        assert again.task_id == first.task_id


async def test_a_known_key_is_answered_though_the_queue_is_full_and_its_task_has_ended() -> None:
    async with open_house(max_concurrent_tasks=1, max_queue_size=1) as house:
        first = await house.create(idempotency_key="k")
        await house.complete(await house.runner.next())
        await house.create()
        await house.create()
        assert (await house.create(idempotency_key="k")).task_id == first.task_id


async def test_thirty_two_callers_fill_the_queue_exactly() -> None:
    async with open_house(max_concurrent_tasks=4, max_queue_size=10) as house:
        results = await asyncio.gather(*(house.create() for _ in range(32)), return_exceptions=True)
        made = [each for each in results if isinstance(each, Task)]
        refused = [each for each in results if isinstance(each, QueueFull)]
        assert (len(made), len(refused)) == (14, 18)
        assert refused[0].data["max_queue_size"] == 10
        counts = await house.engine.counts()
        assert (counts["pending"], counts["slots"]) == (10, 4)
        await house.complete(await house.runner.next())
        await house.create()
        with pytest.raises(QueueFull):
            await house.create()


async def test_the_highest_priority_goes_first_then_the_oldest() -> None:
    async with open_house(max_concurrent_tasks=1) as house:
        running = await house.started()
        waiting: list[Task] = []
        for priority in (Priority.LOW, Priority.NORMAL, Priority.URGENT, Priority.NORMAL):
            house.clock.advance(1)
            waiting.append(await house.create(priority=priority))
        ran: list[int] = []
        for _ in waiting:
            await house.complete(running)
            running = await house.runner.next()
            ran.append([each.task_id for each in waiting].index(running.task_id))
        assert ran == [2, 1, 3, 0]


async def test_a_timeout_is_the_callers_else_the_capabilitys_else_the_methods() -> None:
    async with open_house(default_timeout_ms=77) as house:
        assert (await house.create(timeout_ms=3)).spec.timeout_ms == 3
        assert (await house.create(SLOW.id, timeout_ms=3)).spec.timeout_ms == 3
        assert (await house.create(SLOW.id, default_timeout_ms=9)).spec.timeout_ms == 5_000
        assert (await house.create(default_timeout_ms=9)).spec.timeout_ms == 9
        assert (await house.create()).spec.timeout_ms == 77


async def test_an_estimate_is_what_was_else_what_the_descriptor_says_else_nothing() -> None:
    async with open_house() as house:
        assert await house.engine.estimate(ECHO.id) is None
        assert await house.engine.estimate(SLOW.id) == 700
        for duration_ms in (100, 3_000, 200):
            task = await house.started(capability_id=SLOW.id)
            house.clock.advance(duration_ms)
            await house.complete(task)
        assert await house.engine.estimate(SLOW.id) == 200
        assert await house.engine.estimate("app.demo.slow") == 200


async def test_estimates_come_back_after_a_restart() -> None:
    async with open_house() as house:
        task = await house.started()
        house.clock.advance(40)
        await house.complete(task)
        assert await house.engine.estimate(ECHO.id) == 40


async def test_a_task_whose_creator_has_left_is_kept_like_any_other() -> None:
    async with open_house() as house:
        leaving = asyncio.create_task(house.create(delay_ms=60_000, expires_in_ms=1_000))
        await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.wait({leaving})
        assert leaving.cancelled()
        async with asyncio.timeout(10):
            while not (await house.engine.counts())[Status.FAILED]:
                house.clock.advance(1_000)
                await asyncio.sleep(0)
