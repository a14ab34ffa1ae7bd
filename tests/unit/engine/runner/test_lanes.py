"""Lanes: code that blocks its event loop holds up nobody who has not begun, and only its like after that."""

import asyncio
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from aios.engine.runner import lanes as module
from aios.engine.runner.gate import GATE, Gate, Gated
from aios.engine.runner.lanes import LANES_MAX, SLOW_LANES_MAX, Lane, Lanes
from aios.engine.runner.threads import Threads

WAIT_S = 10


class Job:
    """An attempt of a capability, as far as lanes know it."""

    def __init__(self, label: str, code: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.label = label
        self._code = code
        self.ended = threading.Event()
        self.lane: Lane | None = None

    def begin(self, lane: Lane) -> None:
        self.lane = lane
        gate = Gate(lane.track, label=self.label)

        async def root() -> None:
            GATE.set(gate)
            await Gated(self._code(), gate)
            self.ended.set()

        self._task = asyncio.Task(root(), loop=lane.loop)


@pytest.fixture
def lanes() -> Iterator[Lanes]:
    threads = Threads(4)
    made = Lanes(threads=threads)
    made.start()
    yield made
    made.stop(2_000)
    threads.stop()


async def nothing() -> None:
    await asyncio.sleep(0)


def blocking(until: threading.Event, begun: threading.Event | None = None) -> Callable[[], Coroutine[Any, Any, None]]:
    """Make code that blocks its loop until it is let go."""

    async def code() -> None:
        if begun is not None:
            begun.set()
        until.wait(WAIT_S)

    return code


def test_many_jobs_run_on_one_lane(lanes: Lanes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STUCK_MS", 60_000)  # A busy machine is no reason to open another.
    jobs = [Job("quick", nothing) for _ in range(200)]
    for job in jobs:
        lanes.submit(job)
    assert all(job.ended.wait(WAIT_S) for job in jobs)
    assert lanes.count == 1


def test_a_job_that_blocks_delays_none_that_was_submitted_with_it_or_after_it(lanes: Lanes) -> None:
    let_go = threading.Event()
    blocker = Job("blocker", blocking(let_go))
    others = [Job("quick", nothing) for _ in range(20)]
    lanes.submit(blocker)
    for job in others:
        lanes.submit(job)
    try:
        assert all(job.ended.wait(WAIT_S) for job in others)
        assert not blocker.ended.is_set()
        late = Job("quick", nothing)
        lanes.submit(late)
        assert late.ended.wait(WAIT_S)
    finally:
        let_go.set()
    assert blocker.ended.wait(WAIT_S)


def test_a_capability_that_was_seen_to_block_runs_apart_from_then_on(lanes: Lanes) -> None:
    let_go, begun = threading.Event(), threading.Event()
    first, other = Job("blocker", blocking(let_go)), Job("quick", nothing)
    lanes.submit(first)
    lanes.submit(other)
    assert other.ended.wait(WAIT_S)
    let_go.set()
    assert first.ended.wait(WAIT_S)
    let_go.clear()
    second = Job("blocker", blocking(let_go, begun))
    lanes.submit(second)
    try:
        assert begun.wait(WAIT_S)
        assert second.lane not in {first.lane, other.lane}
        after = Job("quick", nothing)
        lanes.submit(after)
        assert after.ended.wait(WAIT_S)
        assert after.lane in {first.lane, other.lane}
    finally:
        let_go.set()


def test_there_are_never_more_lanes_than_the_bound_and_those_stuck_go_on_when_they_can(lanes: Lanes) -> None:
    let_go, begun = threading.Event(), threading.Semaphore(0)

    async def code() -> None:
        begun.release()
        let_go.wait(WAIT_S)

    jobs = [Job(f"blocker-{number}", code) for number in range(LANES_MAX - SLOW_LANES_MAX + 2)]
    for job in jobs:
        lanes.submit(job)
    try:
        for _ in range(LANES_MAX - SLOW_LANES_MAX):
            assert begun.acquire(timeout=WAIT_S)
        assert not begun.acquire(timeout=0.2)
        assert lanes.count == LANES_MAX - SLOW_LANES_MAX
    finally:
        let_go.set()
    assert all(job.ended.wait(WAIT_S) for job in jobs)


def test_lanes_that_hang_for_ever_are_replaced_so_that_others_run(
    lanes: Lanes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOST_MS", 200)
    let_go = threading.Event()
    jobs = [Job(f"hanging-{number}", blocking(let_go)) for number in range(LANES_MAX)]
    try:
        for job in jobs:
            lanes.submit(job)
        late = Job("quick", nothing)
        lanes.submit(late)
        assert late.ended.wait(WAIT_S)
        assert not any(job.ended.is_set() for job in jobs)
    finally:
        let_go.set()
    assert all(job.ended.wait(WAIT_S) for job in jobs)


def test_a_callback_that_blocks_the_lane_delays_nobody_for_long(lanes: Lanes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DEAF_MS", 50)
    let_go, begun = threading.Event(), threading.Event()

    def block() -> None:
        begun.set()
        let_go.wait(WAIT_S)

    async def code() -> None:
        asyncio.get_running_loop().call_soon(block)

    lanes.submit(Job("blocker", code))
    try:
        assert begun.wait(WAIT_S)
        late = Job("quick", nothing)
        lanes.submit(late)
        assert late.ended.wait(WAIT_S / 2)
    finally:
        let_go.set()


def test_a_callback_that_calls_exit_does_not_take_the_lane_away(lanes: Lanes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STUCK_MS", 60_000)

    async def code() -> None:
        asyncio.get_running_loop().call_soon(sys.exit, 1)

    for job in (Job("leaving", code), Job("quick", nothing)):
        lanes.submit(job)
        assert job.ended.wait(WAIT_S)
    assert lanes.count == 1


def test_stopping_leaves_a_stuck_lane_behind_in_the_time_it_was_given() -> None:
    let_go, begun = threading.Event(), threading.Event()
    threads = Threads(1)
    lanes = Lanes(threads=threads)
    lanes.start()
    lanes.submit(Job("blocker", blocking(let_go, begun)))
    assert begun.wait(WAIT_S)
    lanes.stop(50)
    assert any(thread.name == "aios-lane-1" and thread.daemon for thread in threading.enumerate())
    let_go.set()
