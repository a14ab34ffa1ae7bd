"""Protocol.md §4, the table: each of the fifteen edges taken for real, by whom it belongs to, and no other."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aios.adapter import Context
from aios.errors import CapabilityFailed, TaskTimeout
from tests.spec.stage import Arguments, Code, Event, Gate, Stage
from tests.spec.test_lifecycle_commands import COMMANDS, asks, raises, returns, signs_in, waits

TABLE = {
    "pending": {"working", "failed", "canceled"},
    "working": {"completed", "failed", "paused", "input_required", "auth_required", "canceled"},
    "paused": {"working", "canceled"},
    "input_required": {"working", "canceled"},
    "auth_required": {"working", "canceled"},
}
"""As it stands in protocol.md §4."""

FAR_MS = 3_600_000

WALKS: list[tuple[Code, dict[str, Any], str]] = [
    (returns, {}, "pending working completed"),
    (raises, {}, "pending working failed"),
    (waits, {"delay_ms": FAR_MS, "expires_in_ms": 1}, "pending failed"),
    (waits, {"delay_ms": FAR_MS}, "pending cancel canceled"),
    (waits, {}, "pending working cancel canceled"),
    (waits, {}, "pending working pause paused cancel canceled"),
    (waits, {}, "pending working pause paused resume working pause paused resume working cancel canceled"),
    (asks, {}, "pending working input_required input working completed"),
    (asks, {}, "pending working input_required cancel canceled"),
    (signs_in, {}, "pending working auth_required authenticate working completed"),
    (signs_in, {}, "pending working auth_required cancel canceled"),
]
"""Ways through the table: what is reached and, between, the client's command that is needed for the next. Where none stands,
the scheduler, the code or the time takes the edge."""


def steps_of(events: list[Event]) -> list[tuple[str, str]]:
    """The steps along the table that a task took."""
    return [(event.data["previous_status"], event.data["status"]) for event in events if event.kind == "task.status"]


async def walk(stage: Stage, code: Code, options: dict[str, Any], way: str) -> list[tuple[str, str]]:
    """Walk a task along a way, and give the edges that it took."""
    reached, *stations = way.split()
    task_id = await stage.create(code, **options)
    async with stage.follow(task_id) as follower:
        edges: list[tuple[str, str]] = []
        for station in stations:
            if station in COMMANDS:
                await stage.call(f"aios/task.{station}", task_id=task_id, **COMMANDS[station])
                continue
            await follower.until("task.status", status=station, previous_status=reached)
            edges.append((reached, station))
            reached = station
        assert steps_of(await follower.rest()) == edges
    history = (await stage.task(task_id, include_history=True))["state_history"]
    assert [entry["state"] for entry in history] == ["pending", *(to for _, to in edges)]
    return edges


@pytest.mark.promise("4.table.fifteen-edges")
async def test_the_fifteen_edges_are_taken_each_by_its_own_cause_and_no_sixteenth(stage: Stage) -> None:
    walked = await asyncio.gather(*(walk(stage, *each) for each in WALKS))
    edges = {edge for each in walked for edge in each}
    assert edges == {(start, to) for start, ends in TABLE.items() for to in ends}
    assert len(edges) == 15


@pytest.mark.promise("4.timeout.request")
@pytest.mark.parametrize("kind", ["ask", "authenticate"])
async def test_time_alone_takes_a_question_back_to_working_and_uncaught_the_task_fails(kind: str, stage: Stage) -> None:
    async def code(arguments: Arguments, ctx: Context) -> Any:
        await (ctx.ask("Go on?", timeout_ms=20) if kind == "ask" else ctx.authenticate("api_key", timeout_ms=20))

    task_id = await stage.create(code, retry={"max_attempts": 3})
    events = await stage.end(task_id)
    waiting = "input_required" if kind == "ask" else "auth_required"
    assert steps_of(events) == [
        ("pending", "working"),
        ("working", waiting),
        (waiting, "working"),
        ("working", "failed"),
    ]
    assert [event.data.get("reason") for event in events if event.status == "working"] == [None, "timeout"]
    assert events[-1].data["error"]["code"] == -32005


@pytest.mark.promise("4.timeout.request")
async def test_code_may_catch_that_nobody_answered(stage: Stage) -> None:
    async def code(arguments: Arguments, ctx: Context) -> Any:
        try:
            return {"answer": await ctx.ask("Go on?", timeout_ms=20)}
        except TaskTimeout:
            return {"answer": "nobody"}

    assert (await stage.end(await stage.create(code)))[-1].data["result"] == {"answer": "nobody"}


@pytest.mark.promise("4.pause.outcome-is-kept")
@pytest.mark.parametrize("ends", ["completed", "failed"])
async def test_what_a_thread_comes_to_while_paused_is_applied_at_resume(ends: str, stage: Stage) -> None:
    started, go_on = Gate(), Gate()

    def work() -> Any:
        started.open()
        go_on.block()
        if ends == "failed":
            raise CapabilityFailed("no more ducks", retryable=False)
        return {"ducks": 3}

    async def code(arguments: Arguments, ctx: Context) -> Any:
        return await ctx.in_thread(lambda _: work(), is_last=True)

    task_id = await stage.create(code)
    await started.passed()
    paused = await stage.call("aios/task.pause", task_id=task_id)
    go_on.open()
    assert (await stage.task(task_id))["status"] == paused["status"] == "paused"
    assert (await stage.call("aios/task.resume", task_id=task_id))["task_id"] == task_id
    events = await stage.end(task_id)
    assert steps_of(events) == [
        ("pending", "working"),
        ("working", "paused"),
        ("paused", "working"),
        ("working", ends),
    ]
    assert events[-1].data.get("result", {}) == ({"ducks": 3} if ends == "completed" else {})


@pytest.mark.promise("4.terminal.nothing-follows")
async def test_what_code_still_does_after_a_cancel_changes_nothing(stage: Stage) -> None:
    started, go_on, ended = Gate(), Gate(), Gate()

    async def code(arguments: Arguments, ctx: Context) -> Any:
        def work() -> Any:
            started.open()
            go_on.block()
            return {"late": True}

        try:
            return await ctx.in_thread(lambda _: work(), is_last=True)
        finally:
            ended.open()

    task_id = await stage.create(code)
    await started.passed()
    answer = await stage.call("aios/task.cancel", task_id=task_id, reason="user_request")
    assert answer["status"] == "canceled"
    shown = await stage.task(task_id)
    go_on.open()
    async with asyncio.timeout(10):
        await ended.passed()
    events = await stage.end(task_id)
    assert (events[-1].status, events[-1].data["reason"]) == ("canceled", "user_request")
    assert await stage.task(task_id) == shown


@pytest.mark.promise("4.command.one-of-two-wins")
async def test_of_many_equal_commands_at_once_one_is_carried_out_and_the_others_are_told_so(stage: Stage) -> None:
    task_id = await stage.create(asks)
    await stage.reach(task_id, "input_required")

    async def answer(value: str) -> Any:
        async with stage.at("http") as asking:
            return await asking.ask(
                {"jsonrpc": "2.0", "id": 1, "method": "aios/task.input", "params": {"task_id": task_id, "input": value}}
            )

    answers = await asyncio.gather(*(answer(value) for value in ("yes", "no") * 8))
    carried_out = [each for each in answers if "result" in each]
    assert len(carried_out) == 1
    assert {each["error"]["code"] for each in answers if "error" in each} <= {-32107, -32108}
    events = await stage.end(task_id)
    assert len([event for event in events if event.data.get("previous_status") == "input_required"]) == 1
    assert events[-1].data["result"]["answer"] == ("yes", "no")[answers.index(carried_out[0]) % 2]
