"""`aios/capability.*` over the service (protocol.md §8)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aios.errors import (
    AiosError,
    CapabilityFailed,
    CapabilityNotFound,
    InputRequired,
    InvalidParams,
    InvalidRequest,
    SessionNotFound,
    TaskNotFound,
    TaskTimeout,
    UserCanceled,
)
from aios.model import AuthRequest, InputRequest, JsonObject, Progress, Task
from aios.rules.lifecycle import Ask, Chunk, Command, Complete, Fail, Report, RequireAuth, TimeOut
from tests.unit.service.desk import ALICE, BOB, ECHO, HELLO, Desk, open_desk

SLOW = "compat.demo.slow"


@asynccontextmanager
async def invoked(**asked: Any) -> AsyncGenerator[tuple[Desk, Task, asyncio.Task[Any]]]:
    """Invoke a capability, and give the task that is to be run for it."""
    async with open_desk() as desk:
        params = {"capability_id": ECHO, **asked}
        invoking = asyncio.create_task(desk.caller(ALICE).ask("aios/capability.invoke", params))
        yield desk, await desk.house.runner.next(), invoking


async def failure(invoking: asyncio.Task[Any]) -> AiosError:
    with pytest.raises(AiosError) as failed:
        await invoking
    return failed.value


async def test_an_invocation_gives_what_the_capability_returned_and_said_last() -> None:
    async with invoked(arguments={"text": "hi"}) as (desk, task, invoking):
        desk.clock.advance(150)
        await desk.engine.record(task, Report(Progress(message="almost")), Complete({"said": "hi"}))
        assert await invoking == {
            "success": True,
            "message": "almost",
            "data": {"said": "hi"},
            "task_id": task.task_id,
            "execution_time_ms": 150,
        }
        assert (task.spec.timeout_ms, task.spec.is_detached) == (30_000, False)


@pytest.mark.parametrize("bare", ["text", 5, [1, 2], None, True])
async def test_a_bare_value_stands_under_value(bare: Any) -> None:
    async with invoked() as (desk, task, invoking):
        await desk.engine.record(task, Complete(bare))
        told = await invoking
        assert (told["data"], told["message"]) == ({"value": bare}, "")
        shown = await desk.caller(ALICE).ask("aios/task.get", {"task_id": task.task_id})
        assert shown["result"] == {"value": bare}


async def test_a_failed_task_gives_its_own_error() -> None:
    async with invoked() as (desk, task, invoking):
        raised = CapabilityFailed("the shop is closed", code=-31000, data={"shop": "jd"}, retryable=False)
        await desk.engine.record(task, Fail(raised.to_wire(), is_retryable=False))
        error = await failure(invoking)
        assert (error.wire_code, error.title) == (-31000, "the shop is closed")
        assert error.data == {"shop": "jd", "task_id": task.task_id}


async def test_a_timeout_has_the_message_of_the_protocols_table() -> None:
    async with invoked() as (desk, task, invoking):
        desk.clock.advance(30_000)
        await desk.engine.record(task, TimeOut())
        error = await failure(invoking)
        assert isinstance(error, TaskTimeout)
        assert error.title == "Task timeout"
        assert error.data["task_id"] == task.task_id
        assert error.data["timeout_ms"] == 30_000


async def test_a_canceled_task_says_why() -> None:
    async with invoked() as (desk, task, invoking):
        await desk.caller(ALICE).ask("aios/task.cancel", {"task_id": task.task_id, "reason": "changed my mind"})
        error = await failure(invoking)
        assert isinstance(error, UserCanceled)
        assert error.data == {"task_id": task.task_id, "reason": "changed my mind"}


@pytest.mark.parametrize(
    ("command", "facts"),
    [
        (
            Ask(InputRequest(step="ask:1", prompt="Which?", options=["a"])),
            {"prompt": "Which?", "options": ["a"]},
        ),
        (
            RequireAuth(AuthRequest(step="auth:1", type="api_key", reason="shop")),
            {"auth_request": {"type": "api_key", "reason": "shop"}},
        ),
    ],
)
async def test_where_somebody_is_needed_the_call_says_so_and_the_task_goes_on(
    command: Command, facts: JsonObject
) -> None:
    async with invoked() as (desk, task, invoking):
        await desk.engine.record(task, command)
        error = await failure(invoking)
        assert isinstance(error, InputRequired)
        assert error.data == {"task_id": task.task_id, **facts}
        status = await desk.caller(ALICE).ask("aios/capability.status", {"task_id": task.task_id})
        assert status["status"] in {"input_required", "auth_required"}


async def test_a_pause_is_waited_through() -> None:
    async with invoked() as (desk, task, invoking):
        alice = desk.caller(ALICE)
        await alice.ask("aios/task.pause", {"task_id": task.task_id})
        assert not invoking.done()
        await alice.ask("aios/task.resume", {"task_id": task.task_id})
        await desk.complete(await desk.engine.task(task.task_id))
        assert (await invoking)["success"]


async def test_the_session_of_the_context_is_the_connections_or_ones_own() -> None:
    async with open_desk() as desk:
        alice, bob = desk.caller(ALICE), desk.caller(BOB)
        own, other = [(await each.ask("aios/initialize", HELLO))["session"]["session_id"] for each in (alice, bob)]
        asked: JsonObject = {"capability_id": ECHO, "context": {"session_id": own}}
        invoking = asyncio.create_task(alice.ask("aios/capability.invoke", asked))
        task = await desk.house.runner.next()
        assert task.spec.session_id == own
        await desk.complete(task)
        await invoking
        with pytest.raises(SessionNotFound):
            await alice.ask("aios/capability.invoke", {**asked, "context": {"session_id": other}})
        second = (await alice.ask("aios/initialize", HELLO))["session"]["session_id"]
        with pytest.raises(InvalidRequest):
            await desk.caller(ALICE, session_id=second).ask("aios/capability.invoke", asked)


async def test_a_stream_is_told_before_the_answer() -> None:
    async with open_desk() as desk:
        caller = await desk.opened(ALICE)
        asked: JsonObject = {"capability_id": ECHO, "options": {"stream": True}}
        invoking = asyncio.create_task(caller.ask("aios/capability.invoke", asked))
        task = await desk.house.runner.next()
        await desk.engine.record(task, Chunk("one ", 0), Report(Progress(percent=50.5, message="half")))
        await desk.engine.record(task, Chunk("two", 1), Complete({"all": "one two"}))
        await invoking
        start, *told, answer = [await caller.hear() for _ in range(6)]
        stream_id = start["params"]["stream_id"]
        assert start["method"] == "aios/stream.start"
        assert start["params"] == {"stream_id": stream_id, "task_id": task.task_id}
        assert [(each["method"], each["params"]) for each in told] == [
            ("aios/stream.chunk", {"stream_id": stream_id, "index": 0, "data": "one "}),
            ("aios/stream.progress", {"stream_id": stream_id, "progress": 50, "message": "half"}),
            ("aios/stream.chunk", {"stream_id": stream_id, "index": 1, "data": "two"}),
            ("aios/stream.end", {"stream_id": stream_id, "result": {"all": "one two"}}),
        ]
        assert answer["result"]["data"] == {"all": "one two"}


async def test_a_stream_ends_with_the_error_where_somebody_is_needed() -> None:
    async with open_desk() as desk:
        caller = await desk.opened(ALICE)
        asked: JsonObject = {"capability_id": ECHO, "options": {"stream": True}}
        invoking = asyncio.create_task(caller.ask("aios/capability.invoke", asked))
        task = await desk.house.runner.next()
        await desk.engine.record(task, Ask(InputRequest(step="ask:1", prompt="Which?")))
        assert isinstance(await failure(invoking), InputRequired)
        _, end, answer = [await caller.hear() for _ in range(3)]
        assert end["params"]["error"] == answer["error"]


async def test_a_stream_that_nobody_hears_any_more_still_runs_its_task() -> None:
    async def gone(body: bytes) -> None:
        raise ConnectionResetError

    async with open_desk() as desk:
        caller = desk.caller(ALICE, send=gone)
        asked: JsonObject = {"capability_id": ECHO, "options": {"stream": True}}
        invoking = asyncio.create_task(caller.ask("aios/capability.invoke", asked))
        await desk.complete(await desk.house.runner.next())
        assert (await invoking)["success"]


async def test_where_nothing_can_be_sent_a_stream_is_refused() -> None:
    async with open_desk() as desk:
        with pytest.raises(InvalidParams) as refused:
            await desk.caller().ask("aios/capability.invoke", {"capability_id": ECHO, "options": {"stream": True}})
        assert refused.value.data["errors"][0]["path"] == "/options/stream"


async def test_status_speaks_in_fewer_words() -> None:
    async with open_desk() as desk:
        task, caller = await desk.started(), desk.caller()
        asked = {"task_id": task.task_id}
        said = {"task_id": task.task_id, "status": "running", "progress": 0, "message": ""}
        started_at = "2026-01-05T10:00:00.000Z"
        assert await caller.ask("aios/capability.status", asked) == {**said, "started_at": started_at}
        await desk.engine.record(task, Report(Progress(percent=75.9, message="正在处理...")))
        told = await caller.ask("aios/capability.status", asked)
        assert (told["progress"], told["message"]) == (75, "正在处理...")
        await desk.complete(task)
        told = await caller.ask("aios/capability.status", asked)
        assert (told["status"], told["progress"], told["result"]) == ("completed", 100, {"done": True})
        with pytest.raises(TaskNotFound):
            await caller.ask("aios/capability.status", {"task_id": "task-none"})


async def test_cancel_cancels() -> None:
    async with open_desk() as desk:
        task, caller = await desk.started(), desk.caller()
        assert await caller.ask("aios/capability.cancel", {"task_id": task.task_id}) == {"success": True}
        assert (await caller.ask("aios/capability.status", {"task_id": task.task_id}))["status"] == "canceled"


async def test_list_and_info_tell_what_there_is() -> None:
    async with open_desk() as desk:
        caller = desk.caller()
        listed = (await caller.ask("aios/capability.list"))["capabilities"]
        assert [each["id"] for each in listed] == [ECHO, SLOW]
        assert listed[0] == {
            "id": ECHO,
            "name": "Echo",
            "namespace": "compat",
            "version": "1.0.0",
            "permission_level": "low",
            "category": "demo",
        }
        for asked, ids in (
            ({"namespace": "app"}, [ECHO, SLOW]),
            ({"namespace": "system"}, []),
            ({"category": "demo"}, [ECHO]),
        ):
            found = (await caller.ask("aios/capability.list", asked))["capabilities"]
            assert [each["id"] for each in found] == ids
        info = await caller.ask("aios/capability.info", {"capability_id": "app.demo.echo"})
        assert (info["id"], info["permission"]["level"]) == (ECHO, "low")
        assert info["input"]["properties"] == {"text": {"type": "string"}}
        with pytest.raises(CapabilityNotFound):
            await caller.ask("aios/capability.info", {"capability_id": "compat.no.such"})
