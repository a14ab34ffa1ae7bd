import asyncio
from typing import Any

import pytest

from aios.client import Client, Question, SignIn, SyncClient, TaskEvent
from aios.errors import InputRequired, InvalidInput, InvalidTaskState, TaskTimeout, UserCanceled
from tests.unit.client.scripted_daemon import TASK_ID, TOKEN, Reply, ScriptedDaemon, a_whole_task, event, scripted

ASKING = {"status": "input_required", "input_request": {"prompt": "Which?", "options": ["a", "b"]}}
SIGNING_IN = {"status": "auth_required", "auth_request": {"type": "api_key", "reason": "for the shop"}}
MOVED = {"task_id": TASK_ID, "status": "working", "updated_at": "2026-01-05T10:00:00.000Z"}


async def asks(daemon: ScriptedDaemon, **waits: Any) -> None:
    """Let the task come to a question (or a sign-in) and go on once it is answered."""
    kind = "input_required" if "input_request" in waits else "auth_required"
    daemon.task |= waits
    daemon.log = [
        event("status", status="working", attempt=1),
        event("status", status=kind, previous_status="working", attempt=1),
        event(kind, prompt="Which?") if kind == "input_required" else event(kind, status=kind, auth_request={}),
    ]


async def goes_on(daemon: ScriptedDaemon) -> None:
    await daemon.append(*a_whole_task(), status="completed", input_request=None, auth_request=None)


def answered(daemon: ScriptedDaemon, method: str, *refusals: Reply, last: Reply | None = None) -> None:
    """Let the task go on as soon as the last of these answers was given."""
    daemon.replies[method] = [*refusals, last or Reply(MOVED)]
    daemon.then[method] = lambda: goes_on(daemon)


async def test_run_gives_the_result_and_tells_every_event() -> None:
    async with scripted() as daemon, Client.connect(daemon.url, TOKEN) as client:
        daemon.log = a_whole_task([event("progress", progress={"percent": 50})])
        seen: list[TaskEvent] = []
        assert await client.run("demo.answer", on_event=seen.append) == {"answer": 42}
        assert [each.kind for each in seen] == ["task.status", "task.progress", "task.status", "task.result"]


async def test_without_a_listener_only_what_decides_is_asked_for() -> None:
    async with scripted() as daemon, Client.connect(daemon.url, TOKEN) as client:
        daemon.log = a_whole_task()
        assert await client.run("demo.answer") == {"answer": 42}
        assert daemon.calls_of("aios/task.subscribe")[0]["events"] == ["status"]


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_question_goes_to_the_callback_until_the_answer_fits(is_async: bool) -> None:
    questions: list[Question] = []

    def answer(question: Question) -> str:
        questions.append(question)
        return "c" if len(questions) == 1 else "a"

    async def answer_later(question: Question) -> str:
        return answer(question)

    async with scripted() as daemon, Client.connect(daemon.url, TOKEN) as client:
        await asks(daemon, **ASKING)
        wrong = [{"path": "", "message": "not one of the options"}]
        answered(daemon, "aios/task.input", Reply(error=InvalidInput("no", errors=wrong).to_wire()))
        assert await client.run("demo.answer", on_input=answer_later if is_async else answer) == {"answer": 42}
        assert [each["input"] for each in daemon.calls_of("aios/task.input")] == ["c", "a"]
        assert questions[0] == Question(task_id=TASK_ID, prompt="Which?", options=["a", "b"])
        assert questions[1].errors == wrong


async def test_a_sign_in_goes_to_its_callback_and_gets_the_type() -> None:
    asked: list[SignIn] = []

    def sign_in(need: SignIn) -> dict[str, str]:
        asked.append(need)
        return {"api_key": "k"}

    async with scripted() as daemon, Client.connect(daemon.url, TOKEN) as client:
        await asks(daemon, **SIGNING_IN)
        answered(daemon, "aios/task.authenticate")
        assert await client.run("demo.answer", on_auth=sign_in) == {"answer": 42}
        assert daemon.calls_of("aios/task.authenticate")[0]["auth_response"] == {"type": "api_key", "api_key": "k"}
        assert (asked[0].type, asked[0].request["reason"]) == ("api_key", "for the shop")


@pytest.mark.parametrize("waits", [ASKING, SIGNING_IN])
async def test_with_nobody_to_answer_run_says_what_is_asked_and_leaves_the_task(waits: dict[str, Any]) -> None:
    async with scripted() as daemon, Client.connect(daemon.url, TOKEN) as client:
        await asks(daemon, **waits)
        with pytest.raises(InputRequired, match=r"asks: Which\?|needs a sign-in") as raised:
            await client.run("demo.answer")
        assert raised.value.data["task_id"] == TASK_ID
        assert daemon.calls_of("aios/task.cancel") == []


async def test_an_answer_from_elsewhere_stops_the_asking() -> None:
    is_asking, was_stopped = asyncio.Event(), asyncio.Event()

    async def never(_: Question) -> str:
        is_asking.set()
        try:
            await asyncio.Event().wait()
        finally:
            was_stopped.set()
        return "unreachable"

    async with scripted() as daemon, Client.connect(daemon.url, TOKEN) as client:
        await asks(daemon, **ASKING)
        running = asyncio.create_task(client.run("demo.answer", on_input=never))
        await is_asking.wait()
        await goes_on(daemon)
        assert await running == {"answer": 42}
        assert was_stopped.is_set()
        assert daemon.calls_of("aios/task.input") == []


async def test_being_too_late_with_an_answer_is_no_failure() -> None:
    async with scripted() as daemon, Client.connect(daemon.url, TOKEN) as client:
        await asks(daemon, **ASKING)
        answered(daemon, "aios/task.input", last=Reply(error=InvalidTaskState("too late").to_wire()))
        assert await client.run("demo.answer", on_input=lambda _: "a") == {"answer": 42}


async def test_a_question_of_the_past_is_not_asked_again() -> None:
    async with scripted() as daemon, Client.connect(daemon.url, TOKEN) as client:
        await asks(daemon, **ASKING)
        await goes_on(daemon)
        assert await client.wait(TASK_ID, on_input=lambda _: pytest.fail("asked")) == {"answer": 42}


async def test_what_a_callback_raises_comes_out() -> None:
    def fails(_: Question) -> str:
        raise LookupError("no idea")

    async with scripted() as daemon, Client.connect(daemon.url, TOKEN) as client:
        await asks(daemon, **ASKING)
        with pytest.raises(LookupError, match="no idea"):
            await client.run("demo.answer", on_input=fails)


async def test_a_failed_task_raises_its_own_error() -> None:
    async with scripted() as daemon, Client.connect(daemon.url, TOKEN) as client:
        error = {"code": -32005, "message": "Timeout", "data": {"error_id": "AIOS-TIMEOUT", "timeout_ms": 5}}
        daemon.task["status"] = "failed"
        daemon.log = [event("status", status="working"), event("status", status="failed"), event("error", error=error)]
        with pytest.raises(TaskTimeout) as raised:
            await client.run("demo.answer")
        assert raised.value.data == {"timeout_ms": 5, "task_id": TASK_ID}


async def test_a_canceled_task_raises_that_and_the_reason() -> None:
    async with scripted() as daemon, Client.connect(daemon.url, TOKEN) as client:
        at = {"timestamp": "2026-01-05T10:00:00.000Z"}
        daemon.task |= {"status": "canceled", "state_history": [{"state": "canceled", "reason": "too dear", **at}]}
        daemon.log = [event("status", status="working"), event("status", status="canceled")]
        with pytest.raises(UserCanceled, match="was canceled: too dear"):
            await client.run("demo.answer")


async def test_a_result_that_only_the_snapshot_knows_is_given_too() -> None:
    async with scripted() as daemon, Client.connect(daemon.url, TOKEN) as client:
        daemon.log, daemon.snapshot_at = a_whole_task(), 3
        daemon.task["result"] = {"answer": 43}
        assert await client.run("demo.answer", on_event=lambda _: None) == {"answer": 43}


async def test_the_blocking_client_does_the_same() -> None:
    async with scripted() as daemon:
        await asks(daemon, **ASKING)

        def blocking() -> None:
            with SyncClient.connect(daemon.url, TOKEN) as client:
                assert client.get(TASK_ID).status == "input_required"
                # The callback may use the client it was called by.
                assert client.run("demo.answer", on_input=lambda q: client.get(q.task_id) and "a") == {"answer": 42}
                assert [each.number for each in client.follow(TASK_ID)] == [1, 2, 3, 4, 5, 6]
                for each in client.follow(TASK_ID):
                    assert each.number == 1
                    break
                with pytest.raises(InputRequired):
                    client.call("aios/task.get", {"task_id": "other"})

        answered(daemon, "aios/task.input")
        refused = {"aios/task.get": [Reply(error=InputRequired("x").to_wire())]}
        usual = daemon.answer
        daemon.answer = lambda method, params: (  # type: ignore[method-assign]
            refused["aios/task.get"][0] if params.get("task_id") == "other" else usual(method, params)
        )
        await asyncio.to_thread(blocking)
