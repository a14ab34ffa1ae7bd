"""A task's state history, told from its log."""

from __future__ import annotations

import pytest

from aios.engine import history
from aios.model import InputRequest, Retry
from aios.rules.lifecycle import Ask, Fail, Log
from tests.unit.engine.house import open_house


async def test_the_history_tells_each_status_with_its_time_reason_and_question() -> None:
    async with open_house() as house:
        task = await house.started()
        house.clock.advance(30_000)
        question = InputRequest(step="ask:1", prompt="Which?", options=["a", "b", "c"])
        await house.engine.record(task, Log("info", "x"), Ask(question, "a choice to make"))
        house.clock.advance(30_000)
        await house.engine.give_input(task.task_id, "a")
        done = await house.complete(await house.runner.next())
        assert await house.engine.transitions(done) == [
            {"state": "pending", "timestamp": "2026-01-05T10:00:00.000Z"},
            {"state": "working", "timestamp": "2026-01-05T10:00:00.000Z"},
            {
                "state": "input_required",
                "timestamp": "2026-01-05T10:00:30.000Z",
                "reason": "a choice to make",
                "metadata": {"prompt": "Which?", "options_count": 3},
            },
            {"state": "working", "timestamp": "2026-01-05T10:01:00.000Z", "reason": "input_provided"},
            {"state": "completed", "timestamp": "2026-01-05T10:01:00.000Z"},
        ]


async def test_a_retry_is_the_one_step_from_working_to_working() -> None:
    async with open_house() as house:
        task = await house.started(retry=Retry(max_attempts=2))
        await house.engine.record(task, Fail({"code": 1, "message": "x"}))
        canceled = await house.engine.cancel((await house.runner.next()).task_id, "enough")
        told = [(entry["state"], entry.get("reason")) for entry in await house.engine.transitions(canceled)]
        assert told == [("pending", None), ("working", None), ("working", "retry"), ("canceled", "enough")]


async def test_a_history_longer_than_a_page_is_whole_and_one_past_its_cap_keeps_both_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(history, "PAGE_EVENTS", 4)
    async with open_house() as house:
        task = await house.started()
        for _ in range(10):
            await house.engine.pause(task.task_id)
            await house.engine.resume(task.task_id)
        done = await house.complete(task)
        assert len(await house.engine.transitions(done)) == 23
        monkeypatch.setattr(history, "ENTRIES_MAX", 6)
        told = [entry["state"] for entry in await house.engine.transitions(done)]
        assert (told[0], told[-1]) == ("pending", "completed")
        assert len(told) <= 7 + history.PAGE_EVENTS
