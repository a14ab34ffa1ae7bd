"""How records look in the database: JSON where only Python reads them, columns where SQL does."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import msgspec

from aios.model import (
    AuthRequest,
    Event,
    EventKind,
    InputRequest,
    JsonObject,
    Outcome,
    Progress,
    Record,
    Status,
    Step,
    Task,
    TaskId,
    TaskSpec,
    from_ms,
    to_ms,
)
from aios.rules.lifecycle import stuck_at

KIND_NUMBERS: Final[dict[EventKind, int]] = {
    EventKind.STATUS: 1,
    EventKind.PROGRESS: 2,
    EventKind.ARTIFACT: 3,
    EventKind.INPUT_REQUIRED: 4,
    EventKind.AUTH_REQUIRED: 5,
    EventKind.LOG: 6,
    EventKind.CHUNK: 7,
    EventKind.RESULT: 8,
    EventKind.ERROR: 9,
}
"""Stored in every event: never renumber. `cut_events` knows those of progress, log and chunk."""

_KINDS = {number: kind for kind, number in KIND_NUMBERS.items()}

TaskRow = tuple[int, str, bytes, bytes, bytes, bytes | None, str | None, int, str | None, int | None, int | None]
"""What `task_by_id` and `task_by_row` select."""


class _State(Record, frozen=True, kw_only=True):
    """The moving part of a task that no query looks into; result, worker and stamp have columns."""

    status: Status
    version: int = 0
    attempt: int = 1
    claim: int = 0
    crashes: int = 0
    started_at: datetime | None = None
    updated_at: datetime
    ended_at: datetime | None = None
    progress: Progress | None = None
    result: Any = None
    error: JsonObject | None = None
    request: InputRequest | AuthRequest | None = None
    outcome: Outcome | None = None
    begun_by: str | None = None
    run_at: datetime | None = None
    deadline_at: datetime | None = None
    used_ms: int = 0


class Known(msgspec.Struct, gc=False):
    """A task as the writer knows it, with what the store alone cares for."""

    task: Task
    awaits: TaskId | None = None
    is_keyed: bool = False
    has_secret: bool = False
    size: int = 0
    """Bytes of what never changes: arguments, metadata; the cache goes by it."""
    fixed: tuple[Any, ...] = ()
    """The columns that never change, once they have been made."""
    moving_size: int = 0
    """Bytes of what moves: state and result."""


_encode = msgspec.json.Encoder().encode
_decode_state = msgspec.json.Decoder(_State).decode
_decode_spec = msgspec.json.Decoder(TaskSpec).decode


def encode_json(value: Any) -> bytes:
    """Give the JSON of a record or a plain value."""
    return _encode(value)


def encode_spec(spec: TaskSpec) -> tuple[bytes, bytes]:
    """Give a specification without its arguments, and these."""
    bare = msgspec.structs.replace(spec, arguments={}) if spec.arguments else spec
    return _encode(bare), _encode(spec.arguments)


def encode_state(task: Task) -> bytes:
    """Give the moving part of a task."""
    return _encode(
        _State(
            status=task.status,
            version=task.version,
            attempt=task.attempt,
            claim=task.claim,
            crashes=task.crashes,
            started_at=task.started_at,
            updated_at=task.updated_at,
            ended_at=task.ended_at,
            progress=task.progress,
            error=task.error,
            request=task.request,
            outcome=task.outcome,
            begun_by=task.begun_by,
            run_at=task.run_at,
            deadline_at=task.deadline_at,
            used_ms=task.used_ms,
        )
    )


def _join(record: bytes, member: bytes, value: bytes) -> bytes:
    """Put a member, encoded apart, back into an object that is never empty."""
    return b"".join((record[:-1], b",", member, b":", value, b"}"))


def decode_task(row: TaskRow) -> Task:
    """Build a task from its row."""
    number, task_id, spec, arguments, state, result, worker, stamp, *_ = row
    moving = _decode_state(state if result is None else _join(state, b'"result"', result))
    return Task(
        task_id=TaskId(task_id),
        spec=_decode_spec(spec if arguments == b"{}" else _join(spec, b'"arguments"', arguments)),
        status=moving.status,
        version=moving.version,
        attempt=moving.attempt,
        claim=moving.claim,
        crashes=moving.crashes,
        started_at=moving.started_at,
        updated_at=moving.updated_at,
        ended_at=moving.ended_at,
        progress=moving.progress,
        result=moving.result,
        error=moving.error,
        request=moving.request,
        outcome=moving.outcome,
        worker=worker,
        begun_by=moving.begun_by,
        run_at=moving.run_at,
        deadline_at=moving.deadline_at,
        used_ms=moving.used_ms,
        row=number,
        stamp=stamp,
    )


def decode_known(row: TaskRow) -> Known:
    """Build what the writer knows of a task from its row."""
    awaits, is_keyed, has_secret = row[8:]
    return Known(
        decode_task(row),
        awaits=None if awaits is None else TaskId(awaits),
        is_keyed=bool(is_keyed),
        has_secret=bool(has_secret),
        size=len(row[2]) + len(row[3]),
        moving_size=len(row[4]) + len(row[5] or b""),
    )


def decode_event(row: tuple[int, int, int, bytes]) -> Event:
    """Build an event from its row."""
    number, kind, at, data = row
    return Event(number=number, kind=_KINDS[kind], at=from_ms(at), data=data)


def decode_step(row: tuple[str, bytes, bytes, int, int]) -> Step:
    """Build a step from its row."""
    key, digest, value, is_secret, is_timeout = row
    return Step(key=key, digest=digest, value=value, is_secret=bool(is_secret), is_timeout=bool(is_timeout))


def due_at_ms(task: Task) -> int | None:
    """Say when something must happen to the task though nobody asks: it expires, its request or its attempt runs out, or
    what is left of a timed-out attempt keeps the next one waiting for too long.
    """
    due = task.deadline_at or stuck_at(task)
    if task.request is not None and task.request.due_at is not None and (due is None or task.request.due_at < due):
        due = task.request.due_at
    expires_at = task.spec.expires_at
    if expires_at is not None and task.status is Status.PENDING and (due is None or expires_at < due):
        due = expires_at
    return None if due is None else to_ms(due)


def unfinished_row(known: Known) -> tuple[Any, ...]:
    """Give the columns of `put_unfinished`."""
    task = known.task
    state = encode_state(task)
    known.moving_size = len(state)
    if not known.fixed:
        spec = task.spec
        known.fixed = (
            task.row,
            task.task_id,
            spec.principal,
            spec.capability_id,
            spec.adapter_id,
            spec.session_id,
            spec.parent_task_id,
            spec.is_detached,
            spec.priority.rank,
            to_ms(spec.created_at),
        )
    return (
        *known.fixed,
        to_ms(task.updated_at),
        0 if task.started_at is None else to_ms(task.started_at),
        task.status,
        task.worker,
        None if task.run_at is None else to_ms(task.run_at),
        due_at_ms(task),
        known.awaits,
        known.is_keyed,
        known.has_secret,
        task.stamp,
        state,
    )


def finished_row(known: Known) -> tuple[Any, ...]:
    """Give the columns of `put_finished`."""
    task = known.task
    spec = task.spec
    state = encode_state(task)
    result = None if task.result is None else _encode(task.result)
    known.moving_size = len(state) + len(result or b"")
    return (
        task.row,
        task.task_id,
        spec.principal,
        spec.capability_id,
        spec.session_id,
        spec.priority.rank,
        to_ms(spec.created_at),
        to_ms(task.ended_at or task.updated_at),
        0 if task.started_at is None else to_ms(task.started_at),
        task.status,
        task.stamp,
        state,
        result,
    )


def event_row(row: int, event: Event) -> tuple[int, int, int, int, bytes]:
    """Give the columns of `insert_event`."""
    return row, event.number, KIND_NUMBERS[event.kind], to_ms(event.at), event.data


def step_row(row: int, step: Step) -> tuple[int, str, bytes, bytes, bool, bool]:
    """Give the columns of `insert_step`."""
    return row, step.key, step.digest, step.value, step.is_secret, step.is_timeout
