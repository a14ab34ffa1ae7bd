"""When a call is answered, and with what: `task.create` that waits, `capability.invoke`, the same request twice (§4, §8)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from aios.adapter import Context
from aios.errors import CapabilityFailed
from tests.spec.doors import Message, call
from tests.spec.stage import CAPABILITY, ONCE, Arguments, Code, Gate, Stage

on_doors = pytest.mark.parametrize("door", ["http", "websocket"])


async def returns(arguments: Arguments, ctx: Context) -> Any:
    return {"done": True}


async def asks(arguments: Arguments, ctx: Context) -> Any:
    return {"answer": await ctx.ask("Go on?", options=["yes", "no"])}


async def signs_in(arguments: Arguments, ctx: Context) -> Any:
    await ctx.authenticate("api_key", reason="the shop wants to know you")


async def waits(arguments: Arguments, ctx: Context) -> Any:
    await Gate().passed()


class Begun:
    """Code that waits for ever, and tells which task it is."""

    def __init__(self) -> None:
        self._begun = Gate()
        self._task_id = ""

    async def __call__(self, arguments: Arguments, ctx: Context) -> Any:
        self._task_id = ctx.task_id
        self._begun.open()
        await Gate().passed()

    async def task_id(self) -> str:
        """Wait until it runs."""
        async with asyncio.timeout(10):
            await self._begun.passed()
        return self._task_id


async def fails(arguments: Arguments, ctx: Context) -> Any:
    raise CapabilityFailed("no more ducks", code=-32042, data={"ducks": 0})


async def ask(stage: Stage, method: str, code: Code | Arguments, door: str = "http", **options: Any) -> Any:
    """Create or invoke, and wait for the whole answer."""
    arguments = stage.named(code) if callable(code) else code
    async with stage.at(door) as client:
        params: Message = {"capability_id": CAPABILITY, "arguments": arguments, "options": options}
        return await client.ask(call(1, method, params))


async def create(stage: Stage, code: Code | Arguments, door: str = "http", **options: Any) -> Any:
    return await ask(stage, "aios/task.create", code, door, **options)


async def invoke(stage: Stage, code: Code | Arguments, door: str = "http", **options: Any) -> Any:
    return await ask(stage, "aios/capability.invoke", code, door, **options)


@on_doors
@pytest.mark.promise("4.create.waits")
@pytest.mark.parametrize(
    ("code", "status", "member"),
    [
        (returns, "completed", "result"),
        (fails, "failed", "error"),
        (asks, "input_required", "input_request"),
        (signs_in, "auth_required", "auth_request"),
    ],
)
async def test_create_waits_for_the_end_or_until_someone_is_needed(
    code: Code, status: str, member: str, door: str, stage: Stage
) -> None:
    whole = (await create(stage, code, door))["result"]
    assert whole["status"] == status
    assert member in whole
    assert whole == await stage.task(whole["task_id"]), "it is answered as task.get answers"


@on_doors
@pytest.mark.promise("4.create.waits")
async def test_create_waits_no_longer_than_wait_ms(door: str, stage: Stage) -> None:
    whole = (await create(stage, waits, door, wait_ms=50))["result"]
    assert whole["status"] == "working"
    assert whole == await stage.task(whole["task_id"])
    assert (await create(stage, waits, door, wait_ms=0))["result"]["status"] in {"pending", "working"}


@on_doors
@pytest.mark.promise("4.create.waits")
async def test_a_pause_is_waited_through_and_a_cancel_is_an_end(door: str, stage: Stage) -> None:
    code = Begun()
    answering = asyncio.ensure_future(create(stage, code, door))
    task_id = await code.task_id()
    await stage.call("aios/task.pause", task_id=task_id)
    await stage.call("aios/task.resume", task_id=task_id)
    await stage.call("aios/task.pause", task_id=task_id)
    assert not answering.done()
    await stage.call("aios/task.cancel", task_id=task_id)
    assert (await answering)["result"]["status"] == "canceled"


@on_doors
@pytest.mark.promise("8.invoke.result")
@pytest.mark.parametrize(
    ("value", "data"), [({"a": 1}, {"a": 1}), (3, {"value": 3}), ([1, 2], {"value": [1, 2]}), (None, {"value": None})]
)
async def test_invoke_gives_what_the_capability_returned(value: Any, data: Message, door: str, stage: Stage) -> None:
    async def code(arguments: Arguments, ctx: Context) -> Any:
        await ctx.progress(50, "half")
        await ctx.progress(90, "nearly")
        return value

    result = (await invoke(stage, code, door))["result"]
    assert (result["success"], result["data"], result["message"]) == (True, data, "nearly")
    assert isinstance(result["execution_time_ms"], int)
    task = await stage.task(result["task_id"])
    assert (task["result"], task["status"]) == (data, "completed")


@on_doors
@pytest.mark.promise("8.invoke.errors")
async def test_invoke_fails_with_the_tasks_own_error(door: str, stage: Stage) -> None:
    error = (await invoke(stage, fails, door))["error"]
    assert (error["code"], error["message"], error["data"]["ducks"]) == (-32042, "no more ducks", 0)
    assert (await stage.task(error["data"]["task_id"]))["status"] == "failed"


@on_doors
@pytest.mark.promise("8.invoke.errors")
async def test_invoke_waits_through_a_pause_and_tells_who_canceled(door: str, stage: Stage) -> None:
    code = Begun()
    answering = asyncio.ensure_future(invoke(stage, code, door))
    task_id = await code.task_id()
    await stage.call("aios/task.pause", task_id=task_id)
    assert (await stage.call("aios/capability.status", task_id=task_id))["status"] == "paused"
    assert not answering.done()
    await stage.call("aios/task.cancel", task_id=task_id, reason="enough")
    error = (await answering)["error"]
    assert (error["code"], error["message"]) == (-32002, "User cancelled")
    assert error["data"].items() >= {"task_id": task_id, "reason": "enough"}.items()


@on_doors
@pytest.mark.promise("8.invoke.errors")
async def test_invoke_cannot_wait_for_a_person_and_the_task_goes_on_waiting(door: str, stage: Stage) -> None:
    error = (await invoke(stage, asks, door))["error"]
    assert (error["code"], error["message"], error["data"]["prompt"]) == (-32002, "Input required", "Go on?")
    assert error["data"]["options"] == ["yes", "no"]
    await stage.call("aios/task.input", task_id=error["data"]["task_id"], input="no")
    assert (await stage.end(error["data"]["task_id"]))[-1].data["result"] == {"answer": "no"}
    error = (await invoke(stage, signs_in, door))["error"]
    assert (error["code"], error["message"]) == (-32002, "Input required")
    assert error["data"]["auth_request"]["type"] == "api_key"
    assert (await stage.task(error["data"]["task_id"]))["status"] == "auth_required"


@on_doors
@pytest.mark.promise("8.stream")
@pytest.mark.parametrize(("code", "error"), [(fails, -32042), (asks, -32002), (signs_in, -32002)])
async def test_a_stream_ends_with_the_error_that_the_call_is_answered_with(
    code: Code, error: int, door: str, stage: Stage
) -> None:
    params: Message = {"capability_id": CAPABILITY, "arguments": stage.named(code), "options": {"stream": True}}
    async with stage.at(door) as client:
        answer = await client.ask(call(1, "aios/capability.invoke", params))
        assert [each["method"] for each in client.told] == ["aios/stream.start", "aios/stream.end"]
        end = client.told[-1]["params"]
        assert (answer["error"]["code"], end["error"]["code"], "result" in end) == (error, error, False)
        assert client.told[0]["params"]["task_id"] == answer["error"]["data"]["task_id"]


@pytest.mark.promise("8.stream")
async def test_where_nothing_can_be_sent_before_the_answer_a_stream_is_refused(stage: Stage) -> None:
    params: Message = {"capability_id": CAPABILITY, "arguments": stage.named(returns), "options": {"stream": True}}
    # With spaces, so that the door here does not ask for an event stream by itself.
    body = json.dumps(call(1, "aios/capability.invoke", params)).encode()
    async with stage.at("http") as client:
        answer = await client.ask(body)
        assert (answer["error"]["code"], answer["error"]["data"]["errors"][0]["path"]) == (-32602, "/options/stream")


@on_doors
@pytest.mark.promise("4.create.idempotency")
async def test_the_same_request_with_the_same_key_is_one_task_however_often_it_is_asked(
    door: str, stage: Stage
) -> None:
    runs: list[int] = []

    async def code(arguments: Arguments, ctx: Context) -> Any:
        runs.append(1)
        return {"run": len(runs)}

    arguments, key = stage.named(code), f"once-{door}"
    answers = await asyncio.gather(*(create(stage, arguments, door, idempotency_key=key) for _ in range(16)))
    assert len({answer["result"]["task_id"] for answer in answers}) == 1
    assert {answer["result"]["result"]["run"] for answer in answers} == {1}
    later = (await create(stage, arguments, door, idempotency_key=key))["result"]
    assert (later["task_id"], later["status"]) == (answers[0]["result"]["task_id"], "completed")
    assert runs == [1]
    error = (await create(stage, {**arguments, "more": True}, door, idempotency_key=key))["error"]
    assert error["code"] == -32108


@pytest.mark.promise("4.create.idempotency")
async def test_an_invocation_with_a_key_runs_once(stage: Stage) -> None:
    runs: list[int] = []

    async def code(arguments: Arguments, ctx: Context) -> Any:
        runs.append(1)
        return {"run": len(runs)}

    arguments = stage.named(code)
    answers = [await invoke(stage, arguments, idempotency_key="invoked") for _ in range(3)]
    assert [answer["result"]["data"] for answer in answers] == [{"run": 1}] * 3


@pytest.mark.promise("4.create.estimate")
async def test_an_estimate_is_never_invented(stage: Stage) -> None:
    answered = Gate()

    async def code(arguments: Arguments, ctx: Context) -> Any:
        await answered.passed()

    order: Message = {"capability_id": ONCE, "arguments": stage.named(code), "options": {"async": True}}
    first = await stage.call("aios/task.create", **order)
    assert "estimated_duration_ms" not in first
    answered.open()
    await stage.end(first["task_id"])
    assert isinstance((await stage.call("aios/task.create", **order))["estimated_duration_ms"], int)


QUESTIONS: list[tuple[Message, list[Any], Any]] = [
    ({"options": ["a", "b"]}, ["c", 1, None, ["a"], {"a": 1}], "b"),
    ({"options": [{"id": "x", "name": "X"}, {"value": 2}]}, ["X", "y", 3], "x"),
    ({"schema": {"type": "integer", "minimum": 1}}, [0, "1", 1.5, True], 7),
    ({"schema": {"type": "array"}, "options": ["a", "b"]}, [["a", "c"], "a"], ["a", "b"]),
    ({"schema": {"type": "object", "required": ["n"]}, "options": ["a"]}, ["a", {}], {"n": 1}),
    ({}, [], {"anything": ["goes", None]}),
]


@pytest.mark.promise("4.input.options")
@pytest.mark.parametrize(("question", "wrong", "right"), QUESTIONS)
async def test_an_answer_must_fit_its_question_and_a_wrong_one_changes_nothing(
    question: Message, wrong: list[Any], right: Any, stage: Stage
) -> None:
    async def code(arguments: Arguments, ctx: Context) -> Any:
        return {"answer": await ctx.ask("Which?", **question)}

    task_id = await stage.create(code)
    await stage.reach(task_id, "input_required")
    before = await stage.task(task_id, include_history=True)
    for value in wrong:
        error = await stage.refused("aios/task.input", task_id=task_id, input=value)
        assert (error["code"], error["message"]) == (-32108, "Invalid input")
        assert error["data"]["errors"][0]["path"].startswith("/input")
    assert await stage.task(task_id, include_history=True) == before
    await stage.call("aios/task.input", task_id=task_id, input=right)
    assert (await stage.end(task_id))[-1].data["result"] == {"answer": right}
