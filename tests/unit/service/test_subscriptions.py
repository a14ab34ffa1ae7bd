"""Following tasks over the service: cursors, kinds, what is told first, and how it ends (protocol.md §5)."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import msgspec
import pytest

from aios.errors import (
    InvalidParams,
    ResourceBusy,
    StoreUnavailable,
    SubscriptionNotFound,
    TaskNotFound,
    ValidationFailed,
)
from aios.model import AuthRequest, Event, JsonObject, Progress, Task
from aios.protocol.events import Snapshot
from aios.rules.lifecycle import Chunk, Fail, Log, Report, RequireAuth
from aios.service.subscriptions import Subscription
from tests.unit.service.desk import ALICE, BOB, OPAL, Caller, Desk, open_desk, until

TEN_MINUTES_MS = 600_000


def told(events: list[Event | Snapshot]) -> list[str]:
    """Give the ids and kinds, `1 status`."""
    return [f"{int(each.event_id[4:])} {each.kind[5:] if isinstance(each, Event) else 'snapshot'}" for each in events]


async def lively(desk: Desk) -> Task:
    """Run a task that says something of each kind: 1 status, 2 log, 3 progress, 4 chunk."""
    task = await desk.started(ALICE)
    return await desk.engine.record(task, Log("info", "hello"), Report(Progress(percent=10)), Chunk("a", 0))


async def subscribed(caller: Caller, task: Task, **asked: Any) -> Subscription:
    await caller.ask("aios/task.subscribe", {"task_id": task.task_id, **asked})
    return caller.replies[-1].subscriptions[0]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, ["1 status", "5 status", "6 result"]),
        ({"from": "start"}, ["1 status", "2 log", "3 progress", "5 status", "6 result"]),
        ({"from": "start", "events": ["chunk"]}, ["4 chunk", "5 status"]),
        ({"from": "start", "events": ["progress", "result"]}, ["3 progress", "5 status", "6 result"]),
        ({"from": "start", "events": []}, ["5 status"]),
        ({"from": "evt-002", "events": ["status", "log"]}, ["5 status", "6 result"]),
        ({"from": "evt-004"}, ["5 status", "6 result"]),
        ({"from": "now", "events": ["progress"]}, ["5 status"]),
    ],
)
async def test_a_subscription_tells_its_kinds_from_its_place(asked: JsonObject, expected: list[str]) -> None:
    async with open_desk() as desk:
        task = await lively(desk)
        subscription = await subscribed(desk.caller(ALICE), task, **asked)
        await desk.complete(task)
        assert told(await desk.read(subscription)) == expected


async def test_from_now_begins_with_where_the_task_waits() -> None:
    async with open_desk() as desk:
        task = await desk.waiting(ALICE)
        subscription = await subscribed(desk.caller(ALICE), task)
        assert told(await desk.read(subscription, pages=1)) == ["2 status", "3 input_required"]


@pytest.mark.parametrize("how", ["completed", "failed", "canceled"])
async def test_from_now_on_a_finished_task_gives_its_last_events_and_ends(how: str) -> None:
    async with open_desk() as desk:
        task = await lively(desk)
        if how == "completed":
            await desk.complete(task)
        elif how == "failed":
            await desk.engine.record(task, Fail({"code": -32603, "message": "no", "data": {}}))
        else:
            await desk.engine.cancel(task.task_id)
        last = {"completed": ["6 result"], "failed": ["6 error"], "canceled": []}[how]
        subscription = await subscribed(desk.caller(ALICE), task)
        assert told(await desk.read(subscription)) == ["5 status", *last]
        assert told(await desk.read(subscription)) == []


async def test_from_now_looks_back_as_far_as_the_status_lies() -> None:
    async with open_desk() as desk:
        task = await desk.started(ALICE)
        for number in range(30):
            await desk.engine.record(task, *(Log("info", f"{number}") for _ in range(10)))
        subscription = await subscribed(desk.caller(ALICE), task)
        await desk.engine.record(task, Log("info", "later"))
        assert told(await desk.read(subscription, pages=2)) == ["1 status", "302 log"]


async def test_a_pending_task_has_told_nothing_yet() -> None:
    async with open_desk() as desk:
        caller = desk.caller(ALICE)
        task_id = await caller.create(delay_ms=1_000)
        await caller.ask("aios/task.subscribe", {"task_id": task_id})
        subscription = caller.replies[-1].subscriptions[0]
        desk.clock.advance(1_000)
        await desk.house.runner.next()
        assert told(await desk.read(subscription, pages=1)) == ["1 status"]


async def test_events_follow_the_answer_on_a_duplex_connection_with_both_ids() -> None:
    async with open_desk() as desk:
        task = await lively(desk)
        caller = await desk.opened(ALICE)
        made = await caller.ask("aios/task.subscribe", {"task_id": task.task_id, "from": "start"})
        await desk.complete(task)
        answer, *events = [await caller.hear() for _ in range(6)]
        assert answer["result"] == made == {"subscription_id": made["subscription_id"], "task_id": task.task_id}
        assert [each["method"] for each in events] == [
            f"aios/task.{kind}" for kind in ("status", "log", "progress", "status", "result")
        ]
        assert [each["params"]["event_id"] for each in events] == [
            "evt-001",
            "evt-002",
            "evt-003",
            "evt-005",
            "evt-006",
        ]
        assert {each["params"]["subscription_id"] for each in events} == {made["subscription_id"]}
        assert events[0]["params"]["status"] == "working"


@pytest.mark.parametrize("place", ["evt-005", "evt-1", "evt-00001", "evt--01", "evt-", "5", "", "x" * 64, "evt-９９９"])
async def test_a_place_that_the_task_does_not_have_is_refused(place: str) -> None:
    async with open_desk() as desk:
        task = await lively(desk)
        caller = desk.caller(ALICE)
        with pytest.raises(ValidationFailed):
            await subscribed(caller, task, **{"from": place})
        asked = {"task_id": task.task_id, "last_event_id": place}
        with pytest.raises(ValidationFailed):
            await caller.ask("aios/task.resubscribe", asked)
        with pytest.raises(ValidationFailed):
            await desk.service.open_task(ALICE, task.task_id, place)


@pytest.mark.parametrize("word", ["now", "start"])
async def test_resubscribe_wants_an_event_id(word: str) -> None:
    async with open_desk() as desk:
        task = await lively(desk)
        with pytest.raises(ValidationFailed):
            await desk.caller(ALICE).ask("aios/task.resubscribe", {"task_id": task.task_id, "last_event_id": word})


async def test_resubscribe_gives_what_was_missed_and_goes_on_after_it() -> None:
    async with open_desk() as desk:
        task = await lively(desk)
        caller = desk.caller(ALICE)
        asked = {"task_id": task.task_id, "last_event_id": "evt-001"}
        made = await caller.ask("aios/task.resubscribe", asked)
        assert [(each["id"], each["event"]) for each in made["missed_events"]] == [
            ("evt-002", "task.log"),
            ("evt-003", "task.progress"),
        ]
        assert made["missed_events"][0]["data"]["message"] == "hello"
        assert "events_lost" not in made
        await desk.complete(task)
        assert told(await desk.read(caller.replies[-1].subscriptions[0])) == ["5 status", "6 result"]


async def test_what_does_not_fit_into_the_answer_follows_live() -> None:
    async with open_desk() as desk:
        task = await desk.started(ALICE)
        for _ in range(12):
            await desk.engine.record(task, *(Log("info", "line") for _ in range(100)))
        caller = desk.caller(ALICE)
        made = await caller.ask("aios/task.resubscribe", {"task_id": task.task_id, "last_event_id": "evt-001"})
        assert [each["id"] for each in made["missed_events"]] == [f"evt-{number:03d}" for number in range(2, 1_002)]
        await desk.complete(task)
        rest = await desk.read(caller.replies[-1].subscriptions[0])
        assert [int(each.event_id[4:]) for each in rest] == list(range(1_002, 1_204))


async def test_missed_events_are_at_most_a_mebibyte() -> None:
    async with open_desk() as desk:
        task = await desk.started(ALICE)
        for _ in range(12):
            await desk.engine.record(task, Log("info", "x" * 200_000))
        caller = desk.caller(ALICE)
        made = await caller.ask("aios/task.resubscribe", {"task_id": task.task_id, "last_event_id": "evt-001"})
        assert 4 <= len(made["missed_events"]) <= 6


async def test_a_reader_is_told_where_events_were_cut_away() -> None:
    async with open_desk(max_events_per_task=20) as desk:
        task = await desk.started(ALICE)
        for _ in range(10):
            await desk.engine.record(task, *(Log("info", "line") for _ in range(10)))
        caller = desk.caller(ALICE)
        made = await caller.ask("aios/task.resubscribe", {"task_id": task.task_id, "last_event_id": "evt-001"})
        assert made["events_lost"] is True
        assert made["task"]["status"] == "working"
        found = await desk.service.open_task(ALICE, task.task_id)
        assert found is not None
        async with aclosing(desk.service.subscriptions.follow(found)) as pages:
            (snapshot,) = await anext(pages)
            assert isinstance(snapshot, Snapshot)
            assert snapshot.event_id == "evt-101"
            data = msgspec.json.decode(snapshot.data)
            assert (data["task_id"], data["events_lost"], data["task"]["status"]) == (task.task_id, True, "working")
            await desk.complete(task)
            assert told(await anext(pages)) == ["102 status", "103 result"]
            assert await anext(pages, None) is None


async def test_a_cursor_stays_where_the_reader_left_it() -> None:
    async with open_desk() as desk:
        task = await lively(desk)
        subscription = await subscribed(desk.caller(ALICE), task, **{"from": "start"})
        assert told(await desk.read(subscription, pages=1)) == ["1 status", "2 log", "3 progress"]
        await desk.complete(task)
        again = await desk.service.open_subscription(ALICE, subscription.subscription_id)
        assert told(await desk.read(again)) == ["1 status", "2 log", "3 progress", "5 status", "6 result"]
        assert await desk.service.open_subscription(ALICE, subscription.subscription_id) is None
        after = await desk.service.open_subscription(ALICE, subscription.subscription_id, "evt-003")
        assert told(await desk.read(after)) == ["5 status", "6 result"]


async def test_a_task_url_needs_no_subscription_and_says_when_nothing_is_left() -> None:
    async with open_desk() as desk:
        task = await lively(desk)
        await desk.complete(task)
        assert told(await desk.read(await desk.service.open_task(OPAL, task.task_id, "now"))) == [
            "5 status",
            "6 result",
        ]
        assert told(await desk.read(await desk.service.open_task(ALICE, task.task_id, 5))) == ["6 result"]
        assert await desk.service.open_task(ALICE, task.task_id, "evt-006") is None
        with pytest.raises(TaskNotFound):
            await desk.service.open_task(BOB, task.task_id)
        with pytest.raises(InvalidParams):
            await subscribed(desk.caller(ALICE), task, events=["nothing"])


async def test_unsubscribe_ends_the_stream_that_reads_it() -> None:
    async with open_desk() as desk:
        task = await lively(desk)
        caller = desk.caller(ALICE)
        subscription = await subscribed(caller, task)
        reading = asyncio.create_task(desk.read(subscription))
        await until(lambda: subscription.waiting)
        await caller.ask("aios/task.unsubscribe", {"subscription_id": subscription.subscription_id})
        assert told(await reading) == ["1 status"]
        assert told(await desk.read(subscription)) == []
        assert (await desk.engine.task(task.task_id)).status == "working"


async def test_a_reader_that_is_stopped_is_stopped() -> None:
    async with open_desk() as desk:
        subscription = await subscribed(desk.caller(ALICE), await lively(desk))
        reading = asyncio.create_task(desk.read(subscription))
        await until(lambda: subscription.waiting)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert (subscription.readers, subscription.waiting) == (0, set())


async def test_a_subscription_without_a_reader_is_kept_for_ten_minutes() -> None:
    async with open_desk() as desk:
        task = await lively(desk)
        caller = desk.caller(ALICE)
        idle, read = await subscribed(caller, task), await subscribed(caller, task)
        async with aclosing(desk.service.subscriptions.follow(read)) as pages:
            await anext(pages)
            desk.clock.advance(TEN_MINUTES_MS)
            assert await desk.service.open_subscription(ALICE, idle.subscription_id) is idle
            desk.clock.advance(1)
            with pytest.raises(SubscriptionNotFound):
                await desk.service.open_subscription(ALICE, idle.subscription_id)
            assert await desk.service.open_subscription(ALICE, read.subscription_id) is read
        await subscribed(caller, task)
        assert idle.is_ended
        assert not read.is_ended


async def test_the_oldest_idle_subscription_makes_room_and_a_read_one_does_not() -> None:
    async with open_desk(max_subscriptions=2) as desk:
        task = await lively(desk)
        caller = desk.caller(ALICE)
        first, second = await subscribed(caller, task), await subscribed(caller, task)
        other = await subscribed(desk.caller(OPAL), task)
        async with aclosing(desk.service.subscriptions.follow(first)) as pages:
            await anext(pages)
            third = await subscribed(caller, task)
            assert [each.is_ended for each in (first, second, third, other)] == [False, True, False, False]
            async with aclosing(desk.service.subscriptions.follow(third)) as more:
                await anext(more)
                with pytest.raises(ResourceBusy):
                    await subscribed(caller, task)


async def test_a_sign_in_is_not_told_to_an_operator() -> None:
    async with open_desk() as desk:
        task = await desk.started(ALICE)
        await desk.engine.record(task, RequireAuth(AuthRequest(step="auth:1", type="api_key")))
        own, foreign = [
            await desk.read(await desk.service.open_task(each, task.task_id), pages=1) for each in (ALICE, OPAL)
        ]
        assert told(own) == ["1 status", "2 status", "3 auth_required"]
        assert told(foreign) == ["1 status", "2 status"]


async def test_a_slow_reader_costs_a_cursor_and_not_a_queue() -> None:
    """While one event is being sent nothing more is read for this reader."""
    stuck, sent = asyncio.Event(), list[bytes]()

    async with open_desk() as desk:
        task = await lively(desk)
        caller = await desk.opened(ALICE)

        async def slowly(body: bytes) -> None:
            sent.append(body)
            await stuck.wait()

        caller.connection.send = slowly
        await caller.ask("aios/task.subscribe", {"task_id": task.task_id, "from": "start"})
        subscription = caller.replies[-1].subscriptions[0]
        for _ in range(5):
            await desk.engine.record(task, *(Log("info", "line") for _ in range(100)))
        assert (len(sent), subscription.cursor) == (1, 0)
        stuck.set()
        await desk.complete(task)
        await until(lambda: len(sent) == 3 + 500 + 2)
        assert subscription.cursor in {504, 506}


async def test_a_lost_connection_ends_the_sending_and_nothing_else() -> None:
    async def gone(body: bytes) -> None:
        raise BrokenPipeError

    async with open_desk() as desk:
        task = await lively(desk)
        caller = await desk.opened(ALICE)
        caller.connection.send = gone
        await caller.ask("aios/task.subscribe", {"task_id": task.task_id, "from": "start"})
        subscription = caller.replies[-1].subscriptions[0]
        await desk.complete(task)
        await until(lambda: not subscription.readers)
        assert await desk.service.open_subscription(ALICE, subscription.subscription_id) is subscription
        assert told(await desk.read(subscription))[-1] == "6 result"


async def test_a_reader_waits_out_a_store_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_desk() as desk:
        task = await lively(desk)
        found = await desk.service.open_task(ALICE, task.task_id)

        async def broken(*arguments: Any, **options: Any) -> Any:
            raise StoreUnavailable("the disk does not answer")

        with monkeypatch.context() as patch:
            patch.setattr(desk.house.store, "events_after", broken)
            reading = asyncio.create_task(desk.read(found))
            await desk.clock.asked_for(1_000)
        await desk.complete(task)
        desk.clock.advance(1_000)
        assert told(await reading) == ["1 status", "2 log", "3 progress", "5 status", "6 result"]
