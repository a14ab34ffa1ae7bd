"""Requests with flipped, cut, doubled and foreign bytes: no door dies, none answers 5xx, none hangs (faults G10)."""

from __future__ import annotations

import asyncio
import random
from urllib.parse import urlsplit

import msgspec
import pytest

from aios.testing.connected import Connected, connected
from tests.spec.conftest import scripts
from tests.spec.doors import call, caller, initialize

ALPHABET = [b"\0", b"\r\n", b"\n", b" ", b":", b"{", b"}", b"[", b'"', b"\\", b"\xff", b"%00", b",", b"-1", b"9" * 30]
AT_ONCE = 50
QUICK = {"http.header_timeout_ms": 200, "http.body_timeout_ms": 200, "http.keep_alive_ms": 200}
SEED = 20_260_105


def mutated(sound: bytes, dice: random.Random) -> bytes:
    """Give the bytes with one to five faults."""
    data = bytearray(sound)
    for _ in range(dice.randint(1, 5)):
        place, end = sorted(dice.randint(0, len(data)) for _ in range(2))
        match dice.randrange(5):
            case 0 if data:
                data[place % len(data)] ^= 1 << dice.randrange(8)
            case 1:
                del data[place : min(end, place + 50)]
            case 2:
                data[place:place] = dice.choice(ALPHABET)
            case 3:
                data[place:place] = data[place:end]
            case _:
                del data[place:]
    return bytes(data[:100_000])


def bodies(daemon: Connected) -> list[bytes]:
    create = {
        "capability_id": "spec.echo",
        "arguments": {"a": [1, "二"]},
        "options": {"async": True, "timeout_ms": 5_000},
    }
    messages = [
        initialize("tcp", daemon.token),
        call(1, "aios/task.create", create),
        call("x", "aios/task.subscribe", {"task_id": "task-x", "events": ["status"], "from": "evt-007"}),
        [
            call(1, "aios/ping"),
            call(2, "aios/task.list", {"filter": {"status": ["working"]}, "pagination": {"limit": 2}}),
        ],
    ]
    return [msgspec.json.encode(message) for message in messages]


def request(daemon: Connected, body: bytes) -> bytes:
    return (
        f"POST /aios/rpc HTTP/1.1\r\nHost: {urlsplit(daemon.url).netloc}\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {daemon.token}\r\nAccept: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode() + body


async def answered(daemon: Connected, door: str, data: bytes) -> bytes:
    """Write the bytes, end the sentence, and give what comes back until the door closes or has nothing to say."""
    place = urlsplit(daemon.url if door == "http" else daemon.tcp_url)
    if door == "unix":
        reader, writer = await asyncio.open_unix_connection(daemon.socket_path)
    else:
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
    try:
        writer.write(data)
        if door != "http":
            # There who has said the last word is taken for gone; here it still gets its answers.
            writer.write_eof()
        async with asyncio.timeout(20):
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


@pytest.mark.soak
@pytest.mark.parametrize("door", ["http", "unix", "tcp"])
@pytest.mark.promise("1.bad-input.leaves-well")
async def test_no_door_minds_broken_bytes(door: str, rounds: int) -> None:
    dice = random.Random(SEED)
    async with connected(adapters=[scripts()], flags=QUICK) as daemon, caller("unix", daemon) as other:
        sound = bodies(daemon)
        for _ in range(0, rounds, AT_ONCE):
            chosen = [dice.choice(sound) for _ in range(AT_ONCE)]
            wholes = [request(daemon, body) if door == "http" else b"\n".join([sound[0], body, b""]) for body in chosen]
            broken = [mutated(whole, dice) for whole in wholes]
            answers = await asyncio.gather(*(answered(daemon, door, data) for data in broken))
            for data, answer in zip(broken, answers, strict=True):
                assert not answer.startswith(b"HTTP/1.1 5"), (data, answer)
                assert b"-32603" not in answer, (data, answer)
                assert b"Traceback" not in answer
            assert "server_time" in await other.result("aios/ping")
            async with caller(door, daemon) as client:
                assert "server_time" in await client.result("aios/ping")
