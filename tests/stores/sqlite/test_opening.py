"""Opening a data folder: private, owned by one, of a schema we know, whole."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from aios.errors import StoreUnavailable
from aios.model import Limits, TaskId
from aios.stores.sqlite import SqliteStore, connections, opening, schema
from aios.stores.sqlite.statements import migrations
from aios.testing.clock import ManualClock
from tests.stores.making import Desk
from tests.stores.sqlite.faults import raw_database

LIMITS = Limits()


def open_store(folder: Path) -> SqliteStore:
    return SqliteStore.open(folder, limits=LIMITS, now=ManualClock().now)


async def filled_and_closed(folder: Path, count: int = 20) -> None:
    store = open_store(folder)
    desk = Desk(store, ManualClock(), LIMITS)
    for number in range(count):
        await desk.finish(f"task-{number:03}", {"text": "x" * 500})
    await store.close()


@pytest.fixture(params=[0o000, 0o022, 0o777])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


async def test_the_owner_alone_can_read_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    folder = tmp_path / "some" / "data"
    store = open_store(folder)
    desk = Desk(store, ManualClock(), LIMITS)
    await desk.create("task-1")
    await store.put_blob(b"content")
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*")}
    await store.close()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {path.name for path in modes} >= {"aios.db", "aios.db-wal", "aios.db-shm", "aios.lock", "blobs"}
    for path, mode in modes.items():
        assert mode == (0o700 if path.is_dir() else 0o600), path


async def test_a_folder_that_was_there_keeps_its_mode(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o755)
    await open_store(tmp_path).close()
    assert stat.S_IMODE(os.stat(tmp_path).st_mode) == 0o755


async def test_a_second_store_on_the_folder_is_refused_by_name(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    with pytest.raises(StoreUnavailable, match=rf"in use by another daemon \(process {os.getpid()}\)"):
        open_store(tmp_path)
    await store.close()
    await open_store(tmp_path).close()


@contextmanager
def another_process(folder: Path) -> Generator[subprocess.Popen[str]]:
    """Run a process that has a store open on the folder, until it is killed."""
    program = (
        "import sys, pathlib\n"
        "from aios.model import Limits\n"
        "from aios.stores.sqlite import SqliteStore\n"
        "from aios.testing.clock import ManualClock\n"
        "SqliteStore.open(pathlib.Path(sys.argv[1]), limits=Limits(), now=ManualClock().now)\n"
        "print('open', flush=True)\n"
        "sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", program, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        yield process
        process.kill()


async def test_another_process_on_the_folder_is_refused_and_a_dead_one_does_not_matter(tmp_path: Path) -> None:
    with another_process(tmp_path) as other, pytest.raises(StoreUnavailable, match=rf"process {other.pid}"):
        open_store(tmp_path)
    await open_store(tmp_path).close()


async def test_a_newer_schema_is_refused_and_left_alone(tmp_path: Path) -> None:
    await filled_and_closed(tmp_path)
    database = raw_database(tmp_path)
    database.pragma("user_version", 99)
    database.close()
    with pytest.raises(StoreUnavailable, match="schema 99"):
        open_store(tmp_path)
    database = raw_database(tmp_path)
    assert database.execute("SELECT count(*) FROM task").fetchone() == (20,)


async def test_another_programs_database_is_refused(tmp_path: Path) -> None:
    database = raw_database(tmp_path)
    database.execute("CREATE TABLE bookmarks (url TEXT)")
    database.close()
    with pytest.raises(StoreUnavailable, match="another program"):
        open_store(tmp_path)


@pytest.mark.parametrize("content", [b"no database at all" * 1_000, b"SQLite format 3\x00" + b"\xff" * 8_000])
async def test_what_is_no_database_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / connections.DATABASE).write_bytes(content)
    with pytest.raises(StoreUnavailable, match="backup"):
        open_store(tmp_path)


def mark_unclean(folder: Path) -> None:
    database = connections.open_writer(folder)
    opening.mark_clean(database, is_clean=False)
    database.close()


def damage(path: Path) -> None:
    """Overwrite the middle of every page but the first two."""
    content = bytearray(path.read_bytes())
    for start in range(2 * 4_096, len(content), 4_096):
        content[start : start + 64] = b"\xa5" * 64
    path.write_bytes(content)


async def test_damage_is_found_after_an_unclean_stop(tmp_path: Path) -> None:
    await filled_and_closed(tmp_path)
    mark_unclean(tmp_path)
    damage(tmp_path / connections.DATABASE)
    with pytest.raises(StoreUnavailable, match="restore a backup"):
        open_store(tmp_path)


async def test_a_big_database_is_checked_beside_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await filled_and_closed(tmp_path, 50)
    mark_unclean(tmp_path)
    content = bytearray((tmp_path / connections.DATABASE).read_bytes())
    # A page of the log, which opening does not look at.
    content[content.index(b'"previous_status"') // 4_096 * 4_096] = 0
    (tmp_path / connections.DATABASE).write_bytes(content)
    monkeypatch.setattr(opening, "CHECKED_BYTES_MAX", 0)
    store = open_store(tmp_path)
    check = store._check  # The thread, to wait for its end.
    assert check is not None
    check._thread.join(20)
    assert not store.health().is_writable
    assert "restore a backup" in store.health().reason
    await store.close()


async def test_a_store_can_be_closed_while_it_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await filled_and_closed(tmp_path)
    mark_unclean(tmp_path)
    monkeypatch.setattr(opening, "CHECKED_BYTES_MAX", 0)
    store = open_store(tmp_path)
    await store.close()
    assert store.health().is_writable


async def test_a_clean_stop_leaves_one_file_and_its_mark(tmp_path: Path) -> None:
    await filled_and_closed(tmp_path)
    assert not (tmp_path / "aios.db-wal").exists()
    database = raw_database(tmp_path)
    assert database.execute("SELECT value FROM meta WHERE name = 'is_clean'").fetchone() == (1,)


async def test_a_file_system_without_a_write_ahead_log_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a network share may be: the files are locked by name, and no memory is shared between processes."""
    real = apsw.Connection

    def connect(filename: str, **options: Any) -> apsw.Connection:
        return real(filename, vfs="unix-dotfile", **options)

    monkeypatch.setattr(connections.apsw, "Connection", connect)
    with pytest.raises(StoreUnavailable, match="write-ahead log"):
        open_store(tmp_path)


async def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable, match="cannot be used"):
        open_store(tmp_path / "file" / "data")


async def test_what_a_crash_left_of_contents_is_removed_at_the_next_start(tmp_path: Path) -> None:
    await filled_and_closed(tmp_path)
    left = tmp_path / "blobs" / "unfinished" / "half"
    left.write_bytes(b"half")
    await open_store(tmp_path).close()
    assert not left.exists()


def test_a_migration_that_fails_leaves_the_old_schema(tmp_path: Path) -> None:
    database = connections.open_writer(tmp_path)
    schema.migrate(database)
    bad = [*migrations(), "CREATE TABLE extra (a); INSERT INTO task VALUES (1)"]
    with pytest.raises(apsw.SQLError):
        schema.migrate(database, bad)
    assert schema.schema_version(database) == len(migrations())
    assert database.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'extra'").fetchone() == (0,)
    good = [*migrations(), "CREATE TABLE extra (a)", "CREATE TABLE more (a)"]
    schema.migrate(database, good)
    schema.migrate(database, good)
    assert schema.schema_version(database) == len(migrations()) + 2
    database.close()


async def test_closing_twice_is_closing_once_and_nothing_is_asked_afterwards(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    await store.close()
    await store.close()
    desk = Desk(store, ManualClock(), LIMITS)
    with pytest.raises(StoreUnavailable):
        await desk.create("task-1")
    with pytest.raises(StoreUnavailable):
        await store.task(TaskId("task-1"))
    with pytest.raises(StoreUnavailable):
        await store.put_blob(b"x")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("journal_mode", "wal"),
        ("synchronous", 2),
        ("foreign_keys", 1),
        ("trusted_schema", 0),
        ("cell_size_check", 1),
        ("secure_delete", 2),
        ("wal_autocheckpoint", connections.CHECKPOINT_PAGES),
        ("journal_size_limit", connections.JOURNAL_SIZE_LIMIT),
        ("cache_size", -connections.WRITER_CACHE_KIB),
    ],
)
def test_the_writing_connection_is_set_up(tmp_path: Path, name: str, value: object) -> None:
    database = connections.open_writer(tmp_path)
    assert database.pragma(name) == value
    database.close()


def test_a_reading_connection_cannot_write(tmp_path: Path) -> None:
    writer = connections.open_writer(tmp_path)
    schema.migrate(writer)
    reader = connections.open_reader(tmp_path)
    with pytest.raises(apsw.ReadOnlyError):
        reader.execute("DELETE FROM meta")
    assert (reader.pragma("foreign_keys"), reader.pragma("trusted_schema"), reader.pragma("query_only")) == (1, 0, 1)
    reader.close()
    writer.close()
