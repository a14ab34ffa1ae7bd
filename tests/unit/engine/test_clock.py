"""The system's clock without its jumps."""

from __future__ import annotations

import asyncio
from datetime import UTC, timedelta

from hypothesis import given
from hypothesis import strategies as some

from aios.engine.clock import NAP_MS_MAX, SystemClock
from aios.engine.ids import new_id
from aios.model import from_ms
from aios.testing.clock import START

HOUR_S = 3_600.0


class Times:
    """A wall clock and a steady one, as a test wants them."""

    def __init__(self) -> None:
        self.wall = START.timestamp()
        self.steady = 1_000.0

    def pass_(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds


class QuietLoop:
    """Notes what it is to call later."""

    def __init__(self) -> None:
        self.delays: list[float] = []
        self.calls: list[object] = []

    def call_later(self, delay: float, call: object) -> object:
        self.delays.append(delay)
        self.calls.append(call)
        return self

    def cancel(self) -> None:
        self.calls.clear()


def clock_of(times: Times, loop: object = None) -> SystemClock:
    return SystemClock(loop, wall=lambda: times.wall, steady=lambda: times.steady)  # pyright: ignore[reportArgumentType]


def test_time_passes_as_it_does() -> None:
    times = Times()
    clock = clock_of(times)
    assert clock.now() == START
    times.pass_(1.2345)
    assert clock.now() == START + timedelta(milliseconds=1234)
    assert clock.now().tzinfo is UTC


def test_a_wall_clock_that_is_set_lets_nothing_jump_and_is_followed_slowly() -> None:
    for jump in (HOUR_S, -HOUR_S, 10 * 365 * 24 * HOUR_S):
        times = Times()
        clock = clock_of(times)
        times.wall += jump
        assert clock.now() == START
        times.pass_(100)
        assert abs((clock.now() - START).total_seconds() - 100) <= 1.001
        assert (clock.now() > START + timedelta(seconds=100)) == (jump > 0)


def test_in_the_end_the_wall_clock_is_right() -> None:
    times = Times()
    clock = clock_of(times)
    times.wall += 2.0
    for _ in range(300):
        times.pass_(1)
        clock.now()
    assert abs(clock.now().timestamp() - times.wall) < 0.002


@given(some.lists(some.tuples(some.floats(-1e6, 1e6), some.floats(0, 1e6)), max_size=30))
def test_time_never_goes_back(steps: list[tuple[float, float]]) -> None:
    times = Times()
    clock = clock_of(times)
    last = clock.now()
    for jump, passed in steps:
        times.wall += jump
        times.pass_(passed)
        now = clock.now()
        assert now >= last
        last = now


def test_a_long_wait_is_looked_at_again_and_again_until_its_time_has_come() -> None:
    times, loop, called = Times(), QuietLoop(), list[int]()
    clock = clock_of(times, loop)
    clock.call_at(START + timedelta(hours=1), lambda: called.append(1))
    assert loop.delays == [NAP_MS_MAX / 1000]
    times.pass_(HOUR_S - 10)
    loop.calls.pop()()  # pyright: ignore[reportCallIssue, reportUnknownMemberType]
    assert (loop.delays[-1], called) == (10, [])
    times.pass_(10)
    loop.calls.pop()()  # pyright: ignore[reportCallIssue, reportUnknownMemberType]
    assert called == [1]


async def test_a_call_comes_on_the_loop_and_a_canceled_one_does_not() -> None:
    clock = SystemClock(asyncio.get_running_loop())
    came = asyncio.Event()
    canceled: list[int] = []
    clock.call_at(clock.now() + timedelta(milliseconds=5), lambda: canceled.append(1)).cancel()
    clock.call_at(clock.now() + timedelta(milliseconds=20), came.set)
    async with asyncio.timeout(10):
        await came.wait()
    assert canceled == []


def test_ids_sort_by_time_and_are_not_guessed() -> None:
    ids = [new_id("task", from_ms(number * 1_000_000)) for number in range(0, 2_000, 7)]
    assert sorted(ids) == ids
    many = {new_id("art", START) for _ in range(1_000)}
    assert len(many) == 1_000
    assert {len(each) for each in many} == {len("art-") + 12 + 20}
    assert len(new_id("sess", START, random_bits=128)) == len("sess-") + 12 + 32
