"""The WebSocket door against frames that no honest client sends (faults F-19, F-20, J-14)."""

from __future__ import annotations

import asyncio
import re
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from aios.service.connection import Reply
from aios.transports.http_server import HttpServer
from tests.unit.transports.faces import AUTHORIZED, FakeConnection, Peer, http_door

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10


def frame(kind: int, data: bytes = b"", *, is_last: bool = True, bits: int = 0) -> bytes:
    """A client's frame, masked with zeros."""
    size = len(data)
    first = bytes([(0x80 if is_last else 0) | bits | kind])
    if size < 126:
        length = bytes([0x80 | size])
    elif size < 65536:
        length = b"\xfe" + struct.pack("!H", size)
    else:
        length = b"\xff" + struct.pack("!Q", size)
    return first + length + b"\0\0\0\0" + data


class Socket(Peer):
    async def frame(self) -> tuple[int, bytes]:
        """Give kind and data of the next frame. Raises: IncompleteReadError at the end."""
        async with asyncio.timeout(10):
            first, size = await self.reader.readexactly(2)
            if size == 126:
                (size,) = struct.unpack("!H", await self.reader.readexactly(2))
            elif size == 127:
                (size,) = struct.unpack("!Q", await self.reader.readexactly(8))
            return first & 0x0F, await self.reader.readexactly(size)

    async def closed_with(self) -> int:
        """Read up to the closing frame and give its code."""
        while (read := await self.frame())[0] != CLOSE:
            continue
        return struct.unpack("!H", read[1][:2])[0]


@asynccontextmanager
async def websocket(server: HttpServer, extra: str = "") -> AsyncGenerator[Socket]:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(re.findall(r"\d+", server.url)[-1]))
    peer = Socket(reader, writer)
    peer.write(
        f"GET /aios/ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n{AUTHORIZED}{extra}"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    try:
        assert (await peer.answer()).status == 101
        yield peer
    finally:
        writer.close()


async def is_well(server: HttpServer) -> bool:
    async with websocket(server) as peer:
        peer.write(frame(TEXT, b"{}"))
        return b'"size":2' in (await peer.frame())[1]


async def test_a_message_may_come_in_fragments_with_pings_between() -> None:
    async with http_door() as (server, _), websocket(server) as peer:
        peer.write(frame(TEXT, b"ab", is_last=False) + frame(PING, b"p") + frame(CONTINUATION, b"cde"))
        assert await peer.frame() == (PONG, b"p")
        assert b'"size":5' in (await peer.frame())[1]


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        (frame(TEXT, b"x" * 2000), 1009),
        (frame(TEXT, b"x" * 600, is_last=False) + frame(CONTINUATION, b"x" * 600), 1009),
        (frame(TEXT, b"", is_last=False) + frame(CONTINUATION, b"", is_last=False) * 5_000, 1008),
        (frame(BINARY, b"{}"), 1003),
        (frame(TEXT, b"\xff"), 1007),
        (frame(TEXT, b"\0\0\0\xff\xff", bits=0x40), 1002),
        (frame(3), 1002),
        (frame(CONTINUATION, b"x"), 1002),
        (b"\x81\x02{}", 1002),
        (frame(PING, b"x" * 200), 1002),
    ],
    ids=["large", "sum", "empty", "binary", "utf8", "compressed", "unknown", "stray", "unmasked", "ping"],
)
async def test_what_breaks_the_rules_closes_with_a_code_and_harms_nobody(frames: bytes, code: int) -> None:
    offer = "Sec-WebSocket-Extensions: permessage-deflate\r\n"
    async with http_door(max_message_size=1_000) as (server, _):
        async with websocket(server, offer) as peer:
            peer.write(frames)
            assert await peer.closed_with() == code
        assert await is_well(server)


async def test_a_hundred_thousand_tiny_messages_are_worked_on_and_never_more_than_allowed_at_once() -> None:
    running = most = done = 0

    async def count(connection: FakeConnection, body: bytes) -> Reply | None:
        nonlocal running, most, done
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running, done = running - 1, done + 1
        return Reply(b"{}") if body == b"last" else None

    async with http_door(count, max_in_flight=50) as (server, _), websocket(server) as peer:
        peer.write(frame(TEXT, b"1") * 100_000 + frame(TEXT, b"last"))
        assert await peer.frame() == (TEXT, b"{}")
        assert done >= 100_000
        assert most <= 50


@pytest.mark.parametrize("flood", [PING, TEXT], ids=["pings", "calls"])
async def test_who_sends_and_never_reads_is_cut_off(flood: int) -> None:
    async def much(connection: FakeConnection, body: bytes) -> Reply:
        return Reply(b"x" * 100_000)

    async with http_door(much, max_output_size=500_000) as (server, _), websocket(server) as peer:
        async with asyncio.timeout(20):
            lost = asyncio.create_task(server.wait_for_change())
            while not lost.done():
                peer.write(frame(flood, b"x" * 100) * 1_000)
                await asyncio.wait(
                    {lost, asyncio.create_task(peer.writer.drain())}, return_when=asyncio.FIRST_COMPLETED
                )
        assert server.connections == 0


async def test_who_does_not_read_for_long_is_cut_off() -> None:
    async def much(connection: FakeConnection, body: bytes) -> Reply:
        return Reply(b"x" * 1_000_000)

    bounded = http_door(much, max_output_size=100_000_000, write_timeout_ms=200)
    async with bounded as (server, _), websocket(server) as peer:
        peer.write(frame(TEXT, b"x") * 50)
        async with asyncio.timeout(10):
            await server.wait_for_change()
        assert server.connections == 0


@pytest.mark.parametrize("path", ["/", "/aios/rpc", "/aios/ws/", "/aios/ws/x"])
async def test_no_other_path_changes_to_websocket(path: str) -> None:
    async with http_door() as (server, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(re.findall(r"\d+", server.url)[-1]))
        peer = Peer(reader, writer)
        peer.write(
            f"GET {path} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n{AUTHORIZED}"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        assert (await peer.answer()).status == 404
        assert await peer.is_closed()
        writer.close()
        assert await is_well(server)
