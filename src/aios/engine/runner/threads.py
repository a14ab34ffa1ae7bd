"""Threads for code that blocks: a bounded pool that never keeps the process from ending.

The standard pool joins its threads when the interpreter exits; code that hangs in one would keep a daemon from stopping. These
are daemon threads. The pool is also the default executor of the lanes' loops, so that a thread which an attempt starts with
`asyncio.to_thread` is counted as running code of that attempt.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import structlog

from aios.engine.runner.gate import GATE

IDLE_S_MAX = 10.0
"""How long a thread waits for work before it ends."""

Value = TypeVar("Value")
_log = structlog.get_logger("aios.runner")


class Threads(ThreadPoolExecutor):
    """A pool of at most `most` daemon threads, made when they are needed.

    A `ThreadPoolExecutor` because an event loop accepts nothing else as its default executor; of its workings it uses nothing.
    """

    def __init__(self, most: int) -> None:
        super().__init__(max_workers=1)  # Makes no thread before it is asked to, and it never is.
        self._most = most
        self._count = 0
        self._lock = threading.Lock()
        self._idle = threading.Semaphore(0)
        self._waiting: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()

    def start(self, work: Callable[[], object]) -> None:
        """Run `work` in a thread as soon as there is one; it must see to its own errors."""
        self._waiting.put(work)
        if self._idle.acquire(blocking=False):
            return
        with self._lock:
            if self._count == self._most:
                return
            self._count += 1
            number = self._count
        threading.Thread(target=self._work, name=f"aios-thread-{number}", daemon=True).start()

    def submit(self, fn: Callable[..., Value], /, *args: Any, **kwargs: Any) -> Future[Value]:
        """Run `fn`; called on a lane's loop by an attempt's code, it counts as a thread of the attempt."""
        future: Future[Value] = Future()
        gate = GATE.get()
        if gate is not None:
            gate.enter_thread()
            future.add_done_callback(lambda _: gate.track.post(gate.leave_thread))

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                value = fn(*args, **kwargs)
            except BaseException as error:  # Whatever it is, it belongs to the one who asked.
                future.set_exception(error)
            else:
                future.set_result(value)

        self.start(work)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Do nothing: each lane's loop says this when it closes, and the pool serves them all. See `stop`."""

    def stop(self) -> None:
        """Let idle threads end; those that work end when their work does, or with the process."""
        with self._lock:
            for _ in range(self._count):
                self._waiting.put(None)

    def _work(self) -> None:
        while (work := self._next()) is not None:
            try:
                work()
            except Exception:
                _log.exception("work in a thread failed")
        with self._lock:
            self._count -= 1

    def _next(self) -> Callable[[], object] | None:
        try:
            return self._waiting.get_nowait()
        except queue.Empty:
            self._idle.release()
        try:
            return self._waiting.get(timeout=IDLE_S_MAX)
        except queue.Empty:
            # Whoever found us idle has taken our mark and put work for us; otherwise the mark is still there to be taken back.
            return None if self._idle.acquire(blocking=False) else self._waiting.get()
