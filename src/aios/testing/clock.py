"""A clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

START: Final = datetime(2026, 1, 5, 10, 0, tzinfo=UTC)
"""Where a clock starts that is not told otherwise: the time of the seeds' examples."""


class ManualTimer:
    """A call that waits for its time."""

    def __init__(self, when: datetime, call: Callable[[], None]) -> None:
        self.when = when
        self._call: Callable[[], None] | None = call

    @property
    def is_waiting(self) -> bool:
        """Whether it was neither called nor canceled."""
        return self._call is not None

    def cancel(self) -> None:
        """Do not call; of no effect once called."""
        self._call = None

    def run(self) -> None:
        """Call, the first time only."""
        call, self._call = self._call, None
        if call is not None:
            call()


class ManualClock:
    """A clock for tests, with the face of `aios.engine.clock.Clock`: time passes by `advance` alone.

    What is asked for a time that has come already runs at the event loop's next turn, as with the real clock; without a
    running loop it waits for the next `advance`, be it by nothing.
    """

    def __init__(self, start: datetime = START) -> None:
        self._now = start
        self._order = itertools.count()
        self._timers: list[tuple[datetime, int, ManualTimer]] = []

    def now(self) -> datetime:
        """The instant at which the clock stands."""
        return self._now

    def call_at(self, when: datetime, call: Callable[[], None]) -> ManualTimer:
        """Call once the clock has been moved to `when`."""
        timer = ManualTimer(when, call)
        heapq.heappush(self._timers, (when, next(self._order), timer))
        if when <= self._now:
            _soon(timer)
        return timer

    def advance(self, ms: int = 0) -> None:
        """Let time pass, and run what falls due on the way: in order, each with the clock at its own time.

        What runs may ask for more, and gets it within the same advance if that falls due too.

        Raises:
            ValueError: `ms` is negative; this clock, like the real one, does not go back.
        """
        if ms < 0:
            raise ValueError(f"a clock cannot be advanced by {ms} ms")
        end = self._now + timedelta(milliseconds=ms)
        while self._timers and self._timers[0][0] <= end:
            when, _, timer = heapq.heappop(self._timers)
            if timer.is_waiting:
                self._now = max(self._now, when)
                timer.run()
        self._now = end

    @property
    def waiting(self) -> list[datetime]:
        """For when calls are asked for, in order."""
        return sorted(when for when, _, timer in self._timers if timer.is_waiting)


def _soon(timer: ManualTimer) -> None:
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return
    loop.call_soon(timer.run)
