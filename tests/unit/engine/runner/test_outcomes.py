"""What becomes of a returned value and of an error."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from msgspec.structs import replace

from aios.engine.runner import outcomes
from aios.errors import (
    AdapterUnavailable,
    AiosError,
    CapabilityChanged,
    CapabilityFailed,
    InvalidParams,
    PermissionDenied,
    StepNameRepeated,
    TaskTimeout,
    ValidationFailed,
)
from aios.model import Task, TaskId, TaskSpec
from aios.testing.clock import START

TASK = Task(
    task_id=TaskId("task-1"),
    spec=TaskSpec(capability_id="test.code", adapter_id="test", principal="owner", created_at=START),
    updated_at=START,
    attempt=2,
)


@dataclass
class Point:
    x: int


@pytest.mark.parametrize(
    ("value", "result"),
    [({"a": 1}, {"a": 1}), (3, {"value": 3}), (None, {"value": None}), ([1], {"value": [1]}), (Point(1), Point(1))],
)
def test_a_value_that_is_no_object_is_put_into_one(value: Any, result: Any) -> None:
    assert outcomes.completed(value).result == result


@pytest.mark.parametrize(
    ("error", "is_retryable"),
    [
        (ValidationFailed("no"), False),
        (PermissionDenied("no"), False),
        (InvalidParams("no"), False),
        (CapabilityChanged("no"), False),
        (StepNameRepeated("no"), False),
        (CapabilityFailed("no", retryable=False), False),
        (CapabilityFailed("no"), True),
        (AdapterUnavailable("no"), True),
        (TaskTimeout("no"), True),
    ],
)
def test_an_error_of_ours_is_told_as_it_is_and_some_are_final(error: AiosError, is_retryable: bool) -> None:
    failed = outcomes.failed(TASK, error)
    assert failed.error == error.to_wire()
    assert failed.is_retryable is is_retryable
    assert 0 <= failed.jitter < 1


def test_any_other_error_is_told_by_its_class_and_a_sentence() -> None:
    failed = outcomes.failed(TASK, KeyError("no\n  such   key"))
    assert failed.error == {
        "code": -32603,
        "message": "Internal error",
        "data": {
            "exception": "KeyError",
            "attempt": 2,
            "error_id": "JSONRPC-INTERNAL-ERROR",
            "detail": "'no\\n such key'",
        },
    }
    assert failed.is_retryable


@pytest.mark.parametrize(
    ("error", "detail"),
    [
        (ValueError("x" * 1_000), "x" * (outcomes.DETAIL_CHARACTERS_MAX - 1) + "…"),
        (ValueError(), "ValueError"),
        (ValueError("two\nlines"), "two lines"),
        (FileNotFoundError(2, "No such file or directory", "somewhere/secret.txt"), "No such file or directory"),
        (asyncio.CancelledError(), "CancelledError"),
        (ExceptionGroup("group", [ExceptionGroup("inner", [ValueError("the one")])]), "the one"),
        (ValueError("the key is s3cr3t!"), "the key is •••"),
    ],
)
def test_the_sentence_is_short_and_holds_neither_path_nor_secret(error: BaseException, detail: str) -> None:
    failed = outcomes.failed(TASK, error, hidden={"s3cr3t!"})
    assert failed.error["data"]["detail"] == detail


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(("error", "detail"), [(Mute(), "Mute"), (OSError(1, 5), "5")])
def test_an_error_that_cannot_say_what_it_is_is_told_all_the_same(error: Exception, detail: str) -> None:
    assert outcomes.failed(TASK, error).error["data"]["detail"] == detail


def test_several_errors_of_a_group_are_told_as_the_group() -> None:
    failed = outcomes.failed(TASK, ExceptionGroup("unhandled errors", [ValueError("a"), KeyError("b")]))
    assert failed.error["data"]["exception"] == "ExceptionGroup"
    assert "2 sub-exceptions" in failed.error["data"]["detail"]


def test_an_error_of_ours_inside_a_group_of_one_is_told_as_itself() -> None:
    failed = outcomes.failed(TASK, ExceptionGroup("group", [CapabilityFailed("out of stock", code=-32050)]))
    assert (failed.error["code"], failed.error["message"]) == (-32050, "out of stock")


def test_a_final_error_is_not_retried_whatever_its_class() -> None:
    assert not outcomes.failed(replace(TASK, attempt=1), TaskTimeout("no"), is_final=True).is_retryable
