"""kill -9 at every failpoint: what was acknowledged is there, what was not is there whole or not at all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Final

import pytest

from aios.errors import TaskNotFound
from aios.failpoints import STORE_POINTS
from aios.model import ArtifactId, Limits, Status, TaskId
from aios.stores.sqlite import SqliteStore
from aios.testing.clock import ManualClock
from tests.stores.sqlite.faults import raw_database

HOUSE: Final = Path(__file__).parents[3]
HITS_MAX: Final = 100


class Deaths:
    """Runs the work in children that die."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, folder: Path, points: str, life: int = 0) -> bool:
        """Run the work; say whether it was killed on the way."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{folder}\t{life}\t{points}\n")
        self._process.stdin.flush()
        status = int(self._process.stdout.readline())
        assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
        return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


@pytest.fixture(scope="module")
def deaths() -> Generator[Deaths]:
    command = [sys.executable, "-m", "tests.stores.sqlite.dying"]
    with subprocess.Popen(command, cwd=HOUSE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Deaths(process)
        assert process.stdin is not None
        process.stdin.close()


async def check(folder: Path) -> None:
    """Hold the folder against what was acknowledged, and the rows against each other."""
    clock = ManualClock()
    store = SqliteStore.open(folder / "data", limits=Limits(), now=clock.now)
    notes = [line.split("\t") for line in (folder / "acknowledged").read_text().splitlines()]
    purged = any(words[0] == "purged" for words in notes)
    for kind, *words in notes:
        if kind in ("created", "step", "version", "ended"):
            try:
                task = await store.task(TaskId(words[0]))
            except TaskNotFound:
                # The first task is purged at the end, acknowledged or not.
                assert words[0] == "task-0-0"
                assert ["ended", "task-0-1"] in notes
                continue
            assert kind != "step" or [step.key for step in await store.steps(task.task_id)] == ["step:1"]
            assert kind != "version" or task.version >= int(words[1])
            assert kind != "ended" or task.status.is_terminal
        elif kind == "content":
            await store.blob(words[0])
        elif kind == "artifact" and not (purged or words[0] == "art-0-0"):
            artifact = await store.artifact(ArtifactId(words[0]))
            assert [blob.sha256 for blob in artifact.blobs] == [words[1]]
            await store.blob(words[1])
    counts = await store.counts()
    await store.close()
    database = raw_database(folder / "data")
    assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert database.execute("PRAGMA foreign_key_check").fetchall() == []
    for status in (Status.COMPLETED, Status.FAILED, Status.CANCELED):
        (found,) = database.execute("SELECT count(*) FROM finished WHERE status = ?", (status,)).fetchone() or (None,)
        assert counts[status] == found
    rows = database.execute(
        "SELECT t.row, coalesce(u.state, f.state) ->> 'version', count(e.number), max(e.number), coalesce(c.events, 0) "
        "FROM task AS t LEFT JOIN unfinished AS u USING (row) LEFT JOIN finished AS f USING (row) "
        "LEFT JOIN event AS e USING (row) LEFT JOIN cut AS c USING (row) GROUP BY t.row"
    ).fetchall()
    for _, version, kept, last, cut in rows:
        assert (version or 0) == (last or 0) == kept + cut
    assert list((folder / "data" / "blobs" / "unfinished").iterdir()) == []
    database.close()


@pytest.mark.parametrize("point", sorted(STORE_POINTS))
async def test_a_kill_at_any_pass_of_a_failpoint_loses_nothing(deaths: Deaths, tmp_path: Path, point: str) -> None:
    for hit in range(1, HITS_MAX):
        folder = tmp_path / str(hit)
        folder.mkdir()
        was_killed = deaths.run(folder, f"{point}=kill@{hit}")
        await check(folder)
        if not was_killed:
            assert hit > 1, "nobody ever comes to this point"
            return
    pytest.fail("the work never came to its end")


async def test_a_store_lives_through_one_kill_after_the_other(deaths: Deaths, tmp_path: Path, rounds: int) -> None:
    """The same folder again and again: what an earlier life left is met by the next."""
    points = sorted(STORE_POINTS - {"migration.inside"})
    for number in range(rounds // 4):
        deaths.run(tmp_path, f"{points[number % len(points)]}=kill@{number // len(points) + 1}", number)
        await check_whole(tmp_path)


async def check_whole(folder: Path) -> None:
    """Hold the rows against each other."""
    (folder / "acknowledged").write_text("")
    await check(folder)
