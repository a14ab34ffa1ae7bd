"""Who may wait and who goes first: the queue, priorities, delays, expiry (protocol.md §4, §12)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aios.adapter import Context
from tests.spec.doors import Message, call
from tests.spec.stage import CAPABILITY, OTHER, Arguments, Code, Gate, Stage, staged

FAR_MS = 3_600_000


async def returns(arguments: Arguments, ctx: Context) -> Any:
    return {"done": True}


def waits_for(gate: Gate) -> Code:
    async def code(arguments: Arguments, ctx: Context) -> Any:
        await gate.passed()
        return {"done": True}

    return code


async def ask(stage: Stage, arguments: Arguments, door: str = "http", **options: Any) -> Any:
    """Ask for a task; the whole answer, be it a refusal."""
    order: Message = {"capability_id": CAPABILITY, "arguments": arguments, "options": {"async": True, **options}}
    async with stage.at(door) as client:
        return await client.ask(call(1, "aios/task.create", order))


@pytest.mark.promise("12.queue.exact")
@pytest.mark.parametrize("door", ["http", "websocket"])
async def test_of_32_callers_at_once_exactly_as_many_get_in_as_the_queue_has_places(door: str) -> None:
    async with staged(limits__max_concurrent_tasks=3, limits__max_queue_size=7) as stage:
        release = Gate()
        blockers = [await stage.create(waits_for(release)) for _ in range(3)]
        await asyncio.gather(*(stage.reach(task_id, "working") for task_id in blockers))
        arguments = stage.named(returns)
        answers = await asyncio.gather(*(ask(stage, arguments, door) for _ in range(32)))
        accepted = [answer["result"]["task_id"] for answer in answers if "result" in answer]
        refused = [answer["error"] for answer in answers if "error" in answer]
        assert (len(accepted), len(refused)) == (7, 25)
        for error in refused:
            assert (error["code"], error["message"]) == (-32006, "Task queue full")
            assert error["data"]["max_queue_size"] == 7
        assert (await stage.call("aios/task.list", filter={"status": ["pending"]}))["total"] == 7
        release.open()
        for task_id in (*blockers, *accepted):
            assert (await stage.end(task_id))[-1].data["result"] == {"done": True}
        assert (await stage.call("aios/task.list"))["total"] == 10, "who was refused left nothing behind"


@pytest.mark.promise("12.queue.resume-and-retry")
async def test_resume_and_retry_are_never_refused_however_full_the_queue_is() -> None:
    async with staged(limits__max_concurrent_tasks=1, limits__max_queue_size=1) as stage:
        release = Gate()

        async def fails_once(arguments: Arguments, ctx: Context) -> Any:
            if ctx.attempt == 1:
                raise RuntimeError("no more ducks")
            await release.passed()
            return {"attempt": ctx.attempt}

        paused = await stage.create(waits_for(release))
        await stage.reach(paused, "working")
        await stage.call("aios/task.pause", task_id=paused)
        retried = await stage.create(fails_once, retry={"max_attempts": 2, "delay_ms": 0})
        async with stage.follow(retried) as follower:
            await follower.until("task.status", reason="retry")
        queued = await stage.create(returns)
        assert (await ask(stage, stage.named(returns)))["error"]["code"] == -32006
        assert (await stage.call("aios/task.resume", task_id=paused))["status"] == "working"
        release.open()
        results = [(await stage.end(task_id))[-1].data["result"] for task_id in (paused, retried, queued)]
        assert results == [{"done": True}, {"attempt": 2}, {"done": True}]


@pytest.mark.promise("12.queue.delayed-count")
async def test_delayed_tasks_fill_the_queue_and_a_free_slot_still_takes_one_that_can_start() -> None:
    async with staged(limits__max_concurrent_tasks=1, limits__max_queue_size=2) as stage:
        delayed = [await stage.create(returns, delay_ms=FAR_MS) for _ in range(2)]
        # The slot is free, so this one does not have to wait.
        release = Gate()
        started = await stage.create(waits_for(release))
        await stage.reach(started, "working")
        assert (await ask(stage, stage.named(returns)))["error"]["code"] == -32006
        await stage.call("aios/task.cancel", task_id=delayed[0])
        queued = await stage.create(returns)
        release.open()
        assert (await stage.end(queued))[-1].data["result"] == {"done": True}


@pytest.mark.promise("12.slots.by-priority-then-age")
async def test_slots_go_to_the_highest_priority_and_within_one_to_the_oldest() -> None:
    async with staged(limits__max_concurrent_tasks=1) as stage:
        release, order = Gate(), list[str]()

        async def runs(arguments: Arguments, ctx: Context) -> Any:
            order.append(arguments["name"])

        blocker = await stage.create(waits_for(release))
        await stage.reach(blocker, "working")
        asked = [f"{priority}-{number}" for number in range(3) for priority in ("low", "urgent", "normal", "high")]
        tasks = [await stage.create(runs, arguments={"name": name}, priority=name.partition("-")[0]) for name in asked]
        release.open()
        for task_id in tasks:
            await stage.end(task_id)
        expected = [f"{priority}-{number}" for priority in ("urgent", "high", "normal", "low") for number in range(3)]
        assert order == expected


@pytest.mark.promise("4.priority.urgent-needs-a-role")
async def test_urgent_is_for_operators() -> None:
    async with staged(stdio__role="client") as stage, stage.at("stdio") as client:
        order: Message = {"capability_id": CAPABILITY, "arguments": stage.named(returns)}
        error = await client.error("aios/task.create", {**order, "options": {"priority": "urgent"}})
        assert (error["code"], error["message"]) == (-32001, "Permission denied")
        assert "operator" in repr(error["data"]["required_role"])
        assert (await client.result("aios/task.list"))["total"] == 0
        assert (await client.result("aios/task.create", {**order, "options": {"priority": "high"}}))[
            "priority"
        ] == "high"


@pytest.mark.promise("12.slots.per-tool")
async def test_one_adapter_cannot_take_all_slots() -> None:
    async with staged(limits__max_concurrent_tasks=5, limits__max_tasks_per_tool=2) as stage:
        release = Gate()
        mine = [await stage.create(waits_for(release)) for _ in range(4)]
        for task_id in mine[:2]:
            await stage.reach(task_id, "working")
        other = await stage.create(returns, capability_id=OTHER)
        assert (await stage.end(other))[-1].data["result"] == {"done": True}
        assert [(await stage.task(task_id))["status"] for task_id in mine] == ["working"] * 2 + ["pending"] * 2
        release.open()
        for task_id in mine:
            await stage.end(task_id)


@pytest.mark.promise("4.slot.waiting-holds-none")
async def test_tasks_that_wait_for_someone_hold_no_slot() -> None:
    async with staged(limits__max_concurrent_tasks=1) as stage:

        async def asks(arguments: Arguments, ctx: Context) -> Any:
            return {"answer": await ctx.ask("Go on?")}

        async def sleeps(arguments: Arguments, ctx: Context) -> Any:
            await ctx.sleep(FAR_MS)

        asking = [await stage.create(asks) for _ in range(5)]
        for task_id in asking:
            await stage.reach(task_id, "input_required")
        sleeping = await stage.create(sleeps)
        assert (await stage.end(await stage.create(returns)))[-1].kind == "task.result"
        assert (await stage.task(sleeping))["status"] == "working"
        for task_id in asking:
            await stage.call("aios/task.input", task_id=task_id, input="yes")
        for task_id in asking:
            assert (await stage.end(task_id))[-1].data["result"] == {"answer": "yes"}


@pytest.mark.promise("4.create.delayed")
@pytest.mark.parametrize("how", ["delay_ms", "run_at"])
async def test_a_delayed_task_does_not_start_before_its_time(how: str, stage: Stage) -> None:
    at = datetime.now(UTC) + timedelta(milliseconds=150)
    option: Message = {"delay_ms": 150} if how == "delay_ms" else {"run_at": at.isoformat()}
    task_id = await stage.create(returns, **option)
    await stage.end(task_id)
    task = await stage.task(task_id)
    started = datetime.fromisoformat(task["started_at"])
    not_before = datetime.fromisoformat(task["created_at"]) + timedelta(milliseconds=150) if how == "delay_ms" else at
    assert started >= not_before - timedelta(milliseconds=1)


@pytest.mark.promise("4.create.delayed")
async def test_a_delay_and_a_time_together_are_refused(stage: Stage) -> None:
    options: Message = {"delay_ms": 1, "run_at": datetime.now(UTC).isoformat()}
    error = (await ask(stage, stage.named(returns), **options))["error"]
    assert (error["code"], error["data"]["errors"][0]["path"]) == (-32602, "/options/run_at")


@pytest.mark.promise("4.create.expiry")
async def test_a_task_that_has_not_started_in_time_fails_and_is_not_tried_again() -> None:
    async with staged(limits__max_concurrent_tasks=1) as stage:
        release = Gate()
        blocker = await stage.create(waits_for(release))
        await stage.reach(blocker, "working")
        late = await stage.create(returns, expires_in_ms=30, retry={"max_attempts": 3})
        events = await stage.end(late)
        assert [event.kind for event in events] == ["task.status", "task.error"]
        assert (events[0].data["previous_status"], events[0].status) == ("pending", "failed")
        assert events[1].data["error"]["code"] == -32005
        assert "started_at" not in await stage.task(late)
        release.open()
        in_time = await stage.create(returns, expires_in_ms=FAR_MS)
        assert (await stage.end(in_time))[-1].data["result"] == {"done": True}


@pytest.mark.promise("4.run.retry-slots-by-age")
async def test_a_resumed_task_goes_before_younger_ones_of_its_priority() -> None:
    async with staged(limits__max_concurrent_tasks=1) as stage:
        release, order = Gate(), list[str]()

        async def asks(arguments: Arguments, ctx: Context) -> Any:
            await ctx.ask("Go on?")
            order.append("old")

        async def runs(arguments: Arguments, ctx: Context) -> Any:
            order.append("young")

        old = await stage.create(asks)
        await stage.reach(old, "input_required")
        blocker = await stage.create(waits_for(release))
        await stage.reach(blocker, "working")
        young = await stage.create(runs)
        await stage.call("aios/task.input", task_id=old, input="yes")
        release.open()
        await stage.end(old)
        await stage.end(young)
        assert order == ["old", "young"]
