"""What callers may ask of a task, through the engine and a real store."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aios.errors import (
    CapabilityNotFound,
    InvalidParams,
    InvalidTaskState,
    TaskFinal,
    TaskNotFound,
    ValidationFailed,
)
from aios.model import JsonObject, Retry, Status, TaskId
from aios.rules.lifecycle import Fail
from tests.unit.engine.house import open_house, order


async def test_a_task_is_created_claimed_and_completed() -> None:
    async with open_house() as house:
        created = await house.create(arguments={"text": "hi"})
        assert (created.status, created.version) == (Status.PENDING, 0)
        running = await house.runner.next()
        assert (running.task_id, running.status, running.claim) == (created.task_id, Status.WORKING, 1)
        done = await house.complete(running, {"text": "hi"})
        assert (done.status, done.result, done.worker) == (Status.COMPLETED, {"text": "hi"}, None)
        assert await house.engine.task(created.task_id) == done
        assert await house.kinds(created.task_id) == ["status working", "status completed", "result"]


async def test_an_alias_creates_the_capability_that_it_means() -> None:
    async with open_house() as house:
        assert (await house.create("app.demo.echo")).spec.capability_id == "compat.demo.echo"


async def test_creating_what_nobody_offers_is_refused() -> None:
    async with open_house() as house:
        with pytest.raises(CapabilityNotFound):
            await house.create("compat.demo.nothing")


async def test_arguments_that_do_not_fit_are_refused_with_their_place() -> None:
    async with open_house() as house:
        with pytest.raises(ValidationFailed) as refused:
            await house.create(arguments={"text": 7})
        assert refused.value.data["errors"][0]["path"] == "/arguments/text"


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({"timeout_ms": 0}, "/options/timeout_ms"),
        ({"timeout_ms": 2**53}, "/options/timeout_ms"),
        ({"delay_ms": -1}, "/options/delay_ms"),
        ({"expires_in_ms": 0}, "/options/expires_in_ms"),
        ({"retry": Retry(max_attempts=101)}, "/options/retry/max_attempts"),
        ({"retry": Retry(delay_ms=2**60)}, "/options/retry/delay_ms"),
        ({"idempotency_key": "a\0b"}, "/options/idempotency_key"),
        ({"idempotency_key": ""}, "/options/idempotency_key"),
    ],
)
async def test_options_out_of_range_are_refused_with_their_place(options: dict[str, Any], path: str) -> None:
    async with open_house() as house:
        with pytest.raises(InvalidParams) as refused:
            await house.create(**options)
        assert refused.value.data["errors"][0]["path"] == path


async def test_arguments_and_metadata_together_may_reach_the_cap_and_not_pass_it() -> None:
    async with open_house(max_input_size=100) as house:
        await house.create(arguments={"text": "x" * 40}, metadata={"m": "y" * 41})
        with pytest.raises(InvalidParams):
            await house.create(arguments={"text": "x" * 40}, metadata={"m": "y" * 42})


async def test_pause_and_resume_give_the_slot_back_and_queue_for_another() -> None:
    async with open_house() as house:
        task = await house.started()
        paused = await house.engine.pause(task.task_id, "lunch")
        assert (paused.status, paused.worker, paused.deadline_at) == (Status.PAUSED, "worker-1", None)
        assert house.runner.changes[-1] == paused
        await house.engine.release(paused)
        resumed = await house.engine.resume(task.task_id)
        assert resumed.status is Status.WORKING
        again = await house.runner.next()
        assert (again.task_id, again.claim) == (task.task_id, 2)


async def test_a_cancel_takes_effect_at_once_and_the_slot_is_held_until_the_code_has_stopped() -> None:
    async with open_house(max_concurrent_tasks=1) as house:
        task = await house.started()
        canceled = await house.engine.cancel(task.task_id, "user_request")
        assert (canceled.status, canceled.worker) == (Status.CANCELED, "worker-1")
        await house.create()
        assert house.runner.taken.empty()
        await house.engine.release(canceled)
        assert (await house.runner.next()).status is Status.WORKING


async def test_a_pending_task_can_be_canceled_and_is_never_run() -> None:
    async with open_house(has_runner=False) as house:
        task = await house.create()
        assert (await house.engine.cancel(task.task_id)).status is Status.CANCELED
        assert await house.kinds(task.task_id) == ["status canceled"]


async def test_commands_on_a_terminal_task_say_what_it_is() -> None:
    async with open_house() as house:
        task = await house.started()
        await house.complete(task)
        for command in (house.engine.cancel, house.engine.pause, house.engine.resume):
            with pytest.raises(TaskFinal, match="completed"):
                await command(task.task_id)


async def test_commands_where_the_status_does_not_allow_them_say_what_is_allowed() -> None:
    async with open_house() as house:
        task = await house.started()
        with pytest.raises(InvalidTaskState) as refused:
            await house.engine.resume(task.task_id)
        assert refused.value.data == {"status": "working", "requested": "resume", "allowed": ["pause", "cancel"]}


async def test_commands_on_an_unknown_task_find_none() -> None:
    async with open_house() as house:
        with pytest.raises(TaskNotFound):
            await house.engine.cancel(TaskId("task-none"))


async def test_a_reason_as_long_as_a_book_is_refused() -> None:
    async with open_house() as house:
        task = await house.started()
        with pytest.raises(InvalidParams):
            await house.engine.cancel(task.task_id, "x" * 1_001)
        assert (await house.engine.cancel(task.task_id, "x" * 1_000)).status is Status.CANCELED


async def test_of_a_cancel_and_a_completion_at_once_one_wins_and_the_log_says_which(rounds: int) -> None:
    async with open_house() as house:
        for number in range(rounds):
            task = await house.started()
            done, canceled = house.complete(task), house.engine.cancel(task.task_id)
            first, second = (done, canceled) if number % 2 else (canceled, done)
            results = await asyncio.gather(first, second, return_exceptions=True)
            final = await house.engine.task(task.task_id)
            assert sum(isinstance(each, Exception) for each in results) == 1
            statuses = [kind for kind in await house.kinds(task.task_id) if kind.startswith("status")]
            assert statuses == ["status working", f"status {final.status}"]
            await house.engine.release(task)


async def test_a_hundred_callers_at_once_collide_with_nobody() -> None:
    async with open_house() as house:
        task = await house.started()
        results = await asyncio.gather(
            *(house.engine.pause(task.task_id) for _ in range(50)),
            *(house.engine.resume(task.task_id) for _ in range(50)),
            return_exceptions=True,
        )
        carried_out = [each for each in results if not isinstance(each, BaseException)]
        assert all(isinstance(each, InvalidTaskState) for each in results if isinstance(each, BaseException))
        assert (await house.engine.task(task.task_id)).version == 1 + len(carried_out)


async def test_a_failed_attempt_is_tried_again_after_its_delay_and_then_fails_for_good() -> None:
    async with open_house() as house:
        task = await house.started(retry=Retry(max_attempts=2, delay_ms=1_000))
        error: JsonObject = {"code": -32603, "message": "no luck", "data": {}}
        waiting = await house.engine.record(task, Fail(error))
        assert (waiting.status, waiting.attempt, waiting.worker) == (Status.WORKING, 2, None)
        house.clock.advance(999)
        assert house.runner.taken.empty()
        house.clock.advance(1)
        second = await house.runner.next()
        assert (second.attempt, second.claim) == (2, 2)
        failed = await house.engine.record(second, Fail(error))
        assert (failed.status, failed.error) == (Status.FAILED, error)
        kinds = ["status working", "log", "status working", "status failed", "error"]
        assert await house.kinds(task.task_id) == kinds


async def test_a_delayed_task_starts_when_its_time_has_come_and_not_before() -> None:
    async with open_house() as house:
        task = await house.create(delay_ms=60_000)
        await house.wait(task.task_id, Status.PENDING)
        house.clock.advance(59_999)
        assert house.runner.taken.empty()
        house.clock.advance(1)
        assert (await house.runner.next()).task_id == task.task_id


async def test_a_caller_that_leaves_in_the_middle_of_a_commit_leaves_nobody_waiting() -> None:
    async with open_house() as house:
        task = await house.started()
        followed = asyncio.create_task(house.follow(task.task_id))
        leaving = asyncio.create_task(house.engine.cancel(task.task_id))
        while not leaving.done():
            await asyncio.sleep(0)
            leaving.cancel()
        assert [event.number for event in await followed] == [1, 2]


async def test_creating_and_waiting_gives_the_task_as_it_is_at_its_end() -> None:
    async with open_house() as house:
        running = asyncio.create_task(house.engine.run(order(), lambda task: task.status.is_terminal, 60_000))
        await house.complete(await house.runner.next(), 42)
        assert (await running).result == 42


async def test_waiting_ends_when_its_time_is_up_with_the_task_as_it_is() -> None:
    async with open_house() as house:
        running = asyncio.create_task(house.engine.run(order(), lambda task: task.status.is_terminal, 60_000))
        await house.runner.next()
        while not running.done():
            house.clock.advance(60_000)
            await asyncio.sleep(0)
        assert (await running).status is Status.WORKING
