"""A call whose caller has gone goes on for a while, then it is stopped: nobody would read its answer (faults F-08, F-10)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from aios.service.connection import Reply
from aios.transports import duplex, http, http_calls
from tests.unit.transports.faces import AUTHORIZED, FakeConnection, http_door, peer_of, post
from tests.unit.transports.test_lines import line_door, line_to
from tests.unit.transports.test_websocket import TEXT, frame, websocket


class Slow:
    """Works on a call until it is stopped or told to end."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.stopped = asyncio.Event()
        self.done = asyncio.Event()
        self.go = asyncio.Event()

    async def receive(self, connection: FakeConnection, body: bytes) -> Reply:
        self.begun.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.stopped.set()
            raise
        self.done.set()
        return Reply(b"{}")


@pytest.fixture(params=[50, 10_000], ids=["short grace", "long grace"])
def grace_ms(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    for module in (duplex, http, http_calls):
        monkeypatch.setattr(module, "GRACE_MS", request.param)
    # Over lines the end of what a peer says is not yet the end of its listening.
    monkeypatch.setattr(duplex, "HALF_OPEN_MS", request.param)
    return request.param


async def outcome(slow: Slow, grace_ms: int) -> None:
    """With a short grace the call is stopped; within a long one it may come to its end."""
    async with asyncio.timeout(10):
        if grace_ms < 1_000:
            await slow.stopped.wait()
        else:
            slow.go.set()
            await slow.done.wait()
            assert not slow.stopped.is_set()


@pytest.mark.parametrize("accept", ["", "Accept: text/event-stream\r\n", "Expect: 100-continue\r\n"])
async def test_over_http(accept: str, grace_ms: int) -> None:
    slow = Slow()
    async with http_door(slow.receive) as (server, _):
        async with peer_of(server) as peer:
            peer.write(post(fields=AUTHORIZED + accept))
            await slow.begun.wait()
        if "100" in accept:
            # On this way nothing watches the caller; the call comes to its own end.
            slow.go.set()
            await slow.done.wait()
        else:
            await outcome(slow, grace_ms)


async def test_a_stream_that_has_not_begun_when_the_door_stops_is_cut_and_not_answered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What was asked may have been done: an answer that tells of a failure would be wrong."""
    slow = Slow()
    async with http_door(slow.receive) as (server, _), peer_of(server) as peer:
        peer.write(post(fields=AUTHORIZED + "Accept: text/event-stream\r\n"))
        await slow.begun.wait()
        await server.stop(1_000)
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await peer.answer()
    assert caplog.records == []


async def test_over_websocket(grace_ms: int) -> None:
    slow = Slow()
    async with http_door(slow.receive) as (server, _):
        async with websocket(server) as peer:
            peer.write(frame(TEXT, b"{}"))
            await slow.begun.wait()
        await outcome(slow, grace_ms)


@pytest.mark.parametrize("kind", ["unix", "tcp"])
async def test_over_lines(kind: str, grace_ms: int, tmp_path: Path) -> None:
    slow = Slow()
    async with line_door(kind, tmp_path, slow.receive) as door:
        async with line_to(door, tmp_path) as line:
            line.writer.write(b"{}\n")
            await slow.begun.wait()
            line.writer.transport.abort()
        await outcome(slow, grace_ms)
