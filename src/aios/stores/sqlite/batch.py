"""What one transaction writes, gathered first and written with few statements.

A statement for many rows costs the interpreter's lock once, not once a row: with a busy main thread each of these turns may
take a whole switch interval. And of several changes to one task in one group only the last is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import chain
from typing import Any

from aios.model import Artifact, Event, Session, Step, Task, to_ms
from aios.stores.sqlite.connections import Database
from aios.stores.sqlite.records import (
    Known,
    encode_json,
    encode_spec,
    event_row,
    finished_row,
    step_row,
    unfinished_row,
)
from aios.stores.sqlite.statements import ROWS_MAX, repeated, statement


def execute_rows(database: Database, name: str, rows: Sequence[Sequence[Any]]) -> None:
    """Run a statement for all rows, in as few pieces as powers of two allow, so that few statements are prepared."""
    start, left = 0, len(rows)
    while left:
        size = min(ROWS_MAX, 1 << (left.bit_length() - 1))
        piece = rows[start : start + size]
        database.execute(repeated(name, size), list(chain.from_iterable(piece)))
        start += size
        left -= size


class Batch:
    """Rows to be written."""

    def __init__(self) -> None:
        self.created: dict[int, Task] = {}
        self.touched: dict[int, Known] = {}
        """Tasks whose moving part changed, as they are after the last change."""
        self.ended: set[int] = set()
        """Rows that were unfinished in the database and no longer are."""
        self.released: set[int] = set()
        """Finished tasks whose slot is given back."""
        self.finished: dict[int, Known] = {}
        """Finished tasks to be written; giving back a slot later does not write them again."""
        self.held: dict[int, Task] = {}
        self.events: list[tuple[int, int, int, int, bytes]] = []
        self.steps: list[tuple[int, str, bytes, bytes, bool, bool]] = []
        self.secrets: set[int] = set()
        self.artifacts: dict[str, tuple[int, Artifact]] = {}
        self.tags: list[tuple[str, int]] = []
        self.keys: dict[tuple[str, str], tuple[bytes, int]] = {}
        self.expired_keys: dict[int, datetime] = {}
        self.sessions: dict[str, Session] = {}
        self.counted: dict[str, int] = {}

    def add_events(self, row: int, events: Sequence[Event]) -> None:
        """Add to a task's log."""
        self.events.extend([event_row(row, event) for event in events])

    def add_steps(self, row: int, steps: Sequence[Step]) -> None:
        """Add to a task's steps."""
        self.steps.extend([step_row(row, step) for step in steps])

    def flush(self, database: Database) -> None:
        """Write everything, inside the transaction that is open."""
        self._flush_tasks(database)
        if self.events:
            execute_rows(database, "insert_event", self.events)
        if self.steps:
            execute_rows(database, "insert_step", self.steps)
        if self.secrets:
            execute_rows(database, "erase_secrets", [(row,) for row in self.secrets])
        if self.artifacts:
            self._flush_artifacts(database)
        self._flush_rare(database)

    def _flush_tasks(self, database: Database) -> None:
        if self.created:
            rows = [(row, task.task_id, *encode_spec(task.spec)) for row, task in self.created.items()]
            for row, _, spec, arguments in rows:
                self.touched[row].size = len(spec) + len(arguments)
            execute_rows(database, "insert_task", rows)
        moving = [unfinished_row(known) for known in self.touched.values() if not known.task.status.is_terminal]
        if moving:
            execute_rows(database, "put_unfinished", moving)
        if self.ended:
            execute_rows(database, "delete_unfinished", [(row,) for row in self.ended])
        if self.finished:
            execute_rows(database, "put_finished", [finished_row(known) for known in self.finished.values()])
        if self.held:
            rows = [(row, task.spec.adapter_id, task.worker) for row, task in self.held.items()]
            execute_rows(database, "put_held", rows)
        if self.released:
            execute_rows(database, "delete_held", [(row,) for row in self.released])

    def _flush_artifacts(self, database: Database) -> None:
        rows = [(artifact.id, row, encode_json(artifact)) for row, artifact in self.artifacts.values()]
        execute_rows(database, "put_artifact", rows)
        execute_rows(database, "clear_artifact_blobs", [(artifact_id,) for artifact_id in self.artifacts])
        blobs = [(blob.sha256, artifact.id) for _, artifact in self.artifacts.values() for blob in artifact.blobs]
        if blobs:
            execute_rows(database, "insert_artifact_blob", blobs)

    def _flush_rare(self, database: Database) -> None:
        if self.tags:
            execute_rows(database, "insert_tag", self.tags)
        if self.keys:
            rows = [(*name, digest, row) for name, (digest, row) in self.keys.items()]
            execute_rows(database, "put_key", rows)
        for row, at in self.expired_keys.items():
            database.execute(statement("expire_key"), (to_ms(at), row))
        if self.sessions:
            rows = [(each.session_id, to_ms(each.expires_at), encode_json(each)) for each in self.sessions.values()]
            execute_rows(database, "put_session", rows)
        if self.counted:
            execute_rows(database, "put_counter", list(self.counted.items()))
