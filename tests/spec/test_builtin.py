"""The capabilities that come with the daemon, through a client of a whole daemon."""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import psutil
import pytest

from aios.builtin import adapters
from aios.client import Client, Question
from aios.errors import CapabilityFailed, FileMissing, TaskTimeout, UserCanceled, ValidationFailed
from aios.model import JsonObject
from aios.testing.connected import connected

PATIENCE_S = 30
FIND = "system.files.find_duplicates"
RUN = "system.command.run"


@pytest.fixture
async def client() -> AsyncGenerator[Client]:
    async with (
        connected(adapters=adapters()) as running,
        Client.connect(running.url, running.token) as connection,
    ):
        yield connection


def fill(root: Path, **files: bytes) -> Path:
    for name, content in files.items():
        (root / name).write_bytes(content)
    return root


async def until(is_so: Callable[[], bool]) -> None:
    """Wait, not for ever, for what other processes do; the system tells nobody."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            if is_so():
                return
            await asyncio.sleep(0.01)


async def reach(client: Client, task_id: str, status: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        async for event in client.follow(task_id):
            if event.data.get("status") == status:
                return


async def test_all_of_them_are_offered_with_their_levels(client: Client) -> None:
    levels = {each.id: each.permission_level for each in await client.capabilities()}
    assert levels == {
        "system.info.read": "public",
        "system.files.list": "low",
        "system.files.search": "low",
        "system.files.checksum": "low",
        "system.files.find_duplicates": "high",
        "system.command.run": "critical",
    }


async def test_duplicates_are_found_asked_about_removed_and_reported(client: Client, tmp_path: Path) -> None:
    fill(tmp_path, a=b"1" * 2_000_000, b=b"1" * 2_000_000, c=b"1" * 2_000_000, d=b"other")
    kinds: list[str] = []
    questions: list[Question] = []

    def answer(question: Question) -> Any:
        questions.append(question)
        # The first is no answer to this question: nobody may name another file.
        return [str(tmp_path / "d")] if len(questions) == 1 else ["b"]

    result = await client.run(
        FIND, {"root": str(tmp_path)}, on_input=answer, on_event=lambda event: kinds.append(event.kind)
    )
    assert set(os.listdir(tmp_path)) == {"a", "c", "d"}
    assert (result["copies"], result["removed"], result["freed_bytes"]) == (2, 1, 2_000_000)
    assert questions[1].errors
    assert kinds.count("task.artifact") == 2
    report = await client.artifact(result["report"])
    assert [part["type"] for part in report.parts] == ["text", "data", "image", "file"]
    chart = await client.artifact_content(result["report"], 2)
    assert ET.fromstring(chart).tag.endswith("svg")
    assert (await client.artifact_content(result["report"], 3)).startswith(b"group,size,sha256")


async def test_a_search_can_be_paused_and_goes_on(client: Client, tmp_path: Path) -> None:
    for name in "ab":
        with (tmp_path / name).open("wb") as file:
            os.truncate(file.fileno(), 400_000_000)
    task = await client.create(FIND, {"root": str(tmp_path), "remove": "never"})
    async with asyncio.timeout(PATIENCE_S):
        async for event in client.follow(task.task_id):
            if event.kind == "task.progress" and event.data["progress"].get("current_step") == 3:
                break
    await client.pause(task.task_id)
    assert (await client.get(task.task_id)).status == "paused"
    await client.resume(task.task_id)
    assert (await client.wait(task.task_id))["wasted_bytes"] == 400_000_000


async def test_errors_come_as_their_classes(client: Client, tmp_path: Path) -> None:
    with pytest.raises(FileMissing):
        await client.run(FIND, {"root": str(tmp_path / "nowhere")})
    with pytest.raises(ValidationFailed):
        await client.run(FIND, {"root": str(tmp_path), "remove": "all"})
    with pytest.raises(FileMissing):
        await client.run(RUN, {"command": ["no-such-program"]})
    with pytest.raises(TaskTimeout):
        await client.run(RUN, {"command": ["sleep", "600"], "timeout_ms": 50})
    with pytest.raises(CapabilityFailed, match="the reason"):
        await client.run(RUN, {"command": ["sh", "-c", "echo the reason >&2; exit 7"]})


async def test_a_program_is_told_while_it_runs(client: Client) -> None:
    said: list[JsonObject] = []
    code = "echo out; echo error >&2; cat"
    result = await client.run(
        RUN,
        {"command": ["sh", "-c", code], "stdin": "in"},
        on_event=lambda event: said.append({"kind": event.kind, **event.data}),
    )
    assert (result["stdout"], result["stderr"], result["exit_code"]) == ("out\nin", "error\n", 0)
    assert "".join(event["data"] for event in said if event["kind"] == "task.chunk") == "out\nin"
    assert [event["message"] for event in said if event["kind"] == "task.log"] == ["error"]


async def start_family(client: Client) -> tuple[str, psutil.Process]:
    """Start a shell with a child that ignores what asks it to end."""
    code = "trap '' TERM; sh -c 'trap \"\" TERM; sleep 600' & echo $$; wait; sleep 600"
    task = await client.create(RUN, {"command": ["sh", "-c", code]})
    async with asyncio.timeout(PATIENCE_S):
        async for event in client.follow(task.task_id):
            if event.kind == "task.chunk":
                return task.task_id, psutil.Process(int(event.data["data"]))
    raise AssertionError("it said nothing")


def is_gone(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


async def test_a_program_is_stopped_while_its_task_is_paused_and_gone_when_it_is_canceled(client: Client) -> None:
    task_id, shell = await start_family(client)
    await until(lambda: len(shell.children(recursive=True)) >= 1)
    family = [shell, *shell.children(recursive=True)]
    await client.pause(task_id)
    # A process whose child was stopped between fork and exec waits for it, and is as still as if it were stopped.
    still = {psutil.STATUS_STOPPED, psutil.STATUS_DISK_SLEEP}
    await until(lambda: all(each.status() in still for each in family))
    await client.resume(task_id)
    await until(lambda: all(each.status() not in still for each in family))
    await client.cancel(task_id)
    await until(lambda: all(is_gone(each) for each in family))
    with pytest.raises(UserCanceled):
        await client.wait(task_id)


async def test_a_task_that_overruns_its_time_leaves_no_program(client: Client) -> None:
    task = await client.create(RUN, {"command": ["sh", "-c", "echo $$; sleep 600"]}, timeout_ms=1_000)
    async with asyncio.timeout(PATIENCE_S):
        events = [event async for event in client.follow(task.task_id)]
    (pid,) = (int(event.data["data"]) for event in events if event.kind == "task.chunk")
    assert (await client.get(task.task_id)).status == "failed"
    await until(lambda: not psutil.pid_exists(pid))
