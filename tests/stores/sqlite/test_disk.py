"""A disk that is full, failing, read-only or locked: nobody is told a lie, and the work goes on by itself afterwards."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

from aios.errors import AiosError, StoreUnavailable
from aios.model import Limits, Status, TaskId, TaskQuery
from aios.rules.lifecycle import Complete, Start
from aios.stores.sqlite import SqliteStore, connections, writer
from aios.testing.clock import ManualClock
from tests.stores.making import WORKER, Desk, half_way
from tests.stores.sqlite.faults import Disk, faulty_disk, raw_database

ERRORS = (apsw.FullError, apsw.IOError, apsw.ReadOnlyError)


class Lab:
    """A store on a disk that fails when told to."""

    def __init__(self, desk: Desk, store: SqliteStore, disk: Disk, folder: Path) -> None:
        self.desk = desk
        self.store = store
        self.disk = disk
        self.folder = folder


@pytest.fixture
async def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> AsyncIterator[Lab]:
    disk = faulty_disk(monkeypatch, f"faulty-{abs(hash(request.node.nodeid))}")
    clock = ManualClock()
    store = SqliteStore.open(tmp_path, limits=Limits(), now=clock.now)
    yield Lab(Desk(store, clock, Limits()), store, disk, tmp_path)
    disk.heal()
    await store.close()


@pytest.mark.parametrize("error", ERRORS)
async def test_while_the_disk_refuses_writes_fail_and_reads_go_on(lab: Lab, error: type[Exception]) -> None:
    desk = lab.desk
    before = await desk.finish("task-1", "result")
    lab.disk.fail(error)
    answers = await asyncio.gather(*(desk.create(f"task-x{n}") for n in range(5)), return_exceptions=True)
    assert all(isinstance(answer, StoreUnavailable) for answer in answers)
    assert all(isinstance(answer, AiosError) and answer.is_retryable and answer.detail for answer in answers)
    health = desk.store.health()
    assert (health.is_writable, bool(health.reason)) == (False, True)
    assert await desk.store.task(before.task_id) == before
    assert (await desk.store.tasks(TaskQuery(principal="owner"))).total == 1
    assert await desk.numbers("task-1") == [1, 2, 3]
    lab.disk.heal()
    await desk.create("task-2")
    assert desk.store.health().is_writable
    assert (await desk.store.counts())[Status.PENDING] == 1


@pytest.mark.parametrize("error", ERRORS)
async def test_whichever_write_or_sync_fails_nothing_is_half_written(lab: Lab, error: type[Exception]) -> None:
    """The n-th operation of the disk fails, for n = 1, 2, … until a whole life of a task needs no more operations."""
    desk = lab.desk
    for at in range(1, 200):
        task_id = f"task-{at}"
        lab.disk.fail(error, at=at, is_lasting=False)
        steps = 0
        while steps < 4:
            try:
                if steps == 0:
                    await desk.create(task_id)
                else:
                    await desk.carry_out(task_id, (Start(WORKER), half_way(), Complete(at))[steps - 1])
                steps += 1
            except StoreUnavailable:
                continue
        assert await desk.numbers(task_id) == [1, 2, 3, 4]
        if not lab.disk.failed:
            break
    else:
        pytest.fail("the life of a task never came to its end")
    counts = await desk.store.counts()
    assert (counts[Status.COMPLETED], counts["slots"], counts[Status.WORKING]) == (at, 0, 0)
    database = connections.open_reader(lab.folder)
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert database.execute("SELECT value FROM counter WHERE name = 'completed'").fetchone() == (at,)
    database.close()


async def test_a_write_that_failed_at_its_sync_does_not_come_back_at_the_next_start(lab: Lab) -> None:
    desk = lab.desk
    await desk.create("task-1")
    for number in range(20):
        lab.disk.fail(apsw.IOError, at=number + 1, is_lasting=False)
        answers = await asyncio.gather(desk.create(f"task-{number}-x"), return_exceptions=True)
        if isinstance(answers[0], StoreUnavailable):
            await desk.create(f"task-{number}-after")
    lab.disk.heal()
    acknowledged = {task.task_id for task in (await desk.store.tasks(TaskQuery(principal=None, limit=100))).tasks}
    await lab.store.close()
    again = SqliteStore.open(lab.folder, limits=Limits(), now=desk.clock.now)
    found = {task.task_id for task in (await again.tasks(TaskQuery(principal=None, limit=100))).tasks}
    await again.close()
    assert found == acknowledged


async def test_claims_that_failed_are_made_when_the_disk_is_well_again(lab: Lab) -> None:
    desk = lab.desk
    await desk.create("task-1")
    lab.disk.fail(apsw.FullError)
    worker = desk.seated()
    await asyncio.gather(desk.create("task-2"), return_exceptions=True)
    assert not desk.store.health().is_writable
    assert (await desk.store.task(TaskId("task-1"))).status is Status.PENDING
    lab.disk.heal()
    desk.store.wake()
    assert [task.task_id for task in await worker.until(1)] == ["task-1"]


async def test_a_store_finds_out_by_itself_that_the_disk_is_well_again(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody may write to a store that says that it is out of order."""
    monkeypatch.setattr(writer, "PROBE_S", 0.01)
    lab.disk.fail(apsw.FullError)
    await asyncio.gather(lab.desk.create("task-1"), return_exceptions=True)
    assert not lab.store.health().is_writable
    lab.disk.heal()
    assert await asyncio.to_thread(lab.disk.synced.wait, 20)
    await lab.store._writer.read(lambda database: None)
    assert lab.store.health().is_writable


async def test_a_content_that_cannot_be_written_is_refused_and_leaves_nothing(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(StoreUnavailable):
            await lab.store.put_blob(b"content")
    assert [path for path in (lab.folder / "blobs").rglob("*") if path.is_file()] == []
    digest = await lab.store.put_blob(b"content")
    assert await lab.store.blob(digest) == b"content"


async def test_a_damaged_content_is_not_given_out(lab: Lab) -> None:
    digest = await lab.store.put_blob(b"content")
    path = next(path for path in (lab.folder / "blobs").rglob("*") if path.is_file())
    await asyncio.to_thread(path.write_bytes, b"contenT")
    with pytest.raises(AiosError, match="damaged"):
        await lab.store.blob(digest)


async def test_a_lock_held_by_another_process_is_waited_for_then_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "BUSY_TIMEOUT_MS", 50)
    clock = ManualClock()
    store = SqliteStore.open(tmp_path, limits=Limits(), now=clock.now)
    desk = Desk(store, clock, Limits())
    await desk.create("task-1")
    foreign = raw_database(tmp_path)
    foreign.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="locked"):
        await desk.create("task-2")
    assert (await store.tasks(TaskQuery(principal="owner"))).total == 1
    foreign.execute("ROLLBACK")
    foreign.close()
    await desk.create("task-2")
    await store.close()


FILLING = """
import asyncio, os, pathlib, sys
from aios.errors import StoreUnavailable
from aios.model import Limits, Status, TaskId
from aios.stores.sqlite import SqliteStore
from aios.testing.clock import ManualClock
from tests.stores.making import Desk

async def main(folder):
    ballast = folder / "ballast"
    ballast.write_bytes(b"x" * 300_000)
    clock = ManualClock()
    store = SqliteStore.open(folder / "data", limits=Limits(), now=clock.now)
    desk = Desk(store, clock, Limits())
    written = 0
    try:
        while True:
            await desk.create(f"task-{written:04}", arguments={"text": "x" * 10_000})
            written += 1
    except StoreUnavailable as error:
        print("full", error.detail)
    assert not store.health().is_writable
    assert (await store.counts())[Status.PENDING] == written
    await store.task(TaskId("task-0000"))
    ballast.unlink()
    await desk.create("task-after", arguments={})
    assert store.health().is_writable
    assert (await store.counts())[Status.PENDING] == written + 1
    await store.close()
    print("recovered", written)

asyncio.run(main(pathlib.Path(sys.argv[1])))
"""


def test_a_full_disk_is_told_and_needs_no_restart(tmp_path: Path) -> None:
    mounting = ["unshare", "--mount", "sh", "-c"]
    mount = f"mount -t tmpfs -o size=2m tmpfs {tmp_path}"
    if (
        shutil.which("unshare") is None
        or subprocess.run([*mounting, mount], check=False, capture_output=True).returncode
    ):
        pytest.skip("this user cannot mount a small disk")
    command = [*mounting, f'{mount} && exec "$@"', "sh", sys.executable, "-c", FILLING, str(tmp_path)]
    house = Path(__file__).parents[3]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=100, cwd=house)
    assert "full The store is unavailable: the disk is full" in done.stdout, done.stderr
    assert "recovered" in done.stdout, done.stderr
