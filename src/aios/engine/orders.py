"""What a new task is to be: the engine's words for `aios/task.create`, `capability.invoke` and `ctx.spawn`."""

from __future__ import annotations

import hashlib
from datetime import datetime

import msgspec

from aios.adapter import Capability
from aios.engine.clock import MILLISECOND
from aios.engine.ids import new_id
from aios.errors import InvalidParams, ValidationFailed
from aios.model import (
    Change,
    IdempotencyKey,
    JsonObject,
    Limits,
    Priority,
    Record,
    Retry,
    SessionId,
    Task,
    TaskId,
    TaskSpec,
)

DURATION_MS_MAX = 366 * 24 * 3_600_000
"""A year: the longest delay or timeout, far from where instants overflow."""
ATTEMPTS_MAX = 100
KEY_CHARACTERS_MAX = 512

_encode_sorted = msgspec.json.Encoder(order="sorted").encode


class NewTask(Record, frozen=True, kw_only=True):
    """An order for a task, as it was asked for."""

    capability_id: str
    principal: str
    arguments: JsonObject = {}
    metadata: JsonObject = {}
    session_id: SessionId | None = None
    priority: Priority = Priority.NORMAL
    timeout_ms: int | None = None
    """As the caller wants it; else the capability's, else `default_timeout_ms`."""
    default_timeout_ms: int | None = None
    """What the method asked by (invoke or create) takes where neither says; else `limits.default_timeout_ms`."""
    retry: Retry = Retry()
    is_detached: bool = False
    delay_ms: int | None = None
    run_at: datetime | None = None
    expires_in_ms: int | None = None
    idempotency_key: str | None = None
    task_id: TaskId | None = None
    """For a child: the id that its parent has recorded before it asks, so that a re-run finds it again. Else one is made."""


def check(new: NewTask, limits: Limits) -> None:
    """Refuse what no task may be.

    Raises:
        InvalidParams: Something is out of range or too large; `data.errors` says where.
    """
    durations = {
        "/options/timeout_ms": (new.timeout_ms, 1),
        "/options/retry/delay_ms": (new.retry.delay_ms, 0),
        "/options/retry/max_delay_ms": (new.retry.max_delay_ms, 0),
        "/options/delay_ms": (new.delay_ms, 0),
        "/options/expires_in_ms": (new.expires_in_ms, 1),
    }
    for path, (value, least) in durations.items():
        if value is not None and not least <= value <= DURATION_MS_MAX:
            raise _out_of_range(path, f"must be from {least} to {DURATION_MS_MAX}")
    if not 1 <= new.retry.max_attempts <= ATTEMPTS_MAX:
        raise _out_of_range("/options/retry/max_attempts", f"must be from 1 to {ATTEMPTS_MAX}")
    if new.idempotency_key is not None and (
        not 1 <= len(new.idempotency_key) <= KEY_CHARACTERS_MAX or "\0" in new.idempotency_key
    ):
        raise _out_of_range(
            "/options/idempotency_key", f"must have 1 to {KEY_CHARACTERS_MAX} characters, none of them NUL"
        )
    size = len(msgspec.json.encode(new.arguments)) + len(msgspec.json.encode(new.metadata))
    if size > limits.max_input_size:
        raise InvalidParams(
            f"Arguments and metadata have {size} bytes; at most {limits.max_input_size} are allowed (max_input_size).",
            errors=[
                {"path": "/arguments", "message": f"larger than {limits.max_input_size} bytes together with metadata"}
            ],
            max_input_size=limits.max_input_size,
        )


def _out_of_range(path: str, message: str) -> InvalidParams:
    return InvalidParams(f"{path} {message}.", errors=[{"path": path, "message": message}])


def creation(
    new: NewTask, capability: Capability, *, now: datetime, limits: Limits, parent: Task | None = None
) -> Change:
    """Give the change that makes the task. It emits no event: the first is the one that says it works."""
    not_before = new.run_at
    if new.delay_ms is not None:
        not_before = max(now + new.delay_ms * MILLISECOND, not_before or now)
    spec = TaskSpec(
        capability_id=capability.id,
        adapter_id=capability.adapter_id,
        principal=new.principal if parent is None else parent.spec.principal,
        created_at=now,
        session_id=new.session_id if parent is None else parent.spec.session_id,
        arguments=new.arguments,
        metadata=new.metadata,
        priority=new.priority,
        timeout_ms=new.timeout_ms or capability.timeout_ms or new.default_timeout_ms or limits.default_timeout_ms,
        retry=new.retry,
        is_detached=new.is_detached if parent is None else parent.spec.is_detached,
        not_before=not_before,
        expires_at=None if new.expires_in_ms is None else now + new.expires_in_ms * MILLISECOND,
        on_crash=capability.on_crash,
        parent_task_id=None if parent is None else parent.task_id,
        depth=0 if parent is None else _deeper(parent, limits),
    )
    task = Task(
        task_id=new.task_id or TaskId(new_id("task", now)),
        spec=spec,
        updated_at=now,
        run_at=now if not_before is None else max(now, not_before),
    )
    return Change(task=task, before=None, idempotency=_named(new, parent))


def _deeper(parent: Task, limits: Limits) -> int:
    depth = parent.spec.depth + 1
    if depth > limits.max_depth:
        raise ValidationFailed(
            f"A task may be nested {limits.max_depth} deep; {parent.task_id} is there already and cannot spawn another.",
            max_depth=limits.max_depth,
        )
    return depth


def _named(new: NewTask, parent: Task | None) -> IdempotencyKey | None:
    if new.idempotency_key is None:
        return None
    # The id of a parent cannot be guessed: no caller's key meets a child's.
    key = new.idempotency_key if parent is None else f"{parent.task_id}/{new.idempotency_key}"
    return IdempotencyKey(key=key, digest=digest(new))


def digest(new: NewTask) -> bytes:
    """Digest the whole request but for who asks from where: the same from a new session is the same request."""
    request = msgspec.structs.replace(new, principal="", session_id=None, idempotency_key=None, task_id=None)
    return hashlib.sha256(_encode_sorted(request)).digest()
