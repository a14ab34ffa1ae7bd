"""Seed 000, its events: the frames as they are written there, read over any door, and again after a break."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import msgspec
import pytest

from tests.spec.doors import Caller, call, chunks
from tests.spec.seeds import PROMPT, SEED_000, Shop, assert_like, opened

on_doors = pytest.mark.parametrize("door", ["http", "websocket", "unix"])

FRAMES: list[tuple[str, str, dict[str, Any]]] = [
    ("task.status", "evt-001", {"task_id": "task-001", "status": "working", "timestamp": "2026-01-05T10:00:01Z"}),
    ("task.progress", "evt-002", {"task_id": "task-001", "progress": {"percent": 25, "message": "正在搜索京东..."}}),
    ("task.progress", "evt-003", {"task_id": "task-001", "progress": {"percent": 50, "message": "正在搜索淘宝..."}}),
    (
        "task.artifact",
        "evt-004",
        {"task_id": "task-001", "artifact": {"id": "art-001", "name": "京东搜索结果", "type": "data"}},
    ),
    ("task.input_required", "evt-006", {"task_id": "task-001", "prompt": PROMPT, "options": [{"id": "product-121"}]}),
    ("task.status", "evt-008", {"task_id": "task-001", "status": "completed", "timestamp": "2026-01-05T10:01:00Z"}),
    (
        "task.result",
        "evt-009",
        {"task_id": "task-001", "result": {"chosen": "product-123"}, "artifacts": [{"id": "art-001"}]},
    ),
]
"""The seed's list. Every change of status is an event of its own here: evt-005 comes to input_required, evt-007 leaves it."""

STATUSES = {"evt-005": ("working", "input_required"), "evt-007": ("input_required", "working")}


@pytest.fixture(scope="module")
async def shop() -> AsyncGenerator[Shop]:
    async with opened() as running:
        yield running


def assert_all(events: list[tuple[str, str, Any]]) -> None:
    """Hold a task's events, as `(id, kind, data)`, against the seed's list."""
    told = {event_id: (kind, data) for event_id, kind, data in events}
    assert list(told) == [f"evt-{number:03d}" for number in range(1, 10)]
    for kind, event_id, example in FRAMES:
        assert told[event_id][0] == kind
        assert_like(example, told[event_id][1], event_id)
        assert told[event_id][1].get("progress") == example.get("progress")
    for event_id, edge in STATUSES.items():
        assert (told[event_id][1]["previous_status"], told[event_id][1]["status"]) == edge


async def finish(shop: Shop, client: Caller) -> str:
    """Go shopping to the end."""
    task = await shop.shop(client)
    await SEED_000.ask("task.input", client, task=task)
    await shop.reach(task, "completed")
    return task


@pytest.mark.promise("5.sse.frames", "5.numbers.no-gap")
async def test_the_frames_are_written_as_the_seed_writes_them(shop: Shop) -> None:
    async with shop.at("http") as client:
        task = await finish(shop, client)
    async with shop.get(f"/aios/tasks/{task}/events") as (status, reader):
        assert status == 200
        text = b"".join([chunk async for chunk in chunks(reader)]).decode()
    first, *frames = text.removesuffix("\n\n").split("\n\n")
    assert first.startswith("retry: ")
    events: list[tuple[str, str, Any]] = []
    for frame in frames:
        kind, event_id, data = frame.split("\n")
        assert (kind[:7], event_id[:4], data[:6]) == ("event: ", "id: ", "data: ")
        events.append((event_id[4:], kind[7:], msgspec.json.decode(data[6:])))
    assert_all(events)


@on_doors
@pytest.mark.promise("5.subscribe.kinds", "2.answer-before-events", "4.input.schema-decides")
async def test_a_subscription_tells_what_the_seed_lists(door: str, shop: Shop) -> None:
    async with shop.at(door) as client, shop.at("http") as other:
        task = await shop.shop(other)
        answer = await SEED_000.ask("task.subscribe", client, task=task)
        assert answer["task_id"] == task
        # It began when the task was asking: with its status and its question, by their own numbers.
        asked = [await client.notification() for _ in range(2)]
        assert [each["params"]["event_id"] for each in asked] == ["evt-005", "evt-006"]
        assert_like(FRAMES[4][2], asked[1]["params"])
        await SEED_000.ask("task.input", other, task=task)
        assert [event_id for event_id, _, _ in await client.events()] == ["evt-007", "evt-008", "evt-009"]


@on_doors
@pytest.mark.promise("5.resubscribe.missed-events", "5.numbers.no-gap")
async def test_resubscribing_after_evt_003_tells_what_was_missed_and_goes_on(door: str, shop: Shop) -> None:
    async with shop.at(door) as client, shop.at("http") as other:
        task = await shop.shop(other)
        answer = (await client.ask(SEED_000.request("task.resubscribe", task=task)))["result"]
        assert answer["subscription_id"].startswith("sub-")
        missed = answer["missed_events"]
        assert [(each["id"], each["event"]) for each in missed] == [
            ("evt-004", "task.artifact"),
            ("evt-005", "task.status"),
            ("evt-006", "task.input_required"),
        ]
        example = SEED_000.response("task.resubscribe")["result"]["missed_events"]
        assert_like(example[0], missed[0])
        assert (missed[2]["data"]["prompt"], len(missed[2]["data"]["options"])) == (PROMPT, 5)
        await SEED_000.ask("task.input", other, task=task)
        live = await client.events()
        assert [event_id for event_id, _, _ in live] == ["evt-007", "evt-008", "evt-009"]


@on_doors
@pytest.mark.promise("5.resubscribe.missed-events")
async def test_what_was_told_live_and_what_is_told_again_is_the_same(door: str, shop: Shop) -> None:
    async with shop.at(door) as client:
        task = await finish(shop, client)
        again = await client.result("aios/task.resubscribe", {"task_id": task, "last_event_id": "evt-000"})
        assert_all([(each["id"], each["event"], each["data"]) for each in again["missed_events"]])
        live = [(event.id, event.kind, event.data) for event in await shop.end(task)]
        assert live == [(each["id"], each["event"], each["data"]) for each in again["missed_events"]]


@on_doors
@pytest.mark.promise("5.unsubscribe")
async def test_unsubscribing_ends_the_events_and_nothing_else(door: str, shop: Shop) -> None:
    async with shop.at(door) as client, shop.at("http") as other:
        task = await shop.shop(other)
        sub = (await SEED_000.ask("task.subscribe", client, task=task))["subscription_id"]
        assert [(await client.notification())["params"]["event_id"] for _ in range(2)] == ["evt-005", "evt-006"]
        await SEED_000.ask("task.unsubscribe", other, sub=sub)
        gone = await other.ask(call(1, "aios/task.unsubscribe", {"subscription_id": sub}))
        assert (gone["error"]["code"], gone["error"]["message"]) == (-32106, "Subscription not found")
        await SEED_000.ask("task.input", other, task=task)
        assert (await shop.end(task))[-1].kind == "task.result"
        # Had it told more, that would come before this answer.
        await client.result("aios/task.get", {"task_id": task})
        assert not client.told
