import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from aios.client import Client
from aios.client.connections import Backoff, Refused
from aios.errors import (
    AiosError,
    AnswerLost,
    AuthenticationRequired,
    CapabilityFailed,
    DaemonUnreachable,
    InvalidParams,
    MethodNotFound,
    QueueFull,
    ResourceBusy,
    TaskFinal,
    TaskNotFound,
)
from aios.protocol.task import TaskGet, TaskView
from tests.unit.client.scripted_daemon import TASK_ID, TOKEN, Reply, ScriptedDaemon, a_whole_task, event, scripted


def refusal(error: AiosError) -> Reply:
    return Reply(error=error.to_wire())


BUSY = Reply(error=ResourceBusy("the daemon is stopping").to_wire(), status=503, headers=("Retry-After: 0",))


async def test_a_typed_call_gives_a_typed_result_and_a_raw_one_a_dict() -> None:
    async with scripted() as daemon, Client.connect(daemon.url, TOKEN) as client:
        typed = await client.call(TaskGet(task_id=TASK_ID))
        assert isinstance(typed, TaskView)
        assert typed.status == "completed"
        raw = await client.call("aios/task.get", {"task_id": TASK_ID})
        assert raw["status"] == "completed"
        assert daemon.calls_of("aios/task.get") == [{"task_id": TASK_ID}] * 2


@pytest.mark.parametrize(
    "error", [TaskNotFound("no task x", task_id="x"), TaskFinal(status="canceled"), QueueFull(max_queue_size=3)]
)
async def test_the_servers_error_is_raised_as_the_same_class(error: AiosError) -> None:
    async with scripted() as daemon, Client.connect(daemon.url, TOKEN) as client:
        daemon.replies["aios/task.get"] = [refusal(error)]
        with pytest.raises(type(error)) as raised:
            await client.get(TASK_ID)
        assert raised.value.to_wire() == error.to_wire()


async def test_a_method_nobody_knows_is_an_error_of_its_own() -> None:
    async with scripted() as daemon, Client.connect(daemon.url, TOKEN) as client:
        with pytest.raises(MethodNotFound):
            await client.call("aios/task.fly")


@pytest.mark.parametrize("way", ["http", "socket"])
async def test_a_lost_answer_makes_no_second_task(way: str, tmp_path: Path) -> None:
    async with scripted(tmp_path) as daemon:
        daemon.replies["aios/task.create"] = ["cut"]
        async with Client.connect(daemon.url if way == "http" else daemon.socket, TOKEN) as client:
            await client.create("demo.echo", {"text": "x"})
        first, second = daemon.calls_of("aios/task.create")
        assert first == second
        assert first["options"]["idempotency_key"].startswith("client-")
        assert first["options"]["async"] is True


async def test_a_call_that_only_reads_is_repeated() -> None:
    async with scripted() as daemon, Client.connect(daemon.url, TOKEN) as client:
        daemon.replies["aios/task.get"] = ["cut", "cut"]
        assert (await client.get(TASK_ID)).task_id == TASK_ID


@pytest.mark.parametrize("way", ["http", "socket"])
async def test_a_command_whose_answer_is_lost_is_not_given_twice(way: str, tmp_path: Path) -> None:
    async with scripted(tmp_path) as daemon:
        daemon.replies["aios/task.input"] = ["cut"]
        async with Client.connect(daemon.url if way == "http" else daemon.socket, TOKEN) as client:
            with pytest.raises(AnswerLost, match="broke"):
                await client.input(TASK_ID, "yes")
            assert len(daemon.calls_of("aios/task.input")) == 1
            await client.input(TASK_ID, "yes")


async def test_a_create_without_a_key_is_not_repeated() -> None:
    async with scripted() as daemon, Client.connect(daemon.url, TOKEN) as client:
        daemon.replies["aios/task.create"] = ["cut"]
        with pytest.raises(AnswerLost):
            await client.call("aios/task.create", {"capability_id": "demo.echo"})


async def test_what_the_door_turned_away_is_asked_again_whatever_it_is() -> None:
    async with scripted() as daemon, Client.connect(daemon.url, TOKEN) as client:
        daemon.replies["aios/task.input"] = [BUSY, BUSY]
        await client.input(TASK_ID, "yes")
        assert len(daemon.calls_of("aios/task.input")) == 3


async def test_a_door_that_stays_shut_is_told_as_its_own_error() -> None:
    async with scripted() as daemon, Client.connect(daemon.url, TOKEN, patience_ms=20) as client:
        daemon.replies["aios/task.input"] = [BUSY] * 50
        with pytest.raises(ResourceBusy, match="stopping"):
            await client.input(TASK_ID, "yes")


@pytest.mark.parametrize("token", ["wrong", None])
async def test_without_the_right_token_connecting_fails_at_once(
    token: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("AIOS_TOKEN", raising=False)
    monkeypatch.setenv("AIOS_DATA", str(tmp_path))
    async with scripted() as daemon:
        with pytest.raises(AuthenticationRequired):
            await Client.connect(daemon.url, token)


async def test_where_nobody_listens_connecting_fails_at_once(tmp_path: Path) -> None:
    async with scripted() as daemon:
        url = daemon.url
    for nowhere in (url, url.replace("http", "ws"), url.replace("http", "tcp"), f"unix:{tmp_path}/none.sock"):
        with pytest.raises(DaemonUnreachable, match="no daemon answers at"):
            await Client.connect(nowhere, TOKEN)


@pytest.mark.parametrize(
    "reply",
    [
        Reply(raw=b"<html>", content_type="text/html"),
        Reply(raw=b"<html>", content_type="text/html", status=404),
        Reply(raw=b"", content_type="text/plain", status=302, headers=("Location: http://127.0.0.1:1/",)),
        Reply(raw=b"{", status=200),
        Reply(raw=b"[]", status=200),
        Reply(raw=b'{"jsonrpc":"2.0","id":-7,"result":{}}'),
        Reply(raw=b'{"jsonrpc":"2.0","id":0}'),
        Reply({"server_time": 5}),
    ],
)
async def test_something_that_is_no_daemon_is_told_apart(reply: Reply) -> None:
    async with scripted() as daemon:
        daemon.replies["aios/ping"] = [reply]
        with pytest.raises((DaemonUnreachable, AnswerLost), match=r"127\.0\.0\.1|something else"):
            await Client.connect(daemon.url, TOKEN)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), "\ud800", [None, float("-inf")]])
async def test_params_that_are_not_json_are_refused_before_they_are_sent(value: Any) -> None:
    async with scripted() as daemon, Client.connect(daemon.url, TOKEN) as client:
        with pytest.raises(InvalidParams, match="are not JSON"):
            await client.create("demo.echo", {"value": value})
        assert daemon.calls_of("aios/task.create") == []


@pytest.mark.parametrize("options", [{"prioritty": "high"}, {"priority": "highest"}, {"retry": {"max_attempts": 0}}])
async def test_an_option_that_does_not_exist_is_not_passed_over(options: dict[str, Any]) -> None:
    async with scripted() as daemon, Client.connect(daemon.url, TOKEN) as client:
        with pytest.raises(InvalidParams, match="option"):
            await client.create("demo.echo", {}, **options)
        with pytest.raises(InvalidParams, match="filter"):
            await client.list(**options)


async def test_a_daemon_that_moved_is_found_again_by_its_data_folder(tmp_path: Path) -> None:
    def moved(to: ScriptedDaemon, token: str = TOKEN) -> None:
        (tmp_path / "token").write_text(token)
        (tmp_path / "daemon.json").write_text(json.dumps({"url": to.url}))

    async with scripted() as first:
        await first.append(event("status", status="working"), status="working")
        moved(first)
        client = await Client.connect(data=tmp_path)
        following = client.follow(TASK_ID)
        assert (await anext(following)).number == 1
    rest = asyncio.ensure_future(anext(following))
    async with scripted() as second:
        await second.append(*a_whole_task(), status="completed")
        moved(second)
        assert (await rest).number == 2
        assert [each.number async for each in following] == [3]
        assert (await client.get(TASK_ID)).status == "completed"
        await client.close()


async def test_a_new_token_at_the_old_address_is_read_from_the_data_folder(tmp_path: Path) -> None:
    async with scripted() as daemon:
        (tmp_path / "daemon.json").write_text(json.dumps({"url": daemon.url}))
        (tmp_path / "token").write_text(TOKEN)
        async with Client.connect(data=tmp_path) as client:
            daemon.replies["aios/task.get"] = [Reply(error=AuthenticationRequired("stale").to_wire())]
            (tmp_path / "token").write_text(f"{TOKEN} ")
            with pytest.raises(AuthenticationRequired):
                await client.get(TASK_ID)
            (tmp_path / "token").write_text(TOKEN.upper())
            daemon.replies["aios/task.get"] = [Reply(error=AuthenticationRequired("stale").to_wire())]
            assert (await client.get(TASK_ID)).task_id == TASK_ID


async def test_a_closed_client_says_so() -> None:
    async with scripted() as daemon:
        async with Client.connect(daemon.url, TOKEN, patience_ms=0) as client:
            pass
        with pytest.raises(DaemonUnreachable, match="closed"):
            await client.get(TASK_ID)


async def test_a_call_that_takes_too_long_is_given_up() -> None:
    async with scripted() as daemon, Client.connect(daemon.url, TOKEN, patience_ms=0) as client:
        daemon.hold = asyncio.Event()
        with pytest.raises(AnswerLost):
            await client.call("aios/task.get", {"task_id": TASK_ID}, timeout_ms=50)
        daemon.hold.set()


async def test_waiting_grows_and_is_never_the_same_for_two(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def wait(seconds: float) -> None:
        waits.append(seconds * 1000)

    monkeypatch.setattr("aios.client.connections.asyncio.sleep", wait)
    monkeypatch.setattr("aios.client.connections.DELAY_MS_FIRST", 50)
    monkeypatch.setattr("aios.client.connections.DELAY_MS_MAX", 5_000)
    backoff = Backoff(60_000)
    for _ in range(9):
        await backoff.pause(AnswerLost("x"))
    bounds = [50, 100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]
    assert all(bound / 2 <= wait <= bound for wait, bound in zip(waits, bounds, strict=True))
    await Backoff(60_000).pause(Refused(ResourceBusy("x"), retry_after_ms=2_000))
    assert 2_000 <= waits[-1] <= 2_500
    with pytest.raises(CapabilityFailed):
        await Backoff(1_000).pause(Refused(CapabilityFailed("x"), retry_after_ms=10**9))
