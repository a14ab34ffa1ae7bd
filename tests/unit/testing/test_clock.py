import asyncio
from datetime import timedelta

import pytest

from aios.testing.clock import START, ManualClock


def test_time_passes_only_when_it_is_told_to() -> None:
    clock = ManualClock()
    assert clock.now() == START
    clock.advance(250)
    assert clock.now() - START == timedelta(milliseconds=250)
    with pytest.raises(ValueError, match="-1 ms"):
        clock.advance(-1)


def test_what_is_due_runs_in_order_each_at_its_own_time() -> None:
    clock = ManualClock()
    seen: list[tuple[str, int]] = []

    def note(name: str, ms: int) -> None:
        clock.call_at(START + timedelta(milliseconds=ms), lambda: seen.append((name, _ms(clock))))

    note("late", 300)
    note("first", 100)
    note("second", 100)
    note("beyond", 301)
    clock.advance(300)
    assert seen == [("first", 100), ("second", 100), ("late", 300)]
    assert clock.waiting == [START + timedelta(milliseconds=301)]


def test_a_call_may_ask_for_another_that_falls_due_on_the_way() -> None:
    clock = ManualClock()
    ticks: list[int] = []

    def tick() -> None:
        ticks.append(_ms(clock))
        clock.call_at(clock.now() + timedelta(milliseconds=100), tick)

    clock.call_at(START, tick)
    clock.advance(350)
    assert ticks == [0, 100, 200, 300]


def test_a_canceled_call_never_comes() -> None:
    clock = ManualClock()
    seen: list[int] = []
    timer = clock.call_at(START + timedelta(milliseconds=5), lambda: seen.append(1))
    timer.cancel()
    clock.advance(10)
    assert (seen, clock.waiting, timer.is_waiting) == ([], [], False)


async def test_what_is_due_already_runs_at_the_next_turn_of_the_loop_and_once() -> None:
    clock = ManualClock()
    seen: list[int] = []
    clock.call_at(START, lambda: seen.append(1))
    canceled = clock.call_at(START, lambda: seen.append(2))
    canceled.cancel()
    assert seen == []
    turn = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(turn.set_result, None)
    await turn
    assert seen == [1]
    clock.advance(10)
    assert seen == [1]


def test_without_a_loop_what_is_due_already_waits_for_the_next_advance() -> None:
    clock = ManualClock()
    seen: list[int] = []
    clock.call_at(START - timedelta(seconds=1), lambda: seen.append(1))
    assert seen == []
    clock.advance()
    assert seen == [1]
    assert clock.now() == START


def _ms(clock: ManualClock) -> int:
    return (clock.now() - START) // timedelta(milliseconds=1)
