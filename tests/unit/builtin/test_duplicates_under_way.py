"""What happens to a search for duplicates while it runs: crashes, cancels, and others who change the tree."""

import asyncio
import os
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from aios.builtin.files import digests, reading
from aios.builtin.files.hashing import CHUNK_BYTES
from tests.unit.builtin.recording import Crash, Recorded, RecordingContext
from tests.unit.builtin.test_duplicates import contents, find
from tests.unit.builtin.trees import fill

LARGE = 2 * CHUNK_BYTES


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digests, "BATCH_FILES", 2)


def tree(root: Path) -> Path:
    made = {f"large-{number}": bytes([number // 2]) * LARGE for number in range(4)}
    made |= {f"small-{number}": b"%d" % (number // 2) * (9 - number // 2) for number in range(6)}
    return fill(root, made)


def crash_at(place: str) -> Callable[[str], None]:
    def on_step(reached: str) -> None:
        if reached == place:
            raise Crash

    return on_step


async def run_to_the_end(recorded: Recorded, root: Path, crashes: list[str]) -> RecordingContext:
    """Run as a daemon would that is killed at each of these places, before the step is recorded."""
    for place in crashes:
        ctx = RecordingContext(recorded)
        ctx.on_step = crash_at(place)
        with pytest.raises(Crash):
            await find(ctx, root)
    return RecordingContext(recorded)


@pytest.mark.usefixtures("small_batches")
async def test_after_a_crash_no_recorded_batch_is_read_again(tmp_path: Path) -> None:
    tree(tmp_path)
    recorded = Recorded(answers=[["copy-1", "copy-3"]])
    ctx = await run_to_the_end(recorded, tmp_path, ["compare#2", "hash#3", "hash#4", "search#1"])
    result = await find(ctx, tmp_path)
    assert (result["groups"], result["copies"], result["removed"]) == (5, 5, 2)
    # 4 large files make 2 batches of heads; 10 files make 5 batches of hashes; what was under way is done twice.
    assert recorded.runs.count("compare") == 2 + 1
    assert recorded.runs.count("hash") == 5 + 2
    assert len(contents(tmp_path)) == 8


@pytest.mark.usefixtures("small_batches")
async def test_a_crash_after_the_question_asks_nobody_again_and_removes_the_rest(tmp_path: Path) -> None:
    tree(tmp_path)
    recorded = Recorded(answers=[["copy-1", "copy-2", "copy-3"]])
    ctx = await run_to_the_end(recorded, tmp_path, ["remove copy-2#1"])
    assert recorded.runs.count("search") == 1
    result = await find(ctx, tmp_path)
    assert len(recorded.questions) == 1
    assert recorded.runs.count("search") == 1
    assert contents(tmp_path) == {"large-0", "large-2", *(f"small-{number}" for number in range(6) if number != 1)}
    # The second had gone just before the crash; that it was us nobody can tell any more.
    assert (result["chosen"], result["removed"]) == (3, 2)
    assert recorded.artifacts[-1]["parts"][1]["data"]["outcomes"][1]["reason"] == "it is not there any more"


@pytest.mark.usefixtures("small_batches")
async def test_what_changed_while_the_daemon_was_dead_is_read_again(tmp_path: Path) -> None:
    tree(tmp_path)
    recorded = Recorded(answers=[[]])
    ctx = await run_to_the_end(recorded, tmp_path, ["search#1"])
    (tmp_path / "large-1").write_bytes(b"z" * LARGE)
    (tmp_path / "small-0").unlink()
    fill(tmp_path, {"small-new": b"2" * 7})
    result = await find(ctx, tmp_path)
    options = {option["path"] for option in recorded.questions[0]["options"]}
    # What is written anew is older here than what was there.
    assert options == {"large-3", "small-3", "small-4", "small-5"}
    assert result["groups"] == 3


@pytest.fixture
def single_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have one thread read, so that nothing has been read when the first file is about to be."""
    monkeypatch.setattr(reading, "WORKERS", 1)


def once_hashing(ctx: RecordingContext, act: Callable[[], object]) -> None:
    """Act once, when the first file is about to be hashed."""
    done: list[bool] = []

    def on_checkpoint() -> None:
        if not done and ctx.recorded.progress[-1][2] == 3:
            done.append(True)
            act()

    ctx.on_checkpoint = on_checkpoint


@pytest.mark.usefixtures("single_reader")
async def test_files_that_vanish_or_change_in_the_middle_are_left_out(tmp_path: Path) -> None:
    fill(tmp_path, dict.fromkeys(("a", "b", "gone", "grown", "folder/c"), b"same"))

    def meddle() -> None:
        (tmp_path / "gone").unlink()
        with (tmp_path / "grown").open("ab") as file:
            file.write(b"!")
        shutil.rmtree(tmp_path / "folder")

    recorded = Recorded(answers=[[]])
    ctx = RecordingContext(recorded)
    once_hashing(ctx, meddle)
    result = await find(ctx, tmp_path)
    assert (result["groups"], result["copies"], result["changed"]) == (1, 1, 3)
    assert "3 files or folders changed during the search" in recorded.artifacts[0]["parts"][0]["text"]


@pytest.mark.usefixtures("single_reader")
async def test_a_file_replaced_by_a_pipe_in_the_middle_hangs_nobody(tmp_path: Path) -> None:
    fill(tmp_path, {"a": b"same", "b": b"same", "c": b"same"})

    def meddle() -> None:
        (tmp_path / "c").unlink()
        os.mkfifo(tmp_path / "c")

    ctx = RecordingContext(Recorded(answers=[[]]))
    once_hashing(ctx, meddle)
    result = await find(ctx, tmp_path)
    assert (result["copies"], result["unreadable"]) == (1, 1)


async def test_a_folder_swapped_for_a_link_between_answer_and_removal_saves_what_it_leads_to(tmp_path: Path) -> None:
    root = fill(tmp_path / "root", {"a": b"same", "folder/b": b"same"})
    outside = fill(tmp_path / "outside", {"b": b"same"})
    recorded = Recorded(answers=[["folder/b"]])
    ctx = RecordingContext(recorded)

    def meddle() -> None:
        (root / "folder").rename(root / "moved")
        (root / "folder").symlink_to(outside)

    ctx.on_ask = meddle
    result = await find(ctx, root)
    assert (result["chosen"], result["removed"], result["freed_bytes"]) == (1, 0, 0)
    assert contents(outside) == {"b"}
    assert contents(root) >= {"a", "moved/b"}


async def test_pause_and_cancel_take_effect_between_two_chunks(tmp_path: Path) -> None:
    fill(tmp_path, {"a": bytes(6 * CHUNK_BYTES), "b": bytes(6 * CHUNK_BYTES)})
    ctx = RecordingContext()
    checkpoints = 0

    def on_checkpoint() -> None:
        nonlocal checkpoints
        if ctx.recorded.progress[-1][2] == 3:
            checkpoints += 1
            ctx.is_canceled = checkpoints >= 5

    ctx.on_checkpoint = on_checkpoint
    with pytest.raises(asyncio.CancelledError):
        await find(ctx, tmp_path)
    assert recorded_bytes(ctx) < 12 * CHUNK_BYTES
    assert "hash#1" not in ctx.recorded.steps


def recorded_bytes(ctx: RecordingContext) -> float:
    """Give what the last progress says was read."""
    message = ctx.recorded.progress[-1][1] or ""
    number, unit, *_ = message.split(": ")[1].split(" ")
    return float(number) * {"bytes": 1, "MB": 1e6}[unit]


@pytest.mark.soak
async def test_very_many_files_fit_into_little_memory(tmp_path: Path, rounds: int) -> None:
    count = min(200_000, 100 * rounds)
    for folder in range(0, count, 1000):
        (tmp_path / f"folder-{folder}").mkdir()
        for number in range(folder, min(folder + 1000, count)):
            (tmp_path / f"folder-{folder}/record-{number}.json").write_bytes(b"%07d" % (number // 2))
    recorded = Recorded()
    tracemalloc.start()
    try:
        result = await find(RecordingContext(recorded), tmp_path, remove="never")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert result["groups"] == count // 2
    # Half of it is the table of all groups, and the records of the steps, which a store keeps on disk.
    assert peak < 16 * 1024 * 1024 + 600 * count
