"""A search for duplicates whose daemon is killed in the middle."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from aios.builtin.files.digests import BATCH_FILES
from aios.client import Client, TaskEvent
from tests.cli.program import Serving, Shell, finish

FIND = "system.files.find_duplicates"
BATCHES = 3
FILE_BYTES = 100
TOTAL_BYTES = BATCHES * BATCH_FILES * FILE_BYTES


@pytest.fixture
def serving() -> Iterator[Serving]:
    # A short path: a Unix socket is to lie in it.
    with tempfile.TemporaryDirectory(prefix="aios-") as folder:
        made = Serving(Shell(Path(folder)))
        yield made
        assert made.end() == 0


def make_tree(root: Path) -> None:
    for number in range(BATCHES * BATCH_FILES):
        (root / f"{number:05}").write_bytes(b"%010d" % (number // 2) * (FILE_BYTES // 10))


def hashed_bytes(event: TaskEvent) -> float:
    """Give how much a progress event says was hashed."""
    progress = event.data.get("progress", {})
    if progress.get("current_step") != 3 or ": " not in progress.get("message", ""):
        return 0
    number, unit, *_ = progress["message"].split(": ")[1].split(" ")
    return float(number) * {"byte": 1, "bytes": 1, "kB": 1e3, "MB": 1e6}[unit]


def address(serving: Serving) -> str:
    """The same before and after: the port is another each time."""
    return f"unix:{serving.shell.environ['AIOS_DATA']}/aios.sock"


async def test_it_goes_on_with_what_it_had_read_and_asks_once(serving: Serving, tmp_path: Path) -> None:
    make_tree(tmp_path)
    last = 0
    async with Client.connect(address(serving)) as client:
        task = await client.create(FIND, {"root": str(tmp_path)})
        async for event in client.follow(task.task_id):
            last = event.number
            # The first of three batches is recorded by now.
            if hashed_bytes(event) > 0.5 * TOTAL_BYTES:
                break
    serving.process.kill()
    finish(serving.process)
    serving.start()
    events: list[TaskEvent] = []
    async with Client.connect(address(serving)) as client:
        result = await client.wait(
            task.task_id, after=last, on_input=lambda _: ["copy-1", "copy-2"], on_event=events.append
        )
    hashed = [count for count in map(hashed_bytes, events) if count]
    # What was on its way when the daemon died may be told first, then nothing less than what was recorded.
    assert min(hashed) > 0.3 * TOTAL_BYTES
    assert (result["copies"], result["removed"]) == (BATCHES * BATCH_FILES // 2, 2)
    assert len(os.listdir(tmp_path)) == BATCHES * BATCH_FILES - 2
    assert sum(event.kind == "task.input_required" for event in events) == 1
