"""What code returns and tells is held to the same JSON as what callers send: else the attempt fails with a sentence (§1, §5)."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import product
from typing import Any

import pytest

from aios.adapter import Context
from tests.spec.stage import CAPABILITY, Arguments, Stage


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


WRONG: dict[str, Any] = {
    "nan": float("nan"),
    "infinity": {"far": [float("inf")]},
    "surrogate": "\ud800",
    "surrogate key": {"\udfff": 1},
    "object": object(),
    "generator": (number for number in range(3)),
    "deep": deep(200),
    "huge": "x" * (1024 * 1024 + 1),
    "self": (loop := [1], loop.append(loop))[0],  # pyright: ignore[reportArgumentType]
}

SAME: dict[str, Any] = {
    "object": {"a": [1, 2.5, None, True, "鸭 🦆"]},
    "large": "x" * (1024 * 1024 - 100),
    "big number": 2**63,
    "nothing": None,
    "nul": "a\u0000b",
    "nested": deep(50),
}
CONVERTED: dict[str, tuple[Any, Any]] = {
    "tuple": ((1, 2), [1, 2]),
    "set": ({1}, [1]),
    "number key": ({1: 1}, {"1": 1}),
    "instant": (datetime(2026, 1, 5, 10, tzinfo=UTC), "2026-01-05T10:00:00Z"),
}
"""What Python has and JSON has not, but has a word for."""
RIGHT = {**{name: (value, value) for name, value in SAME.items()}, **CONVERTED}


@pytest.mark.promise("1.code.values-are-json")
@pytest.mark.parametrize("name", WRONG)
async def test_a_result_that_is_not_json_fails_the_task_with_a_sentence(name: str, stage: Stage) -> None:
    async def code(arguments: Arguments, ctx: Context) -> Any:
        return WRONG[name]

    task_id = await stage.create(code)
    error = (await stage.end(task_id))[-1].data["error"]
    assert error["code"] in {-32603, -32108}
    assert error["data"]["detail"].endswith(".")
    assert (await stage.task(task_id))["status"] == "failed"


@pytest.mark.promise("1.code.values-are-json")
@pytest.mark.parametrize("name", RIGHT)
async def test_a_result_that_is_json_comes_back_as_it_was(name: str, stage: Stage) -> None:
    async def code(arguments: Arguments, ctx: Context) -> Any:
        return {"value": RIGHT[name][0]}

    task_id = await stage.create(code)
    assert (await stage.end(task_id))[-1].data["result"] == {"value": RIGHT[name][1]}
    assert (await stage.task(task_id))["result"] == {"value": RIGHT[name][1]}


@pytest.mark.promise("1.code.values-are-json")
@pytest.mark.parametrize(
    ("how", "name"),
    # A part of an artifact may be as large as that: it is kept beside it.
    [each for each in product(("log", "chunk", "artifact", "step", "ask"), WRONG) if each != ("artifact", "huge")],
)
async def test_what_is_told_and_is_not_json_fails_where_it_is_told_and_nothing_of_it_is_kept(
    how: str, name: str, stage: Stage
) -> None:
    async def code(arguments: Arguments, ctx: Context) -> Any:
        value = WRONG[name]
        match how:
            case "log":
                await ctx.log("info", "fields", value=value)
            case "chunk":
                await ctx.chunk(value)
            case "artifact":
                await ctx.artifact("thing", "data", [{"type": "data", "data": {"value": value}}])
            case "step":
                await ctx.step("make", lambda: value)
            case _:
                await ctx.ask("Which?", options=[value])

    task_id = await stage.create(code)
    events = await stage.end(task_id)
    assert [event.kind for event in events] == ["task.status", "task.status", "task.error"]
    assert events[-1].data["error"]["data"]["detail"]
    assert (await stage.call("aios/artifact.list", task_id=task_id))["artifacts"] == []


@pytest.mark.promise("4.spawn.depth")
async def test_children_nest_at_most_eight_deep(stage: Stage) -> None:
    async def code(arguments: Arguments, ctx: Context) -> Any:
        depth: int = arguments["depth"]
        if depth == arguments["to"]:
            return {"depth": depth}
        return await ctx.spawn(CAPABILITY, {**arguments, "depth": depth + 1})

    deep_enough = await stage.create(code, arguments={"depth": 0, "to": 8})
    assert (await stage.end(deep_enough))[-1].data["result"] == {"depth": 8}
    too_deep = await stage.create(code, arguments={"depth": 0, "to": 9})
    error = (await stage.end(too_deep))[-1].data["error"]
    assert error["code"] == -32108
    assert "8" in error["data"]["detail"]
