"""Finding tasks again: filters, pages, orders, and what an item shows (protocol.md §4, `task.list` and `task.history`)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from aios.adapter import Context
from tests.spec.doors import Message
from tests.spec.stage import CAPABILITY, OTHER, Arguments, Gate, Stage, staged

Tasks = dict[str, str]


async def returns(arguments: Arguments, ctx: Context) -> Any:
    await ctx.artifact("thing", "data", [{"type": "text", "text": "a duck"}])
    return {"done": True}


async def fails(arguments: Arguments, ctx: Context) -> Any:
    raise RuntimeError("no more ducks")


async def waits(arguments: Arguments, ctx: Context) -> Any:
    await Gate().passed()


@pytest.fixture(scope="module")
async def listed() -> AsyncGenerator[tuple[Stage, Tasks]]:
    """A daemon with one task of each kind, in this order, each a name as its tag."""
    async with staged() as stage:
        tasks: Tasks = {}
        orders: list[tuple[str, Any, str, Message]] = [
            ("done", returns, "completed", {"priority": "high"}),
            ("broken", fails, "failed", {}),
            ("delayed", returns, "pending", {"delay_ms": 3_600_000, "priority": "low"}),
            ("waiting", waits, "working", {"priority": "urgent"}),
            ("foreign", returns, "completed", {"capability_id": OTHER}),
        ]
        for name, code, status, options in orders:
            tasks[name] = await stage.create(code, metadata={"tags": [name, "all"]}, **options)
            await stage.reach(tasks[name], status)
        yield stage, tasks
        await stage.clear()


async def names(found: Any, tasks: Tasks) -> list[str]:
    named = {task_id: name for name, task_id in tasks.items()}
    return [named[task["task_id"]] for task in found["tasks"]]


FILTERS: list[tuple[Message, list[str]]] = [
    ({}, ["foreign", "waiting", "delayed", "broken", "done"]),
    ({"status": ["completed"]}, ["foreign", "done"]),
    ({"status": ["pending", "working"]}, ["waiting", "delayed"]),
    ({"status": []}, ["foreign", "waiting", "delayed", "broken", "done"]),
    ({"capability_id": CAPABILITY}, ["waiting", "delayed", "broken", "done"]),
    ({"capability_id": "spec.*"}, ["foreign", "waiting", "delayed", "broken", "done"]),
    ({"capability_id": "*other"}, ["foreign"]),
    ({"capability_id": "spec.?ther"}, []),
    ({"capability_id": "spec.[o]ther"}, []),
    ({"capability_id": "spec_other"}, []),
    ({"tags": ["done"]}, ["done"]),
    ({"tags": ["all", "broken"]}, ["broken"]),
    ({"tags": ["none"]}, []),
    ({"session_id": "sess-nobody"}, []),
    ({"created_after": "2020-01-01T00:00:00Z", "status": ["failed"]}, ["broken"]),
    ({"created_before": "2020-01-01T00:00:00Z"}, []),
]


@pytest.mark.promise("4.list.filter")
@pytest.mark.parametrize(("asked", "expected"), FILTERS)
async def test_a_list_holds_what_meets_all_conditions_newest_first(
    asked: Message, expected: list[str], listed: tuple[Stage, Tasks]
) -> None:
    stage, tasks = listed
    found = await stage.call("aios/task.list", filter=asked)
    assert await names(found, tasks) == expected
    assert (found["total"], found["has_more"]) == (len(expected), False)


@pytest.mark.promise("4.list.pages")
@pytest.mark.parametrize("limit", [1, 2, 3, 5, 1000])
@pytest.mark.parametrize("field", ["created_at", "updated_at", "started_at", "priority", "status"])
@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_pages_by_offset_and_by_cursor_give_each_task_once_in_order(
    limit: int, field: str, order: str, listed: tuple[Stage, Tasks]
) -> None:
    stage, tasks = listed
    sort = {"field": field, "order": order}
    whole = [task["task_id"] for task in (await stage.call("aios/task.list", sort=sort))["tasks"]]
    assert sorted(whole) == sorted(tasks.values())
    by_cursor: list[str] = []
    pagination: Message = {"limit": limit}
    for offset in range(0, len(tasks), limit):
        page = await stage.call("aios/task.list", sort=sort, pagination={"limit": limit, "offset": offset})
        assert [task["task_id"] for task in page["tasks"]] == whole[offset : offset + limit]
        assert (page["total"], page["has_more"]) == (len(tasks), offset + limit < len(tasks))
        page = await stage.call("aios/task.list", sort=sort, pagination=pagination)
        by_cursor += [task["task_id"] for task in page["tasks"]]
        assert ("next_cursor" in page) == page["has_more"]
        pagination = {"limit": limit, "cursor": page.get("next_cursor")}
    assert by_cursor == whole


@pytest.mark.promise("4.list.order")
async def test_lists_are_ordered_as_asked(listed: tuple[Stage, Tasks]) -> None:
    stage, tasks = listed
    found = await stage.call("aios/task.list", sort={"field": "priority", "order": "desc"})
    assert [task["priority"] for task in found["tasks"]] == ["urgent", "high", "normal", "normal", "low"]
    found = await stage.call("aios/task.list", sort={"field": "created_at", "order": "asc"})
    assert await names(found, tasks) == list(tasks)


@pytest.mark.promise("4.list.summaries")
async def test_an_item_is_a_summary(listed: tuple[Stage, Tasks]) -> None:
    stage, tasks = listed
    [item] = (await stage.call("aios/task.list", filter={"tags": ["done"]}))["tasks"]
    whole = await stage.task(tasks["done"])
    assert {"arguments", "result", "artifacts"} <= whole.keys()
    assert item == {key: value for key, value in whole.items() if key not in {"arguments", "result", "artifacts"}}


@pytest.mark.promise("4.history.finished-only")
async def test_the_history_holds_only_what_has_ended(listed: tuple[Stage, Tasks]) -> None:
    stage, tasks = listed
    found = await stage.call("aios/task.history")
    assert await names(found, tasks) == ["foreign", "broken", "done"]
    ended = {name: (await stage.task(tasks[name])) for name in ("done", "broken")}
    span = {"start_time": ended["done"]["completed_at"], "end_time": ended["broken"]["failed_at"]}
    found = await stage.call("aios/task.history", filter=span, sort={"field": "created_at", "order": "asc"})
    assert (await names(found, tasks))[:2] == ["done", "broken"]
    found = await stage.call("aios/task.history", filter={"end_time": "2020-01-01T00:00:00Z"})
    assert found["total"] == 0


REFUSED: list[Message] = [
    {"filter": {"status": ["sleeping"]}},
    {"filter": {"created_after": "yesterday"}},
    {"filter": {"created_after": "2026-01-02T00:00:00Z", "created_before": "2026-01-01T00:00:00Z"}},
    {"pagination": {"limit": 0}},
    {"pagination": {"limit": 1001}},
    {"pagination": {"offset": -1}},
    {"sort": {"field": "weight"}},
    {"sort": {"order": "up"}},
]


@pytest.mark.promise("4.list.refused")
@pytest.mark.parametrize("params", REFUSED)
async def test_what_cannot_be_asked_is_refused_with_its_place(params: Message, listed: tuple[Stage, Tasks]) -> None:
    stage, _ = listed
    error = await stage.refused("aios/task.list", **params)
    assert (error["code"], error["message"]) == (-32602, "Invalid params")
    path: str = error["data"]["errors"][0]["path"]
    assert path.startswith(f"/{next(iter(params))}/")


@pytest.mark.promise("4.list.refused")
async def test_a_cursor_that_is_none_or_of_another_list_is_refused(listed: tuple[Stage, Tasks]) -> None:
    stage, _ = listed
    error = await stage.refused("aios/task.list", pagination={"cursor": "nonsense"})
    assert error["code"] in {-32602, -32108}
    cursor = (await stage.call("aios/task.list", pagination={"limit": 1}))["next_cursor"]
    error = await stage.refused("aios/task.list", pagination={"cursor": cursor}, sort={"field": "priority"})
    assert error["code"] in {-32602, -32108}
