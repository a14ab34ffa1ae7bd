"""Opening, keeping and closing (protocol.md §3)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aios.errors import (
    AlreadyInitialized,
    AuthenticationRequired,
    InvalidInput,
    InvalidParams,
    NotInitialized,
    SessionExpired,
    VersionMismatch,
)
from aios.model import Status
from tests.unit.service.desk import ALICE, BOB, ECHO, HELLO, TOKEN, Caller, Desk, open_desk

TWO_HOURS_MS = 2 * 3_600_000


async def session_of(caller: Caller) -> str:
    return (await caller.ask("aios/initialize", HELLO))["session"]["session_id"]


async def on_http(desk: Desk, principal: Any = ALICE) -> Caller:
    """Somebody on HTTP with a session of their own."""
    session_id = await session_of(desk.caller(principal))
    return desk.caller(principal, session_id=session_id)


async def test_initialize_answers_with_what_was_agreed() -> None:
    async with open_desk(max_concurrent_tasks=50) as desk:
        agreed = await desk.caller(is_duplex=True).ask(
            "aios/initialize",
            {
                "protocol_version": "0.4.0",
                "supported_versions": ["0.3.0", "0.2.0"],
                "client_info": {"name": "aios-client", "version": "1.0.0", "platform": "linux"},
                "capabilities": {"streaming": True, "batch": False, "telepathy": True, "limits": {"max_batch_size": 7}},
                "extensions": {"supported": ["urn:aios:ext:priority:1.0", "urn:else"], "required": []},
            },
        )
        assert agreed["protocol_version"] == "0.3.0"
        assert agreed["server_info"] == {"name": "aios-daemon", "version": "9.9.9"}
        assert agreed["capabilities"] == {
            "streaming": True,
            "batch": False,
            "limits": {
                "max_concurrent_tasks": 50,
                "max_tasks_per_tool": 100,
                "max_queue_size": 10_000,
                "max_batch_size": 7,
                "max_message_size": 4 * 1024 * 1024,
            },
        }
        assert agreed["extensions"] == {"supported": ["urn:aios:ext:priority:1.0"]}
        assert agreed["session"]["session_id"].startswith("sess-")
        assert agreed["session"]["expires_at"] == "2026-01-05T12:00:00.000Z"


@pytest.mark.parametrize(
    ("params", "fact"),
    [
        ({"protocol_version": "9.0.0", "supported_versions": ["8.0.0"]}, "latest_version"),
        ({"protocol_version": "0.3.0", "extensions": {"required": ["urn:none"]}}, "required_extension"),
    ],
)
async def test_without_common_ground_there_is_no_session(params: Any, fact: str) -> None:
    async with open_desk() as desk:
        caller = desk.caller(is_duplex=True)
        with pytest.raises(VersionMismatch) as refused:
            await caller.ask("aios/initialize", params)
        assert fact in refused.value.data
        with pytest.raises(NotInitialized):
            await caller.ask("aios/task.list")
        await caller.ask("aios/initialize", HELLO)


async def test_what_a_client_says_of_itself_is_kept_and_so_is_bounded() -> None:
    async with open_desk() as desk:
        caller = desk.caller(is_duplex=True)
        with pytest.raises(InvalidParams) as refused:
            await caller.ask("aios/initialize", {**HELLO, "client_info": {"name": "x" * 9_000}})
        assert refused.value.data["errors"][0]["path"] == "/client_info"
        await caller.ask("aios/initialize", {**HELLO, "client_info": {"name": "x" * 8_000}})


async def test_a_connection_is_initialized_once() -> None:
    async with open_desk() as desk:
        caller = await desk.opened()
        with pytest.raises(AlreadyInitialized):
            await caller.ask("aios/initialize", HELLO)


async def test_two_handshakes_at_once_make_one_session() -> None:
    async with open_desk() as desk:
        caller = desk.caller(is_duplex=True)
        answers = await asyncio.gather(*(caller.answer("aios/initialize", HELLO) for _ in range(2)))
        assert [("result" in each) for each in answers] == [True, False]
        assert answers[1]["error"]["message"] == "Already initialized"


async def test_on_http_every_initialize_makes_a_session() -> None:
    async with open_desk() as desk:
        caller = desk.caller()
        assert await session_of(caller) != await session_of(caller)


async def test_without_a_header_the_credential_comes_in_the_params() -> None:
    async with open_desk() as desk:
        caller = desk.caller(None, is_duplex=True)
        await caller.ask("aios/initialize", {**HELLO, "authentication": {"type": "bearer", "token": TOKEN}})
        assert caller.connection.principal is not None
        assert caller.connection.principal.user == "owner"
        await caller.ask("aios/task.list")


@pytest.mark.parametrize("principal", [None, ALICE])
@pytest.mark.parametrize("authentication", [{"type": "bearer", "token": "wrong"}, {"type": "basic", "token": TOKEN}])
async def test_a_bad_credential_is_refused_and_closes(authentication: Any, principal: Any) -> None:
    """Also from a peer who would have been known by its uid: what is presented decides alone."""
    async with open_desk() as desk:
        caller = desk.caller(principal, is_duplex=True)
        with pytest.raises(AuthenticationRequired):
            await caller.ask("aios/initialize", {**HELLO, "authentication": authentication})
        assert caller.replies[-1].closes


async def test_no_credential_at_all_is_refused_and_closes() -> None:
    async with open_desk() as desk:
        caller = desk.caller(None, is_duplex=True)
        with pytest.raises(AuthenticationRequired):
            await caller.ask("aios/initialize", HELLO)
        assert caller.replies[-1].closes


async def test_a_ping_is_answered_as_it_was_sent() -> None:
    async with open_desk() as desk:
        caller = await desk.opened()
        pong = {"timestamp": "then", "server_time": "2026-01-05T10:00:00.000Z"}
        assert await caller.ask("aios/ping", {"timestamp": "then"}) == pong
        await caller.hear()
        assert await caller.tell("aios/ping", {"timestamp": "then"}) is None
        assert await caller.hear() == {"jsonrpc": "2.0", "method": "aios/pong", "params": pong}
        assert await desk.caller().tell("aios/ping") is None


async def test_initialized_is_taken_note_of() -> None:
    async with open_desk() as desk:
        caller = await desk.opened()
        assert await caller.tell("aios/initialized") is None
        assert await caller.ask("aios/initialized") == {}


async def test_a_session_can_be_recovered_by_its_own_principal() -> None:
    async with open_desk() as desk:
        first = await session_of(desk.caller(ALICE, is_duplex=True))
        recovery = {**HELLO, "session_recovery": {"previous_session_id": first}}
        again = (await desk.caller(ALICE, is_duplex=True).ask("aios/initialize", recovery))["session"]
        assert (again["session_id"], again["recovered"]) == (first, True)
        for stranger in (BOB, ALICE):
            desk.clock.advance(TWO_HOURS_MS if stranger is ALICE else 0)
            fresh = (await desk.caller(stranger, is_duplex=True).ask("aios/initialize", recovery))["session"]
            assert fresh["session_id"] != first
            assert "recovered" not in fresh


async def test_a_session_slides_with_use_and_then_expires() -> None:
    async with open_desk() as desk:
        caller = await on_http(desk)
        for _ in range(5):
            desk.clock.advance(TWO_HOURS_MS - 120_000)
            await caller.ask("aios/task.list")
        desk.clock.advance(TWO_HOURS_MS)
        with pytest.raises(SessionExpired):
            await caller.ask("aios/task.list")


async def test_use_is_remembered_over_a_restart_of_the_service() -> None:
    async with open_desk() as desk:
        caller = await on_http(desk)
        desk.clock.advance(TWO_HOURS_MS - 120_000)
        await caller.ask("aios/task.list")
        desk.clock.advance(TWO_HOURS_MS - 120_000)
        restarted = Desk(desk.house, desk.clock)
        await restarted.caller(ALICE, session_id=caller.connection.session_id).ask("aios/task.list")


async def test_on_duplex_an_expired_session_can_be_followed_by_another() -> None:
    async with open_desk() as desk:
        caller = await desk.opened()
        desk.clock.advance(TWO_HOURS_MS)
        with pytest.raises(SessionExpired):
            await caller.ask("aios/task.list")
        await caller.ask("aios/ping")
        await caller.ask("aios/initialize", HELLO)
        await caller.ask("aios/task.list")


@pytest.mark.parametrize("session_id", ["sess-none", "", "sess-default-bob"])
async def test_an_unknown_session_and_a_strangers_are_alike(session_id: str) -> None:
    async with open_desk() as desk:
        bobs = await session_of(desk.caller(BOB))
        answers = [await desk.caller(ALICE, session_id=each).answer("aios/task.list") for each in (session_id, bobs)]
        told = [
            str(answer["error"]).replace(each, "X") for answer, each in zip(answers, (session_id, bobs), strict=True)
        ]
        assert answers[0]["error"]["code"] == -32105
        assert session_id == "" or told[0] == told[1]


async def test_without_a_session_a_call_runs_in_the_callers_default_session() -> None:
    async with open_desk() as desk:
        caller = desk.caller(ALICE)
        task = await caller.ask("aios/task.get", {"task_id": await caller.create()})
        assert task["session_id"] == "sess-default-alice"
        desk.clock.advance(10 * TWO_HOURS_MS)
        await desk.caller(ALICE, session_id="sess-default-alice").ask("aios/task.list")
        with pytest.raises(InvalidInput):
            await desk.caller(ALICE, session_id="sess-default-alice").ask("aios/shutdown")
        with pytest.raises(InvalidInput):
            await caller.ask("aios/shutdown")


async def test_shutdown_waits_for_foreground_tasks_and_cancels_those_left() -> None:
    async with open_desk() as desk:
        caller = await on_http(desk)
        quick, slow = [asyncio.create_task(caller.ask("aios/task.create", {"capability_id": ECHO})) for _ in range(2)]
        first, second = await desk.house.runner.next(), await desk.house.runner.next()
        detached = await caller.create()
        stopping = asyncio.create_task(caller.ask("aios/shutdown", {"timeout_ms": 5_000}))
        await desk.clock.asked_for(5_000)
        await desk.complete(first)
        desk.clock.advance(5_000)
        told = await stopping
        assert told == {"success": True, "pending_tasks_cancelled": 1, "session_duration_ms": 5_000}
        assert {(await quick)["status"], (await slow)["status"]} == {"completed", "canceled"}
        assert (await desk.engine.task(second.task_id)).status is Status.CANCELED
        assert (await desk.caller(ALICE).ask("aios/task.get", {"task_id": detached}))["status"] != "canceled"
        with pytest.raises(SessionExpired):
            await caller.ask("aios/task.list")


async def test_a_forced_shutdown_waits_for_nothing_and_closes_the_connection() -> None:
    async with open_desk() as desk:
        caller = await desk.opened(ALICE)
        creating = asyncio.create_task(caller.ask("aios/task.create", {"capability_id": ECHO}))
        await desk.house.runner.next()
        told = await caller.ask("aios/shutdown", {"force": True, "reason": "enough"})
        assert told["pending_tasks_cancelled"] == 1
        assert (await creating)["status"] == "canceled"
        assert any(each.closes for each in caller.replies)
        assert await caller.send(b'{"method":"broken notification"}') is None
        with pytest.raises(SessionExpired):
            await caller.ask("aios/task.list")


async def test_shutdown_of_one_session_leaves_the_others_alone() -> None:
    async with open_desk() as desk:
        one, other = await on_http(desk), await on_http(desk)
        waiting = asyncio.create_task(other.ask("aios/task.create", {"capability_id": ECHO}))
        task = await desk.house.runner.next()
        assert (await one.ask("aios/shutdown", {"force": True}))["pending_tasks_cancelled"] == 0
        await desk.complete(task)
        assert (await waiting)["status"] == "completed"
