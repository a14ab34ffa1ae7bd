"""Bad input gets the error that the protocol names, on every door, and leaves the daemon well (protocol.md §1, §2, §11)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from aios.testing.connected import Connected, connected
from tests.spec.conftest import scripts
from tests.spec.doors import DUPLEX, NAMES, Caller, HttpDoor, StdioDoor, call, caller

on_every_door = pytest.mark.parametrize("door", NAMES)


def create(**params: Any) -> bytes:
    return msgspec.json.encode(call(1, "aios/task.create", {"capability_id": "spec.echo", **params}))


def message(text: str) -> bytes:
    return b'{"jsonrpc":"2.0",' + text.encode() + b"}"


UNREADABLE: dict[str, tuple[bytes, int]] = {
    "no JSON": (b"{nonsense", -32700),
    "half a JSON": (b'{"jsonrpc":"2.0","id":1,"method":"aios/ping"', -32700),
    "two JSONs": (b"{} {}", -32700),
    "NaN": (message('"id":1,"method":"aios/ping","params":{"x":NaN}'), -32700),
    "Infinity": (message('"id":1,"method":"aios/ping","params":{"x":-Infinity}'), -32700),
    "a number out of range": (message('"id":1,"method":"aios/ping","params":{"x":1e999}'), -32700),
    "half a surrogate": (message('"id":1,"method":"aios/ping","params":{"x":"\\ud800"}'), -32700),
    "a comment": (message('"id":1,/* */"method":"aios/ping"'), -32700),
    "deep arrays": (b"[" * 100_000, -32700),
    "deep objects": (b'{"a":' * 100_000, -32700),
    "just too deep": (b"[" * 65 + b"]" * 65, -32700),
    "an empty batch": (b"[]", -32600),
    "a batch of 10 000": (b"[%b]" % b",".join([message('"id":1,"method":"aios/ping"')] * 10_000), -32600),
    "a number": (b"1", -32600),
    "a string": (b'"aios/ping"', -32600),
    "null": (b"null", -32600),
    "an empty object": (b"{}", -32600),
    "an object as id": (message('"id":{},"method":"aios/ping"'), -32600),
    "an array as id": (message('"id":[1],"method":"aios/ping"'), -32600),
    "true as id": (message('"id":true,"method":"aios/ping"'), -32600),
    "a fraction as id": (message('"id":1.5,"method":"aios/ping"'), -32600),
    "a huge id": (message(f'"id":{2**60},"method":"aios/ping"'), -32600),
}
"""Bodies that cannot be read as a request: answered with id null."""

REFUSED: dict[str, tuple[bytes, int]] = {
    "no method": (message('"id":1'), -32600),
    "a number as method": (message('"id":1,"method":5'), -32600),
    "no version": (b'{"id":1,"method":"aios/ping"}', -32600),
    "another version": (b'{"jsonrpc":"1.0","id":1,"method":"aios/ping"}', -32600),
    "an unknown method": (message('"id":1,"method":"aios/no.such"'), -32601),
    "a method of another case": (message('"id":1,"method":"aios/Ping"'), -32601),
    "positional params": (message('"id":1,"method":"aios/ping","params":[1]'), -32602),
    "null as params": (message('"id":1,"method":"aios/ping","params":null'), -32602),
    "no capability": (message('"id":1,"method":"aios/task.create","params":{}'), -32602),
    "a number as capability": (create(capability_id=5), -32602),
    "an array as arguments": (create(arguments=[]), -32602),
    "an unknown priority": (create(options={"priority": "highest"}), -32602),
    "a timeout of zero": (create(options={"timeout_ms": 0}), -32602),
    "a negative timeout": (create(options={"timeout_ms": -1}), -32602),
    "a fractional timeout": (create(options={"timeout_ms": 1.5}), -32602),
    "true as timeout": (create(options={"timeout_ms": True}), -32602),
    "a timeout as text": (create(options={"timeout_ms": "1000"}), -32602),
    "a timeout of 2^63": (create(options={"timeout_ms": 2**63}), -32602),
    "a number of 400 digits": (create(options={"delay_ms": 77}).replace(b"77", b"7" * 400), -32602),
    "a negative delay": (create(options={"delay_ms": -1}), -32602),
    "no attempts": (create(options={"retry": {"max_attempts": 0}}), -32602),
    "101 attempts": (create(options={"retry": {"max_attempts": 101}}), -32602),
    "an unknown backoff": (create(options={"retry": {"max_attempts": 2, "backoff": "never"}}), -32602),
    "a page of nothing": (msgspec.json.encode(call(1, "aios/task.list", {"pagination": {"limit": 0}})), -32602),
    "a page of 1001": (msgspec.json.encode(call(1, "aios/task.list", {"pagination": {"limit": 1001}})), -32602),
    "a negative offset": (msgspec.json.encode(call(1, "aios/task.list", {"pagination": {"offset": -1}})), -32602),
    "an unknown status": (msgspec.json.encode(call(1, "aios/task.list", {"filter": {"status": ["done"]}})), -32602),
    "a NUL in a name": (msgspec.json.encode(call(1, "aios/task.get", {"task_id": "task-\0"})), -32602),
    "input of two megabytes": (create(arguments={"text": "x" * 2_000_000}), -32602),
    "an unknown capability": (create(capability_id="spec.no_such"), -32003),
    "arguments against the schema": (create(capability_id="spec.count", arguments={"to": "many"}), -32108),
    "arguments left out": (create(capability_id="spec.count"), -32108),
    "an unknown task": (msgspec.json.encode(call(1, "aios/task.get", {"task_id": "task-nobody"})), -32106),
    "a wild task id": (msgspec.json.encode(call(1, "aios/task.get", {"task_id": "'; DROP TABLE tasks; --"})), -32106),
}
"""Requests that can be read: answered with their own id."""


async def is_well(client: Caller) -> bool:
    """Whether a good request still works there."""
    whole = await client.result("aios/task.create", {"capability_id": "spec.echo", "arguments": {"a": 1}})
    return whole["result"] == {"a": 1}


def statuses(client: Caller) -> list[int]:
    """HTTP's statuses of the answers so far."""
    assert isinstance(client.door, HttpDoor)
    return client.door.statuses


@on_every_door
@pytest.mark.promise("1.bad-input.named-error")
async def test_what_is_no_request_is_answered_with_id_null(door: str, daemon: Connected) -> None:
    async with caller(door, daemon) as client:
        for name, (body, code) in UNREADABLE.items():
            answer = await client.ask(body)
            assert (name, answer["id"], answer["error"]["code"]) == (name, None, code)
            assert "error_id" in answer["error"]["data"]
            if door == "http":
                assert (name, statuses(client)[-1]) == (name, 400)
        assert await is_well(client)


@on_every_door
@pytest.mark.promise("1.bad-input.named-error")
async def test_a_request_that_is_wrong_is_answered_with_its_id(door: str, daemon: Connected) -> None:
    async with caller(door, daemon) as client:
        for name, (body, code) in REFUSED.items():
            answer = await client.ask(body)
            assert (name, answer["id"], answer.get("error", {}).get("code")) == (name, 1, code)
            if door == "http":
                expected = 400 if code == -32600 else 200
                assert (name, statuses(client)[-1]) == (name, expected)
        assert await is_well(client)


@on_every_door
@pytest.mark.promise("11.no-secrets")
async def test_no_error_tells_a_path_or_a_trace_of_the_daemon(door: str, daemon: Connected) -> None:
    async with caller(door, daemon) as client:
        for body, _ in (*UNREADABLE.values(), *REFUSED.values()):
            said = msgspec.json.encode((await client.ask(body))["error"]).decode()
            assert [word for word in ("Traceback", ".py", str(daemon.folder), daemon.token) if word in said] == []


@pytest.mark.parametrize("door", ["http", "unix", "tcp", "stdio"])
@pytest.mark.promise("1.bad-input.named-error")
async def test_bytes_that_are_not_utf8_are_no_request(door: str, daemon: Connected) -> None:
    async with caller(door, daemon) as client:
        for body in (
            message('"id":1,"method":"aios/ping","params":{"x":"?"}').replace(b"?", b"\xff"),
            "{}".encode("utf-16"),
        ):
            answer = await client.ask(body.replace(b"\n", b""))
            assert (answer["id"], answer["error"]["code"]) == (None, -32700)
        assert await is_well(client)


@pytest.mark.parametrize("door", DUPLEX)
@pytest.mark.promise("1.bad-input.size")
async def test_a_message_over_the_limit_closes_the_connection_and_nothing_else(door: str) -> None:
    async with connected(adapters=[scripts()], flags={"limits.max_message_size": 100_000}) as daemon:
        async with caller(door, daemon) as client:
            await client.door.send(create(arguments={"text": "x" * 100_000}))
            if door != "websocket":
                answer = await client.answer()
                assert (answer["id"], answer["error"]["code"]) == (None, -32700)
                assert answer["error"]["data"]["max_message_size"] == 100_000
            if door != "stdio":
                with pytest.raises(EOFError):
                    await client.answer()
        async with caller("unix", daemon) as client:
            assert await is_well(client)


@pytest.mark.promise("1.bad-input.size")
async def test_a_body_over_the_limit_is_answered_413() -> None:
    flags = {"limits.max_message_size": 100_000}
    async with connected(adapters=[scripts()], flags=flags) as daemon, caller("http", daemon) as client:
        answer = await client.ask(create(arguments={"text": "x" * 3_000_000}))
        assert (answer["id"], answer["error"]["data"]["max_message_size"]) == (None, 100_000)
        assert statuses(client) == [413]
        assert await is_well(client)


GARBLED = {
    "a negative length": b"Content-Length: -1\r\n\r\n{}",
    "a huge length": b"Content-Length: 1e30\r\n\r\n{}",
    "a length of a thousand digits": b"Content-Length: " + b"9" * 1000 + b"\r\n\r\n{}",
    "no number": b"Content-Length: abc\r\n\r\n{}",
    "no length": b"Content-Type: application/json\r\n\r\n{}",
    "two lengths": b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "a header without end": b"A" * 20_000,
}


@pytest.mark.parametrize("name", GARBLED)
async def test_standard_input_out_of_step_is_answered_and_read_no_more(name: str, daemon: Connected) -> None:
    async with caller("stdio", daemon) as client:
        assert isinstance(client.door, StdioDoor)
        await client.door.write(GARBLED[name])
        answer = await client.answer()
        assert (answer["id"], answer["error"]["code"]) == (None, -32700)
    async with caller("http", daemon) as client:
        assert await is_well(client)


async def test_standard_input_may_be_lines(daemon: Connected) -> None:
    async with caller("stdio", daemon, handshake=False) as client:
        assert isinstance(client.door, StdioDoor)
        await client.door.write(b'{"jsonrpc":"2.0","id":1,"method":"aios/ping"}\n{"jsonrpc":"2.0",')
        assert '"id":1' in (await client.door.line())
        await client.door.write(b'"id":2,"method":"aios/ping"}\n')
        assert '"id":2' in (await client.door.line())


QUICK = {"http.header_timeout_ms": 300, "http.body_timeout_ms": 300, "duplex.handshake_timeout_ms": 300}


@pytest.mark.parametrize("door", ["http", "websocket", "unix", "tcp"])
@pytest.mark.promise("2.doors.patience")
async def test_half_a_request_and_silence_is_borne_for_a_while_only(door: str) -> None:
    async with connected(adapters=[scripts()], flags=QUICK) as daemon:
        async with caller("unix", daemon) as other:
            async with caller(door, daemon, handshake=False) as client:
                await client.door.half()
                with pytest.raises(EOFError):
                    await client.answer()
            assert await is_well(other)
        async with caller(door, daemon) as client:
            assert await is_well(client)
