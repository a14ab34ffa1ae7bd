"""What code hands out is JSON that anybody can read, or its attempt hears a sentence that says why not."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from aios.engine.values import plain, sound_error
from aios.errors import ValidationFailed
from aios.model import Status
from aios.rules.lifecycle import Chunk, Fail, Log
from tests.unit.engine.house import data_of, open_house


@dataclasses.dataclass
class Point:
    x: float
    y: float | None = None


class Sham:
    """Calls itself a dataclass."""

    __dataclass_fields__ = 5


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def cycle() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


def said_of(value: Any) -> str:
    with pytest.raises(ValidationFailed) as refused:
        plain(value, what="The result", bytes_max=10_000)
    return refused.value.detail


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ({"a": (1, 2.5, True, None)}, {"a": [1, 2.5, True, None]}),
        (Point(1.0), {"x": 1.0, "y": None}),
        ({1: "a"}, {"1": "a"}),
        ("null and [[[[ in a text", "null and [[[[ in a text"),
        ("\0", "\0"),
        (2**70, 2**70),
        (nested(64), nested(64)),
        ([[1]] * 200, [[1]] * 200),
    ],
)
def test_a_value_comes_back_as_json_would_bring_it(value: Any, expected: Any) -> None:
    assert plain(value, what="The result", bytes_max=10_000) == expected


def test_a_value_is_a_copy_that_the_code_can_no_longer_change() -> None:
    given = {"a": [1]}
    taken = plain(given, what="The result", bytes_max=100)
    given["a"].append(2)
    assert taken == {"a": [1]}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"a": [1, float("nan")]}, "nan, which JSON has no word for, at /a/1"),
        (float("-inf"), "-inf, which JSON has no word for"),
        (Point(float("inf")), "inf, which JSON has no word for, at /x"),
        ({"a": "\ud800"}, "half of a surrogate pair, which is not text, at /a"),
        ({"\udfff": 1}, "half of a surrogate pair"),
        (nested(65), "nested deeper than 64"),
        (nested(5_000), "nested deeper than 64"),
        (cycle(), "nested deeper than 64"),
        (object(), "is not JSON"),
        ({object(): 1}, "is not JSON"),
        ({None: 1}, "is not JSON"),
        (print, "is not JSON"),
        (Sham(), "is not JSON"),
        (memoryview(b"abcd")[::2], "is not JSON"),
        ("x" * 10_001, "10003 bytes as JSON; at most 10000"),
    ],
)
def test_what_is_not_json_is_refused_with_what_and_where(value: Any, reason: str) -> None:
    said = said_of(value)
    assert said.startswith("The result ")
    assert reason in said
    said.encode()


def test_an_error_is_never_refused_but_said_to_be_incomplete() -> None:
    error = {"code": 7, "message": "bad \ud800 thing", "data": {"error_id": "AIOS-X", "blob": float("nan")}}
    told = sound_error(error)
    assert (told["code"], told["message"], told["data"]["error_id"]) == (7, "bad ? thing", "AIOS-X")
    assert "left out" in told["data"]["detail"]
    assert sound_error({"code": "seven", "message": "x" * 100_000})["code"] == -32603


@pytest.mark.parametrize("value", [float("nan"), "\ud800", nested(70), object(), "x" * 2_000])
async def test_a_result_that_is_not_json_leaves_the_attempt_running_to_fail_with_a_sentence(value: Any) -> None:
    async with open_house(max_result_size=1_000) as house:
        task = await house.started()
        with pytest.raises(ValidationFailed) as refused:
            await house.complete(task, value)
        failed = await house.engine.record(task, Fail(refused.value.to_wire(), is_retryable=False))
        assert failed.status is Status.FAILED
        assert failed.error is not None
        assert failed.error["data"]["detail"].startswith("The result ")


async def test_a_result_may_be_as_large_as_its_cap() -> None:
    async with open_house(max_result_size=1_000) as house:
        assert (await house.complete(await house.started(), "x" * 998)).status is Status.COMPLETED


async def test_events_keep_to_their_cap() -> None:
    async with open_house(max_event_size=1_000) as house:
        task = await house.started()
        for command in (Log("info", "x" * 1_001), Log("info", "", {"x": "y" * 1_000}), Chunk("x" * 1_000, 0)):
            with pytest.raises(ValidationFailed, match="1000"):
                await house.engine.record(task, command)
        with pytest.raises(ValidationFailed, match="level"):
            await house.engine.record(task, Log("loud", "x"))
        await house.engine.record(task, Chunk("x" * 998, 0))
        assert await house.kinds(task.task_id) == ["status working", "chunk"]


async def test_a_failure_with_an_error_that_cannot_be_told_fails_all_the_same() -> None:
    async with open_house() as house:
        task = await house.started()
        failed = await house.engine.record(task, Fail({"code": 1, "message": "m", "data": {"x": object()}}))
        assert failed.status is Status.FAILED
        (error,) = [event for event in await house.log(task.task_id) if event.kind == "task.error"]
        assert "left out" in data_of(error)["error"]["data"]["detail"]
