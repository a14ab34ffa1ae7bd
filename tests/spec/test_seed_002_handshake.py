"""Seed 002, chapter 1 as written: initialize, initialized, ping and pong, shutdown."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import datetime

import pytest

from tests.spec.doors import NAMES, call, caller, initialize
from tests.spec.seeds import SEED_000, SEED_002, Shop, assert_like, opened, waits

on_duplex = pytest.mark.parametrize("door", ["websocket", "unix", "tcp"])


@pytest.fixture(scope="module")
async def shop() -> AsyncGenerator[Shop]:
    async with opened() as running:
        yield running


@pytest.mark.parametrize("door", [name for name in NAMES if name != "stdio"])
@pytest.mark.promise("3.initialize.version", "3.initialize.limits")
async def test_initialize_is_answered_as_the_seed_shows(door: str, shop: Shop) -> None:
    async with caller(door, shop.daemon, handshake=False) as client:
        request = SEED_002.request("initialize")
        if door == "tcp":
            request["params"]["authentication"] = initialize(door, shop.daemon.token)["params"]["authentication"]
        answer = await client.ask(request)
        example = SEED_002.response("initialize")
        assert_like(example, answer)
        result = answer["result"]
        assert (answer["id"], result["protocol_version"]) == ("init-001", "0.3.0")
        assert result["server_info"]["name"] == example["result"]["server_info"]["name"]
        assert result["capabilities"]["limits"]["max_concurrent_tasks"] == 10
        assert (result["capabilities"]["streaming"], result["capabilities"]["batch"]) == (True, True)
        assert datetime.fromisoformat(result["session"]["expires_at"]).utcoffset() is not None


@pytest.mark.parametrize("asked", ["0.2.0", "9.9.9"])
@pytest.mark.promise("3.initialize.version")
async def test_the_highest_common_version_is_chosen(asked: str, shop: Shop) -> None:
    async with caller("unix", shop.daemon, handshake=False) as client:
        request = SEED_002.request("initialize")
        request["params"] |= {"protocol_version": asked, "supported_versions": ["0.2.0"]}
        assert (await client.ask(request))["result"]["protocol_version"] == "0.2.0"


@pytest.mark.promise("3.initialize.version")
async def test_no_common_version_and_an_unknown_extension_are_refused_with_what_there_is(shop: Shop) -> None:
    async with caller("unix", shop.daemon, handshake=False) as client:
        request = SEED_002.request("initialize")
        request["params"] |= {"protocol_version": "9.9.9", "supported_versions": ["9.9.8"]}
        error = (await client.ask(request))["error"]
        assert (error["code"], error["message"]) == (-32009, "Version mismatch")
        assert error["data"]["requested_version"] == "9.9.9"
        assert sorted(error["data"]["supported_versions"]) == ["0.2.0", "0.3.0"]
        assert error["data"]["latest_version"] == "0.3.0"
        request = SEED_002.request("initialize")
        request["params"]["extensions"]["required"] = ["urn:aios:ext:time-travel:1.0"]
        error = (await client.ask(request))["error"]
        assert (error["code"], error["data"]["required_extension"]) == (-32009, "urn:aios:ext:time-travel:1.0")
        assert "supported_extensions" in error["data"]
        assert "result" in await client.ask(SEED_002.request("initialize"))


@on_duplex
@pytest.mark.promise("3.initialize.limits")
async def test_of_two_limits_the_smaller_holds(door: str, shop: Shop) -> None:
    async with caller(door, shop.daemon, handshake=False) as client:
        request = initialize(door, shop.daemon.token)
        request["params"]["capabilities"] = {"limits": {"max_message_size": 10_000, "max_queue_size": 10**9}}
        limits = (await client.ask(request))["result"]["capabilities"]["limits"]
        assert (limits["max_message_size"], limits["max_queue_size"]) == (10_000, 100)


@pytest.mark.promise("3.session.recovered")
async def test_a_session_is_opened_again_by_the_next_connection(shop: Shop) -> None:
    async with caller("unix", shop.daemon, handshake=False) as client:
        first = (await client.ask(SEED_002.request("initialize")))["result"]["session"]
        assert not first.get("recovered")
    async with caller("websocket", shop.daemon, handshake=False) as client:
        request = SEED_002.request("initialize")
        request["params"]["session_recovery"] = {"previous_session_id": first["session_id"]}
        again = (await client.ask(request))["result"]["session"]
        assert (again["session_id"], again["recovered"]) == (first["session_id"], True)
    async with caller("unix", shop.daemon, handshake=False) as client:
        request["params"]["session_recovery"] = {"previous_session_id": "sess-nobody"}
        fresh = (await client.ask(request))["result"]["session"]
        assert fresh["session_id"] not in {"sess-nobody", first["session_id"]}
        assert "recovered" not in fresh


@on_duplex
@pytest.mark.promise("3.ping")
async def test_initialized_is_not_answered_and_ping_is_by_pong(door: str, shop: Shop) -> None:
    async with shop.at(door) as client:
        await client.door.send(SEED_002.bytes("initialized"))
        await client.door.send(SEED_002.bytes("ping"))
        pong = await client.notification()
        assert_like(SEED_002.response("ping"), pong)
        assert "id" not in pong
        assert pong["params"]["timestamp"] == SEED_002.request("ping")["params"]["timestamp"]


@pytest.mark.promise("3.ping")
async def test_over_http_ping_as_a_request_is_answered_with_what_pong_tells(shop: Shop) -> None:
    async with shop.at("http") as client:
        answer = await client.ask({**SEED_002.request("ping"), "id": "p"})
        assert_like(SEED_002.response("ping")["params"], answer["result"])


@on_duplex
@pytest.mark.promise("3.shutdown.foreground-only")
async def test_shutdown_cancels_the_two_foreground_tasks_and_leaves_the_detached_one(door: str, shop: Shop) -> None:
    shop.play(waits)
    foreground = SEED_000.request("task.create")
    foreground["params"]["options"] |= {"async": False, "wait_ms": 0}
    async with shop.at(door) as client:
        detached = (await SEED_000.ask("task.create", client))["task_id"]
        mine = [(await client.ask(foreground))["result"]["task_id"] for _ in range(2)]
        await asyncio.gather(*(shop.reach(each, "working") for each in (detached, *mine)))
        request = SEED_002.request("shutdown")
        request["params"]["timeout_ms"] = 20
        answer = await client.ask(request)
        assert_like(SEED_002.response("shutdown"), answer)
        assert answer["result"]["success"] is True
        assert answer["result"]["pending_tasks_cancelled"] == 2
        with pytest.raises(EOFError):
            await client.answer()
    assert [(await shop.task(each))["status"] for each in mine] == ["canceled", "canceled"]
    assert (await shop.task(detached))["status"] == "working"
    await shop.call("aios/task.cancel", task_id=detached)


@on_duplex
@pytest.mark.promise("3.shutdown.foreground-only")
async def test_shutdown_as_written_with_nothing_to_wait_for_is_answered_at_once(door: str, shop: Shop) -> None:
    async with shop.at(door) as client:
        answer = await client.ask(SEED_002.request("shutdown"))
        assert_like(SEED_002.response("shutdown"), answer)
        assert answer["result"] | {"session_duration_ms": 0} == {
            "success": True,
            "pending_tasks_cancelled": 0,
            "session_duration_ms": 0,
        }


@pytest.mark.promise("3.shutdown.foreground-only")
async def test_a_default_session_over_http_cannot_be_shut_down(shop: Shop) -> None:
    async with shop.at("http") as client:
        assert (await client.ask(SEED_002.request("shutdown")))["error"]["code"] == -32108
        assert "tasks" in (await client.ask(call(1, "aios/task.list")))["result"]
