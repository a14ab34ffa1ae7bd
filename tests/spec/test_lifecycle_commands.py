"""Protocol.md §4, the table: eight statuses and every client command, through the protocol alone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import product
from typing import Any

import pytest

from aios.adapter import Context
from tests.spec.stage import Arguments, Gate, Stage

STATUSES = ("pending", "working", "paused", "input_required", "auth_required", "completed", "failed", "canceled")
TERMINAL = ("completed", "failed", "canceled")

COMMANDS: dict[str, dict[str, Any]] = {
    "pause": {},
    "resume": {},
    "input": {"input": "yes"},
    "authenticate": {"auth_response": {"type": "api_key", "api_key": "k"}},
    "cancel": {},
}
"""What a client can ask of a task, with what it must bring."""

MOVES = {
    ("working", "pause"): "paused",
    ("paused", "resume"): "working",
    ("input_required", "input"): "working",
    ("auth_required", "authenticate"): "working",
    **{(status, "cancel"): "canceled" for status in STATUSES if status not in TERMINAL},
}
"""The edges that a client takes; every other pair is refused."""


async def asks(arguments: Arguments, ctx: Context) -> Any:
    return {"answer": await ctx.ask("Go on?", options=["yes", "no"])}


async def signs_in(arguments: Arguments, ctx: Context) -> Any:
    await ctx.authenticate("api_key", reason="the shop wants to know you")
    return {}


async def returns(arguments: Arguments, ctx: Context) -> Any:
    return {"done": True}


async def raises(arguments: Arguments, ctx: Context) -> Any:
    raise RuntimeError("no more ducks")


async def waits(arguments: Arguments, ctx: Context) -> Any:
    await Gate().passed()


async def bring_to(stage: Stage, status: str) -> str:
    """Make a task that stands at a status, by the way that leads there."""
    ways: dict[str, Callable[[], Awaitable[str]]] = {
        "pending": lambda: stage.create(waits, delay_ms=3_600_000),
        "input_required": lambda: stage.create(asks),
        "auth_required": lambda: stage.create(signs_in),
        "completed": lambda: stage.create(returns),
        "failed": lambda: stage.create(raises),
    }
    task_id = await ways.get(status, lambda: stage.create(waits))()
    if status in {"paused", "canceled"}:
        await stage.reach(task_id, "working")
        await stage.call("aios/task.pause" if status == "paused" else "aios/task.cancel", task_id=task_id)
    await stage.reach(task_id, status)
    return task_id


async def state(stage: Stage, task_id: str) -> tuple[Any, Any]:
    """Everything that a caller sees of a task."""
    everything = await stage.call("aios/task.resubscribe", task_id=task_id, last_event_id="evt-000")
    return await stage.task(task_id, include_history=True), everything["missed_events"]


@pytest.mark.promise("4.table.commands-move-along-their-edges")
@pytest.mark.parametrize(("status", "command"), sorted(MOVES))
async def test_a_command_moves_a_task_along_its_edge(status: str, command: str, stage: Stage) -> None:
    task_id = await bring_to(stage, status)
    before, seen = await state(stage, task_id)
    answer = await stage.call(f"aios/task.{command}", task_id=task_id, **COMMANDS[command])
    assert (answer["task_id"], answer["status"]) == (task_id, MOVES[status, command])
    assert answer["canceled_at" if command == "cancel" else "updated_at"] >= before["updated_at"]
    _, events = await state(stage, task_id)
    assert events[: len(seen)] == seen
    data = events[len(seen)]["data"]
    assert (events[len(seen)]["event"], data["previous_status"], data["status"]) == (
        "task.status",
        status,
        MOVES[status, command],
    )


@pytest.mark.promise("4.table.everything-else-is-refused-and-changes-nothing")
@pytest.mark.parametrize(
    ("status", "command"),
    [pair for pair in product(STATUSES, COMMANDS) if pair not in MOVES and pair[0] not in TERMINAL],
)
async def test_a_command_that_the_status_does_not_allow_is_refused_and_changes_nothing(
    status: str, command: str, stage: Stage
) -> None:
    task_id = await bring_to(stage, status)
    before = await state(stage, task_id)
    error = await stage.refused(f"aios/task.{command}", task_id=task_id, **COMMANDS[command])
    assert (error["code"], error["message"]) == (-32108, "Invalid task state")
    allowed = [name for name in COMMANDS if (status, name) in MOVES]
    assert (error["data"]["status"], error["data"]["requested"]) == (status, command)
    assert sorted(error["data"]["allowed"]) == sorted(allowed)
    assert error["data"]["error_id"] == "AIOS-INVALID-STATE"
    assert await state(stage, task_id) == before


@pytest.mark.promise("4.table.a-terminal-task-is-final")
@pytest.mark.parametrize(("status", "command"), list(product(TERMINAL, COMMANDS)))
async def test_nothing_moves_a_terminal_task(status: str, command: str, stage: Stage) -> None:
    task_id = await bring_to(stage, status)
    before = await state(stage, task_id)
    error = await stage.refused(f"aios/task.{command}", task_id=task_id, **COMMANDS[command])
    assert (error["code"], error["message"]) == (-32107, f"Task already {status}")
    assert (error["data"]["status"], error["data"]["error_id"]) == (status, "AIOS-TASK-FINAL")
    assert await state(stage, task_id) == before


@pytest.mark.promise("4.command.unknown-task")
@pytest.mark.parametrize("command", COMMANDS)
async def test_a_command_to_a_task_that_does_not_exist_is_refused(command: str, stage: Stage) -> None:
    error = await stage.refused(f"aios/task.{command}", task_id="task-nobody", **COMMANDS[command])
    assert (error["code"], error["message"]) == (-32106, "Task not found")
    assert error["data"]["error_id"] == "AIOS-TASK-NOT-FOUND"
