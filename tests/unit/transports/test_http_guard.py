"""The HTTP door against bytes that no honest client sends (faults J-01 to J-05, J-13, O-01 to O-05)."""

from __future__ import annotations

import asyncio

import pytest

from aios.config import HttpSection
from aios.service.connection import Reply
from tests.unit.transports.faces import AUTHORIZED, PING, Peer, http_door, peer_of, post

QUICK = HttpSection(header_timeout_ms=200, body_timeout_ms=200, keep_alive_ms=200)


async def still_serves(peer: Peer) -> bool:
    peer.write(post())
    return (await peer.answer()).status == 200


async def test_a_good_request_is_answered_and_the_connection_kept() -> None:
    async with http_door() as (server, service), peer_of(server) as peer:
        for number in range(3):
            peer.write(post(fields=AUTHORIZED + f"AIOS-Request-Id: r{number}\r\nAIOS-Session-Id: sess-1\r\n"))
            answer = await peer.answer()
            assert (answer.status, answer.fields["aios-request-id"]) == (200, f"r{number}")
        assert service.connections[-1]["session_id"] == "sess-1"


async def test_requests_sent_ahead_are_answered_in_order() -> None:
    async with http_door() as (server, _), peer_of(server) as peer:
        peer.write(b"".join(post(b" " * size) for size in range(1, 50)) + post(host="evil.example") + post(b"last"))
        sizes = [(await peer.answer()).body for _ in range(49)]
        assert [b'"size":%d,' % size in body for size, body in enumerate(sizes, 1)] == [True] * 49
        assert (await peer.answer()).status == 403
        assert b'"size":4,' in (await peer.answer()).body


@pytest.mark.parametrize("cut", range(0, 200, 7))
async def test_a_request_in_pieces_is_the_same_request(cut: int) -> None:
    async with http_door() as (server, _), peer_of(server) as peer:
        data = post()
        peer.write(data[:cut])
        await peer.writer.drain()
        peer.write(data[cut:])
        assert (await peer.answer()).status == 200


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ("POST /aios/rpc HTTP/1.1\r\n", 400),
        ("POST /aios/rpc HTTP/1.0\r\n", 400),
        ("POST /aios/rpc HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n", 400),
        ("POST /aios/rpc HTTP/1.1\r\nHost: \r\n", 400),
        ("POST /aios/rpc HTTP/1.1\r\nHost: x/\r\n", 400),
        ("POST /aios/rpc HTTP/1.1\r\nHost: x?\r\n", 400),
        ("POST /aios/rpc HTTP/1.1\r\nHost: x y\r\n", 400),
        ("POST /aios/rpc HTTP/1.1\r\nHost: a@localhost\r\n", 400),
        ("POST /aios/rpc HTTP/1.1\r\nHost: evil.com\r\n", 403),
        ("POST /aios/rpc HTTP/1.1\r\nHost: evil.com:9527\r\n", 403),
        ("POST /aios/rpc HTTP/1.1\r\nHost: localhost.evil.com\r\n", 403),
        ("POST /aios/rpc HTTP/1.1\r\nHost: 127.0.0.1.nip.io\r\n", 403),
        ("OPTIONS /aios/rpc HTTP/1.1\r\nHost: evil.com\r\n", 403),
        ("GET /nowhere HTTP/1.1\r\nHost: evil.com\r\n", 403),
        ("GET /healthz HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.com\r\n", 403),
        ("GET /healthz HTTP/1.1\r\nHost: localhost\r\nOrigin: null\r\n", 403),
        ("GET /healthz HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost:1\r\n", 403),
        ("GET /healthz HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nOrigin: http://evil.com\r\n", 403),
        ("OPTIONS /aios/rpc HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.com\r\n", 403),
        ("GET http://evil.com/healthz HTTP/1.1\r\nHost: localhost\r\n", 400),
        ("OPTIONS /aios/rpc HTTP/1.1\r\nHost: localhost\r\n", 405),
        ("GET /aios/rpc HTTP/1.1\r\nHost: localhost\r\n", 405),
        ("GET /nowhere HTTP/1.1\r\nHost: [::1]:9527\r\n", 404),
    ],
)
async def test_who_asks_by_another_name_or_from_a_foreign_page_is_refused_everywhere(head: str, status: int) -> None:
    async with http_door() as (server, _):
        async with peer_of(server) as peer:
            peer.write(head + "\r\n")
            answer = await peer.answer()
            assert answer.status == status
            assert answer.error["code"] < 0
        async with peer_of(server) as peer:
            assert await still_serves(peer)


@pytest.mark.parametrize(
    "extra",
    [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: 1e3\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "X-Folded: a\r\n b\r\n\0",
        "No colon\r\n",
        "Sp ace: x\r\n",
    ],
)
async def test_what_two_servers_could_read_differently_is_not_read_at_all(extra: str) -> None:
    async with http_door() as (server, service):
        async with peer_of(server) as peer:
            peer.write(f"POST /aios/rpc HTTP/1.1\r\nHost: localhost\r\n{extra}\r\nhello")
            assert (await peer.answer()).status == 400
            assert await peer.is_closed()
        assert service.connections == []
        async with peer_of(server) as peer:
            assert await still_serves(peer)


@pytest.mark.parametrize(
    "flood",
    [
        b"GET /" + b"a" * 200_000,
        b"GET / HTTP/1.1\r\nX: " + b"a" * 200_000,
        b"GET / HTTP/1.1\r\n" + b"A: %s\r\n" % (b"c" * 1000) * 70,
        b"A" * 200_000,
    ],
    ids=["url", "value", "sum", "method"],
)
async def test_a_header_without_bounds_is_cut_off(flood: bytes) -> None:
    async with http_door() as (server, _):
        async with peer_of(server) as peer:
            peer.write(flood)
            assert (await peer.answer()).status in {400, 431}
            assert await peer.is_closed()
        async with peer_of(server) as peer:
            assert await still_serves(peer)


@pytest.mark.parametrize(
    "flood", [b"5;" + b"x" * 200_000, b"0\r\nTrailer: " + b"x" * 200_000], ids=["chunk", "trailer"]
)
async def test_what_hides_between_and_after_chunks_is_bounded_too(flood: bytes) -> None:
    async with http_door() as (server, _), peer_of(server) as peer:
        peer.write(f"POST /aios/rpc HTTP/1.1\r\nHost: localhost\r\n{AUTHORIZED}Content-Type: application/json\r\n")
        peer.write(b"Transfer-Encoding: chunked\r\n\r\n" + flood)
        assert await peer.is_closed()


async def test_fields_after_a_chunked_body_are_not_taken_for_the_header() -> None:
    async with http_door() as (server, _), peer_of(server) as peer:
        peer.write("POST /aios/rpc HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
        peer.write(f"Transfer-Encoding: chunked\r\n\r\n1\r\n{{\r\n0\r\n{AUTHORIZED}\r\n")
        assert (await peer.answer()).status == 401


async def test_a_chunked_body_is_read() -> None:
    async with http_door() as (server, _), peer_of(server) as peer:
        peer.write(f"POST /aios/rpc HTTP/1.1\r\nHost: localhost\r\n{AUTHORIZED}Content-Type: application/json\r\n")
        peer.write("Transfer-Encoding: chunked\r\n\r\n2;x=y\r\nab\r\n3\r\ncde\r\n0\r\n\r\n")
        assert b'"size":5' in (await peer.answer()).body
        assert await still_serves(peer)


@pytest.mark.parametrize("expects", ["", "Expect: 100-continue\r\n"])
async def test_a_body_that_is_announced_too_large_is_refused_and_the_peer_gets_to_read_why(expects: str) -> None:
    async with http_door(max_message_size=1000) as (server, service), peer_of(server) as peer:
        body = b"" if expects else b"x" * 300_000
        peer.write(post(body, fields=AUTHORIZED + expects).replace(b"Length: 0", b"Length: 5000"))
        answer = await peer.answer()
        assert (answer.status, answer.error["data"]["max_message_size"]) == (413, 1000)
        assert service.connections == []
        assert await peer.is_closed() if expects else await still_serves(peer)


async def test_a_body_that_grows_too_large_is_refused() -> None:
    async with http_door(max_message_size=100_000) as (server, service), peer_of(server) as peer:
        peer.write(f"POST /aios/rpc HTTP/1.1\r\nHost: localhost\r\n{AUTHORIZED}Content-Type: application/json\r\n")
        peer.write(b"Transfer-Encoding: chunked\r\n\r\n" + b"4000\r\n%s\r\n" % (b"x" * 0x4000) * 20)
        assert (await peer.answer()).status == 413
        assert service.connections == []
        peer.write(b"0\r\n\r\n")
        assert await still_serves(peer)


async def test_a_large_body_within_the_cap_is_read_whole() -> None:
    async with http_door() as (server, _), peer_of(server) as peer:
        peer.write(post(b"x" * (1 << 20)))
        assert b'"size":1048576' in (await peer.answer()).body


@pytest.mark.parametrize(
    ("sent", "status"),
    [("", None), ("POST /aios", 408), (post(b"x" * 50)[:-10].decode(), 408), (post().decode(), 200)],
    ids=["nothing", "half a header", "half a body", "one request"],
)
async def test_silence_is_borne_for_a_while_only(sent: str, status: int | None) -> None:
    async with http_door(settings=QUICK) as (server, _), peer_of(server) as peer:
        peer.write(sent)
        if status is not None:
            assert (await peer.answer()).status == status
        assert await peer.is_closed()


async def test_an_answer_may_take_longer_than_any_deadline_of_the_request() -> None:
    arrived, go = asyncio.Event(), asyncio.Event()

    async def slowly(connection: object, body: bytes) -> None:
        arrived.set()
        await go.wait()

    async with http_door(slowly, settings=QUICK) as (server, _), peer_of(server) as peer, peer_of(server) as other:
        peer.write(post())
        await arrived.wait()
        assert await other.is_closed()
        go.set()
        assert (await peer.answer()).status == 202


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ("", 401),
        ("Authorization: Bearer wrong\r\n", 401),
        ("Authorization: Basic YTpi\r\n", 401),
        ("Authorization: Bearer " + "x" * 5000 + "\r\n", 401),
        ("X-AIOS-API-Key: wrong\r\n", 401),
        (AUTHORIZED.replace("Authorization: Bearer", "X-AIOS-API-Key:"), 200),
        (AUTHORIZED.replace("Bearer", "bearer"), 200),
        (AUTHORIZED + "Content-Encoding: gzip\r\n", 415),
        (AUTHORIZED + "Origin: http://localhost\r\n", 200),
    ],
)
async def test_the_header_decides_whether_the_service_is_asked(fields: str, status: int) -> None:
    async with http_door() as (server, service), peer_of(server) as peer:
        peer.write(post(fields=fields))
        answer = await peer.answer()
        assert answer.status == status
        assert len(service.connections) == (status == 200)
        assert ("www-authenticate" in answer.fields) == (status == 401)
        if status == 401:
            assert answer.error["data"]["authentication_required"] is True
        assert await still_serves(peer)


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("application/json; charset=utf-8", 200),
        ('Application/JSON; Charset="UTF-8"', 200),
        ("application/json; charset=utf-16", 415),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("", 415),
    ],
)
async def test_only_json_in_utf8_is_read(kind: str, status: int) -> None:
    async with http_door() as (server, _), peer_of(server) as peer:
        peer.write(post(kind=kind))
        assert (await peer.answer()).status == status


async def test_past_the_cap_of_connections_a_peer_is_told_to_come_again() -> None:
    async with http_door(settings=HttpSection(max_connections=1)) as (server, _), peer_of(server) as first:
        assert await still_serves(first)
        async with peer_of(server) as second:
            second.write(post())
            answer = await second.answer()
            assert (answer.status, answer.fields["retry-after"]) == (503, "5")
        assert await still_serves(first)


async def test_an_answer_that_nobody_reads_does_not_hold_its_connection_for_ever() -> None:
    async def much(connection: object, body: bytes) -> Reply:
        return Reply(b"x" * 50_000_000)

    async with http_door(much, settings=QUICK, write_timeout_ms=200) as (server, _), peer_of(server) as peer:
        peer.write(post())
        await peer.reader.readexactly(10)
        async with asyncio.timeout(10):
            await server.wait_for_change()
        assert server.connections == 0


async def test_an_unwanted_upgrade_is_answered_as_a_plain_request() -> None:
    async with http_door() as (server, _), peer_of(server) as peer:
        peer.write(post(fields=AUTHORIZED + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"))
        assert (await peer.answer()).status == 200
        assert await peer.is_closed()


async def test_a_failure_inside_is_told_without_its_words() -> None:
    async def fail(connection: object, body: bytes) -> None:
        raise RuntimeError("a secret path")

    async with http_door(fail) as (server, _), peer_of(server) as peer:
        peer.write(post(PING))
        answer = await peer.answer()
        assert (answer.status, answer.error["code"]) == (500, -32603)
        assert b"secret" not in answer.body
        assert await peer.is_closed()
