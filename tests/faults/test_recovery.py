"""What a daemon makes of what the last one left: code runs again on its recorded steps, waits go on, a crash costs nothing."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

import pytest

from tests.faults.conftest import Build
from tests.faults.driver.asking import comes_to, create, deeds, ended, get, until
from tests.faults.driver.daemon import Daemon
from tests.faults.driver.record import Json
from tests.faults.driver.wire import Lost, Refused, Unsent

WORKER_LOST = "AIOS-WORKER-LOST"


async def kill_and_start(daemon: Daemon) -> None:
    await daemon.kill()
    await daemon.start()


@pytest.mark.promise("4.crash.costs-no-attempt")
@pytest.mark.promise("4.durable.steps")
async def test_code_runs_again_from_the_top_on_its_recorded_steps_under_the_same_attempt(build: Build) -> None:
    daemon = build()
    await daemon.start()
    gate = daemon.folder / "gate"
    task_id = await create(daemon.connect(), "gated", {"retry": {"max_attempts": 1}}, gate=str(gate))
    for lives in range(1, 4):
        await until(lambda lives=lives: len(deeds(daemon, task_id, "begin")) == lives)
        await until(lambda: bool(deeds(daemon, task_id, "before")))
        assert (await get(daemon.connect(), task_id))["attempt"] == 1
        await kill_and_start(daemon)
    gate.touch()
    task = await ended(daemon.connect(), task_id)
    assert (task["status"], task["attempt"]) == ("completed", 1)
    assert [entry["state"] for entry in task["state_history"]] == ["pending", "working", "completed"]
    assert len(deeds(daemon, task_id, "begin")) == 4
    assert len(deeds(daemon, task_id, "after")) == 1
    assert {line["token"] for line in daemon.ledger} == {f"{task_id}.1"}


async def test_a_question_outlives_its_daemon_and_so_does_its_time(build: Build) -> None:
    daemon = build()
    await daemon.start()
    http = daemon.connect()
    asked = await create(http, "asking", questions=1)
    timed = await create(http, "asking", questions=1, timeout_ms=1_000)
    await comes_to(http, asked, "input_required")
    await comes_to(http, timed, "input_required")
    await kill_and_start(daemon)
    http = daemon.connect()
    task = await ended(http, timed)
    assert (task["status"], task["error"]["code"], task["attempt"]) == ("failed", -32005, 1)
    with pytest.raises(Refused, match="Invalid input"):
        await http.call("aios/task.input", {"task_id": asked, "input": "no number"})
    await http.call("aios/task.input", {"task_id": asked, "input": 7})
    task = await ended(http, asked)
    assert (task["result"]["answers"], len(deeds(daemon, asked, "begin"))) == ([7], 2)


async def test_a_retry_comes_in_its_time_though_the_daemon_died_meanwhile(build: Build) -> None:
    daemon = build()
    await daemon.start()
    delay_ms = 1_500
    retry = {"max_attempts": 2, "delay_ms": delay_ms}
    task_id = await create(daemon.connect(), "flaky", {"retry": retry}, fails=1)
    # The log line says that the retry has been recorded.
    await comes_to(daemon.connect(), task_id, "working", reason="retry")
    await kill_and_start(daemon)
    task = await ended(daemon.connect(), task_id)
    first, second = deeds(daemon, task_id, "begin")
    assert (task["status"], task["attempt"]) == ("completed", 2)
    assert second["at"] - first["at"] >= delay_ms * 1_000_000


async def test_what_was_paused_stands_still_in_the_next_life_until_it_is_resumed(build: Build) -> None:
    daemon = build()
    await daemon.start()
    http = daemon.connect()
    task_id = await create(http, "stepped", steps=50, work_ms=5_000)
    await until(lambda: bool(deeds(daemon, task_id, "step")))
    await http.call("aios/task.pause", {"task_id": task_id})
    await kill_and_start(daemon)
    http = daemon.connect()
    # Another task comes and goes: if the paused one were to run, it would have begun before.
    assert (await ended(http, await create(http, "plain")))["status"] == "completed"
    assert (await get(http, task_id))["status"] == "paused"
    assert len(deeds(daemon, task_id, "begin")) == 1
    await http.call("aios/task.resume", {"task_id": task_id})
    await until(lambda: len(deeds(daemon, task_id, "begin")) == 2)
    assert (await http.call("aios/task.cancel", {"task_id": task_id}))["status"] == "canceled"


async def test_an_idempotency_key_finds_its_task_in_every_life(build: Build) -> None:
    daemon = build()
    await daemon.start()
    keyed = {"idempotency_key": "one and the same"}
    task_id = await create(daemon.connect(), "plain", keyed)
    await kill_and_start(daemon)
    http = daemon.connect()
    assert await create(http, "plain", keyed) == task_id
    with pytest.raises(Refused, match="-32108"):
        await create(http, "plain", keyed, work_ms=1)
    assert (await ended(http, task_id))["status"] == "completed"


@pytest.mark.promise("4.crash.must-not-run-twice")
async def test_code_that_must_not_run_twice_fails_with_its_worker_whether_it_ran_or_was_parked(build: Build) -> None:
    daemon = build()
    await daemon.start()
    http = daemon.connect()
    running = await create(http, "once", work_ms=60_000)
    asking = await create(http, "once", asks=True)
    paused = await create(http, "once", work_ms=60_000)
    await until(lambda: bool(deeds(daemon, running, "begin") and deeds(daemon, paused, "begin")))
    await http.call("aios/task.pause", {"task_id": paused})
    await comes_to(http, asking, "input_required")
    await kill_and_start(daemon)
    http = daemon.connect()
    await http.call("aios/task.resume", {"task_id": paused})
    await http.call("aios/task.input", {"task_id": asking, "input": "yes"})
    for task_id in (running, asking, paused):
        task = await ended(http, task_id)
        assert (task["status"], task["error"]["data"]["error_id"]) == ("failed", WORKER_LOST)
        assert len(deeds(daemon, task_id, "begin")) == 1


@pytest.mark.parametrize("way", ["kill", "exit"])
@pytest.mark.promise("4.crash.max-crashes")
async def test_a_task_that_takes_its_daemon_down_is_given_up_and_those_that_wait_go_on(build: Build, way: str) -> None:
    max_crashes = 2
    daemon = build(environ={"AIOS_LIMITS__MAX_CRASHES": str(max_crashes)})
    await daemon.start()
    http = daemon.connect()
    asking = await create(http, "asking", questions=1)
    await comes_to(http, asking, "input_required")
    delayed = await create(http, "plain", {"delay_ms": 300})
    with suppress(Lost):
        await create(http, "poison", way=way)
    task: Json = {}
    while not task:
        assert await daemon.ended() == (3 if way == "exit" else -9)
        assert daemon.starts <= max_crashes + 1
        await daemon.launch()
        # It may have died of the task before it could be called.
        if await daemon.comes_up():
            with suppress(Lost, Unsent):
                task = await poisoned(daemon)
    assert (task["status"], task["error"]["data"]["error_id"], task["attempt"]) == ("failed", WORKER_LOST, 1)
    assert len(deeds(daemon, task["task_id"], "begin")) == max_crashes + 1
    http = daemon.connect()
    await http.call("aios/task.input", {"task_id": asking, "input": 1})
    assert (await ended(http, asking))["status"] == "completed"
    assert (await ended(http, delayed))["status"] == "completed"


async def poisoned(daemon: Daemon) -> Json:
    """Find the task that kills, and follow it to its end."""
    http = daemon.connect()
    page = await http.call("aios/task.list", {"filter": {"capability_id": "test.faults.poison"}})
    return await ended(http, page["tasks"][0]["task_id"])


async def test_a_task_that_expires_while_there_is_no_daemon_is_expired_by_the_next(build: Build) -> None:
    daemon = build(environ={"AIOS_LIMITS__MAX_CONCURRENT_TASKS": "1"})
    await daemon.start()
    http = daemon.connect()
    await create(http, "endless")
    waiting = await create(http, "plain", {"expires_in_ms": 300})
    created_at = time.monotonic()
    await daemon.kill()
    await asyncio.sleep(max(0.0, 0.3 - (time.monotonic() - created_at)))
    await daemon.start()
    task = await ended(daemon.connect(), waiting)
    assert (task["status"], task["error"]["code"]) == ("failed", -32005)
    assert deeds(daemon, waiting, "begin") == []
