"""One conformance test for the five doors: the same messages, the same answers (protocol.md §1 to §5)."""

from __future__ import annotations

import asyncio

import pytest

from aios.testing.connected import Connected
from tests.spec.doors import DUPLEX, NAMES, call, caller, initialize

on_every_door = pytest.mark.parametrize("door", NAMES)
on_duplex = pytest.mark.parametrize("door", DUPLEX)


@on_every_door
@pytest.mark.promise("2.doors.one-protocol", "3.initialize.limits")
async def test_the_handshake_agrees_on_version_and_limits_and_gives_a_session(door: str, daemon: Connected) -> None:
    async with caller(door, daemon, handshake=False) as client:
        answer = await client.ask(initialize(door, daemon.token))
        result = answer["result"]
        assert (answer["id"], result["protocol_version"]) == ("init", "0.3.0")
        assert result["capabilities"]["limits"]["max_message_size"] == 4 * 1024 * 1024
        assert result["session"]["session_id"].startswith("sess-")


@on_duplex
@pytest.mark.promise("3.initialize.first-and-once")
async def test_before_the_handshake_only_little_may_be_asked_and_it_happens_once(door: str, daemon: Connected) -> None:
    async with caller(door, daemon, handshake=False) as client:
        assert (await client.error("aios/task.list"))["message"] == "Not initialized"
        assert "server_time" in await client.result("aios/ping")
        assert "methods" in await client.result("rpc.discover")
        await client.ask(initialize(door, daemon.token))
        assert (await client.ask(initialize(door, daemon.token)))["error"]["message"] == "Already initialized"
        assert "tasks" in await client.result("aios/task.list")


@on_every_door
@pytest.mark.promise("2.doors.one-protocol")
async def test_a_task_is_created_done_and_shown(door: str, daemon: Connected) -> None:
    async with caller(door, daemon) as client:
        asked = {"text": "价格对比 🦆", "nested": [1, {"a": None}]}
        whole = await client.result("aios/task.create", {"capability_id": "spec.echo", "arguments": asked})
        assert (whole["status"], whole["result"]) == ("completed", asked)
        shown = await client.result("aios/task.get", {"task_id": whole["task_id"], "include_history": True})
        assert [entry["state"] for entry in shown["state_history"]] == ["pending", "working", "completed"]


@on_every_door
@pytest.mark.promise("2.doors.one-protocol", "2.answer-before-events", "5.numbers.no-gap")
async def test_a_subscription_brings_every_event_once_in_order_after_its_answer(door: str, daemon: Connected) -> None:
    async with caller(door, daemon) as client:
        order = {"capability_id": "spec.count", "arguments": {"to": 50}, "options": {"async": True}}
        task = await client.result("aios/task.create", order)
        assert task["status"] == "pending"
        await client.door.send(
            b'{"jsonrpc":"2.0","id":"s","method":"aios/task.subscribe","params":{"task_id":"%s","from":"start"}}'
            % task["task_id"].encode()
        )
        async with asyncio.timeout(10):
            first = await client.door.next()
        assert (first["id"], first["result"]["task_id"]) == ("s", task["task_id"])
        events = await client.events()
        assert [event_id for event_id, _, _ in events] == [f"evt-{number:03d}" for number in range(1, 54)]
        assert [kind for _, kind, _ in events] == ["task.status", *["task.log"] * 50, "task.status", "task.result"]
        assert events[1][2]["message"] == "第 1 步"


@on_every_door
@pytest.mark.promise("2.doors.one-protocol")
async def test_what_was_missed_is_told_again_from_any_event(door: str, daemon: Connected) -> None:
    async with caller(door, daemon) as client:
        task = await client.result("aios/task.create", {"capability_id": "spec.count", "arguments": {"to": 3}})
        answer = await client.result("aios/task.resubscribe", {"task_id": task["task_id"], "last_event_id": "evt-003"})
        assert [event["id"] for event in answer["missed_events"]] == ["evt-004", "evt-005", "evt-006"]


@on_every_door
@pytest.mark.promise("2.doors.one-protocol")
async def test_a_question_is_asked_and_answered(door: str, daemon: Connected) -> None:
    async with caller(door, daemon) as client:
        task = await client.result("aios/task.create", {"capability_id": "spec.ask"})
        assert task["status"] == "input_required"
        wrong = await client.error("aios/task.input", {"task_id": task["task_id"], "input": "maybe"})
        assert wrong["message"] == "Invalid input"
        assert (await client.result("aios/task.input", {"task_id": task["task_id"], "input": "yes"}))[
            "status"
        ] == "working"
        await client.ask(call("s", "aios/task.subscribe", {"task_id": task["task_id"]}))
        assert (await client.events())[-1][2]["result"] == {"answer": "yes"}


@on_every_door
@pytest.mark.promise("2.doors.calls-side-by-side")
async def test_many_calls_at_once_are_each_answered_once(door: str, daemon: Connected) -> None:
    async with caller(door, daemon) as client:
        for number in range(200):
            await client.door.send(b'{"jsonrpc":"2.0","id":%d,"method":"aios/ping"}' % number)
        answers = [await client.answer() for _ in range(200)]
        assert sorted(answer["id"] for answer in answers) == list(range(200))


@on_every_door
@pytest.mark.promise("2.doors.calls-side-by-side")
async def test_a_slow_call_does_not_hold_up_a_quick_one(door: str, daemon: Connected) -> None:
    async with caller(door, daemon) as client:
        await client.door.send(
            b'{"jsonrpc":"2.0","id":"slow","method":"aios/task.create","params":{"capability_id":"spec.wait"}}'
        )
        tasks: list[dict[str, str]] = []
        while not tasks:
            tasks = (await client.result("aios/task.list", {"filter": {"capability_id": "spec.wait"}}))["tasks"]
        order = '{"jsonrpc":"2.0","method":"aios/task.cancel","params":{"task_id":"%s"}}'
        await client.door.send((order % tasks[0]["task_id"]).encode())
        answer = await client.answer()
        assert (answer["id"], answer["result"]["status"]) == ("slow", "canceled")


@on_every_door
@pytest.mark.promise("1.batch")
async def test_a_batch_is_answered_as_one_and_notifications_not_at_all(door: str, daemon: Connected) -> None:
    async with caller(door, daemon) as client:
        notice = {"jsonrpc": "2.0", "method": "aios/initialized"}
        await client.door.send(b'[{"jsonrpc":"2.0","method":"aios/initialized"}]')
        answers = await client.ask([call(1, "aios/ping"), notice, call("x", "no/such"), call(None, "aios/ping")])
        assert {answer["id"] for answer in answers} == {1, "x", None}
        assert len(answers) == 3


@on_duplex
@pytest.mark.promise("3.ping")
async def test_a_ping_that_wants_no_answer_is_answered_by_a_pong(door: str, daemon: Connected) -> None:
    async with caller(door, daemon) as client:
        await client.door.send(
            b'{"jsonrpc":"2.0","method":"aios/ping","params":{"timestamp":"2026-01-05T10:00:00.000Z"}}'
        )
        pong = await client.notification()
        assert (pong["method"], pong["params"]["timestamp"]) == ("aios/pong", "2026-01-05T10:00:00.000Z")


@on_every_door
@pytest.mark.promise("2.doors.one-protocol")
async def test_a_message_of_megabytes_goes_both_ways(door: str, daemon: Connected) -> None:
    async with caller(door, daemon) as client:
        text = "大" * 300_000
        whole = await client.result("aios/task.create", {"capability_id": "spec.echo", "arguments": {"text": text}})
        assert whole["result"] == {"text": text}


@on_every_door
@pytest.mark.promise("2.lost-connection")
async def test_a_lost_connection_cancels_nothing(door: str, daemon: Connected) -> None:
    async with caller(door, daemon) as client:
        order = {"capability_id": "spec.ask", "options": {"async": True}}
        task = await client.result("aios/task.create", order)
        await client.door.send(
            b'{"jsonrpc":"2.0","id":2,"method":"aios/task.subscribe","params":{"task_id":"%s"}}'
            % task["task_id"].encode()
        )
        await client.answer()
        if door != "stdio":
            await client.door.close()
    async with caller("http", daemon) as client:
        await client.ask(call("s", "aios/task.subscribe", {"task_id": task["task_id"], "from": "start"}))
        while (await client.notification())["method"] != "aios/task.input_required":
            continue
        given = await client.result("aios/task.input", {"task_id": task["task_id"], "input": "no"})
        assert given["status"] == "working"


@pytest.mark.parametrize("door", [name for name in DUPLEX if name != "stdio"])
@pytest.mark.promise("3.shutdown.last-answer")
async def test_shutdown_is_the_last_answer(door: str, daemon: Connected) -> None:
    async with caller(door, daemon) as client:
        assert (await client.result("aios/shutdown", {"reason": "client_exit", "timeout_ms": 1_000}))["success"] is True
        with pytest.raises(EOFError):
            await client.answer()


@pytest.mark.parametrize(
    ("door", "token"),
    [("websocket", None), ("websocket", "wrong"), ("tcp", None), ("tcp", "wrong"), ("unix", "wrong")],
)
@pytest.mark.promise("2.credential.always")
async def test_without_a_good_credential_the_handshake_fails_and_the_door_closes(
    door: str, token: str | None, daemon: Connected
) -> None:
    """On the Unix socket the peer's uid counts, but a token that is presented decides alone."""
    async with caller(door, daemon, handshake=False, token=None) as client:
        params: dict[str, object] = {"protocol_version": "0.3.0", "client_info": {}}
        if token is not None:
            params["authentication"] = {"type": "bearer", "token": token}
        error = await client.error("aios/initialize", params)
        assert (error["code"], error["data"]["authentication_required"]) == (-32001, True)
        with pytest.raises(EOFError):
            await client.answer()


async def test_what_code_prints_does_not_get_between_the_frames(daemon: Connected) -> None:
    async with caller("stdio", daemon) as client:
        whole = await client.result("aios/task.create", {"capability_id": "spec.shout"})
        assert whole["result"] == {"shouted": True}
