"""What is left when the faults have stopped: read from the daemon, then from its files after it has stopped."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aios.stores.sqlite.connections import Database
from tests.faults.driver.daemon import Daemon
from tests.faults.driver.record import Record
from tests.faults.driver.wire import Http
from tests.stores.sqlite.faults import raw_database

Json = dict[str, Any]
KINDS = {
    1: "task.status",
    2: "task.progress",
    3: "task.artifact",
    4: "task.input_required",
    5: "task.auth_required",
    6: "task.log",
    7: "task.chunk",
    8: "task.result",
    9: "task.error",
}
BATCH = 100


@dataclass
class Stored:
    """A task in the database."""

    task_id: str
    op: int | None
    parent: str | None
    state: Json
    """Status, version, attempt, crashes and the rest of what moves."""
    worker: str | None
    events: list[tuple[int, str, int, Json]] = field(default_factory=list[tuple[int, str, int, Json]])
    """Number, kind, time in ms, data."""
    artifacts: list[Json] = field(default_factory=list[Json])


@dataclass
class Evidence:
    """All that the checker looks at."""

    record: Record
    ledger: list[Json]
    views: dict[str, Json]
    """Every task as `task.get` shows it, with its history."""
    gauges: dict[str, float]
    """The daemon's own counts when all was quiet."""
    stored: dict[str, Stored] = field(default_factory=dict[str, Stored])
    counters: dict[str, int] = field(default_factory=dict[str, int])
    held: int = 0
    secrets: int = 0
    integrity: list[str] = field(default_factory=list[str])
    blobs: dict[str, str] = field(default_factory=dict[str, str])
    """Digest by the name of the file, as the content really is."""
    named_blobs: list[str] = field(default_factory=list[str])
    complaints: list[str] = field(default_factory=list[str])


async def gather(daemon: Daemon, record: Record) -> Evidence:
    """Ask a quiet daemon, stop it, and read its files."""
    http = daemon.connect()
    task_ids = await _all_ids(http)
    views: dict[str, Json] = {}
    for start in range(0, len(task_ids), BATCH):
        asked = [{"task_id": each, "include_history": True} for each in task_ids[start : start + BATCH]]
        views |= {view["task_id"]: view for view in await http.batch("aios/task.get", asked)}
    _, metrics = await http.get("/metrics")
    evidence = Evidence(record=record, ledger=daemon.ledger, views=views, gauges=_gauges(metrics.decode()))
    code = await daemon.stop()
    assert code == 0, f"it ended with {code}: {daemon.lines[-5:]}"
    evidence.complaints = daemon.complaints
    read_files(daemon.data, evidence)
    return evidence


async def _all_ids(http: Http) -> list[str]:
    found: list[str] = []
    cursor: Json = {}
    while True:
        page = await http.call("aios/task.list", {"pagination": {"limit": 1000, **cursor}})
        found += [task["task_id"] for task in page["tasks"]]
        if not page["has_more"]:
            return found
        cursor = {"cursor": page["next_cursor"]}


def _gauges(text: str) -> dict[str, float]:
    lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}


def read_files(data: Path, evidence: Evidence) -> None:
    """Read the database and the contents of a daemon that does not run, without believing a word of it."""
    database = raw_database(data)
    try:
        checks = ("PRAGMA integrity_check", "PRAGMA foreign_key_check")
        rows = [row for check in checks for row in database.execute(check)]
        evidence.integrity = [str(row) for row in rows if row != ("ok",)]
        by_row = _tasks(database)
        _events(database, by_row)
        for row, content in database.execute("SELECT row, content FROM artifact ORDER BY number"):
            by_row[row].artifacts.append(json.loads(content))
        evidence.stored = {task.task_id: task for task in by_row.values()}
        evidence.counters = dict(database.execute("SELECT name, value FROM counter").fetchall())
        evidence.held = _one(database, "SELECT count(*) FROM held")
        evidence.secrets = _one(database, "SELECT count(*) FROM step WHERE is_secret")
        evidence.named_blobs = [digest for (digest,) in database.execute("SELECT DISTINCT sha256 FROM artifact_blob")]
    finally:
        database.close()
    files = [path for path in (data / "blobs").glob("??/*") if path.is_file()]
    evidence.blobs = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _one(database: Database, sql: str) -> int:
    row = database.execute(sql).fetchone()
    assert row is not None
    return row[0]


def _tasks(database: Database) -> dict[int, Stored]:
    rows = database.execute(
        "SELECT t.row, t.task_id, t.spec, coalesce(u.state, f.state), u.worker "
        "FROM task AS t LEFT JOIN unfinished AS u USING (row) LEFT JOIN finished AS f USING (row)"
    )
    found: dict[int, Stored] = {}
    for row, task_id, spec, state, worker in rows:
        about = json.loads(spec)
        op = about.get("metadata", {}).get("op")
        found[row] = Stored(task_id, op, about.get("parent_task_id"), json.loads(state), worker)
    return found


def _events(database: Database, tasks: dict[int, Stored]) -> None:
    for row, number, kind, at, data in database.execute("SELECT row, number, kind, at, data FROM event ORDER BY 1, 2"):
        tasks[row].events.append((number, KINDS[kind], at, json.loads(data)))
