"""Threads are kept on one core while it is theirs, and let go when others want it."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

from aios.daemon.cores import (
    CROWDED,
    GOOD_LOOKS,
    LOOK_S,
    SPREAD_S_MAX,
    SPREAD_S_MIN,
    Companions,
    LinuxCores,
    keep_together,
)

MAIN, WRITER = 1, 2
COUNTS_WAITING = Path("/proc/self/schedstat").exists()
SECOND = 1_000_000_000


class Machine:
    """Four cores, on which a test says what happens."""

    def __init__(self) -> None:
        self.at = 3
        self.ran = {MAIN: 0, WRITER: 0}
        self.waited = {MAIN: 0, WRITER: 0}
        self.placed: dict[int, set[int]] = {}

    def allowed(self) -> set[int]:
        return {0, 1, 2, 3}

    def core(self, thread: int) -> int:
        return self.at

    def times(self, thread: int) -> tuple[int, int]:
        return self.ran[thread], self.waited[thread]

    def place(self, thread: int, cores: set[int]) -> None:
        self.placed[thread] = cores


def gathered() -> tuple[Machine, Companions]:
    machine = Machine()
    companions = Companions(MAIN, [WRITER], cores=machine)
    companions.gather()
    return machine, companions


def crowd(machine: Machine, companions: Companions) -> None:
    machine.waited[MAIN] += int(CROWDED * SECOND)
    companions.look(LOOK_S)


def test_they_are_put_where_the_main_thread_is() -> None:
    machine, companions = gathered()
    assert machine.placed == {MAIN: {3}, WRITER: {3}}
    assert companions.are_together


def test_waiting_for_one_another_is_no_reason_to_part() -> None:
    machine, companions = gathered()
    machine.waited[MAIN] += SECOND // 2
    machine.ran[WRITER] += SECOND // 2
    companions.look(LOOK_S)
    assert companions.are_together


def test_waiting_for_others_is_and_they_come_together_again_later_elsewhere() -> None:
    machine, companions = gathered()
    crowd(machine, companions)
    assert machine.placed == {MAIN: {0, 1, 2, 3}, WRITER: {0, 1, 2, 3}}
    companions.look(SPREAD_S_MIN / 2)
    assert not companions.are_together
    machine.at = 1
    companions.look(SPREAD_S_MIN / 2)
    assert machine.placed == {MAIN: {1}, WRITER: {1}}


def rest(companions: Companions) -> float:
    """Say how long they stay apart."""
    looks = 0
    while not companions.are_together:
        companions.look(LOOK_S)
        looks += 1
    return looks * LOOK_S


def test_on_a_machine_that_stays_crowded_they_try_ever_more_rarely_and_soon_again_once_it_is_quiet() -> None:
    machine, companions = gathered()
    rests: list[float] = []
    for _ in range(10):
        crowd(machine, companions)
        rests.append(rest(companions))
    assert rests[:3] == [SPREAD_S_MIN, 2 * SPREAD_S_MIN, 4 * SPREAD_S_MIN]
    assert max(rests) == SPREAD_S_MAX
    for _ in range(GOOD_LOOKS):
        companions.look(LOOK_S)
    crowd(machine, companions)
    assert rest(companions) == SPREAD_S_MIN


async def test_the_real_threads_of_a_process_can_be_kept_and_let_go() -> None:
    cores, before, done = LinuxCores(), os.sched_getaffinity(0), threading.Event()
    other = threading.Thread(target=done.wait, name="test-writer")
    other.start()
    try:
        keeping = asyncio.ensure_future(keep_together(["test-writer"]))
        await asyncio.sleep(0)
        main = threading.main_thread().native_id
        assert main is not None
        assert other.native_id is not None
        if len(before) > 1 and COUNTS_WAITING:
            assert os.sched_getaffinity(main) == os.sched_getaffinity(other.native_id) == {cores.core(main)}
            assert os.sched_getscheduler(other.native_id) != os.SCHED_OTHER
        keeping.cancel()
    finally:
        done.set()
        other.join()
        os.sched_setaffinity(0, before)
