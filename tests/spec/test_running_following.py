"""Following: who subscribes when, sees what, and goes on where (protocol.md §5)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from aios.adapter import Context
from aios.errors import CapabilityFailed
from tests.spec.doors import Caller, Message, call, chunks
from tests.spec.stage import Arguments, Code, Gate, Stage, staged

on_doors = pytest.mark.parametrize("door", ["http", "websocket", "unix"])


async def returns(arguments: Arguments, ctx: Context) -> Any:
    return {"done": True}


async def fails(arguments: Arguments, ctx: Context) -> Any:
    raise CapabilityFailed("no more ducks")


async def asks(arguments: Arguments, ctx: Context) -> Any:
    return {"answer": await ctx.ask("Go on?")}


async def signs_in(arguments: Arguments, ctx: Context) -> Any:
    await ctx.authenticate("api_key")


async def waits(arguments: Arguments, ctx: Context) -> Any:
    await Gate().passed()


def tells(count: int, go_on: Gate | None = None) -> Code:
    """Code that writes log lines, the second half of them behind a gate."""

    async def code(arguments: Arguments, ctx: Context) -> Any:
        for number in range(count):
            if number == count // 2 and go_on is not None:
                await go_on.passed()
            await ctx.log("info", f"line {number}")
        return {"lines": count}

    return code


async def subscribe(client: Caller, task_id: str, **params: Any) -> Any:
    return await client.result("aios/task.subscribe", {"task_id": task_id, **params})


async def told(client: Caller, count: int) -> list[str]:
    """The next events: their numbers and kinds."""
    notes = [await client.notification() for _ in range(count)]
    return [f"{note['params']['event_id']} {note['method'].removeprefix('aios/')}" for note in notes]


@on_doors
@pytest.mark.promise("5.follow.everyone-sees-everything")
async def test_two_subscribers_see_all_events_and_one_who_leaves_disturbs_neither_task_nor_other(
    door: str, stage: Stage
) -> None:
    go_on = Gate()
    task_id = await stage.create(tells(40, go_on))
    async with stage.at(door) as first, stage.at("websocket") as second:
        await subscribe(second, task_id, **{"from": "start"})
        async with stage.at(door) as third:
            await subscribe(third, task_id, **{"from": "start"})
            await told(third, 5)
        await subscribe(first, task_id, **{"from": "start"})
        go_on.open()
        events = await first.events()
        assert events == await second.events()
    assert [event_id for event_id, _, _ in events] == [f"evt-{number:03d}" for number in range(1, 44)]
    assert events == [(event.id, event.kind, event.data) for event in await stage.end(task_id)]


@on_doors
@pytest.mark.promise("5.subscribe.now")
@pytest.mark.parametrize(
    ("code", "status", "expected"),
    [
        (asks, "input_required", ["evt-002 task.status", "evt-003 task.input_required"]),
        (signs_in, "auth_required", ["evt-002 task.status", "evt-003 task.auth_required"]),
        (returns, "completed", ["evt-002 task.status", "evt-003 task.result"]),
        (fails, "failed", ["evt-002 task.status", "evt-003 task.error"]),
        (waits, "canceled", ["evt-002 task.status"]),
        (waits, "paused", ["evt-002 task.status"]),
        (waits, "working", ["evt-001 task.status"]),
    ],
)
async def test_from_now_begins_with_where_the_task_stands(
    code: Code, status: str, expected: list[str], door: str, stage: Stage
) -> None:
    task_id = await stage.create(code)
    if status in {"paused", "canceled"}:
        await stage.reach(task_id, "working")
        await stage.call("aios/task.pause" if status == "paused" else "aios/task.cancel", task_id=task_id)
    await stage.reach(task_id, status)
    async with stage.at(door) as client:
        await subscribe(client, task_id)
        assert await told(client, len(expected)) == expected
        if status in {"working", "paused"}:
            await stage.call("aios/task.cancel", task_id=task_id)
            assert (await client.events())[-1][2]["status"] == "canceled"


@on_doors
@pytest.mark.promise("5.subscribe.now")
async def test_from_now_on_a_pending_task_begins_with_its_first_event(door: str, stage: Stage) -> None:
    task_id = await stage.create(returns, delay_ms=3_600_000)
    async with stage.at(door) as client:
        await subscribe(client, task_id)
        await stage.call("aios/task.cancel", task_id=task_id)
        assert await told(client, 1) == ["evt-001 task.status"]


@on_doors
@pytest.mark.promise("5.subscribe.kinds")
@pytest.mark.parametrize(
    ("events", "kinds"),
    [
        (["status"], {"task.status", "task.input_required", "task.result"}),
        (["log"], {"task.log"}),
        (["chunk", "artifact"], {"task.chunk", "task.artifact"}),
        (["result"], {"task.result"}),
        ([], set[str]()),
        (None, {"task.status", "task.log", "task.artifact", "task.input_required", "task.result"}),
    ],
)
async def test_a_subscription_tells_its_kinds_and_always_the_end(
    events: list[str] | None, kinds: set[str], door: str, stage: Stage
) -> None:
    async def code(arguments: Arguments, ctx: Context) -> Any:
        await ctx.log("info", "line")
        await ctx.chunk("piece")
        await ctx.artifact("thing", "data", [{"type": "text", "text": "a duck"}])
        return {"answer": await ctx.ask("Go on?")}

    task_id = await stage.create(code)
    await stage.reach(task_id, "input_required")
    await stage.call("aios/task.input", task_id=task_id, input="yes")
    await stage.reach(task_id, "completed")
    params: Message = {} if events is None else {"events": events}
    missed = await stage.call("aios/task.resubscribe", task_id=task_id, last_event_id="evt-000", **params)
    seen = missed["missed_events"]
    assert {each["event"] for each in seen} == kinds | {"task.status"}
    terminal = [each for each in seen if each["event"] == "task.status" and each["data"]["status"] == "completed"]
    statuses = [each for each in seen if each["event"] == "task.status"]
    assert len(terminal) == 1
    assert "task.status" in kinds or statuses == terminal
    numbers = [each["id"] for each in seen]
    assert numbers == sorted(numbers)
    async with stage.at(door) as client:
        answer = await subscribe(client, task_id, **params, **{"from": "start"})
        live = [await client.notification() for _ in seen]
        assert {note["params"].get("subscription_id", answer["subscription_id"]) for note in live} == {
            answer["subscription_id"]
        }
        assert [note["params"]["event_id"] for note in live] == numbers


@on_doors
@pytest.mark.promise("5.resubscribe.missed-events")
@pytest.mark.parametrize("last", [0, 1, 7, 11, 12])
async def test_resubscribing_anywhere_misses_nothing_and_repeats_nothing(last: int, door: str, stage: Stage) -> None:
    go_on = Gate()
    task_id = await stage.create(tells(20, go_on))
    async with stage.follow(task_id) as follower:
        await follower.until("task.log", message="line 9")
        async with stage.at(door) as client:
            params = {"task_id": task_id, "last_event_id": f"evt-{last:03d}"}
            answer = await client.ask(call(1, "aios/task.resubscribe", params))
            if last == 12:
                # It is not there yet.
                assert answer["error"]["code"] == -32108
                go_on.open()
                return
            missed = [event["id"] for event in answer["result"]["missed_events"]]
            assert missed == [f"evt-{number:03d}" for number in range(last + 1, 12)]
            go_on.open()
            live = [event_id for event_id, _, _ in await client.events()]
            assert live == [f"evt-{number:03d}" for number in range(12, 24)]


@pytest.mark.promise("5.resubscribe.refused")
@pytest.mark.parametrize(
    "last", ["evt-004", "evt-4", "evt-", "4", "", "evt--01", "evt-0001", "now", "start", "EVT-001"]
)
async def test_an_event_id_that_is_malformed_or_beyond_the_last_is_refused(last: str, stage: Stage) -> None:
    task_id = await stage.create(returns)
    await stage.reach(task_id, "completed")
    error = await stage.refused("aios/task.resubscribe", task_id=task_id, last_event_id=last)
    assert (error["code"], error["data"]["errors"][0]["path"]) == (-32108, "/last_event_id")


@pytest.mark.promise("5.resubscribe.refused")
async def test_kinds_and_places_that_do_not_exist_are_refused(stage: Stage) -> None:
    task_id = await stage.create(returns)
    await stage.reach(task_id, "completed")
    for params, code in (({"events": ["gossip"]}, -32602), ({"from": "evt-009"}, -32108), ({"from": "evt-x"}, -32108)):
        error = await stage.refused("aios/task.subscribe", task_id=task_id, **params)
        assert (error["code"], len(error["data"]["errors"])) == (code, 1)


@pytest.mark.promise("5.subscribe.from")
async def test_a_subscription_may_begin_after_any_event(stage: Stage) -> None:
    task_id = await stage.create(tells(10))
    await stage.reach(task_id, "completed")
    async with stage.at("websocket") as client:
        await subscribe(client, task_id, **{"from": "evt-009"})
        assert [event_id for event_id, _, _ in await client.events()] == [f"evt-{n:03d}" for n in range(10, 14)]


@pytest.mark.promise("5.resubscribe.old-one-left-alone")
async def test_an_older_subscription_is_left_alone_by_a_resubscription(stage: Stage) -> None:
    go_on = Gate()
    task_id = await stage.create(tells(4, go_on))
    async with stage.at("websocket") as client:
        first = await subscribe(client, task_id, **{"from": "start"})
        await told(client, 3)
        again = await client.result("aios/task.resubscribe", {"task_id": task_id, "last_event_id": "evt-001"})
        assert again["subscription_id"] != first["subscription_id"]
        go_on.open()
        notes = [await client.notification() for _ in range(8)]
        for subscription in (first, again):
            mine = [n["params"] for n in notes if n["params"]["subscription_id"] == subscription["subscription_id"]]
            assert [each["event_id"] for each in mine] == ["evt-004", "evt-005", "evt-006", "evt-007"]


@on_doors
@pytest.mark.promise("5.follow.everyone-sees-everything")
async def test_an_end_larger_than_what_a_connection_holds_arrives_whole(door: str, stage: Stage) -> None:
    text = "大" * 300_000

    async def code(arguments: Arguments, ctx: Context) -> Any:
        return {"text": text}

    task_id = await stage.create(code)
    await stage.reach(task_id, "completed")
    async with stage.at(door) as client:
        await subscribe(client, task_id, **{"from": "start"})
        assert (await client.events())[-1][2]["result"] == {"text": text}
    assert (await stage.end(task_id))[-1].data["result"] == {"text": text}


@pytest.mark.promise("5.progress.coalesced")
async def test_a_flood_of_progress_is_told_at_most_20_times_a_second_and_its_last_word_is_not_lost(
    stage: Stage,
) -> None:
    async def code(arguments: Arguments, ctx: Context) -> Any:
        for number in range(5_000):
            await ctx.progress(number / 50, f"{number}")
        await ctx.log("info", "told")
        await ctx.progress(100, "all")
        return {"done": True}

    events = await stage.end(await stage.create(code))
    kinds = [event.kind for event in events]
    at = kinds.index("task.log")
    assert (kinds[at - 1], events[at - 1].data["progress"]["message"]) == ("task.progress", "4999")
    assert kinds[at + 1 :] == ["task.progress", "task.status", "task.result"]
    assert events[at + 1].data["progress"] == {"percent": 100, "message": "all"}
    # At most one at once, then one each 50 ms, and the two that the log line and the end brought out.
    reports = [datetime.fromisoformat(event.data["timestamp"]) for event in events if event.kind == "task.progress"]
    assert len(reports) <= 3 + 20 * ((reports[-1] - reports[0]).total_seconds() + 0.05)


@pytest.mark.promise("5.events-lost")
async def test_where_old_events_were_cut_away_a_reader_is_told_and_gets_the_task_instead() -> None:
    async with staged(limits__max_events_per_task=50) as stage:
        task_id = await stage.create(tells(300))
        async with stage.follow(task_id) as follower:
            await follower.rest()
        answer = await stage.call("aios/task.resubscribe", task_id=task_id, last_event_id="evt-002")
        assert answer["events_lost"] is True
        assert answer["task"] == await stage.task(task_id)
        kept = [each["id"] for each in answer["missed_events"]]
        assert kept[-2:] == ["evt-302", "evt-303"]
        assert len(kept) <= 100
        async with stage.get(f"/aios/tasks/{task_id}/events") as (status, reader):
            assert status == 200
            text = b"".join([chunk async for chunk in chunks(reader)]).decode()
        assert "event: task.snapshot\n" in text
        assert '"events_lost":true' in text
        history = (await stage.task(task_id, include_history=True))["state_history"]
        assert [entry["state"] for entry in history] == ["pending", "working", "completed"], "statuses are not cut"


@pytest.mark.promise("4.terminal.nothing-follows")
async def test_an_answer_after_the_end_changes_nothing(stage: Stage) -> None:
    async def code(arguments: Arguments, ctx: Context) -> Any:
        await ctx.ask("Go on?", timeout_ms=10)

    task_id = await stage.create(code)
    events = await stage.end(task_id)
    shown = await stage.task(task_id)
    error = await stage.refused("aios/task.input", task_id=task_id, input="yes")
    assert (error["code"], error["message"]) == (-32107, "Task already failed")
    assert (await stage.end(task_id), await stage.task(task_id)) == (events, shown)
