"""Holding code still: a gate between an attempt's coroutines and the event loop that would resume them.

A coroutine that awaits has given control to the loop; when what it awaits is done, the loop resumes it. `Gated` stands between
the two and does not pass the resumption on while the gate is closed. So a paused task stops at its next await whatever that
await is, and timers that ran out meanwhile take effect when the gate opens. The task factory of the lanes puts every task that
an attempt's code makes (`TaskGroup`, `gather`, `create_task`) behind the gate of that attempt, which it finds in a context
variable.

A gate belongs to one attempt and is touched on that attempt's event loop alone; other threads may read `is_open`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, ContextVar
from typing import Any

from aios.engine.runner.kept import KeptCall, keep_calls, keep_no_calls
from aios.errors import InternalError


class Evicted(BaseException):
    """Unwinds the code of an attempt that is to run again later from its recorded steps.

    Not an `Exception`, so that code which handles errors lets it pass; and not a cancellation, so that code which undoes its
    work when its task is canceled does not undo it now.
    """


class Track:
    """What gates touch of the lane they are on.

    Args:
        post: Has a call made on the lane's event loop; may be called from any thread.
        loop: That event loop.
    """

    __slots__ = ("_closed", "_loop", "gate", "post")

    def __init__(self, post: Callable[..., object], loop: asyncio.AbstractEventLoop) -> None:
        self.post = post
        self.gate: Gate | None = None
        """Of the attempt whose code has control at this moment, for the watchdog to see; None while the loop has it."""
        self._loop = loop
        self._closed = 0

    def closed(self) -> None:
        """One more gate is closed."""
        self._closed += 1
        if self._closed == 1:
            keep_calls(self._loop, GATE)

    def opened(self) -> None:
        """One of the closed gates is open."""
        self._closed -= 1
        if self._closed == 0:
            keep_no_calls(self._loop)


class Gate:
    """Open: the attempt's code runs. Closed: it is held at its next await.

    Args:
        track: The lane that the attempt is on.
        label: The capability's id, for the watchdog.
        on_blocked: Called when code could go on and the gate is closed.
        on_still: Called when the last of the attempt's tasks and threads has ended, or the last thread was parked.
    """

    __slots__ = (
        "_kept",
        "_waiting",
        "is_open",
        "label",
        "on_blocked",
        "on_still",
        "parked_threads",
        "steps",
        "tasks",
        "threads",
        "track",
    )

    def __init__(
        self,
        track: Track,
        *,
        label: str = "",
        on_blocked: Callable[[], None] | None = None,
        on_still: Callable[[], None] | None = None,
    ) -> None:
        self.label = label
        self.on_blocked = on_blocked
        self.on_still = on_still
        self.is_open = True
        self.steps = 0
        """How often code behind this gate was given control."""
        self.track = track
        self.tasks: set[asyncio.Task[Any]] = set()
        """The attempt's tasks that have not ended, besides the one that runs the capability itself."""
        self.threads = 0
        """Threads that run code of the attempt just now."""
        self.parked_threads = 0
        """Threads of the attempt that wait in a call of their context."""
        self._waiting: set[asyncio.Future[None]] = set()
        self._kept: list[KeptCall] = []

    def close(self) -> None:
        """Hold the code at its next await."""
        if self.is_open:
            self.is_open = False
            self.track.closed()

    def open(self) -> None:
        """Let the code go on."""
        if self.is_open:
            return
        self.is_open = True
        self.track.opened()
        kept, self._kept = self._kept, []
        for call in kept:
            call.make()
        waiting, self._waiting = self._waiting, set()
        for future in waiting:
            if not future.done():
                future.set_result(None)

    @property
    def is_blocked(self) -> bool:
        """Whether code could go on, were the gate open."""
        return any(not future.done() for future in self._waiting)

    @property
    def is_empty(self) -> bool:
        """Whether no task and no thread of the attempt is left, besides the one that runs the capability itself."""
        return not self.tasks and not self.threads and not self.parked_threads

    def keep(self, call: KeptCall) -> None:
        """Keep a callback that the code's callbacks have asked for until the gate is open."""
        self._kept.append(call)

    def wait(self) -> asyncio.Future[None]:
        """Give a future that is done once the gate is open. To be looked at again then: it may have closed since."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        future.add_done_callback(self._waiting.discard)
        if self.on_blocked is not None:
            self.on_blocked()
        return future

    def enter_thread(self) -> None:
        """Note that a thread begins to run code of the attempt, or goes on after it was parked."""
        self.threads += 1

    def leave_thread(self) -> None:
        """Note that such a thread has ended or parks."""
        self.threads -= 1
        self._tell_if_still()

    def adopt(self, task: asyncio.Task[Any]) -> None:
        """Count a task as the attempt's, until it ends."""
        self.tasks.add(task)
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self.tasks.discard(task)
        self._tell_if_still()

    def _tell_if_still(self) -> None:
        if self.on_still is not None and not self.threads:
            self.on_still()


GATE: ContextVar[Gate | None] = ContextVar("aios_gate", default=None)
"""The gate of the attempt whose code this is."""


class Gated(Coroutine[Any, Any, Any]):
    """A coroutine that goes on only while its gate is open.

    What would be thrown into it while the gate is closed (by a timeout, by a sibling's failure) is kept and thrown when it
    opens.
    """

    __slots__ = ("__name__", "__qualname__", "_coroutine", "_error", "_gate", "_send", "verdict")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], gate: Gate) -> None:
        self._coroutine = coroutine
        self._send = coroutine.send
        self._gate = gate
        self._error: BaseException | None = None
        self.verdict: Callable[[], BaseException] | None = None
        """Makes what is thrown in the place of a cancellation, if anything."""
        self.__name__ = getattr(coroutine, "__name__", "coroutine")
        self.__qualname__ = getattr(coroutine, "__qualname__", "coroutine")

    def send(self, value: Any) -> Any:
        """Resume the code, or wait at the gate."""
        if self._error is not None or not self._gate.is_open:
            return self._pass()
        return self._step(self._send, value)

    def throw(self, *raised: Any) -> Any:
        """Throw into the code, now or when the gate opens."""
        self._error = raised[0] if len(raised) == 1 else raised[1] or raised[0]()
        # What goes through here keeps this frame in its traceback. If the frame kept it too, that circle, and all that the
        # code held, would wait for the collector; likewise below.
        del raised
        return self._pass()

    def close(self) -> None:
        """End the code where it stands."""
        self._coroutine.close()

    def _pass(self) -> Any:
        if not self._gate.is_open:
            future = self._gate.wait()
            # The protocol between a coroutine and its asyncio task: this mark says "resume me when it is done".
            future._asyncio_future_blocking = True
            return future
        error, self._error = self._error, None
        if error is None:
            return self._step(self._send, None)
        if self.verdict is not None and isinstance(error, asyncio.CancelledError):
            error = self.verdict()
        try:
            return self._step(self._coroutine.throw, error)
        finally:
            del error

    def _step(self, resume: Callable[[Any], Any], value: Any) -> Any:
        gate = self._gate
        track = gate.track
        outer, track.gate = track.gate, gate
        gate.steps += 1
        try:
            return resume(value)
        except (SystemExit, KeyboardInterrupt) as exit_:
            # It would end the lane's event loop, and with it everybody else's work.
            raise InternalError(f"the capability's code raised {type(exit_).__name__}") from exit_
        finally:
            track.gate = outer
            del value

    # What `inspect` and some libraries want to know of a task's coroutine.

    @property
    def cr_running(self) -> bool:
        """Whether it has control."""
        return self._inside("cr_running", False)

    @property
    def cr_suspended(self) -> bool:
        """Whether it has begun and waits."""
        return self._inside("cr_suspended", False)

    @property
    def cr_frame(self) -> Any:
        """Where it stands."""
        return self._inside("cr_frame", None)

    @property
    def cr_code(self) -> Any:
        """What it runs."""
        return self._inside("cr_code", None)

    @property
    def cr_await(self) -> Any:
        """What it waits for."""
        return self._inside("cr_await", None)

    def _inside(self, name: str, other: Any) -> Any:
        return getattr(self._coroutine, name, other)

    def __await__(self) -> Generator[Any, Any, Any]:
        return self  # type: ignore[return-value] # It has what `await` uses: send, throw, close, and the two below.

    def __iter__(self) -> Gated:
        return self

    def __next__(self) -> Any:
        return self.send(None)


def task_factory(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
    """Make tasks on a lane's loop: those of an attempt's code are behind its gate, and counted."""
    gate = GATE.get()
    if gate is None:
        return asyncio.Task(coroutine, loop=loop, **options)
    context: Context | None = options.get("context")
    if context is not None and context.get(GATE) is not gate:
        context.run(GATE.set, gate)
    task: asyncio.Task[Any] = asyncio.Task(Gated(coroutine, gate), loop=loop, **options)
    gate.adopt(task)
    return task
