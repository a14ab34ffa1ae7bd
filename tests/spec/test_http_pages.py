"""What else the HTTP door shows: artifacts, health, metrics, headers, and whom it refuses (protocol.md §2, §7)."""

from __future__ import annotations

import asyncio

import pytest

from aios.testing.connected import Connected, connected
from tests.spec.conftest import scripts
from tests.spec.doors import caller
from tests.spec.test_http_streams import browser

PAGE = b"<script>alert(1)</script>" * 4_000


async def drawn(daemon: Connected) -> str:
    async with caller("http", daemon) as client:
        task = await client.result("aios/task.create", {"capability_id": "spec.draw"})
        return task["result"]["artifact"]


@pytest.mark.promise("7.contents.never-run")
async def test_an_artifacts_part_is_downloaded_and_never_run_on_our_origin(daemon: Connected) -> None:
    path = f"/aios/artifacts/{await drawn(daemon)}"
    async with browser(daemon) as http:
        part = await http.get(f"{path}/0")
        assert (part.status_code, part.content) == (200, PAGE)
        assert part.headers["content-type"] == "text/html"
        assert part.headers["content-disposition"] == "attachment"
        assert part.headers["x-content-type-options"] == "nosniff"
        assert part.headers["content-security-policy"] == "sandbox; default-src 'none'"
        assert (await http.get(f"{path}/1")).text == "说明"
        assert (await http.get(path)).json()["parts"][1]["text"] == "说明"
        head = await http.head(f"{path}/0")
        assert (head.status_code, head.headers["content-length"], head.content) == (200, str(len(PAGE)), b"")
        for part_name in ("2", "-1", "x", "1e3", "0" * 20):
            assert (await http.get(f"{path}/{part_name}")).status_code == 404


@pytest.mark.parametrize(
    ("wanted", "status", "first", "last"),
    [
        ("bytes=0-9", 206, 0, 9),
        ("bytes=99990-", 206, 99990, 99999),
        ("bytes=-10", 206, 99990, 99999),
        ("bytes=99990-200000", 206, 99990, 99999),
        ("bytes=-200000", 206, 0, 99999),
        ("bytes=100000-", 416, 0, 0),
        ("bytes=-0", 416, 0, 0),
        ("bytes=9-0", 200, 0, 99999),
        ("bytes=0-1,5-6", 200, 0, 99999),
        ("lines=0-1", 200, 0, 99999),
        ("bytes=-", 200, 0, 99999),
    ],
)
@pytest.mark.promise("7.contents.ranges")
async def test_a_range_of_an_artifact_is_read(
    wanted: str, status: int, first: int, last: int, daemon: Connected
) -> None:
    async with browser(daemon) as http:
        part = await http.get(f"/aios/artifacts/{await drawn(daemon)}/0", headers={"Range": wanted})
        assert part.status_code == status
        if status == 416:
            assert part.headers["content-range"] == "bytes */100000"
        else:
            assert part.content == PAGE[first : last + 1]
            assert part.headers.get("content-range") == (f"bytes {first}-{last}/100000" if status == 206 else None)


@pytest.mark.promise("2.credential.always")
async def test_health_needs_no_credential_and_metrics_do(daemon: Connected) -> None:
    async with browser(daemon) as http, browser(daemon, "wrong") as stranger:
        for path in ("/healthz", "/readyz"):
            assert (await stranger.get(path)).status_code == 200
        assert (await stranger.get("/metrics")).status_code == 401
        await drawn(daemon)
        metrics = await http.get("/metrics")
        assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")
        assert 'aios_tasks{status="completed"} 1.0' in metrics.text
        assert "aios_queue_depth 0.0" in metrics.text
        assert 'aios_connections{door="unix"} 0.0' in metrics.text


@pytest.mark.promise("2.http.draining")
async def test_a_daemon_that_stops_says_so_and_takes_no_call() -> None:
    async with connected(adapters=[scripts()]) as daemon, browser(daemon) as http:
        assert (await http.get("/readyz")).json() == {"status": "ready"}
        daemon.daemon.http.stop_accepting()
        ready = await http.get("/readyz")
        assert (ready.status_code, ready.json()["reason"]) == (503, "the daemon is stopping")
        ping = {"jsonrpc": "2.0", "id": 1, "method": "aios/ping"}
        for accept in ("application/json", "text/event-stream"):
            refused = await http.post("/aios/rpc", json=ping, headers={"Accept": accept})
            assert (refused.status_code, refused.json()["id"], refused.json()["error"]["code"]) == (503, None, -32007)
            assert refused.headers["retry-after"] == "5"
        assert (await http.get("/healthz")).status_code == 200


@pytest.mark.promise("2.http.headers")
async def test_an_answer_bears_the_requests_id_or_one_of_ours(daemon: Connected) -> None:
    ping = {"jsonrpc": "2.0", "id": 1, "method": "aios/ping"}
    async with browser(daemon) as http:
        given = await http.post("/aios/rpc", json=ping, headers={"AIOS-Request-Id": "mine-1"})
        assert given.headers["aios-request-id"] == "mine-1"
        ours = [(await http.post("/aios/rpc", json=ping)).headers["aios-request-id"] for _ in range(2)]
        assert len(set(ours)) == 2
        long = await http.post("/aios/rpc", json=ping, headers={"AIOS-Request-Id": "x" * 200})
        assert long.headers["aios-request-id"].startswith("req-")
        lost = await http.get("/nowhere", headers={"AIOS-Request-Id": "mine-2"})
        assert (lost.status_code, lost.headers["aios-request-id"]) == (404, "mine-2")


@pytest.mark.promise("2.http.headers")
async def test_version_and_session_come_in_the_header(daemon: Connected) -> None:
    ping = {"jsonrpc": "2.0", "id": 1, "method": "aios/task.list"}
    async with browser(daemon) as http:
        for version in ("0.3.0", "0.2.0"):
            good = await http.post("/aios/rpc", json=ping, headers={"AIOS-Version": version})
            assert "result" in good.json()
        bad = await http.post("/aios/rpc", json=ping, headers={"AIOS-Version": "9.9"})
        assert (bad.status_code, bad.json()["error"]["code"], bad.json()["error"]["data"]["latest_version"]) == (
            200,
            -32009,
            "0.3.0",
        )
        unknown = await http.post("/aios/rpc", json=ping, headers={"AIOS-Session-Id": "sess-nobody"})
        assert unknown.json()["error"]["code"] == -32105


async def test_an_answer_names_the_extensions_that_were_asked_for_and_are_known(daemon: Connected) -> None:
    ping = {"jsonrpc": "2.0", "id": 1, "method": "aios/ping"}
    known = "urn:aios:ext:priority:1.0"
    async with browser(daemon) as http:
        asked = await http.post("/aios/rpc", json=ping, headers={"AIOS-Extensions": f"urn:other:1, {known}"})
        assert asked.headers["aios-extensions"] == known
        assert "aios-extensions" not in (await http.post("/aios/rpc", json=ping)).headers


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "OPTIONS", "PATCH"])
async def test_only_post_makes_a_call(method: str, daemon: Connected) -> None:
    async with browser(daemon) as http:
        refused = await http.request(method, "/aios/rpc")
        assert (refused.status_code, refused.headers["allow"]) == (405, "POST")


async def test_no_page_is_written_to(daemon: Connected) -> None:
    async with browser(daemon) as http:
        for path in ("/healthz", "/readyz", "/metrics", "/aios/tasks/x/events", "/aios/artifacts/x"):
            refused = await http.post(path)
            assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "evil.example"}, 403),
        ({"Host": "console.example", "Origin": "http://console.example"}, 101),
        ({"Origin": "https://page.example"}, 101),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Sec-WebSocket-Version": "12"}, 400),
        ({"Sec-WebSocket-Key": "short"}, 400),
    ],
)
@pytest.mark.promise("2.origin")
async def test_a_websocket_is_opened_only_for_whom_it_may_be(fields: dict[str, str], status: int) -> None:
    flags = {"http.allowed_hosts": ["console.example"], "http.allowed_origins": ["https://page.example"]}
    async with connected(flags=flags) as daemon:
        host, _, port = daemon.url.removeprefix("http://").rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        sent = {
            "Host": "localhost",
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
            "Sec-WebSocket-Version": "13",
            **fields,
        }
        writer.write(
            ("GET /aios/ws HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in sent.items()) + "\r\n").encode()
        )
        async with asyncio.timeout(10):
            first = await reader.readline()
        assert first.split()[1] == b"%d" % status
        writer.close()
        async with caller("unix", daemon) as client:
            assert "server_time" in await client.result("aios/ping")
