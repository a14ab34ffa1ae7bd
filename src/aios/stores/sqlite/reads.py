"""What is read of the database, each function on a connection and within one call."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from aios.errors import ArtifactNotFound, SessionNotFound, TaskNotFound
from aios.model import (
    Artifact,
    ArtifactId,
    Event,
    EventKind,
    EventPage,
    Session,
    SessionId,
    Step,
    Task,
    TaskId,
    from_ms,
    to_ms,
)
from aios.stores.sqlite.connections import Database
from aios.stores.sqlite.records import KIND_NUMBERS, TaskRow, decode_event, decode_step, decode_task
from aios.stores.sqlite.statements import statement

_decode_artifact = msgspec.json.Decoder(Artifact).decode
_decode_session = msgspec.json.Decoder(Session).decode


def task(database: Database, task_id: TaskId) -> Task:
    """Raises: TaskNotFound."""
    row = database.execute(statement("task_by_id"), (task_id,)).fetchone()
    if row is None:
        raise TaskNotFound(f"There is no task {task_id}.", task_id=task_id)
    return decode_task(cast(TaskRow, row))


def tasks_at(database: Database, name: str, *values: Any) -> list[Task]:
    """Give the tasks whose rows a statement selects, as they are at this moment."""
    # One transaction, so that a task that ends between the two reads is seen in one form or the other.
    with database:
        rows = [cast(int, row) for (row,) in database.execute(statement(name), values)]
        return [
            decode_task(cast(TaskRow, found))
            for row in rows
            if (found := database.execute(statement("task_by_row"), (row,)).fetchone()) is not None
        ]


def events_after(
    database: Database,
    task_id: TaskId,
    number: int,
    *,
    limit: int,
    kinds: frozenset[EventKind] | None,
    max_bytes: int | None,
) -> EventPage:
    """Give a page of a task's log."""
    with database:
        found = database.execute(statement("row_of"), (task_id,)).fetchone()
        if found is None:
            return EventPage(events=[])
        row = cast(int, found[0])
        cut = database.execute(statement("last_cut"), (row,)).fetchone()
        if kinds is None:
            cursor = database.execute(statement("events"), (row, number, limit))
        else:
            wanted = msgspec.json.encode(sorted(KIND_NUMBERS[kind] for kind in kinds)).decode()
            cursor = database.execute(statement("events_of_kinds"), (row, number, wanted, limit))
        events: list[Event] = []
        size = 0
        for each in cursor:
            event = decode_event(cast(tuple[int, int, int, bytes], each))
            size += len(event.data)
            if events and max_bytes is not None and size > max_bytes:
                break
            events.append(event)
    return EventPage(events=events, is_cut=cut is not None and cast(int, cut[0]) > number)


def steps(database: Database, task_id: TaskId) -> list[Step]:
    """Give all recorded steps of a task."""
    return [
        decode_step(cast(tuple[str, bytes, bytes, int, int], row))
        for row in database.execute(statement("steps"), (task_id,))
    ]


def artifact(database: Database, artifact_id: ArtifactId) -> Artifact:
    """Raises: ArtifactNotFound."""
    row = database.execute(statement("artifact"), (artifact_id,)).fetchone()
    if row is None:
        raise ArtifactNotFound(f"There is no artifact {artifact_id}.", artifact_id=artifact_id)
    return _decode_artifact(cast(bytes, row[0]))


def artifacts(database: Database, task_id: TaskId) -> list[Artifact]:
    """Give a task's artifacts in the order in which they were first made."""
    return [_decode_artifact(cast(bytes, row[0])) for row in database.execute(statement("artifacts"), (task_id,))]


def session(database: Database, session_id: SessionId) -> Session:
    """Raises: SessionNotFound."""
    row = database.execute(statement("session"), (session_id,)).fetchone()
    if row is None:
        raise SessionNotFound(f"There is no session {session_id}.", session_id=session_id)
    return _decode_session(cast(bytes, row[0]))


def recent_durations(database: Database, capability_id: str, limit: int) -> list[int]:
    """Give how long the capability's last completed tasks took."""
    return [cast(int, each) for (each,) in database.execute(statement("recent_durations"), (capability_id, limit))]


def parents(database: Database) -> list[tuple[TaskId, bool]]:
    """Give the tasks that have unfinished children, and whether each has ended."""
    return [(TaskId(task_id), bool(has_ended)) for task_id, has_ended in database.execute(statement("parents"))]


def next_overdue(database: Database) -> Any:
    """Give the earliest stored time of any unfinished task."""
    (earliest,) = cast(tuple[int | None], database.execute(statement("next_overdue")).fetchone())
    return None if earliest is None else from_ms(earliest)


def overdue(database: Database, now: Any, limit: int) -> list[Task]:
    """Give the tasks for which a stored time has passed, the longest overdue first."""
    return tasks_at(database, "overdue", to_ms(now), limit)
