"""What time it is, and being called when it has come; the only clock of the house.

Stored times are wall time, because they outlive the process. Elapsed time is measured on a steady clock that goes on while the
machine sleeps, so that a wall clock that is set neither lets everything time out at once nor makes anybody wait for an hour:
ours follows it at one hundredth of the speed at most.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Protocol

from aios.model import from_ms

MILLISECOND = timedelta(milliseconds=1)
FOLLOW_RATE = 0.01
"""How fast a wall clock that was set is followed: seconds per second."""
NAP_MS_MAX = 30_000
"""The event loop's timers stand still while the machine sleeps; so no wait is trusted for longer than this."""


class Timer(Protocol):
    """A call that was asked for."""

    def cancel(self) -> None:
        """Do not call; of no effect once called."""
        ...


class Clock(Protocol):
    """Who knows the time."""

    def now(self) -> datetime:
        """The present instant, aware, in UTC, cut to milliseconds; never earlier than the one before. From any thread."""
        ...

    def call_at(self, when: datetime, call: Callable[[], None]) -> Timer:
        """Call on the main loop once `when` has come; soon, if it has passed."""
        ...


def _boot_time() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


_steady = _boot_time if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic


class SystemClock:
    """The machine's time, without its jumps."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        wall: Callable[[], float] = time.time,
        steady: Callable[[], float] = _steady,
    ) -> None:
        self._loop = loop
        self._wall = wall
        self._steady = steady
        self._known = (wall(), steady())
        self._told = (0, from_ms(0))

    def now(self) -> datetime:
        """The present instant. Every task asks for it five times, mostly in the millisecond of the one before."""
        at, measured = self._known
        steady = self._steady()
        if steady > measured:
            elapsed = steady - measured
            at += elapsed
            behind, most = self._wall() - at, elapsed * FOLLOW_RATE
            at += behind if -most < behind < most else most if behind > 0 else -most
            self._known = (at, steady)
        now_ms = int(at * 1000)
        told = self._told
        if told[0] != now_ms:
            self._told = told = (now_ms, from_ms(now_ms))
        return told[1]

    def call_at(self, when: datetime, call: Callable[[], None]) -> Timer:
        """Call on the loop once `when` has come."""
        return _SystemTimer(self._loop, self, when, call)


class _SystemTimer:
    def __init__(
        self, loop: asyncio.AbstractEventLoop, clock: SystemClock, when: datetime, call: Callable[[], None]
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._when = when
        self._call = call
        self._handle = self._nap()

    def _nap(self) -> asyncio.TimerHandle:
        rest_ms = (self._when - self._clock.now()).total_seconds() * 1000
        return self._loop.call_later(max(0.0, min(rest_ms, NAP_MS_MAX)) / 1000, self._look)

    def _look(self) -> None:
        if self._clock.now() < self._when:
            self._handle = self._nap()
        else:
            self._call()

    def cancel(self) -> None:
        self._handle.cancel()
