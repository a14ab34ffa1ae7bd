"""How an attempt ended, in the engine's words: what its code returned, or why it failed (design.md §9)."""

from __future__ import annotations

import secrets
import traceback
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import structlog

from aios.engine.runner.book import redact
from aios.engine.values import told
from aios.errors import (
    AiosError,
    CapabilityChanged,
    CapabilityFailed,
    InternalError,
    InvalidParams,
    PermissionDenied,
    StepNameRepeated,
    ValidationFailed,
)
from aios.model import Task
from aios.rules.lifecycle import Complete, Fail

DETAIL_CHARACTERS_MAX = 300
_FINAL = (ValidationFailed, PermissionDenied, InvalidParams, CapabilityChanged, StepNameRepeated)
"""Another attempt would meet the same (protocol.md §4, `options.retry`)."""
_DICE = 1 << 30

_log = structlog.get_logger("aios.runner")


def completed(value: Any) -> Complete:
    """Say that the code returned; a value that is not an object is put into one (protocol.md §8)."""
    return Complete(value if isinstance(value, dict) or _has_fields(value) else {"value": value})


def _has_fields(value: object) -> bool:
    """Whether it becomes an object in JSON: a dataclass, a struct."""
    return not isinstance(value, type) and (
        hasattr(value, "__dataclass_fields__") or hasattr(value, "__struct_fields__")
    )


def failed(task: Task, error: BaseException, *, is_final: bool = False, hidden: Iterable[str] = ()) -> Fail:
    """Say that the code raised.

    Args:
        task: Whose attempt it was.
        error: What it raised.
        is_final: Another attempt would meet the same.
        hidden: Texts that must appear nowhere.
    """
    error = _only_one(error)
    if isinstance(error, AiosError):
        wire = error.to_wire()
        is_retryable = not is_final and not isinstance(error, _FINAL)
        if isinstance(error, CapabilityFailed):
            is_retryable = is_retryable and error.is_retryable
    else:
        detail = _unexpected(error, hidden)
        # The sentence is a caller's to read; where it happened is the operator's.
        _log.warning(
            "a capability raised",
            task_id=task.task_id,
            capability_id=task.spec.capability_id,
            attempt=task.attempt,
            traceback=redact("".join(traceback.format_exception(error)), hidden),
        )
        wire = InternalError(detail, exception=type(error).__name__, attempt=task.attempt).to_wire()
        is_retryable = not is_final
    return Fail(wire, is_retryable=is_retryable, jitter=secrets.randbelow(_DICE) / _DICE)


def _unexpected(error: BaseException, hidden: Iterable[str]) -> str:
    # An OSError's own text holds the path, which is the server's affair.
    text = str(error.strerror or type(error).__name__) if isinstance(error, OSError) else told(error)
    text = redact(" ".join(text.split()), hidden) or type(error).__name__
    return text if len(text) <= DETAIL_CHARACTERS_MAX else text[: DETAIL_CHARACTERS_MAX - 1] + "…"


def _only_one(error: BaseException) -> BaseException:
    """Give the one error inside a group (a `TaskGroup` makes groups of one); of several, the group."""
    leaves = list(_leaves(error))
    return leaves[0] if len(leaves) == 1 else error


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in cast("Sequence[BaseException]", error.exceptions):  # pyright: ignore[reportUnknownMemberType]
            yield from _leaves(each)
    else:
        yield error
