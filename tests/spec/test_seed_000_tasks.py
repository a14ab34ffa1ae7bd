"""Seed 000, its examples as written: a task created, shown, listed, steered, asked for its products, and found afterwards."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aios.adapter import Context
from aios.errors import CapabilityFailed
from tests.spec.doors import call
from tests.spec.seeds import LIMITS, PROMPT, SEED_000, SEED_002, SHOP, Shop, assert_like, opened, waits
from tests.spec.stage import Arguments

on_doors = pytest.mark.parametrize("door", ["http", "websocket", "unix"])


@pytest.fixture(scope="module")
async def shop() -> AsyncGenerator[Shop]:
    async with opened() as running:
        yield running


@on_doors
@pytest.mark.promise("4.create.async", "4.retry.attempts")
async def test_create_with_a_retry_that_is_really_tried_again(door: str, shop: Shop) -> None:
    async def fails_once(arguments: Arguments, ctx: Context) -> Any:
        if ctx.attempt == 1:
            raise CapabilityFailed("京东没有回答")
        return {"attempt": ctx.attempt, "of": ctx.max_attempts, **arguments}

    async with shop.at(door) as client:
        shop.play(fails_once)
        created = await SEED_000.ask("task.create", client)
        assert created["status"] == "pending"
        events = await shop.end(created["task_id"])
        assert [event.kind for event in events] == [
            "task.status",
            "task.log",
            "task.status",
            "task.status",
            "task.result",
        ]
        again = events[2].data
        assert (again["status"], again["previous_status"], again["reason"]) == ("working", "working", "retry")
        assert again["attempt"] == 2
        assert events[-1].data["result"] == {
            "attempt": 2,
            "of": 3,
            "query": "无线耳机",
            "sites": ["jd.com", "taobao.com"],
        }
        done = await shop.task(created["task_id"])
        waited = datetime.fromisoformat(events[3].data["timestamp"]) - datetime.fromisoformat(again["timestamp"])
        assert waited >= timedelta(milliseconds=1_000), "delay_ms"
        assert done["attempt"] == 2
        assert done["metadata"] == {"user_request": "比较京东和淘宝的耳机价格", "tags": ["shopping", "comparison"]}


@on_doors
@pytest.mark.promise(
    "4.get.progress", "4.list.filter", "4.cancel.at-once", "4.pause.only-working", "4.resume.only-paused"
)
async def test_a_task_at_45_percent_is_shown_listed_paused_resumed_and_canceled(door: str, shop: Shop) -> None:
    async with shop.at(door) as client:
        task = await shop.order(client, waits)
        async with shop.follow(task) as follower:
            await follower.until("task.progress")
            shown = await SEED_000.ask("task.get", client, task=task)
            example = SEED_000.response("task.get")["result"]
            for member in ("capability_id", "status", "progress", "artifacts"):
                assert shown[member] == example[member]
            listed = await SEED_000.ask("task.list", client)
            assert (listed["tasks"][0]["task_id"], listed["total"], listed["has_more"]) == (task, 1, False)
            assert listed["tasks"][0]["progress"]["percent"] == 45
            assert not {"arguments", "artifacts", "result"} & listed["tasks"][0].keys()
            assert (await SEED_000.ask("task.pause", client, task=task))["status"] == "paused"
            assert (await client.ask(SEED_000.request("task.list")))["result"]["total"] == 0
            assert (await SEED_000.ask("task.resume", client, task=task))["status"] == "working"
            canceled = await SEED_000.ask("task.cancel", client, task=task)
            assert (canceled["task_id"], canceled["status"]) == (task, "canceled")
            last = (await follower.rest())[-1]
            assert (last.status, last.data["reason"]) == ("canceled", "user_request")
            assert (await shop.task(task))["canceled_at"] == canceled["canceled_at"]


@on_doors
@pytest.mark.promise("4.input.schema-decides", "4.history.reasons")
async def test_a_question_is_answered_and_the_history_tells_why(door: str, shop: Shop) -> None:
    async with shop.at(door) as client:
        task = await shop.shop(client)
        waiting = (await shop.task(task))["input_request"]
        assert (waiting["prompt"], len(waiting["options"])) == (PROMPT, 5)
        assert (await SEED_000.ask("task.input", client, task=task))["status"] == "working"
        await shop.reach(task, "completed")
        told = await SEED_000.ask("state_history", client, task=task)
        example = SEED_000.response("state_history")["result"]["state_history"]
        assert [entry["state"] for entry in told["state_history"]] == [entry["state"] for entry in example]
        assert [entry.get("reason") for entry in told["state_history"]] == [
            None,
            None,
            "需要选择商品",
            "input_provided",
            None,
        ]
        assert told["state_history"][2]["metadata"] == example[2]["metadata"]
        times = [entry["timestamp"] for entry in told["state_history"]]
        assert times == sorted(times)
        assert told["result"] == {"chosen": "product-123"}


@on_doors
@pytest.mark.promise("4.history.finished-only")
async def test_finished_tasks_are_found_by_when_they_ended(door: str, shop: Shop) -> None:
    async def returns(arguments: Arguments, ctx: Context) -> Any:
        return {}

    async with shop.at(door) as client:
        long_ago = await SEED_000.ask("task.history", client)
        assert long_ago == {"tasks": [], "total": 0, "has_more": False}
        done = await shop.order(client, returns)
        await shop.reach(done, "completed")
        canceled = await shop.order(client, waits)
        await SEED_000.ask("task.cancel", client, task=canceled)
        request = SEED_000.request("task.history")
        today = datetime.now(UTC)
        request["params"]["filter"]["start_time"] = (today - timedelta(hours=12)).isoformat()
        request["params"]["filter"]["end_time"] = (today + timedelta(hours=12)).isoformat()
        found = (await client.ask(request))["result"]
        assert done in [task["task_id"] for task in found["tasks"]]
        assert {task["status"] for task in found["tasks"]} <= {"completed", "failed"}
        assert found["total"] == len(found["tasks"])


@on_doors
@pytest.mark.promise("4.timeout.attempt")
async def test_a_task_that_overran_its_time_failed_with_the_seeds_error(door: str, shop: Shop) -> None:
    async with shop.at(door) as client:
        shop.play(waits)
        request = SEED_000.request("task.create")
        request["params"]["options"] |= {"timeout_ms": 60, "retry": {"max_attempts": 1}}
        task = (await client.ask(request))["result"]["task_id"]
        await shop.reach(task, "failed")
        shown = await shop.task(task)
        assert_like(SEED_000.response("timed out"), shown)
        error = shown["error"]
        assert (error["code"], error["message"]) == (-32005, "Timeout")
        assert (error["data"]["capability_id"], error["data"]["timeout_ms"]) == (SHOP, 60)
        assert error["data"]["elapsed_ms"] >= 60


@on_doors
@pytest.mark.promise("4.priority.names")
@pytest.mark.parametrize("priority", ["low", "normal", "high", "urgent"])
async def test_every_priority_is_taken_and_shown(door: str, priority: str, shop: Shop) -> None:
    async with shop.at(door) as client:
        shop.play(waits)
        request = SEED_000.request("task.create")
        request["params"]["options"]["priority"] = priority
        task = (await client.ask(request))["result"]["task_id"]
        assert (await shop.task(task))["priority"] == priority
        await SEED_000.ask("task.cancel", client, task=task)


@pytest.mark.promise("3.initialize.limits")
async def test_the_limits_are_told_at_initialize(shop: Shop) -> None:
    async with shop.at("http") as client:
        answer = await client.ask(SEED_002.request("initialize"))
        assert (
            answer["result"]["capabilities"]["limits"].items()
            >= {name.removeprefix("limits."): value for name, value in LIMITS.items()}.items()
        )


@pytest.mark.promise("1.discover.every-method")
async def test_every_method_of_the_seeds_table_is_there(shop: Shop) -> None:
    async with shop.at("http") as client:
        document = (await client.ask(call(1, "rpc.discover")))["result"]
        names = {method["name"] for method in document["methods"]}
        steering = ("create", "get", "list", "cancel", "pause", "resume", "input", "authenticate", "history")
        following = ("subscribe", "unsubscribe", "resubscribe")
        assert {f"aios/task.{word}" for word in (*steering, *following)} <= names
        assert {"aios/artifact.get", "aios/artifact.list"} <= names
