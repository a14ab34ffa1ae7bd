"""`aios/task.*` over the service: what is asked, what is answered (protocol.md §4)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aios.errors import (
    CapabilityNotFound,
    InvalidInput,
    InvalidParams,
    InvalidTaskState,
    PermissionDenied,
    QueueFull,
    TaskFinal,
    TaskNotFound,
    ValidationFailed,
)
from aios.model import AuthRequest, Progress, Status
from aios.rules.lifecycle import Complete, Fail, Report, RequireAuth
from tests.unit.service.desk import ALICE, BOB, ECHO, OPAL, Desk, open_desk

NOW = "2026-01-05T10:00:00.000Z"
SLOW = "compat.demo.slow"


async def test_an_async_create_answers_at_once_with_little() -> None:
    async with open_desk() as desk:
        caller = desk.caller()
        made = await caller.ask("aios/task.create", {"capability_id": ECHO, "options": {"async": True}})
        assert made == {"task_id": made["task_id"], "status": "pending", "created_at": NOW}
        made = await caller.ask("aios/task.create", {"capability_id": SLOW, "options": {"async": True}})
        assert made["estimated_duration_ms"] == 700


async def test_a_create_that_waits_answers_with_the_whole_task() -> None:
    async with open_desk() as desk:
        asked = {"capability_id": ECHO, "arguments": {"text": "hi"}, "metadata": {"tags": ["x"]}}
        creating = asyncio.create_task(desk.caller().ask("aios/task.create", asked))
        task = await desk.house.runner.next()
        await desk.engine.record(task, Report(Progress(percent=50, message="half")), Complete({"said": "hi"}))
        assert await creating == {
            "task_id": task.task_id,
            "status": "completed",
            "created_at": NOW,
            "capability_id": ECHO,
            "arguments": {"text": "hi"},
            "metadata": {"tags": ["x"]},
            "priority": "normal",
            "session_id": "sess-default-owner",
            "attempt": 1,
            "progress": {"percent": 50, "message": "half"},
            "started_at": NOW,
            "updated_at": NOW,
            "completed_at": NOW,
            "artifacts": [],
            "result": {"said": "hi"},
        }


async def test_a_create_that_waits_is_answered_when_somebody_is_needed() -> None:
    async with open_desk() as desk:
        creating = asyncio.create_task(desk.caller(ALICE).ask("aios/task.create", {"capability_id": ECHO}))
        task = await desk.house.runner.next()
        sign_in = AuthRequest(step="auth:1", type="oauth2", provider="google", reason="drive", state="s1")
        await desk.engine.record(task, RequireAuth(sign_in))
        shown = await creating
        assert (shown["status"], shown["auth_request"]) == (
            "auth_required",
            {"type": "oauth2", "reason": "drive", "provider": "google", "state": "s1"},
        )


async def test_a_create_that_waits_is_answered_when_its_time_is_up_and_waits_through_a_pause() -> None:
    async with open_desk() as desk:
        caller = desk.caller()
        asked = {"capability_id": ECHO, "options": {"wait_ms": 1_000}}
        creating = asyncio.create_task(caller.ask("aios/task.create", asked))
        task = await desk.house.runner.next()
        await caller.ask("aios/task.pause", {"task_id": task.task_id})
        await desk.clock.asked_for(1_000)
        desk.clock.advance(1_000)
        assert (await creating)["status"] == "paused"


async def test_a_caller_who_goes_away_leaves_the_task_running() -> None:
    async with open_desk() as desk:
        creating = asyncio.create_task(desk.caller().ask("aios/task.create", {"capability_id": ECHO}))
        task = await desk.house.runner.next()
        creating.cancel()
        await asyncio.gather(creating, return_exceptions=True)
        assert (await desk.complete(task)).status is Status.COMPLETED


async def test_one_idempotency_key_makes_one_task() -> None:
    async with open_desk() as desk:
        alice = desk.caller(ALICE)
        first = await alice.create(idempotency_key="k")
        assert await alice.create(idempotency_key="k") == first
        assert await desk.caller(BOB).create(idempotency_key="k") != first
        with pytest.raises(ValidationFailed):
            await alice.create(idempotency_key="k", priority="high")


@pytest.mark.parametrize(
    ("params", "kind"),
    [
        ({"capability_id": "compat.no.such"}, CapabilityNotFound),
        ({"capability_id": ECHO, "arguments": {"text": 5}}, ValidationFailed),
        ({"capability_id": ECHO, "arguments": {"text": "x" * 1_100_000}}, InvalidParams),
        ({"capability_id": ECHO, "options": {"delay_ms": 5, "run_at": NOW}}, InvalidParams),
        ({"capability_id": ECHO, "options": {"run_at": "9999-12-31T23:59:59-23:00"}}, InvalidParams),
    ],
)
async def test_a_create_that_cannot_be_is_refused(params: Any, kind: type[Exception]) -> None:
    async with open_desk() as desk:
        with pytest.raises(kind):
            await desk.caller().ask("aios/task.create", params)


async def test_a_full_queue_says_how_much_it_holds() -> None:
    async with open_desk(max_concurrent_tasks=1, max_queue_size=1) as desk:
        caller = desk.caller()
        await caller.create()
        await desk.house.runner.next()
        await caller.create()
        with pytest.raises(QueueFull) as refused:
            await caller.create()
        assert refused.value.data["max_queue_size"] == 1


async def test_urgent_is_for_operators() -> None:
    async with open_desk() as desk:
        await desk.caller(OPAL).create(priority="urgent")
        with pytest.raises(PermissionDenied) as refused:
            await desk.caller(ALICE).create(priority="urgent")
        assert refused.value.data == {"required_role": "operator"}


async def test_a_history_is_given_where_it_is_asked_for() -> None:
    async with open_desk() as desk:
        task = await desk.waiting()
        caller = desk.caller()
        assert "state_history" not in await caller.ask("aios/task.get", {"task_id": task.task_id})
        shown = await caller.ask("aios/task.get", {"task_id": task.task_id, "include_history": True})
        assert [each["state"] for each in shown["state_history"]] == ["pending", "working", "input_required"]
        assert shown["state_history"][-1]["metadata"] == {"prompt": "Which one?", "options_count": 2}
        assert shown["input_request"] == {"prompt": "Which one?", "options": ["a", "b"]}


async def test_each_end_has_its_own_time_and_its_own_word() -> None:
    async with open_desk() as desk:
        completed, failed, canceled = [await desk.started() for _ in range(3)]
        desk.clock.advance(1_000)
        await desk.complete(completed, "bare")
        error = {"code": -32603, "message": "no", "data": {"error_id": "AIOS-CAPABILITY-FAILED"}}
        await desk.engine.record(failed, Fail(error))
        caller, later = desk.caller(), "2026-01-05T10:00:01.000Z"
        told = await caller.ask("aios/task.cancel", {"task_id": canceled.task_id, "reason": "user_request"})
        assert told == {"task_id": canceled.task_id, "status": "canceled", "canceled_at": later}
        shown = [await caller.ask("aios/task.get", {"task_id": each.task_id}) for each in (completed, failed, canceled)]
        assert [each.get("completed_at") for each in shown] == [later, None, None]
        assert [each.get("failed_at") for each in shown] == [None, later, None]
        assert [each.get("canceled_at") for each in shown] == [None, None, later]
        assert [each.get("result") for each in shown] == [{"value": "bare"}, None, None]
        assert [each.get("error") for each in shown] == [None, error, None]


async def test_the_commands_answer_with_where_the_task_stands() -> None:
    async with open_desk() as desk:
        caller = desk.caller()
        task = await desk.started()
        for command, status in (("pause", "paused"), ("resume", "working")):
            told = await caller.ask(f"aios/task.{command}", {"task_id": task.task_id})
            assert told == {"task_id": task.task_id, "status": status, "updated_at": NOW}
        asking = await desk.waiting()
        told = await caller.ask("aios/task.input", {"task_id": asking.task_id, "input": "a"})
        assert told == {"task_id": asking.task_id, "status": "working", "updated_at": NOW}


async def test_a_wrong_answer_is_refused_and_the_task_still_waits() -> None:
    async with open_desk() as desk:
        task, caller = await desk.waiting(), desk.caller()
        with pytest.raises(InvalidInput) as refused:
            await caller.ask("aios/task.input", {"task_id": task.task_id, "input": "c"})
        assert refused.value.data["errors"]
        assert (await caller.ask("aios/task.get", {"task_id": task.task_id}))["status"] == "input_required"


async def test_what_the_status_does_not_allow_is_refused_with_what_it_does() -> None:
    async with open_desk() as desk:
        task, caller = await desk.started(), desk.caller()
        with pytest.raises(InvalidTaskState) as refused:
            await caller.ask("aios/task.resume", {"task_id": task.task_id})
        assert refused.value.data["status"] == "working"
        await desk.complete(task)
        for command in ("cancel", "pause", "resume"):
            with pytest.raises(TaskFinal) as final:
                await caller.ask(f"aios/task.{command}", {"task_id": task.task_id})
            assert final.value.title == "Task already completed"


async def create_some(desk: Desk) -> list[str]:
    alice = desk.caller(ALICE)
    made = [await alice.create() for _ in range(3)]
    made.append(await desk.caller(BOB).create())
    await desk.engine.cancel(made[0])  # pyright: ignore[reportArgumentType]
    return made


async def test_a_list_shows_ones_own_in_summary_and_an_operator_all() -> None:
    async with open_desk() as desk:
        made = await create_some(desk)
        listed = await desk.caller(ALICE).ask("aios/task.list")
        assert {each["task_id"] for each in listed["tasks"]} == set(made[:3])
        assert (listed["total"], listed["has_more"]) == (3, False)
        assert all({"arguments", "result", "artifacts"}.isdisjoint(each) for each in listed["tasks"])
        assert (await desk.caller(OPAL).ask("aios/task.list"))["total"] == 4
        page = await desk.caller(ALICE).ask("aios/task.list", {"pagination": {"limit": 2}})
        assert (len(page["tasks"]), page["total"], page["has_more"]) == (2, 3, True)


async def test_filters_and_history_choose() -> None:
    async with open_desk() as desk:
        made = await create_some(desk)
        alice = desk.caller(ALICE)

        async def found(method: str, **asked: Any) -> set[str]:
            return {each["task_id"] for each in (await alice.ask(method, {"filter": asked}))["tasks"]}

        assert await found("aios/task.list", status=["canceled"]) == {made[0]}
        assert await found("aios/task.list", capability_id="app.demo.*") == set(made[:3])
        assert await found("aios/task.list", capability_id="compat.d_mo.*") == set()
        assert await found("aios/task.list", created_after="2026-01-05T10:00:01Z") == set()
        assert await found("aios/task.history") == {made[0]}
        assert await found("aios/task.history", start_time="2026-01-05T18:00:00+08:00") == {made[0]}
        assert await found("aios/task.history", end_time="2026-01-05T09:59:59Z") == set()


@pytest.mark.parametrize(
    ("method", "asked", "path"),
    [
        ("aios/task.history", {"start_time": NOW, "end_time": "2026-01-05T09:00:00Z"}, "/filter/start_time"),
        ("aios/task.list", {"created_after": NOW, "created_before": "2026-01-05T09:00:00Z"}, "/filter/created_after"),
        ("aios/task.list", {"created_after": "0001-01-01T00:00:00+05:00"}, "/filter/created_after"),
    ],
)
async def test_a_span_that_is_none_is_refused(method: str, asked: Any, path: str) -> None:
    async with open_desk() as desk:
        with pytest.raises(InvalidParams) as refused:
            await desk.caller().ask(method, {"filter": asked})
        assert refused.value.data["errors"][0]["path"] == path


async def test_an_unknown_task_is_not_found() -> None:
    async with open_desk() as desk:
        for task_id in ("task-none", "task-" + "x" * 200, "../etc", "' or 1=1 --"):
            with pytest.raises(TaskNotFound):
                await desk.caller().ask("aios/task.get", {"task_id": task_id})
