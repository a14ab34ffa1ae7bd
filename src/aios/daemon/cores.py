"""Keeps the threads that share the interpreter's lock on one core, for as long as that core is theirs.

Only one of them runs at a time. Spread over cores they hand the lock over by waking each other across the machine, and what each
has in its cache is taken by the other: the same work costs nearly twice the time. On one core they take turns. But a core can be
wanted by others; so once a second it is looked how long they have waited for it, and for a while they may run anywhere.

Only the main loop and the store's writer are kept together. Lanes and pools run other people's code, which may start programs and
use all cores.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import structlog

LOOK_S = 1.0
CROWDED = 0.2
"""So much of the time the main thread may wait for its core because of others."""
SPREAD_S_MIN = 2.0
SPREAD_S_MAX = 120.0
"""How long the threads may run anywhere after their core was crowded: at first, and at most. It doubles each time."""
GOOD_LOOKS = 30
"""After so many good looks in a row the next time is like the first."""

_log = structlog.get_logger("aios.daemon")


class Cores(Protocol):
    """What the system tells of threads and lets be done with them."""

    def allowed(self) -> set[int]:
        """The cores that the process may use."""
        ...

    def core(self, thread: int) -> int:
        """Where a thread ran last."""
        ...

    def times(self, thread: int) -> tuple[int, int]:
        """For how long a thread has run, and has waited for a core while it could run; nanoseconds."""
        ...

    def place(self, thread: int, cores: set[int]) -> None:
        """Have a thread run on these cores only."""
        ...


class LinuxCores:
    """Linux, by `/proc`."""

    def allowed(self) -> set[int]:
        """See `Cores`."""
        return os.sched_getaffinity(0)

    def core(self, thread: int) -> int:
        """See `Cores`."""
        stat = Path(f"/proc/self/task/{thread}/stat").read_text(encoding="ascii", errors="replace")
        # The name, in parentheses, may hold spaces; of what follows it the core is the 37th.
        return int(stat.rpartition(")")[2].split()[36])

    def times(self, thread: int) -> tuple[int, int]:
        """See `Cores`."""
        ran, waited, _ = Path(f"/proc/self/task/{thread}/schedstat").read_text(encoding="ascii").split()
        return int(ran), int(waited)

    def place(self, thread: int, cores: set[int]) -> None:
        """See `Cores`."""
        os.sched_setaffinity(thread, cores)


class Companions:
    """The threads that are kept together; all of it happens on the main loop.

    Args:
        main: The main thread, by the system's number.
        others: Those that share the lock with it.
    """

    def __init__(self, main: int, others: Sequence[int], *, cores: Cores) -> None:
        self._main = main
        self._others = others
        self._cores = cores
        self._allowed = cores.allowed()
        self._seen: list[tuple[int, int]] = []
        self._rest_s = 0.0
        """For how long they may still run anywhere."""
        self._next_rest_s = SPREAD_S_MIN
        self._good = 0
        self.are_together = False

    def gather(self) -> None:
        """Put all where the main thread is."""
        core = self._cores.core(self._main)
        for thread in (self._main, *self._others):
            self._cores.place(thread, {core})
        self.are_together = True
        self._seen = self._times()

    def spread(self) -> None:
        """Let all run anywhere."""
        for thread in (self._main, *self._others):
            self._cores.place(thread, self._allowed)
        self.are_together = False

    def look(self, passed_s: float) -> None:
        """See whether the core is theirs; `passed_s` is the time since the last look."""
        if not self.are_together:
            self._rest_s -= passed_s
            if self._rest_s <= 0:
                self.gather()
            return
        seen, self._seen = self._seen, self._times()
        ran = [now[0] - before[0] for now, before in zip(self._seen, seen, strict=True)]
        # While one of the others ran, the main thread may have waited for that.
        waited = self._seen[0][1] - seen[0][1] - sum(ran[1:])
        if waited < CROWDED * passed_s * 1e9:
            self._good += 1
            if self._good >= GOOD_LOOKS:
                self._next_rest_s = SPREAD_S_MIN
            return
        self._good = 0
        self._rest_s, self._next_rest_s = self._next_rest_s, min(2 * self._next_rest_s, SPREAD_S_MAX)
        self.spread()

    def _times(self) -> list[tuple[int, int]]:
        return [self._cores.times(thread) for thread in (self._main, *self._others)]


async def keep_together(names: Sequence[str]) -> None:
    """Keep the main thread and those of these names together until canceled; where the system lacks a part of it, do nothing."""
    if not hasattr(os, "sched_setaffinity"):
        return
    others = [each.native_id for each in threading.enumerate() if each.name in names and each.native_id is not None]
    main = threading.main_thread().native_id
    cores = LinuxCores()
    if main is None or not others or len(cores.allowed()) < 2:
        return
    companions = Companions(main, others, cores=cores)
    loop = asyncio.get_running_loop()
    try:
        _be_modest(others)
        companions.gather()
        looked_at = loop.time()
        while True:
            await asyncio.sleep(LOOK_S)
            now = loop.time()
            companions.look(now - looked_at)
            looked_at = now
    except (OSError, ValueError) as error:
        # A kernel that counts no waiting, a sandbox that hides /proc: the daemon works as well spread out.
        _log.info("threads are not kept together", reason=str(error))
        companions.spread()


def _be_modest(threads: Sequence[int]) -> None:
    """Have threads that are woken wait for the core: who woke them holds the lock that they need first."""
    for thread in threads:
        if os.sched_getscheduler(thread) == os.SCHED_OTHER:
            os.sched_setscheduler(thread, os.SCHED_BATCH | os.SCHED_RESET_ON_FORK, os.sched_param(0))
