"""The threads with an event loop each on which capabilities run, and the watch over them.

A lane takes attempts from a queue that all lanes of its pool share, one at a time, the next only after the first step of the
one before: so an `async def` that blocks its loop (`time.sleep`, a long computation) holds up nobody who has not begun. The
watchdog sees that a lane's thread has been inside one step for `STUCK_MS`, gives what waits to another lane, and opens one where
all are stuck. It also remembers whose code that was: from then on that capability runs in a pool of its own, where it can hold
up only its like.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

import structlog
import uvloop

from aios.engine.runner.gate import Gate, Track, task_factory
from aios.engine.runner.mailbox import Mailbox
from aios.engine.runner.threads import Threads

STUCK_MS = 50
"""A lane whose thread is in one and the same step for so long is stuck."""
LOOK_MS = 25
"""How often the watchdog looks while there is work."""
DEAF_MS = 1_000
"""So is one that does not come for so long when it is called: a callback blocks it, which is no step of anybody's."""
LOST_MS = 10_000
"""A lane that has been stuck for so long may never come back; another is opened in its place, …"""
LOST_LANES_MAX = 32
"""… so often in all."""
LANES_MAX = 8
"""How many there are, without those lost."""
SLOW_LANES_MAX = 4
"""Of `LANES_MAX`, for capabilities that were seen to block."""
QUIET_LOOKS = 4
"""After so many looks without work the watchdog sleeps until there is some."""
END_MS = 200
"""How long a lane that is stopped waits for tasks that it cancels."""

_log = structlog.get_logger("aios.runner")


class Runnable(Protocol):
    """What a lane runs."""

    label: str
    """The capability's id."""

    def begin(self, lane: Lane) -> None:
        """Begin on this lane's loop; called there."""
        ...


class Lane:
    """One thread with an event loop that takes attempts from `queue`."""

    def __init__(
        self,
        name: str,
        queue: deque[Runnable],
        *,
        threads: Threads,
        new_loop: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop,
    ) -> None:
        self._queue = queue
        self._is_called = False
        self._is_stopping = False
        self.thread = threading.Thread(target=self._work, name=name, daemon=True)
        self.threads = threads
        self.loop = new_loop()
        self.mailbox = Mailbox(self.loop)
        self.track = Track(self.mailbox.post, self.loop)
        self.is_stuck = False
        """The watchdog's judgement."""
        self.is_lost = False
        self._seen: tuple[Gate | None, int] = (None, 0)
        self._seen_at = 0.0
        self._called_at = 0.0

    def start(self) -> None:
        """Start the thread."""
        self.thread.start()

    def call(self) -> None:
        """Have the lane take what is in the queue. From any thread."""
        if not self._is_called:
            self._called_at = time.monotonic()
            self._is_called = True
            self.mailbox.post(self._take)

    def stop(self) -> None:
        """End the loop as soon as it has control."""
        self._is_stopping = True
        self.mailbox.post(self.loop.stop)

    def join(self, timeout_s: float) -> bool:
        """Wait for the thread's end; False: it is stuck in somebody's code and is left to the end of the process."""
        self.thread.join(timeout_s)
        return not self.thread.is_alive()

    def look(self, now: float) -> bool:
        """Judge whether the lane is stuck; called by the watchdog. Tells whether code has control."""
        gate = self.track.gate
        seen = (gate, gate.steps if gate is not None else 0)
        if gate is None or seen != self._seen:
            self._seen, self._seen_at = seen, now
        silent_ms = 1000 * (now - self._seen_at)
        deaf_ms = 1000 * (now - self._called_at) if self._is_called else 0
        self.is_stuck = silent_ms >= STUCK_MS or (gate is None and deaf_ms >= DEAF_MS)
        self.is_lost = self.is_stuck and max(silent_ms, deaf_ms) >= LOST_MS
        return gate is not None or self._is_called

    @property
    def stuck_in(self) -> str:
        """The capability whose code has control."""
        gate = self._seen[0]
        return gate.label if gate is not None else ""

    def _take(self) -> None:
        self._is_called = False
        try:
            run = self._queue.popleft()
        except IndexError:
            return
        run.begin(self)
        if self._queue and not self._is_called:
            # Behind the first step of what has just begun: if that blocks, the rest is still in the queue for others.
            self._called_at = time.monotonic()
            self._is_called = True
            self.loop.call_soon(self._take)

    def _work(self) -> None:
        loop = self.loop
        asyncio.set_event_loop(loop)
        loop.set_task_factory(task_factory)
        loop.set_default_executor(self.threads)
        while not self._is_stopping:
            try:
                loop.run_forever()
            except BaseException:  # A callback that calls `sys.exit` must not take everybody's lane away.
                _log.exception("a callback broke out of the lane's loop")
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=END_MS / 1000))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


class _Pool:
    """Lanes that share a queue."""

    def __init__(self, name: str, most: int) -> None:
        self.name = name
        self.most = most
        self.queue: deque[Runnable] = deque()
        self.lanes: tuple[Lane, ...] = ()

    @property
    def has_room(self) -> bool:
        """Whether another lane may be opened."""
        lost = sum(lane.is_lost for lane in self.lanes)
        return len(self.lanes) - min(lost, LOST_LANES_MAX) < self.most

    def call(self) -> bool:
        """Call the first lane that is not stuck; False if there is none."""
        for lane in self.lanes:
            if not lane.is_stuck:
                lane.call()
                return True
        return False


class Lanes:
    """All lanes, and the watchdog. `submit` is called on the main loop.

    Args:
        threads: For code that blocks by design.
        new_loop: Makes a lane's event loop.
    """

    def __init__(
        self, *, threads: Threads, new_loop: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    ) -> None:
        self.threads = threads
        self._new_loop = new_loop
        self._quick = _Pool("aios-lane", LANES_MAX - SLOW_LANES_MAX)
        self._slow = _Pool("aios-slow-lane", SLOW_LANES_MAX)
        self._blocking: set[str] = set()
        self._has_work = threading.Event()
        self._is_stopping = False
        self._watchdog = threading.Thread(target=self._watch, name="aios-watchdog", daemon=True)

    @property
    def count(self) -> int:
        """How many lanes there are."""
        return len(self._quick.lanes) + len(self._slow.lanes)

    def start(self) -> None:
        """Open the first lane."""
        self._open(self._quick)
        self._watchdog.start()

    def submit(self, run: Runnable) -> None:
        """Have an attempt begun by the first lane that gets to it."""
        pool = self._slow if run.label in self._blocking else self._quick
        pool.queue.append(run)
        pool.call()
        if not self._has_work.is_set():
            self._has_work.set()

    def stop(self, timeout_ms: int) -> None:
        """End the lanes. One that is stuck in somebody's code is left behind; its thread does not keep the process alive."""
        self._is_stopping = True
        self._has_work.set()
        self._watchdog.join()
        lanes = self._quick.lanes + self._slow.lanes
        for lane in lanes:
            lane.stop()
        ends_at = time.monotonic() + timeout_ms / 1000
        left = [lane.stuck_in for lane in lanes if not lane.join(max(0.0, ends_at - time.monotonic()))]
        if left:
            _log.warning("lanes were left stuck in their code", capabilities=left)

    def _open(self, pool: _Pool) -> None:
        name = f"{pool.name}-{len(pool.lanes) + 1}"
        lane = Lane(name, pool.queue, threads=self.threads, new_loop=self._new_loop)
        lane.start()
        pool.lanes += (lane,)
        lane.call()

    def _watch(self) -> None:
        quiet = 0
        while not self._is_stopping:
            self._has_work.wait()
            time.sleep(LOOK_MS / 1000)
            if any([self._look(self._quick), self._look(self._slow)]):
                quiet = 0
                continue
            quiet += 1
            if quiet >= QUIET_LOOKS:
                quiet = 0
                self._has_work.clear()
                if self._quick.queue or self._slow.queue:
                    self._has_work.set()

    def _look(self, pool: _Pool) -> bool:
        now = time.monotonic()
        is_busy = bool(pool.queue)
        for lane in pool.lanes:
            is_busy |= lane.look(now)
            if lane.is_stuck and lane.stuck_in and lane.stuck_in not in self._blocking:
                self._set_apart(lane.stuck_in)
        # What was just put into the queue has called a lane already: only a lane that got stuck after that is to be replaced.
        if pool.queue and not pool.call() and pool.has_room:
            self._open(pool)
        return is_busy

    def _set_apart(self, label: str) -> None:
        """Have a capability run in the other pool, those of its attempts too that wait already."""
        self._blocking.add(label)
        _log.warning(
            "an async capability blocks its event loop; from now on it runs apart from the others", capability_id=label
        )
        for _ in range(len(self._quick.queue)):
            try:
                run = self._quick.queue.popleft()
            except IndexError:  # A lane was quicker.
                return
            (self._slow if run.label == label else self._quick).queue.append(run)
