"""How records lie in the database: nothing of a task is left behind, whatever is added to it later."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from aios.model import (
    AuthRequest,
    EventKind,
    InputRequest,
    Outcome,
    Priority,
    Progress,
    Retry,
    Status,
    Task,
    TaskId,
    TaskSpec,
)
from aios.stores.sqlite import records
from aios.stores.sqlite.connections import open_memory
from aios.stores.sqlite.listing import glob_pattern
from aios.stores.sqlite.statements import migrations, repeated, statement

NOW = datetime(2026, 1, 5, 10, 0, 0, 123_000, tzinfo=UTC)
COLUMNS = {"task_id", "spec", "result", "worker", "row", "stamp"}
"""Fields of a task that have a column of their own."""


def test_every_field_of_a_task_is_stored() -> None:
    assert set(records._State.__struct_fields__) | COLUMNS == set(Task.__struct_fields__)


def full_task(**fields: Any) -> Task:
    spec = TaskSpec(
        capability_id="a.b",
        adapter_id="a",
        principal="p",
        created_at=NOW,
        arguments={"a": [1, None, "\u4ef7"]},
        metadata={"tags": ["x"]},
        priority=Priority.HIGH,
        retry=Retry(max_attempts=3),
        expires_at=NOW,
    )
    every: dict[str, Any] = {
        "version": 7,
        "attempt": 2,
        "claim": 3,
        "crashes": 1,
        "started_at": NOW,
        "updated_at": NOW + timedelta(seconds=1),
        "progress": Progress(percent=0.5),
        "result": {"r": 1},
        "error": {"code": 1},
        "request": InputRequest(step="ask:1", prompt="?", due_at=NOW),
        "outcome": Outcome(result=[1]),
        "worker": "w",
        "run_at": NOW,
        "deadline_at": NOW,
        "used_ms": 5,
        "row": 11,
        "stamp": 12,
    }
    return Task(task_id=TaskId("task-1"), spec=spec, status=Status.WORKING, **{**every, **fields})


def as_row(task: Task) -> records.TaskRow:
    spec, arguments = records.encode_spec(task.spec)
    result = None if task.result is None else records.encode_json(task.result)
    state = records.encode_state(task)
    return (task.row, task.task_id, spec, arguments, state, result, task.worker, task.stamp, None, 0, 0)


def test_a_task_with_every_field_comes_back_equal() -> None:
    for task in (
        full_task(),
        full_task(request=AuthRequest(step="auth:1", type="oauth2", scopes=["a"]), outcome=None),
        full_task(result=None, worker=None),
        full_task(result=False),
        full_task(result=0),
        full_task(result=""),
    ):
        assert records.decode_task(as_row(task)) == task


def test_a_specification_without_arguments_comes_back_equal() -> None:
    task = full_task()
    task = replace(task, spec=replace(task.spec, arguments={}))
    assert records.decode_task(as_row(task)) == task


def test_every_kind_of_event_has_a_number_of_its_own() -> None:
    assert set(records.KIND_NUMBERS) == set(EventKind)
    assert len(set(records.KIND_NUMBERS.values())) == len(EventKind)
    assert {records.KIND_NUMBERS[kind] for kind in (EventKind.PROGRESS, EventKind.LOG, EventKind.CHUNK)} == {2, 6, 7}
    for name in ("cut_numbers", "cut_events"):
        assert "kind IN (2, 6, 7)" in statement(name)


def test_a_statement_is_repeated_for_many_rows() -> None:
    assert repeated("delete_held", 3) == "DELETE FROM held WHERE row IN (?, ?, ?)"
    assert repeated("insert_tag", 2).endswith("VALUES (?, ?), (?, ?)")


def test_the_migrations_are_ours_and_in_order() -> None:
    assert "CREATE TABLE task" in migrations()[0]


def test_a_glob_has_one_special_sign() -> None:
    database = open_memory()
    for glob, text, is_match in (
        ("a*c", "abc", True),
        ("a?c", "abc", False),
        ("a?c", "a?c", True),
        ("[ab]", "a", False),
        ("[ab]", "[ab]", True),
        ("*]*", "x]y", True),
        ("a_c", "abc", False),
        ("%", "abc", False),
    ):
        (found,) = database.execute("SELECT ? GLOB ?", (text, glob_pattern(glob))).fetchone() or (None,)
        assert bool(found) is is_match, glob
