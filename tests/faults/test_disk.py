"""A disk without room, and a folder that may not be written: the daemon stays up, says so, and promises nothing meanwhile."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.faults.conftest import Build
from tests.faults.driver.asking import LOOK_EVERY_S, comes_to, create, ended, get
from tests.faults.driver.daemon import PATIENCE_S, Daemon
from tests.faults.driver.disk import CannotTry, SmallDisk, limit_files, obeying_modes
from tests.faults.driver.wire import Http, Refused

STORE_UNAVAILABLE = (-32007, "AIOS-RESOURCE-BUSY")
CREATES_MAX = 2_000
FILES_MAX = 200_000
"""Bytes: a daemon's database is smaller than this when it is new, and soon is not."""


class Place(NamedTuple):
    """A daemon whose disk can be filled and freed."""

    daemon: Daemon
    fill: Callable[[], None]
    free: Callable[[], None]


@pytest.fixture(params=["a small disk", "a limit on files"])
async def place(request: pytest.FixtureRequest, build: Build, tmp_path: Path) -> AsyncIterator[Place]:
    folder = tmp_path / "disk"
    folder.mkdir()
    if request.param == "a limit on files":
        daemon = build(folder)
        await daemon.start()
        pid = daemon.process.pid
        yield Place(daemon, lambda: limit_files(pid, FILES_MAX), lambda: limit_files(pid, None))
        return
    disk = SmallDisk(folder)
    try:
        await disk.mount()
    except CannotTry:
        pytest.skip("this user cannot mount a small disk")
    daemon = build(folder, prefix=disk.prefix, seen=disk.seen)
    await daemon.start()
    yield Place(daemon, disk.fill, disk.free)
    await daemon.kill()
    await disk.unmount()


async def create_until_refused(http: Http) -> tuple[list[str], Refused]:
    """Create tasks until the disk is full; gives those that were acknowledged, and the first refusal."""
    made: list[str] = []
    for number in range(CREATES_MAX):
        try:
            made.append(await create(http, "plain", {"delay_ms": 3_600_000}, op=number, work_ms=0))
        except Refused as refused:
            return made, refused
    raise AssertionError("the disk never got full")


async def ready(http: Http) -> tuple[int, str]:
    status, body = await http.get("/readyz")
    return status, json.loads(body).get("reason", "")


async def becomes_ready(http: Http) -> None:
    for _ in range(round(PATIENCE_S / LOOK_EVERY_S)):
        if (await ready(http))[0] == 200:
            return
        await asyncio.sleep(LOOK_EVERY_S)
    raise AssertionError(f"it never became ready again: {await ready(http)}")


@pytest.mark.promise("2.readyz.disk")
async def test_a_full_disk_is_told_and_costs_no_acknowledged_task_and_no_restart(place: Place) -> None:
    daemon = place.daemon
    http = daemon.connect()
    done = await ended(http, await create(http, "plain"))
    asking = await create(http, "asking", questions=1)
    await comes_to(http, asking, "input_required")
    place.fill()
    made, refused = await create_until_refused(http)
    assert (refused.code, refused.error["data"]["error_id"]) == STORE_UNAVAILABLE
    await everything_but_writing_works(http, done["task_id"])
    with pytest.raises(Refused, match=str(STORE_UNAVAILABLE[0])):
        await http.call("aios/task.input", {"task_id": asking, "input": 1})
    assert (await get(http, asking))["status"] == "input_required"
    assert await listed(http) == {done["task_id"], asking, *made}

    place.free()
    await becomes_ready(http)
    await http.call("aios/task.input", {"task_id": asking, "input": 2})
    assert (await ended(http, asking))["result"]["answers"] == [2]
    made.append(await create(http, "plain"))
    assert (await ended(http, made[-1]))["status"] == "completed"

    await daemon.kill()
    await daemon.start()
    assert await listed(daemon.connect()) == {done["task_id"], asking, *made}
    assert daemon.complaints == []


async def everything_but_writing_works(http: Http, task_id: str) -> None:
    status, reason = await ready(http)
    assert status == 503
    assert "disk" in reason
    assert (await http.get("/healthz"))[0] == 200
    assert (await get(http, task_id))["status"] == "completed"
    assert (await ended(http, task_id))["status"] == "completed"
    assert (await http.get("/metrics"))[0] == 200


async def listed(http: Http) -> set[str]:
    page = await http.call("aios/task.list", {"pagination": {"limit": 1_000}})
    found = [task["task_id"] for task in page["tasks"]]
    while page["has_more"]:
        page = await http.call("aios/task.list", {"pagination": {"limit": 1_000, "cursor": page["next_cursor"]}})
        found += [task["task_id"] for task in page["tasks"]]
    assert len(found) == page["total"]
    return set(found)


async def test_what_runs_while_the_disk_is_full_comes_to_an_end_afterwards(place: Place) -> None:
    daemon = place.daemon
    http = daemon.connect()
    running = [await create(http, "plain", work_ms=400), await create(http, "stepped", steps=8, work_ms=400)]
    canceled = await create(http, "endless")
    await comes_to(http, canceled, "working")
    place.fill()
    await create_until_refused(http)
    with pytest.raises(Refused, match=str(STORE_UNAVAILABLE[0])):
        await http.call("aios/task.cancel", {"task_id": canceled})
    place.free()
    await becomes_ready(http)
    await http.call("aios/task.cancel", {"task_id": canceled})
    tasks = [await ended(http, task_id) for task_id in running]
    assert tasks[0]["status"] == "completed"
    # Code that records something hears that it cannot be written, and may make of it what it likes.
    assert tasks[1]["status"] == "completed" or tasks[1]["error"]["code"] == STORE_UNAVAILABLE[0]
    assert (await ended(http, canceled))["status"] == "canceled"
    assert (await http.call("aios/task.list", {"filter": {"status": ["working"]}}))["total"] == 0


async def test_a_daemon_that_is_killed_on_a_full_disk_starts_again_when_there_is_room(place: Place) -> None:
    daemon = place.daemon
    http = daemon.connect()
    place.fill()
    made, _ = await create_until_refused(http)
    await daemon.kill()
    await daemon.launch()
    if not await daemon.comes_up():
        assert "Traceback" not in "\n".join(daemon.lines)
        assert any("disk is full" in line for line in daemon.lines)
        place.free()
        await daemon.start()
    http = daemon.connect()
    assert await listed(http) == set(made)


@pytest.fixture
def obeying(build: Build) -> Daemon:
    try:
        return build(prefix=obeying_modes())
    except CannotTry:
        pytest.skip("root cannot be made to obey the modes of files here")


def forbid(data: Path) -> None:
    for folder in (data, *(path for path in data.rglob("*") if path.is_dir())):
        folder.chmod(0o500)


def allow(data: Path) -> None:
    for folder in (data, *(path for path in data.rglob("*") if path.is_dir())):
        folder.chmod(0o700)


async def test_a_folder_that_may_not_be_written_any_more_fails_what_needs_it_and_nothing_else(obeying: Daemon) -> None:
    daemon = obeying
    await daemon.start()
    http = daemon.connect()
    before = await ended(http, await create(http, "making"))
    forbid(daemon.data)
    failed = await ended(http, await create(http, "making", op=1))
    assert (failed["status"], failed["error"]["code"]) == ("failed", STORE_UNAVAILABLE[0])
    assert (await get(http, before["task_id"]))["status"] == "completed"
    assert (await http.get(f"/aios/artifacts/{before['result']['artifacts'][1]}/0"))[0] == 200
    allow(daemon.data)
    assert (await ended(http, await create(http, "making", op=1)))["status"] == "completed"


async def test_a_folder_that_may_not_be_written_is_refused_at_the_start(obeying: Daemon) -> None:
    daemon = obeying
    await daemon.start()
    http = daemon.connect()
    task_id = (await ended(http, await create(http, "plain")))["task_id"]
    await daemon.kill()
    forbid(daemon.data)
    await daemon.launch()
    assert not await daemon.comes_up()
    assert await daemon.ended() == 2
    assert "Traceback" not in "\n".join(daemon.lines)
    assert "denied" in daemon.lines[-1] or "cannot be" in daemon.lines[-1]
    allow(daemon.data)
    await daemon.start()
    assert (await get(daemon.connect(), task_id))["status"] == "completed"
