"""From a body to its answer."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from aios.engine.engine import Engine
from aios.errors import (
    InvalidParams,
    MethodNotFound,
    NotInitialized,
    VersionMismatch,
)
from aios.model import Limits
from aios.protocol import jsonrpc
from aios.protocol.methods import METHODS
from aios.service.call import HANDLERS
from tests.unit.service.desk import ALICE, ECHO, HELLO, open_desk

GET = '{"jsonrpc":"2.0","id":%d,"method":"aios/ping","params":{}}'


def test_every_method_has_its_handler() -> None:
    assert {name: handler.kind for name, handler in HANDLERS.items()} == METHODS


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"1", b'{"jsonrpc":"2.0","id":1,"method":2}', b"\xff", b"[" * 70 + b"]" * 70]
)
async def test_an_unreadable_body_is_answered_and_marked(body: bytes) -> None:
    async with open_desk() as desk:
        caller = desk.caller()
        answer = await caller.send(body)
        assert answer["error"]["code"] in {-32700, -32600}
        assert caller.replies[0].is_unreadable
        assert await caller.ask("aios/ping") == {"server_time": "2026-01-05T10:00:00.000Z"}


@pytest.mark.parametrize("method", ["", "aios/nothing", "__init__", "aios/../x", "task.create", "rpc.discover2", "中"])
async def test_an_unknown_method_is_not_found(method: str) -> None:
    async with open_desk() as desk:
        with pytest.raises(MethodNotFound):
            await desk.caller().ask(method)


async def test_a_long_method_name_is_not_repeated_whole() -> None:
    async with open_desk() as desk:
        answer = await desk.caller().answer("x" * 100_000)
        assert answer["error"]["code"] == -32601
        assert len(msgspec.json.encode(answer)) < 1_000


async def test_a_batch_is_answered_in_full_but_for_its_notifications() -> None:
    async with open_desk() as desk:
        answers = await desk.caller().send(
            f'[{GET % 1}, {{"jsonrpc":"2.0","method":"aios/ping"}}, 7, {GET % 2}]'.encode()
        )
        assert [(each["id"], "result" in each) for each in answers] == [(1, True), (None, False), (2, True)]


@pytest.mark.parametrize(
    "body",
    [
        b'{"jsonrpc":"2.0","method":"aios/ping"}',
        b'{"jsonrpc":"2.0","method":"no/such"}',
        b'{"jsonrpc":"2.0","method":"aios/task.get","params":[]}',
        b'[{"jsonrpc":"2.0","method":"aios/task.get","params":{"task_id":"task-none"}}]',
    ],
)
async def test_notifications_get_no_answer_not_even_an_error(body: bytes) -> None:
    async with open_desk() as desk:
        caller = desk.caller()
        assert await caller.send(body) is None
        assert caller.replies == []


async def test_a_batch_may_be_as_long_as_the_limits_say() -> None:
    async with open_desk(max_batch_size=2) as desk:
        caller = desk.caller()
        assert len(await caller.send(f"[{GET % 1},{GET % 2}]".encode())) == 2
        refused = await caller.send(f"[{GET % 1},{GET % 2},{GET % 3}]".encode())
        assert refused["error"]["code"] == -32600


async def test_a_body_may_be_as_long_as_the_limits_say() -> None:
    async with open_desk(max_message_size=1_000) as desk:
        refused = await desk.caller().send(b" " * 1_001)
        assert refused["error"]["code"] == -32700
        assert refused["error"]["data"]["max_message_size"] == 1_000


async def test_what_nobody_foresaw_is_told_without_its_insides(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(self: Engine, *arguments: Any) -> Any:
        raise RuntimeError("secret at /etc/place")

    async with open_desk() as desk:
        with monkeypatch.context() as patch, capture_logs() as logs:
            patch.setattr(Engine, "task", broken)
            answer = await desk.caller().answer("aios/task.get", {"task_id": "t"})
        assert answer["error"]["code"] == -32603
        assert "secret" not in str(answer)
        trace_id = answer["error"]["data"]["trace_id"]
        assert [each["trace_id"] for each in logs if each["event"] == "call failed"] == [trace_id]


async def test_a_nul_that_would_be_stored_is_refused_with_its_place() -> None:
    async with open_desk() as desk:
        with pytest.raises(InvalidParams) as refused:
            await desk.caller().ask("aios/task.create", {"capability_id": ECHO, "arguments": {"text": "a\0b"}})
        assert refused.value.data["errors"][0]["path"] == "/arguments/text"


@pytest.mark.parametrize("method", sorted(set(METHODS) - {"aios/initialize", "aios/ping", "rpc.discover"}))
async def test_on_duplex_nothing_else_comes_before_initialize(method: str) -> None:
    async with open_desk() as desk:
        with pytest.raises(NotInitialized):
            await desk.caller(is_duplex=True).ask(method, {"task_id": "t"})


@pytest.mark.parametrize("principal", [ALICE, None])
async def test_on_duplex_ping_and_discover_come_before_initialize(principal: Any) -> None:
    async with open_desk() as desk:
        caller = desk.caller(principal, is_duplex=True)
        assert "server_time" in await caller.ask("aios/ping", {"timestamp": "t"})
        assert (await caller.ask("rpc.discover"))["openrpc"].startswith("1.")


async def test_what_is_sent_right_behind_initialize_waits_for_it() -> None:
    async with open_desk() as desk:
        caller = desk.caller(is_duplex=True)
        calls = [
            jsonrpc.request("first", "aios/initialize", HELLO),
            jsonrpc.request("second", "aios/task.list", {}),
        ]
        answers = await caller.send(jsonrpc.batch(calls))
        assert [(each["id"], "result" in each) for each in answers] == [("first", True), ("second", True)]


async def test_the_version_that_http_names_must_be_spoken_here() -> None:
    async with open_desk() as desk:
        assert await desk.caller(version="0.2.0").ask("aios/task.list")
        with pytest.raises(VersionMismatch) as refused:
            await desk.caller(version="0.9.0").ask("aios/task.list")
        assert refused.value.data["latest_version"] == "0.3.0"


async def test_errors_are_small_whatever_was_asked() -> None:
    async with open_desk() as desk:
        answer = await desk.caller().answer(
            "aios/task.create", {"capability_id": ECHO, "arguments": {f"x{n}" * 50: n for n in range(3_000)}}
        )
        assert answer["error"]["code"] == -32108
        assert len(msgspec.json.encode(answer)) <= 8 * 1024 + 100


async def test_the_description_is_made_of_what_is_served() -> None:
    async with open_desk() as desk:
        document = await desk.caller().ask("rpc.discover")
        assert {each["name"] for each in document["methods"]} == set(METHODS)
        assert "9.9.9" in document["info"]["description"]


def test_the_limits_of_a_message_are_those_that_the_handshake_tells() -> None:
    assert (Limits().max_batch_size, Limits().max_message_size) == (100, 4 * 1024 * 1024)
