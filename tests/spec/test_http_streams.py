"""The event streams that are read by GET, as a browser's `EventSource` reads them (protocol.md §2, §5)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import httpx2
import msgspec
import pytest

from aios.testing.connected import Connected, connected
from tests.spec.conftest import scripts
from tests.spec.doors import caller


def browser(daemon: Connected, token: str | None = None) -> httpx2.AsyncClient:
    fields = {"Authorization": f"Bearer {daemon.token if token is None else token}"}
    return httpx2.AsyncClient(base_url=daemon.url, headers=fields, trust_env=False, timeout=20)


async def finished(daemon: Connected, to: int = 3) -> str:
    """A task with `to` log events that has ended: evt-001 working, the logs, then completed and the result."""
    async with caller("http", daemon) as client:
        task = await client.result("aios/task.create", {"capability_id": "spec.count", "arguments": {"to": to}})
        assert task["status"] == "completed"
        return task["task_id"]


async def read(http: httpx2.AsyncClient, path: str, **headers: str) -> tuple[httpx2.Response, list[str]]:
    """Read a stream to its end; gives the ids of its events."""
    async with http.stream("GET", path, headers=headers) as response:
        body = (await response.aread()).decode()
    return response, [line.removeprefix("id: ") for line in body.split("\n") if line.startswith("id: ")]


async def test_a_stream_tells_all_and_ends_with_the_task(daemon: Connected) -> None:
    task_id = await finished(daemon)
    async with browser(daemon) as http:
        response, ids = await read(http, f"/aios/tasks/{task_id}/events")
        assert ids == [f"evt-{number:03d}" for number in range(1, 7)]
        assert response.headers["content-type"] == "text/event-stream"
        assert (response.headers["cache-control"], response.headers["x-accel-buffering"]) == ("no-store", "no")
        assert "content-encoding" not in response.headers
        frames = [frame.split("\n") for frame in response.text.split("\n\n") if frame]
        assert frames[0][0].startswith("retry: ")
        assert sum(line.startswith("retry") for frame in frames for line in frame) == 1
        assert frames[1][0] == "event: task.status"
        assert msgspec.json.decode(frames[1][2].removeprefix("data: "))["status"] == "working"


@pytest.mark.parametrize("seen", range(6))
@pytest.mark.promise("2.http.last-event-id")
async def test_a_reader_goes_on_after_the_last_event_it_has_seen(seen: int, daemon: Connected) -> None:
    task_id = await finished(daemon)
    rest = [f"evt-{number:03d}" for number in range(seen + 1, 7)]
    async with browser(daemon) as http:
        path, last = f"/aios/tasks/{task_id}/events", f"evt-{seen:03d}"
        assert (await read(http, path, **{"Last-Event-ID": last}))[1] == rest
        assert (await read(http, f"{path}?last_event_id={last}"))[1] == rest
        # A browser that reconnects keeps its URL and knows better by now.
        assert (await read(http, f"{path}?last_event_id=evt-001&from=now", **{"Last-Event-ID": last}))[1] == rest


@pytest.mark.promise("2.http.last-event-id")
async def test_after_the_last_event_of_a_finished_task_there_is_nothing_and_a_browser_stops(daemon: Connected) -> None:
    task_id = await finished(daemon)
    async with browser(daemon) as http:
        response, ids = await read(http, f"/aios/tasks/{task_id}/events", **{"Last-Event-ID": "evt-006"})
        assert (response.status_code, ids, response.content) == (204, [], b"")


@pytest.mark.parametrize(
    "last", ["evt-007", "evt-999999", "evt-", "evt--1", "evt-1", "007", "evt-00a", "evt-001\u00e9", "x" * 5_000]
)
@pytest.mark.promise("2.http.last-event-id")
async def test_an_event_that_the_task_does_not_have_is_refused(last: str, daemon: Connected) -> None:
    task_id = await finished(daemon)
    async with browser(daemon) as http:
        headers = {"Last-Event-ID": last.encode("utf-8")}
        response = await http.get(f"/aios/tasks/{task_id}/events", headers=headers)  # type: ignore[arg-type]
        assert (response.status_code, response.json()["id"], response.json()["error"]["code"]) == (400, None, -32108)
        response = await http.get(f"/aios/tasks/{task_id}/events", params={"last_event_id": last})
        assert response.status_code == 400


@pytest.mark.promise("5.subscribe.now")
async def test_from_now_begins_with_how_things_stand(daemon: Connected) -> None:
    async with caller("http", daemon) as client, browser(daemon) as http:
        task = await client.result("aios/task.create", {"capability_id": "spec.ask"})
        async with http.stream("GET", f"/aios/tasks/{task['task_id']}/events?from=now") as response:
            lines = response.aiter_lines()
            seen = [line async for line in _until(lines, "event: task.input_required")]
            assert [line for line in seen if line.startswith("event")] == [
                "event: task.status",
                "event: task.input_required",
            ]
            await client.result("aios/task.input", {"task_id": task["task_id"], "input": "yes"})
            rest = [line async for line in lines if line.startswith("event")]
        assert rest == ["event: task.status", "event: task.status", "event: task.result"]


async def _until(lines: AsyncIterator[str], last: str) -> AsyncIterator[str]:
    async with asyncio.timeout(20):
        async for line in lines:
            yield line
            if line == last:
                return


@pytest.mark.parametrize("position", ["soon", "evt-9", ""])
async def test_a_start_that_is_no_place_is_refused(position: str, daemon: Connected) -> None:
    task_id = await finished(daemon)
    async with browser(daemon) as http:
        assert (await http.get(f"/aios/tasks/{task_id}/events?from={position}")).status_code == 400


@pytest.mark.promise("2.http.subscription-cursor")
async def test_a_subscription_is_read_from_its_own_cursor(daemon: Connected) -> None:
    async with caller("http", daemon) as client, browser(daemon) as http:
        task_id = await finished(daemon)
        made = await http.post(
            "/aios/rpc",
            json={
                "jsonrpc": "2.0",
                "id": 1,
                "method": "aios/task.subscribe",
                "params": {"task_id": task_id, "from": "evt-004"},
            },
        )
        path = f"/aios/subscriptions/{made.json()['result']['subscription_id']}/events"
        assert (await read(http, path))[1] == ["evt-005", "evt-006"]
        assert (await read(http, path))[0].status_code == 204
        assert (await read(http, path, **{"Last-Event-ID": "evt-005"}))[1] == ["evt-006"]
        assert (await http.get(path, headers={"Last-Event-ID": "evt-9"})).status_code == 400
        await client.result("aios/task.unsubscribe", {"subscription_id": path.split("/")[3]})
        assert (await http.get(path)).status_code == 404


@pytest.mark.promise("2.credential.always")
async def test_what_is_not_there_is_not_found_and_who_is_unknown_learns_nothing(daemon: Connected) -> None:
    paths = [
        "/aios/tasks/task-x/events",
        "/aios/subscriptions/sub-x/events",
        "/aios/artifacts/art-x",
        "/aios/artifacts/x/0",
    ]
    async with browser(daemon) as http, browser(daemon, "wrong") as stranger:
        for path in paths:
            found = await http.get(path)
            assert (path, found.status_code, found.json()["error"]["code"]) == (path, 404, -32106)
            refused = await stranger.get(path)
            assert (path, refused.status_code) == (path, 401)
            assert refused.headers["www-authenticate"].startswith("Bearer")


@asynccontextmanager
async def waiting(**flags: int) -> AsyncGenerator[tuple[Connected, httpx2.AsyncClient, str]]:
    """A daemon with a task that waits, a browser, and the path of the task's stream."""
    settings = {f"http.{name}": value for name, value in flags.items()}
    async with connected(adapters=[scripts()], flags=settings) as daemon, caller("http", daemon) as client:
        task = await client.result("aios/task.create", {"capability_id": "spec.ask"})
        async with browser(daemon) as http:
            yield daemon, http, f"/aios/tasks/{task['task_id']}/events"


@pytest.mark.promise("2.http.keep-alive")
async def test_a_quiet_stream_is_kept_alive_and_ended_with_a_word_when_the_daemon_stops() -> None:
    async with waiting(sse_keep_alive_ms=200) as (daemon, http, path), http.stream("GET", path) as response:
        lines = response.aiter_lines()
        for _ in range(3):
            assert [line async for line in _until(lines, ": keep-alive")][-1] == ": keep-alive"
        stopping = asyncio.create_task(daemon.daemon.stop())
        assert ": the daemon stops" in [line async for line in lines]
        await stopping


async def test_a_reader_that_goes_away_frees_its_place() -> None:
    async with waiting(max_streams=1) as (_, http, path):
        async with http.stream("GET", path):
            refused = await http.get(path)
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
        async with asyncio.timeout(10):
            while "aios_sse_streams 1.0" in (await http.get("/metrics")).text:
                continue
        async with http.stream("GET", path) as response:
            assert response.status_code == 200


@pytest.mark.promise("5.slow-reader")
async def test_a_reader_that_reads_nothing_is_cut_off_and_hinders_no_other() -> None:
    flags = {"duplex.write_timeout_ms": 300}
    async with connected(adapters=[scripts()], flags=flags) as daemon, caller("http", daemon) as client:
        order = {"capability_id": "spec.flood", "arguments": {"times": 150}, "options": {"async": True}}
        task = await client.result("aios/task.create", order)
        path = f"/aios/tasks/{task['task_id']}/events"
        place = urlsplit(daemon.url)
        reader, writer = await asyncio.open_connection(place.hostname, place.port, limit=1024)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {daemon.token}\r\n\r\n".encode())
        async with browser(daemon) as http, asyncio.timeout(20):
            assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
            assert len((await read(http, path))[1]) == 153
            while "aios_sse_streams 0.0" not in (await http.get("/metrics")).text:
                continue
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(150 * 100_000)
        writer.close()


@pytest.mark.promise("2.answer-before-events")
async def test_a_call_answered_as_events_has_the_answer_first_and_may_fail_as_any_other(daemon: Connected) -> None:
    accept = {"Accept": "text/event-stream"}
    async with browser(daemon) as http:
        ping = {"jsonrpc": "2.0", "id": 1, "method": "aios/ping"}
        response = await http.post("/aios/rpc", json=ping, headers=accept)
        assert response.headers["content-type"] == "text/event-stream"
        assert 'event: message\ndata: {"jsonrpc":"2.0","id":1,"result":' in response.text
        response = await http.post("/aios/rpc", content="{", headers={**accept, "Content-Type": "application/json"})
        assert (response.status_code, response.json()["error"]["code"]) == (400, -32700)
        response = await http.post("/aios/rpc", json={"jsonrpc": "2.0", "method": "aios/initialized"}, headers=accept)
        assert (response.status_code, response.content) == (202, b"")
        task_id = await finished(daemon, 1)
        subscribe = {"method": "aios/task.subscribe", "params": {"task_id": task_id, "from": "start"}}
        batch = [{"jsonrpc": "2.0", "id": number, **subscribe} for number in (1, 2)]
        response = await http.post("/aios/rpc", json=batch, headers=accept)
        assert response.text.count("id: evt-004") == 2
