"""Unit test of the line doors, Unix and TCP, against peers that misbehave (faults J-09 to J-12, J-15, J-18)."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec
import pytest

from aios.config import DuplexSection, TlsSection
from aios.errors import ResourceBusy, SandboxViolation, ValidationFailed
from aios.service.connection import Reply
from aios.service.dispatcher import Service
from aios.transports.listening import listen_tcp, listen_unix, peer_uid
from aios.transports.sockets import LineDoor
from tests.unit.transports.faces import FakeConnection, FakeService, Receive, echo


@pytest.fixture(params=["unix", "tcp"])
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@asynccontextmanager
async def line_door(
    kind: str, folder: Path, receive: Receive = echo, *, max_message_size: int = 1000, **duplex: int
) -> AsyncGenerator[LineDoor]:
    path = folder / "aios.sock"
    listener = listen_unix(path) if kind == "unix" else await listen_tcp("127.0.0.1", 0, door="tcp", tls=TlsSection())
    door = LineDoor(
        listener,
        service=cast("Service", FakeService(receive)),
        settings=DuplexSection(**duplex),
        max_message_size=max_message_size,
    )
    await door.start()
    try:
        yield door
    finally:
        await door.stop(1_000)


class Line:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def answer(self) -> Any:
        async with asyncio.timeout(10):
            return msgspec.json.decode(await self.reader.readline())

    async def rest(self) -> bytes:
        async with asyncio.timeout(10):
            try:
                return await self.reader.read()
            except ConnectionError:
                return b""


@asynccontextmanager
async def line_to(door: LineDoor, folder: Path) -> AsyncGenerator[Line]:
    if door.is_unix:
        reader, writer = await asyncio.open_unix_connection(folder / "aios.sock")
    else:
        place = urlsplit(door.url)
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
    try:
        yield Line(reader, writer)
    finally:
        writer.close()


async def test_messages_are_lines_however_they_are_cut(kind: str, tmp_path: Path) -> None:
    async with line_door(kind, tmp_path) as door, line_to(door, tmp_path) as line:
        for byte in b'{"a":1}\n':
            line.writer.write(bytes([byte]))
            await line.writer.drain()
        line.writer.write(b'\n\r\n{"b":22}\r\n{"c":333}\n')
        assert [(await line.answer())["size"] for _ in range(3)] == [7, 8, 9]


async def test_a_line_without_end_is_answered_and_cut_off(kind: str, tmp_path: Path) -> None:
    async with line_door(kind, tmp_path) as door:
        async with line_to(door, tmp_path) as line:
            line.writer.write(b"x" * 5_000)
            answer = msgspec.json.decode(await line.rest())
            assert (answer["id"], answer["error"]["code"]) == (None, -32700)
            assert answer["error"]["data"]["max_message_size"] == 1000
        async with line_to(door, tmp_path) as line:
            line.writer.write(b"{}\n")
            assert (await line.answer())["size"] == 2


async def test_who_has_said_the_last_word_still_gets_the_answers(kind: str, tmp_path: Path) -> None:
    async with line_door(kind, tmp_path) as door, line_to(door, tmp_path) as line:
        line.writer.write(b"{}\n" * 20 + b"half a li")
        line.writer.write_eof()
        assert (await line.rest()).count(b"\n") == 20


async def test_two_hundred_calls_at_once_are_answered_each_and_no_more_are_begun(kind: str, tmp_path: Path) -> None:
    running, most, full, go = 0, 0, asyncio.Event(), asyncio.Event()

    async def slowly(connection: FakeConnection, body: bytes) -> Reply:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 200:
            full.set()
        await go.wait()
        running -= 1
        return Reply(body)

    async with line_door(kind, tmp_path, slowly) as door, line_to(door, tmp_path) as line:
        line.writer.write(b"".join(b"%d\n" % number for number in range(1000)))
        async with asyncio.timeout(10):
            await full.wait()
        go.set()
        assert sorted([await line.answer() for _ in range(1000)]) == list(range(1000))
        assert most == 200


@pytest.mark.parametrize("bound", [{"max_output_size": 3_000_000}, {"write_timeout_ms": 100}], ids=["bytes", "time"])
async def test_who_reads_nothing_is_cut_off(kind: str, tmp_path: Path, bound: dict[str, int]) -> None:
    begun = asyncio.Event()

    async def much(connection: FakeConnection, body: bytes) -> Reply:
        begun.set()
        return Reply(b"x" * 1_000_000)

    bounds = {"max_output_size": 100_000_000, **bound}
    async with line_door(kind, tmp_path, much, **bounds) as door, line_to(door, tmp_path) as line, asyncio.timeout(10):
        line.writer.write(b"{}\n" * 50)
        await begun.wait()
        for connection in list(door.connections):
            await connection.ended()
        assert len(await line.rest()) < 20_000_000


async def test_who_does_not_introduce_itself_is_cut_off(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeConnection, "__init__", _without_session)
    async with line_door(kind, tmp_path, handshake_timeout_ms=100) as door, line_to(door, tmp_path) as line:
        assert await line.rest() == b""


def _without_session(self: FakeConnection, principal: Any, send: Any) -> None:
    self.principal, self.send, self.session, self.transport = principal, send, None, "fake"


async def test_past_the_cap_of_connections_nobody_is_let_in(kind: str, tmp_path: Path) -> None:
    async with line_door(kind, tmp_path, max_connections=1) as door, line_to(door, tmp_path) as first:
        first.writer.write(b"{}\n")
        await first.answer()
        async with line_to(door, tmp_path) as second:
            assert await second.rest() == b""
        first.writer.write(b"{}\n")
        assert (await first.answer())["size"] == 2


async def test_an_answer_that_closes_is_the_last(kind: str, tmp_path: Path) -> None:
    async def close(connection: FakeConnection, body: bytes) -> Reply:
        return Reply(body, closes=True)

    async with line_door(kind, tmp_path, close) as door, line_to(door, tmp_path) as line:
        line.writer.write(b"1\n")
        assert await line.rest() == b"1\n"


async def test_a_peer_on_the_unix_socket_is_known_by_its_uid(tmp_path: Path) -> None:
    seen: list[Any] = []

    async def look(connection: FakeConnection, body: bytes) -> Reply:
        seen.append(connection.principal)
        return Reply(body)

    async with line_door("unix", tmp_path, look) as door, line_to(door, tmp_path) as line:
        line.writer.write(b"1\n")
        await line.answer()
        uid = peer_uid(line.writer.get_extra_info("socket"))
    # The tests' keys own no uid: this peer must bring a credential.
    assert seen == [None]
    assert uid == os.geteuid()


def test_the_socket_is_its_owners_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with closing(listen_unix(tmp_path / "a" / "b" / "aios.sock")):
            modes = [
                path.stat().st_mode & 0o777 for path in (tmp_path / "a", tmp_path / "a/b", tmp_path / "a/b/aios.sock")
            ]
    finally:
        os.umask(before)
    assert [oct(mode) for mode in modes] == ["0o700", "0o700", "0o600"]


def test_a_dead_daemons_socket_is_replaced_and_a_living_ones_is_not(tmp_path: Path) -> None:
    path = tmp_path / "aios.sock"
    listen_unix(path).close()
    with closing(listen_unix(path)) as second:
        assert stat.S_ISSOCK(path.stat().st_mode)
        with pytest.raises(ResourceBusy, match="another daemon listens"):
            listen_unix(path)
        second.getsockname()


@pytest.fixture(params=["file", "link", "folder"])
def obstacle(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "aios.sock"
    with closing(socket.socket(socket.AF_UNIX)) as other:
        other.bind(str(tmp_path / "other.sock"))
        if request.param == "file":
            path.write_text("precious")
        elif request.param == "link":
            path.symlink_to("other.sock")
        else:
            path.mkdir()
        yield path


def test_what_is_no_socket_is_never_removed(obstacle: Path) -> None:
    before = obstacle.lstat()
    with pytest.raises(ValidationFailed, match="is not a socket"):
        listen_unix(obstacle)
    assert obstacle.lstat().st_ino == before.st_ino


def test_a_folder_in_which_others_may_replace_the_socket_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(SandboxViolation, match="others may write"):
        listen_unix(tmp_path / "aios.sock")


def test_a_path_that_the_system_would_cut_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValidationFailed, match=r"bytes .* 107"):
        listen_unix(tmp_path / ("x" * 108))


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
async def test_beyond_loopback_nothing_is_said_in_plain_text_unless_it_is_wanted(host: str) -> None:
    with pytest.raises(ValidationFailed, match="--tls-cert"):
        await listen_tcp(host, 0, door="http", tls=TlsSection())
    try:
        (await listen_tcp(host, 0, door="http", tls=TlsSection(insecure_plaintext=True))).close()
    except ValidationFailed as error:
        assert "cannot listen" in str(error)  # noqa: PT017 - a machine without IPv6


async def test_a_taken_port_is_named() -> None:
    with closing(await listen_tcp("127.0.0.1", 0, door="http.port", tls=TlsSection())) as listener:
        listener.listen()
        port = listener.getsockname()[1]
        with pytest.raises(ResourceBusy, match=rf"http\.port: 127\.0\.0\.1:{port} is taken"):
            await listen_tcp("127.0.0.1", port, door="http.port", tls=TlsSection())


async def test_an_unknown_host_is_named() -> None:
    with pytest.raises(ValidationFailed, match=r"no-such-host\.invalid"):
        await listen_tcp("no-such-host.invalid", 0, door="http", tls=TlsSection())
