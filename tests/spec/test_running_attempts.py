"""Attempts: how often, after what delay, for how long; and what an attempt that is over can no longer do (protocol.md §4)."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import Any

import pytest

from aios.adapter import BlockingContext, Context
from aios.errors import CapabilityFailed, PermissionDenied, TaskTimeout, ValidationFailed
from tests.spec.stage import CAPABILITY, Arguments, Event, Gate, Stage

SHORT_MS = 1_000
"""A timeout that honest work in these tests cannot use up, and that waiting in them is longer than."""


async def fails(arguments: Arguments, ctx: Context) -> Any:
    await ctx.log("info", "attempt", number=ctx.attempt)
    raise CapabilityFailed("no more ducks", code=-32042, data={"ducks": 0})


def delays(events: list[Event]) -> list[int]:
    """The delays that the daemon said it would make."""
    return [event.data["fields"]["delay_ms"] for event in events if event.data.get("level") == "warning"]


def waited(events: list[Event]) -> list[float]:
    """The delays that it made: from the end of an attempt to the first sign of the next, in ms."""
    ends = [event.data["timestamp"] for event in events if event.data.get("reason") == "retry"]
    starts = [event.data["timestamp"] for event in events if event.data.get("message") == "attempt"][1:]
    pairs = zip(ends, starts, strict=True)
    return [
        (datetime.fromisoformat(start) - datetime.fromisoformat(end)).total_seconds() * 1000 for end, start in pairs
    ]


BACKOFFS: list[tuple[dict[str, Any], list[tuple[int, int]]]] = [
    ({}, [(20, 20)] * 3),
    ({"backoff": "fixed"}, [(20, 20)] * 3),
    ({"backoff": "linear"}, [(20, 20), (40, 40), (60, 60)]),
    ({"backoff": "exponential"}, [(20, 20), (40, 40), (80, 80)]),
    ({"backoff": "exponential_jitter"}, [(10, 20), (20, 40), (40, 80)]),
    ({"backoff": "exponential", "max_delay_ms": 30}, [(20, 20), (30, 30), (30, 30)]),
]


@pytest.mark.promise("4.retry.backoffs")
@pytest.mark.parametrize(("options", "bounds"), BACKOFFS)
async def test_attempts_follow_each_other_by_their_backoff(
    options: dict[str, Any], bounds: list[tuple[int, int]], stage: Stage
) -> None:
    task_id = await stage.create(fails, retry={"max_attempts": 4, "delay_ms": 20, **options})
    events = await stage.end(task_id)
    told = delays(events)
    assert all(low <= delay <= high for delay, (low, high) in zip(told, bounds, strict=True)), told
    # Times are cut to milliseconds, so a wait may look one shorter than it was.
    assert all(wait >= delay - 1 for wait, delay in zip(waited(events), told, strict=True))
    retries = [event.data for event in events if event.data.get("reason") == "retry"]
    assert [(each["previous_status"], each["status"], each["attempt"]) for each in retries] == [
        ("working", "working", attempt) for attempt in (2, 3, 4)
    ]
    task = await stage.task(task_id, include_history=True)
    assert (task["status"], task["attempt"]) == ("failed", 4)
    assert [entry.get("reason") for entry in task["state_history"]] == [None, None, "retry", "retry", "retry", None]


@pytest.mark.promise("4.retry.attempts")
async def test_without_a_retry_there_is_one_attempt_and_the_error_is_the_capabilitys_own(stage: Stage) -> None:
    task_id = await stage.create(fails)
    events = await stage.end(task_id)
    assert [event.kind for event in events] == ["task.status", "task.log", "task.status", "task.error"]
    error = events[-1].data["error"]
    assert (error["code"], error["message"], error["data"]["ducks"]) == (-32042, "no more ducks", 0)
    assert (await stage.task(task_id))["error"] == error


@pytest.mark.promise("4.retry.never")
@pytest.mark.parametrize(
    "error",
    [CapabilityFailed("this duck is dead", retryable=False), ValidationFailed("no duck"), PermissionDenied("no ducks")],
)
async def test_what_another_attempt_cannot_help_is_not_tried_again(error: Exception, stage: Stage) -> None:
    async def code(arguments: Arguments, ctx: Context) -> Any:
        raise error

    task_id = await stage.create(code, retry={"max_attempts": 5})
    events = await stage.end(task_id)
    assert [event.status for event in events if event.status] == ["working", "failed"]
    assert (await stage.task(task_id))["attempt"] == 1


@pytest.mark.promise("4.retry.never")
async def test_a_cancel_during_the_delay_is_the_end(stage: Stage) -> None:
    task_id = await stage.create(fails, retry={"max_attempts": 2, "delay_ms": 3_600_000})
    async with stage.follow(task_id) as follower:
        await follower.until("task.status", reason="retry")
        # Between two attempts the task is working, and may be steered.
        assert (await stage.call("aios/task.pause", task_id=task_id))["status"] == "paused"
        assert (await stage.call("aios/task.resume", task_id=task_id))["status"] == "working"
        await stage.call("aios/task.cancel", task_id=task_id)
        assert (await follower.rest())[-1].status == "canceled"


@pytest.mark.promise("11.no-secrets")
async def test_an_exception_of_any_kind_fails_the_task_without_its_traceback(stage: Stage) -> None:
    async def code(arguments: Arguments, ctx: Context) -> Any:
        raise LookupError("no duck by that name")

    error = (await stage.end(await stage.create(code)))[-1].data["error"]
    assert (error["code"], error["message"]) == (-32603, "Internal error")
    assert "LookupError" in repr(error)
    assert "Traceback" not in repr(error)
    assert ".py" not in repr(error)


class Late:
    """Code whose first attempt stays in its thread until it is let go, and comes to a result then."""

    def __init__(self) -> None:
        self.go_on, self.ended = Gate(), Gate()
        self._at_work = 0

    async def __call__(self, arguments: Arguments, ctx: Context) -> Any:
        if ctx.attempt == 1:
            return await ctx.in_thread(self._work, is_last=True)
        return {"attempt": ctx.attempt, "beside": self._at_work}

    def _work(self, ctx: BlockingContext) -> Any:
        self._at_work += 1
        self.go_on.block()
        self._at_work -= 1
        self.ended.open()
        return {"attempt": 1}


@pytest.mark.promise("4.timeout.attempt", "4.timeout.late-result")
async def test_an_attempt_whose_thread_ends_after_its_time_is_tried_again_and_its_result_dropped(stage: Stage) -> None:
    code = Late()
    task_id = await stage.create(code, timeout_ms=SHORT_MS, retry={"max_attempts": 2})
    async with stage.follow(task_id) as follower:
        # A thread cannot be stopped; another attempt begins only when it has ended by itself.
        await follower.until("task.status", reason="retry")
        code.go_on.open()
        events = await follower.rest()
    error = events[1].data["fields"]["error"]
    assert (error["code"], error["message"], error["data"]["timeout_ms"]) == (-32005, "Timeout", SHORT_MS)
    assert events[-1].data["result"] == {"attempt": 2, "beside": 0}


@pytest.mark.promise("4.timeout.attempt", "4.timeout.late-result")
async def test_a_thread_that_does_not_end_fails_its_task_in_time_and_its_result_is_dropped(stage: Stage) -> None:
    code = Late()
    task_id = await stage.create(code, timeout_ms=60)
    events = await stage.end(task_id)
    statuses = [(event.status, event.data.get("reason")) for event in events if event.status]
    assert statuses == [("working", None), ("failed", "timeout")]
    error = events[-1].data["error"]
    assert (error["code"], error["message"], error["data"]["timeout_ms"]) == (-32005, "Timeout", 60)
    shown = await stage.task(task_id)
    code.go_on.open()
    await code.ended.passed()
    # What that thread has given back came before all that is done now.
    await stage.end(await stage.create(fails))
    assert (await stage.end(task_id), await stage.task(task_id)) == (events, shown)


@pytest.mark.promise("4.timeout.waiting-does-not-count")
async def test_time_in_which_a_task_waits_is_not_its_working_time(stage: Stage) -> None:
    longer_ms = SHORT_MS + 100
    hold = Gate()

    async def asks(arguments: Arguments, ctx: Context) -> Any:
        with suppress(TaskTimeout):
            await ctx.ask("Go on?", timeout_ms=longer_ms)

    async def signs_in(arguments: Arguments, ctx: Context) -> Any:
        with suppress(TaskTimeout):
            await ctx.authenticate("api_key", timeout_ms=longer_ms)

    async def sleeps(arguments: Arguments, ctx: Context) -> Any:
        await ctx.sleep(longer_ms)

    async def has_child(arguments: Arguments, ctx: Context) -> Any:
        await ctx.spawn(CAPABILITY, arguments["child"], timeout_ms=100 * SHORT_MS)

    async def is_paused(arguments: Arguments, ctx: Context) -> Any:
        await hold.passed()

    paused = await stage.create(is_paused, timeout_ms=SHORT_MS)
    await stage.reach(paused, "working")
    await stage.call("aios/task.pause", task_id=paused)
    others = [
        await stage.create(code, timeout_ms=SHORT_MS, arguments={"child": stage.named(sleeps)})
        for code in (asks, signs_in, sleeps, has_child)
    ]
    for task_id in others:
        assert (await stage.end(task_id))[-1].kind == "task.result"
    # The others have taken longer than this one may; it stood still.
    await stage.call("aios/task.resume", task_id=paused)
    hold.open()
    assert (await stage.end(paused))[-1].kind == "task.result"


@pytest.mark.promise("5.chunk.per-attempt")
async def test_chunks_are_numbered_from_0_in_each_attempt(stage: Stage) -> None:
    async def code(arguments: Arguments, ctx: Context) -> Any:
        for word in ("one", "two"):
            await ctx.chunk(word)
        if ctx.attempt == 1:
            raise RuntimeError("no more ducks")

    task_id = await stage.create(code, retry={"max_attempts": 2})
    await stage.reach(task_id, "completed")
    answer = await stage.call("aios/task.resubscribe", task_id=task_id, last_event_id="evt-000", events=["chunk"])
    chunks = [event["data"] for event in answer["missed_events"] if event["event"] == "task.chunk"]
    assert [(each["attempt"], each["index"], each["data"]) for each in chunks] == [
        (1, 0, "one"),
        (1, 1, "two"),
        (2, 0, "one"),
        (2, 1, "two"),
    ]
