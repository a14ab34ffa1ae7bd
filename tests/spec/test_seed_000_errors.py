"""Seed 000, its table of errors: each one produced for real, with its code, its words and what stands beside them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from aios.adapter import Context
from tests.spec.doors import Caller, Message, call
from tests.spec.seeds import LIMITS, PROMPT, SEED_000, SHOP, Shop, opened, waits
from tests.spec.stage import Arguments

on_doors = pytest.mark.parametrize("door", ["http", "websocket", "unix"])


@pytest.fixture(scope="module")
async def shop() -> AsyncGenerator[Shop]:
    async with opened() as running:
        yield running


async def returns(arguments: Arguments, ctx: Context) -> Any:
    return {}


async def fails(arguments: Arguments, ctx: Context) -> Any:
    raise RuntimeError("no more ducks")


async def refusal(client: Caller, request: Message) -> Any:
    """Send a request that must fail; gives code, message, error_id and the whole of data."""
    answer = await client.ask(request)
    assert answer["id"] == request["id"]
    assert "result" not in answer
    error = answer["error"]
    assert isinstance(error["data"]["detail"], str), "a sentence says what was wrong"
    return error["code"], error["message"], error["data"]["error_id"], error["data"]


@on_doors
@pytest.mark.promise("11.table")
@pytest.mark.parametrize(
    "name", ["task.get", "task.cancel", "task.pause", "task.resume", "task.input", "task.subscribe"]
)
async def test_task_not_found(name: str, door: str, shop: Shop) -> None:
    async with shop.at(door) as client:
        code, message, error_id, _ = await refusal(client, SEED_000.request(name, task="task-nobody"))
        assert (code, message, error_id) == (-32106, "Task not found", "AIOS-TASK-NOT-FOUND")


@on_doors
@pytest.mark.promise("11.table", "4.table.a-terminal-task-is-final")
@pytest.mark.parametrize("status", ["completed", "canceled", "failed"])
async def test_task_already_completed_or_canceled(status: str, door: str, shop: Shop) -> None:
    async with shop.at(door) as client:
        code = {"completed": returns, "canceled": waits, "failed": fails}[status]
        shop.play(code)
        request = SEED_000.request("task.create")
        del request["params"]["options"]["retry"]
        task = (await client.ask(request))["result"]["task_id"]
        if status == "canceled":
            await client.ask(SEED_000.request("task.cancel", task=task))
        await shop.reach(task, status)
        refused = await refusal(client, SEED_000.request("task.cancel", task=task))
        assert refused[:3] == (-32107, f"Task already {status}", "AIOS-TASK-FINAL")


@on_doors
@pytest.mark.promise("11.table", "8.invoke.errors")
async def test_task_timeout(door: str, shop: Shop) -> None:
    async with shop.at(door) as client:
        shop.play(waits)
        params = {"capability_id": SHOP, "arguments": {"query": "无线耳机"}, "options": {"timeout_ms": 40}}
        code, message, error_id, data = await refusal(client, call("t", "aios/capability.invoke", params))
        assert (code, message, error_id) == (-32005, "Task timeout", "AIOS-TIMEOUT")
        assert (data["capability_id"], data["timeout_ms"]) == (SHOP, 40)
        assert data["elapsed_ms"] >= 40
        assert (await shop.task(data["task_id"]))["status"] == "failed"


@on_doors
@pytest.mark.promise("11.table", "12.queue.exact")
async def test_task_queue_full(door: str, shop: Shop) -> None:
    async with shop.at(door) as client:
        shop.play(waits)
        at_work, most = LIMITS["limits.max_tasks_per_tool"], LIMITS["limits.max_queue_size"]
        made: list[str] = []
        for number in range(at_work + most):
            made.append((await client.ask(SEED_000.request("task.create")))["result"]["task_id"])
            if number < at_work:
                await shop.reach(made[-1], "working")
        code, message, error_id, data = await refusal(client, SEED_000.request("task.create"))
        assert (code, message, error_id) == (-32006, "Task queue full", "AIOS-QUEUE-FULL")
        assert (data["max_queue_size"], data["retryable"]) == (most, True)
        await client.ask(SEED_000.request("task.cancel", task=made.pop()))
        made.append((await client.ask(SEED_000.request("task.create")))["result"]["task_id"])
        for task in reversed(made):
            await client.ask(SEED_000.request("task.cancel", task=task))


@on_doors
@pytest.mark.promise("11.table")
async def test_invalid_task_state(door: str, shop: Shop) -> None:
    async with shop.at(door) as client:
        task = await shop.order(client, waits)
        await shop.reach(task, "working")
        code, message, error_id, data = await refusal(client, SEED_000.request("task.resume", task=task))
        assert (code, message, error_id) == (-32108, "Invalid task state", "AIOS-INVALID-STATE")
        assert (data["status"], data["requested"], sorted(data["allowed"])) == (
            "working",
            "resume",
            ["cancel", "pause"],
        )
        await client.ask(SEED_000.request("task.cancel", task=task))


@on_doors
@pytest.mark.promise("11.table", "8.invoke.errors")
async def test_input_required(door: str, shop: Shop) -> None:
    async def asks(arguments: Arguments, ctx: Context) -> Any:
        return {"chosen": await ctx.ask(PROMPT, options=["a", "b"])}

    async with shop.at(door) as client:
        shop.play(asks)
        params = {"capability_id": SHOP, "arguments": {"query": "无线耳机"}}
        code, message, error_id, data = await refusal(client, call("i", "aios/capability.invoke", params))
        assert (code, message, error_id) == (-32002, "Input required", "AIOS-INPUT-REQUIRED")
        assert (data["prompt"], data["options"]) == (PROMPT, ["a", "b"])
        # The task goes on waiting.
        assert (await shop.task(data["task_id"]))["status"] == "input_required"
        await client.result("aios/task.input", {"task_id": data["task_id"], "input": "a"})
        assert (await shop.end(data["task_id"]))[-1].data["result"] == {"chosen": "a"}


@on_doors
@pytest.mark.promise("11.table", "4.input.checked")
async def test_invalid_input(door: str, shop: Shop) -> None:
    async with shop.at(door) as client:
        task = await shop.shop(client)
        wrong = {"task_id": task, "input": {"confirm_purchase": True}}
        code, message, error_id, data = await refusal(client, call("w", "aios/task.input", wrong))
        assert (code, message, error_id) == (-32108, "Invalid input", "AIOS-VALIDATION-FAILED")
        assert data["errors"][0]["path"].startswith("/input")
        assert (await shop.task(task))["status"] == "input_required"
        await SEED_000.ask("task.input", client, task=task)
        assert (await shop.end(task))[-1].kind == "task.result"
