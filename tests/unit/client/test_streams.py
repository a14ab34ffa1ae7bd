import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aios.client import Client, TaskEvent
from aios.errors import DaemonUnreachable, InternalError, TaskNotFound
from tests.unit.client.scripted_daemon import (
    TASK_ID,
    TOKEN,
    Cut,
    Reply,
    ScriptedDaemon,
    a_whole_task,
    event,
    scripted,
)

ROUNDS = int(os.environ.get("AIOS_ROUNDS", "100"))
STREAM_BYTES_MAX = 2_500
"""More than a whole stream of the task below has."""

cuts = st.lists(
    st.builds(Cut, st.integers(0, STREAM_BYTES_MAX), st.sampled_from(["close", "reset", "end"])), max_size=12
)


def a_talkative_task() -> list[tuple[str, dict[str, Any]]]:
    return a_whole_task(
        [
            event("progress", progress={"percent": 45, "message": "正在搜索淘宝…\u2028\u0085"}),
            event("log", level="info", message="data: evil\r\nid: evt-999\n\n", fields={}),
            event("chunk", attempt=1, index=0, data="x" * 100),
            event("artifact", artifact={"id": "art-1", "name": "报告", "type": "report", "parts": []}),
        ]
    )


async def followed(daemon: ScriptedDaemon, url: str, **options: Any) -> list[TaskEvent]:
    async with Client.connect(url, TOKEN, patience_ms=10_000) as client:
        return [each async for each in client.follow(TASK_ID, **options)]


def as_logged(events: list[TaskEvent]) -> list[tuple[str, dict[str, Any]]]:
    assert [each.number for each in events] == list(range(1, len(events) + 1))
    return [(each.kind, each.data) for each in events]


@pytest.mark.soak
@given(cuts=cuts)
@settings(max_examples=ROUNDS)
async def test_a_follower_sees_each_event_once_wherever_its_stream_is_cut(cuts: list[Cut]) -> None:
    async with scripted() as daemon:
        daemon.log, daemon.cuts = a_talkative_task(), cuts
        assert as_logged(await followed(daemon, daemon.url)) == daemon.log


@pytest.mark.soak
@pytest.mark.parametrize("how", ["close", "end"])
async def test_no_single_byte_is_a_bad_place_to_cut(how: str) -> None:
    """Places in order, instead of those that chance finds: every seventh by default, every one in `make soak`."""
    async with scripted() as daemon:
        daemon.log = a_whole_task()
        places = range(0, 900, max(1, 700 // ROUNDS))
        async with Client.connect(daemon.url, TOKEN) as client:
            for place in places:
                daemon.cuts = [Cut(place, how)]
                events = [each async for each in client.follow(TASK_ID)]
                assert as_logged(events) == daemon.log, place


@pytest.mark.soak
@given(cuts=cuts)
@settings(max_examples=ROUNDS)
async def test_a_follower_on_a_socket_sees_each_event_once_wherever_it_is_cut(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[Cut]
) -> None:
    async with scripted(tmp_path_factory.mktemp("s")) as daemon:
        daemon.log, daemon.cuts = a_talkative_task(), cuts
        assert as_logged(await followed(daemon, daemon.socket)) == daemon.log


async def test_a_reconnect_asks_only_for_what_comes_after_the_last_event() -> None:
    async with scripted() as daemon:
        daemon.log = a_talkative_task()
        daemon.cuts = [Cut(700)]
        await followed(daemon, daemon.url)
        first, second = daemon.calls_of("aios/task.subscribe")
        assert first["from"] == "start"
        assert second["from"] in {"evt-001", "evt-002", "evt-003"}


async def test_an_event_that_comes_twice_is_handed_out_once() -> None:
    async with scripted() as daemon:
        daemon.log = a_whole_task()
        repeated = [*daemon.events(0)[:1], *daemon.events(0)]
        daemon.events = lambda after: [each for each in repeated if after == 0]  # type: ignore[method-assign]
        assert len(await followed(daemon, daemon.url)) == 3


async def test_a_gap_is_asked_for_again_and_told_if_it_stays() -> None:
    async with scripted() as daemon:
        daemon.log = a_whole_task([event("log", level="info", message="lost", fields={})])
        whole = daemon.events
        daemon.events = lambda after: [each for each in whole(after) if each[0] != "evt-002"]  # type: ignore[method-assign]
        with pytest.raises(InternalError, match="event 3 came after 1"):
            await followed(daemon, daemon.url)
        assert [each["from"] for each in daemon.calls_of("aios/task.subscribe")] == ["start", *["evt-001"] * 5]


async def test_a_sign_in_that_others_are_not_shown_is_no_gap() -> None:
    async with scripted() as daemon:
        daemon.log = a_whole_task([event("status", status="auth_required"), event("auth_required", auth_request={})])
        whole = daemon.events
        daemon.events = lambda after: [each for each in whole(after) if each[1] != "task.auth_required"]  # type: ignore[method-assign]
        assert [each.number for each in await followed(daemon, daemon.url)] == [1, 2, 4, 5]


async def test_with_a_filter_holes_are_no_gaps_and_the_end_is_known() -> None:
    async with scripted() as daemon:
        daemon.log = a_talkative_task()
        whole = daemon.events
        daemon.closes_streams = False
        daemon.events = lambda after: [e for e in whole(after) if e[1] in {"task.status", "task.log"}]  # type: ignore[method-assign]
        events = await followed(daemon, daemon.url, events=["log"])
        assert [each.number for each in events] == [1, 3, 6]
        assert daemon.calls_of("aios/task.subscribe")[0]["events"] == ["log"]


@pytest.mark.parametrize("way", ["http", "socket"])
async def test_a_snapshot_stands_for_what_was_cut_away_and_numbers_go_on_after_it(way: str, tmp_path: Path) -> None:
    async with scripted(tmp_path) as daemon:
        daemon.log, daemon.snapshot_at = a_talkative_task(), 4
        events = await followed(daemon, daemon.url if way == "http" else daemon.socket)
        assert [(each.number, each.is_snapshot) for each in events] == [(4, True), (5, False), (6, False), (7, False)]
        assert events[0].data["task"]["task_id"] == TASK_ID


@pytest.mark.parametrize("way", ["http", "socket"])
async def test_a_snapshot_of_a_finished_task_may_be_the_end(way: str, tmp_path: Path) -> None:
    async with scripted(tmp_path) as daemon:
        daemon.log = a_talkative_task()
        daemon.snapshot_at = len(daemon.log)
        events = await followed(daemon, daemon.url if way == "http" else daemon.socket)
        assert [each.is_snapshot for each in events] == [True]


@pytest.mark.parametrize("way", ["http", "socket"])
@pytest.mark.parametrize("after", [2, 3])
async def test_following_a_finished_task_from_near_its_end_ends(way: str, after: int, tmp_path: Path) -> None:
    async with scripted(tmp_path) as daemon:
        daemon.log = a_whole_task()
        events = await followed(daemon, daemon.url if way == "http" else daemon.socket, after=after)
        assert [each.number for each in events] == list(range(after + 1, 4))


async def test_a_daemon_that_stops_in_good_order_does_not_end_the_following(tmp_path: Path) -> None:
    """A stream that is closed properly is no proof that the task has ended."""
    async with scripted() as daemon:
        await daemon.append(event("status", status="working"), status="working")
        daemon.cuts = [Cut(10_000, "end")]
        async with Client.connect(daemon.url, TOKEN) as client:
            following = client.follow(TASK_ID)
            assert (await anext(following)).number == 1
            daemon.drop_connections()
            await daemon.append(*a_whole_task()[1:], status="completed")
            assert [each.number async for each in following] == [2, 3]


async def test_a_task_that_is_gone_ends_the_following_with_its_error() -> None:
    async with scripted() as daemon:
        error = {"code": -32106, "message": "Task not found", "data": {"error_id": "AIOS-TASK-NOT-FOUND"}}
        daemon.replies["aios/task.subscribe"] = [Reply(error=error)]
        with pytest.raises(TaskNotFound):
            await followed(daemon, daemon.url)


async def test_leaving_the_loop_closes_the_stream_and_the_subscription() -> None:
    async with scripted() as daemon:
        await daemon.append(event("status", status="working"), status="working")
        async with Client.connect(daemon.url, TOKEN) as client:
            following = client.follow(TASK_ID)
            await anext(following)
            await following.aclose()
            (subscribed,) = daemon.calls_of("aios/task.unsubscribe")
            assert subscribed["subscription_id"].startswith("sub-")


async def test_patience_has_an_end() -> None:
    async with scripted() as daemon:
        await daemon.append(event("status", status="working"), status="working")
        url = daemon.url
        client = await Client.connect(url, TOKEN, patience_ms=50)
        following = client.follow(TASK_ID)
        await anext(following)
    with pytest.raises(DaemonUnreachable, match="no daemon answers at"):
        await asyncio.wait_for(anext(following), 30)
    await client.close()


async def test_a_slow_follower_on_a_socket_is_cut_off_and_reads_on_without_holding_up_calls(tmp_path: Path) -> None:
    async with scripted(tmp_path) as daemon:
        daemon.log = a_whole_task([event("log", level="info", message=f"{i}", fields={}) for i in range(3_000)])
        async with Client.connect(daemon.socket, TOKEN) as client:
            numbers: list[int] = []
            async for each in client.follow(TASK_ID):
                numbers.append(each.number)
                if each.number % 500 == 0:
                    await client.get(TASK_ID)
            assert numbers == list(range(1, 3_004))
        assert len(daemon.calls_of("aios/task.subscribe")) > 1


@pytest.mark.parametrize("way", ["http", "socket"])
async def test_a_stream_on_which_not_even_a_keep_alive_comes_is_dead(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("http", "duplex"):
        monkeypatch.setattr(f"aios.client.{module}.SILENCE_MS_MAX", 60)
    monkeypatch.setattr("aios.client.duplex.PING_MS", 20)
    async with scripted(tmp_path) as daemon:
        await daemon.append(event("status", status="working"), status="working")
        async with Client.connect(daemon.url if way == "http" else daemon.socket, TOKEN) as client:
            following = client.follow(TASK_ID)
            await anext(following)
            rest = asyncio.ensure_future(anext(following))
            while len(daemon.calls_of("aios/task.subscribe")) < 3:
                await asyncio.wait([rest], timeout=0.02)
            await daemon.append(*a_whole_task()[1:], status="completed")
            assert (await rest).number == 2
            assert [each.number async for each in following] == [3]
    if way == "socket":
        assert len(daemon.calls_of("aios/ping")) > 1
