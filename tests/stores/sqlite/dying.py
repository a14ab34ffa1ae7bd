"""A process that forks children which use a store until a failpoint kills them, and says what became of each.

Importing once and forking often makes a kill cost milliseconds. Reads lines `folder<TAB>life<TAB>failpoints` and
answers each with the child's exit status. The child writes what was acknowledged to `<folder>/acknowledged`, line by line, as a
client would note it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

from msgspec.structs import replace

from aios import failpoints
from aios.model import Artifact, ArtifactId, Blob, Limits, Step, TaskId
from aios.rules.lifecycle import Cancel, Complete, Start
from aios.stores.sqlite import SqliteStore
from aios.testing.clock import ManualClock
from tests.stores.making import WORKER, Desk, half_way


async def work(folder: Path, life: str) -> None:
    """Do a bit of everything, in a fixed order."""
    with (folder / "acknowledged").open("w") as notes:

        def acknowledged(*words: Any) -> None:
            notes.write("\t".join(map(str, words)) + "\n")
            notes.flush()

        clock = ManualClock()
        store = SqliteStore.open(folder / "data", limits=Limits(max_events_per_task=4), now=clock.now)
        desk = Desk(store, clock, Limits())
        acknowledged("open")
        for number in range(2):
            task_id = f"task-{life}-{number}"
            await desk.create(task_id)
            acknowledged("created", task_id)
            task = await desk.carry_out(task_id, Start(WORKER))
            await store.put_step(task.task_id, Step(key="step:1", value=b"1"), claim=task.claim)
            acknowledged("step", task_id)
            digest = await store.put_blob(f"content of {task_id}".encode())
            acknowledged("content", digest)
            artifact = Artifact(
                id=ArtifactId(f"art-{life}-{number}"),
                task_id=task.task_id,
                name="a",
                type="report",
                created_at=clock.now(),
                blobs=[Blob(part=0, sha256=digest, size=1, mime_type="text/plain")],
            )
            task = (await store.commit(replace(desk.change(task, half_way()), artifacts=(artifact,)))).task
            acknowledged("artifact", artifact.id, digest)
            for _ in range(4):
                task = await desk.carry_out(task_id, half_way())
            acknowledged("version", task_id, task.version)
            await desk.carry_out(task_id, (Complete("done"), Cancel())[number])
            acknowledged("ended", task_id)
            await store.release(TaskId(task_id), claim=1)
        clock.advance(1)
        purged = await store.purge(clock.now() + timedelta(seconds=1), limit=1)
        acknowledged("purged", purged)
        await store.close()


def live(folder: Path, life: str, points: str) -> NoReturn:
    """Be the child."""
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    status = 1
    try:
        failpoints.arm(points)
        asyncio.run(work(folder, life))
        status = 0
    finally:
        sys.stderr.flush()
        os._exit(status)


def main() -> None:
    """Serve."""
    for line in sys.stdin:
        folder, life, points = line.rstrip("\n").split("\t")
        child = os.fork()
        if child == 0:
            live(Path(folder), life, points)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{status}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
