"""SIGTERM: the daemon ends in order and soon, whatever runs; what ran goes on at the next start, and pays nothing for it."""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import aclosing

import pytest

from aios.daemon.composition import DOORS_GRACE_MS, ENGINE_GRACE_MS
from aios.engine.runner import LANES_MS, RECORD_MS, UNWIND_MS
from tests.faults.check import check
from tests.faults.conftest import Build
from tests.faults.driver.asking import create, deeds, ended, get, until
from tests.faults.driver.daemon import Daemon
from tests.faults.driver.evidence import Evidence, gather
from tests.faults.driver.load import Load
from tests.faults.driver.wire import Frame, Http, Lines, Lost

STOP_S = 5.0
"""The promise of design.md: SIGTERM ends the daemon within this time."""
STOPS = 5
STREAMS = 40
FAREWELL_KINDS = {"task.status", "task.progress"}


async def stops_in_time(daemon: Daemon) -> None:
    begun = time.monotonic()
    code = await daemon.stop()
    assert code == 0, f"it ended with {code}: {daemon.lines[-5:]}"
    assert time.monotonic() - begun < STOP_S
    assert not (daemon.data / "daemon.json").exists()
    assert not (daemon.data / "aios.sock").exists()


def crashes(evidence: Evidence) -> list[str]:
    return [task.task_id for task in evidence.stored.values() if task.state.get("crashes")]


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.promise("4.durable.hand-back")
async def test_a_daemon_that_is_asked_to_stop_under_load_loses_nothing_and_costs_nobody_an_attempt(
    build: Build, rounds: int
) -> None:
    daemon = build()
    dice, load = random.Random(1), Load(daemon, seed="stopping")
    load.start()
    try:
        for _ in range(max(STOPS, rounds // 20)):
            await daemon.start()
            await asyncio.sleep(dice.uniform(0.05, 0.5))
            await stops_in_time(daemon)
            load.record.stops += 1
            load.look()
        await daemon.start()
        await load.stop()
        await load.settle()
    finally:
        await load.abandon()
        load.record.write(daemon.folder / "record.jsonl")
    evidence = await gather(daemon, load.record)
    assert check(evidence) == []
    assert crashes(evidence) == []


async def test_what_runs_when_the_daemon_stops_goes_on_at_the_next_start(build: Build) -> None:
    daemon = build()
    await daemon.start()
    http = daemon.connect()
    created = [
        await create(http, "stepped", steps=40, work_ms=2_000),
        await create(http, "blocking", steps=40, work_ms=2_000),
    ]
    await until(lambda: all(deeds(daemon, task_id, "step") for task_id in created))
    await stops_in_time(daemon)
    before = {task_id: [line["number"] for line in deeds(daemon, task_id, "step")] for task_id in created}
    await daemon.start()
    http = daemon.connect()
    for task_id in created:
        task = await ended(http, task_id)
        assert (task["status"], task["attempt"]) == ("completed", 1)
        done = [line["number"] for line in deeds(daemon, task_id, "step")]
        begun = before[task_id]
        # At most the step that was under way is done again.
        assert done[len(begun)] in {begun[-1], begun[-1] + 1}
        assert len(done) <= 41


async def read(http: Http, task_id: str) -> list[Frame]:
    async with aclosing(http.events(f"/aios/tasks/{task_id}/events")) as frames:
        return [frame async for frame in frames]


def test_all_that_stopping_may_wait_for_stays_within_the_promise() -> None:
    runner_ms = UNWIND_MS + RECORD_MS + LANES_MS
    assert DOORS_GRACE_MS + ENGINE_GRACE_MS + runner_ms <= STOP_S * 1000


@pytest.mark.promise("2.stop.in-time")
async def test_open_streams_end_in_good_order_when_the_daemon_stops(build: Build) -> None:
    daemon = build()
    await daemon.start()
    http = daemon.connect()
    task_id = await create(http, "endless")
    streams = [asyncio.create_task(read(http, task_id)) for _ in range(STREAMS)]
    lines = Lines()
    await lines.open(daemon.socket_path)
    await lines.call("aios/task.subscribe", {"task_id": task_id, "from": "start"})
    assert await lines.notes.get() is not None
    await stops_in_time(daemon)
    # Each ended as a stream should: none raised `Lost`.
    seen = await asyncio.gather(*streams)
    while await lines.notes.get() is not None:
        pass
    await lines.close()
    await daemon.start()
    log = [frame.id for frame in await log_so_far(daemon, task_id, seen)]
    for frames in seen:
        assert [frame.id for frame in frames] == log[: len(frames)]
        assert {frame.event for frame in frames} <= FAREWELL_KINDS


async def log_so_far(daemon: Daemon, task_id: str, seen: list[list[Frame]]) -> list[Frame]:
    """Read the log as far as anybody has seen it."""
    furthest = max(len(frames) for frames in seen)
    found: list[Frame] = []
    if furthest:
        async with aclosing(daemon.connect().events(f"/aios/tasks/{task_id}/events")) as frames:
            async for frame in frames:
                found.append(frame)
                if len(found) == furthest:
                    break
    return found


@pytest.mark.promise("2.stop.in-time")
async def test_a_capability_that_never_ends_does_not_keep_the_daemon_from_its_end(build: Build) -> None:
    """Not even where a caller waits for it, whose answer the door would like to see written."""
    daemon = build()
    await daemon.start()
    http = daemon.connect()
    waiting = asyncio.create_task(create(http, "deaf", {"async": False}))
    await until(lambda: any(line["deed"] == "begin" for line in daemon.ledger))
    await stops_in_time(daemon)
    with pytest.raises(Lost):
        await waiting
    await daemon.start()
    # By now it may have begun anew.
    task = await get(daemon.connect(), daemon.ledger[0]["task_id"])
    assert (task["status"], task["attempt"]) == ("working", 1)
