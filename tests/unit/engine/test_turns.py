"""Whose turn it is to change a task."""

from __future__ import annotations

import asyncio

import pytest

from aios.engine import turns as turns_module
from aios.engine.turns import Turns
from aios.errors import ResourceBusy
from aios.model import TaskId

TASK = TaskId("task-1")


async def take(turns: Turns, order: list[str], name: str, *, is_caller: bool = True) -> None:
    async with turns.of(TASK, is_caller=is_caller):
        await asyncio.sleep(0)
        order.append(name)


async def test_turns_are_taken_one_by_one_callers_before_code() -> None:
    turns, order = Turns(), list[str]()
    async with asyncio.TaskGroup() as group:
        for name in ("first", "code-1", "code-2", "caller-1", "caller-2"):
            group.create_task(take(turns, order, name, is_caller=not name.startswith("code")))
    assert order == ["first", "caller-1", "caller-2", "code-1", "code-2"]
    assert vars(turns)["_queues"] == {}


async def test_one_who_leaves_while_waiting_or_just_when_it_is_its_turn_holds_up_nobody() -> None:
    for hops in range(6):
        turns, order = Turns(), list[str]()
        tasks = [asyncio.create_task(take(turns, order, name)) for name in "abc"]
        for _ in range(hops):
            await asyncio.sleep(0)
        tasks[1].cancel()
        async with asyncio.timeout(5):
            await asyncio.gather(*tasks, return_exceptions=True)
        assert [name for name in order if name != "b"] == ["a", "c"]
        assert vars(turns)["_queues"] == {}


async def test_callers_may_not_queue_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns_module, "CALLERS_MAX", 2)
    turns, order = Turns(), list[str]()
    async with turns.of(TASK):
        waiting = [asyncio.create_task(take(turns, order, str(number))) for number in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(ResourceBusy):
            await take(turns, order, "third")
    await asyncio.gather(*waiting)
    assert order == ["0", "1"]
