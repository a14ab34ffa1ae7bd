"""The code of one attempt, on its lane: begun, held still and let go on, stopped, ended.

All of it happens on the lane's event loop, but for what says otherwise. What the main loop has to say comes through `tell`; what
it is told and asked goes through its mailbox.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec
import structlog

from aios.adapter import Adapter, Context
from aios.engine.clock import Clock
from aios.engine.runner import outcomes
from aios.engine.runner.book import Book
from aios.engine.runner.gate import GATE, Evicted, Gate, Gated
from aios.engine.runner.lanes import Lane
from aios.engine.runner.mailbox import Mailbox
from aios.engine.runner.waits import Waits
from aios.errors import Conflict, InternalError
from aios.model import Limits, Progress, Task
from aios.rules.lifecycle import Complete, Fail

if TYPE_CHECKING:
    from aios.engine.runner.attempt import Attempt

CANCEL_AGAIN_MS = 2_000
"""Code that goes on after it was canceled is canceled again after this time, …"""
CANCELS_MAX = 5
"""… so often in all. After that it is left alone, and its slot stays taken until it ends."""
STRAYS_MS = 1_000
"""How long code that returned waits for what it left running and what is canceled now."""

Value = TypeVar("Value")
_log = structlog.get_logger("aios.runner")


class Hold(Protocol):
    """Something of the attempt, outside its coroutines, that has to stand still with them."""

    def pause(self) -> None:
        """Stand still."""
        ...

    def resume(self) -> None:
        """Go on."""
        ...


class Run:
    """An attempt's code. It is made on the main loop and begun by the lane that gets to it first.

    Args:
        attempt: The same attempt as the engine sees it: its methods run on the main loop.
        adapter: Who does the work.
        make_context: Makes what the code is given.
        book: Its durable steps.
        main: The main loop's mailbox.
        clock: What time it is.
        limits: What is too much.
    """

    def __init__(
        self,
        attempt: Attempt,
        task: Task,
        *,
        adapter: Adapter,
        make_context: Callable[[Run], Context],
        book: Book,
        main: Mailbox,
        clock: Clock,
        limits: Limits,
    ) -> None:
        self.attempt = attempt
        self.task = task
        self.label = task.spec.capability_id
        self.book = book
        self.main = main
        self.clock = clock
        self.limits = limits
        self.is_canceled = False
        """The attempt is over: whatever its code still does concerns nobody. Set and read from any thread."""
        self.is_leaving = False
        """The code is to be unwound at its next call of the context. Set and read from any thread."""
        self._adapter = adapter
        self._make_context = make_context
        self._lane: Lane | None = None
        self._early: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._holds: list[Hold] = []
        self._to_begin = threading.Lock()
        """Taken, for good, by whoever comes first: the lane that begins it, or the main loop that takes it back."""
        self._is_begun = False
        self._is_ended = False
        self._is_reported = False
        self._was_evicted = False
        self._outcome: Complete | Fail | None = None
        self._quiet_number: int | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._reported: list[Progress] | None = None
        self.hops = 0
        """Calls to the main loop whose answer has not come."""
        self._code: Gated | None = None
        self.final_error: BaseException | None = None
        """An error that another attempt would meet again."""

    # From any thread

    def take_back(self) -> bool:
        """Keep any lane from beginning it; False: one has."""
        return self._to_begin.acquire(blocking=False)

    def tell(self, call: Callable[..., object], *arguments: Any) -> None:
        """Have a method of this run called on its lane; if no lane has begun it yet, when one does. From the main loop."""
        if self._lane is not None:
            self._lane.mailbox.post(self._make, call, arguments)
            return
        self._early.append((call, arguments))
        lane: Lane | None = self._lane
        if lane is not None:  # It was begun at this moment, and may have heard all before this.
            lane.mailbox.post(self._hear)

    def _make(self, call: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        call(*arguments)

    def check(self) -> None:
        """Raise what ends the code, if it is to end. Called at each call of its context, from any of its threads.

        Raises:
            CancelledError: The attempt is over.
            Evicted: The code is to run again later.
        """
        if self.is_canceled:
            raise asyncio.CancelledError
        if self.is_leaving:
            self._was_evicted = True
            raise Evicted

    # On the lane

    @property
    def lane(self) -> Lane:
        """The lane that has begun it."""
        if self._lane is None:
            raise InternalError("the attempt has not begun")
        return self._lane

    @property
    def has_threads(self) -> bool:
        """Whether threads of the attempt wait in calls of their context. From any thread."""
        return self._lane is not None and self.gate.parked_threads > 0

    def is_on_lane(self) -> bool:
        """Whether the caller's thread is the lane's own."""
        return threading.current_thread() is self.lane.thread

    def check_loop(self) -> None:
        """Refuse a wait on an event loop of the code's own, which nothing that happens here could wake."""
        if asyncio.get_running_loop() is not self.lane.loop:
            raise InternalError(
                "an async call of the context was made on another event loop than the capability's; "
                "in a thread use the blocking context that ctx.in_thread gives"
            )

    def begin(self, lane: Lane) -> None:
        """Begin, behind a gate of its own, unless it has been taken back."""
        if not self._to_begin.acquire(blocking=False):
            return
        self.gate = Gate(lane.track, label=self.label, on_still=self._on_still)
        self.waits = Waits(self)
        self.gate.on_blocked = self.waits.on_blocked
        self._root = asyncio.Task(self._main(), loop=lane.loop)
        self._lane = lane
        self._hear()

    def _hear(self) -> None:
        while self._early:
            call, arguments = self._early.popleft()
            call(*arguments)

    async def _main(self) -> None:
        GATE.set(self.gate)
        self._is_begun = True
        outcome: Complete | Fail | None = None
        if not (self.is_canceled or self.is_leaving):
            try:
                arguments = msgspec.to_builtins(self.task.spec.arguments)
                self._code = Gated(self._adapter.run(self.label, arguments, self._make_context(self)), self.gate)
                value = await self._code
            except BaseException as error:  # Whatever the code raised is how it ended.
                outcome = self.judge(error)
                error.__traceback__ = None  # It names frames that name the error: a circle, with all that they held.
            else:
                outcome = None if self._was_evicted else self.completed(value)
        self._code = self.final_error = None  # Each may close a circle: see `_report`.
        self._end(outcome)

    def judge(self, error: BaseException) -> Fail | None:
        """Say what the attempt's end by this error means; None: nothing, because it was stopped."""
        if self.is_canceled or self.is_leaving or self._is_ended:
            return None
        return outcomes.failed(self.task, error, is_final=error is self.final_error, hidden=self.book.secrets)

    def completed(self, value: Any) -> Complete | Fail | None:
        """Say what it means that the code returned this; a value that cannot even be looked at is an error of the code."""
        try:
            return outcomes.completed(value)
        except BaseException as error:
            return self.judge(error)

    def end_early(self, outcome: Complete | Fail | None) -> None:
        """Know the outcome before the code, which is held, could return it; nothing of it is to run any more."""
        self._outcome = outcome
        self._is_ended = True
        self._root.cancel()
        self.gate.open()

    def _end(self, outcome: Complete | Fail | None) -> None:
        if not self._is_ended:
            self._outcome = outcome
            self._is_ended = True
        self.waits.end()
        if self.gate.is_empty:
            self._report()
            return
        # What the code left running ends with it.
        self.gate.open()
        for task in list(self.gate.tasks):
            task.cancel()
        if self._outcome is not None:
            self._set_timer(STRAYS_MS, self._report)

    def _set_timer(self, after_ms: int, call: Callable[..., None], *arguments: Any) -> None:
        self._drop_timer()
        self._timer = self.lane.loop.call_later(after_ms / 1000, call, *arguments)

    def _drop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _report(self) -> None:
        self._drop_timer()
        if not self._is_reported:
            self._is_reported = True
            self.gate.on_still = self.gate.on_blocked = None
            self.post(self.attempt.ended, self._outcome)
            if self.gate.is_empty:
                # Nothing is left to speak. Without a circle what the attempt held is free now, not at the next collection.
                self.is_canceled = True
                self.attempt = weakref.proxy(self.attempt)

    def _on_still(self) -> None:
        if self._is_ended and self._root.done() and self.gate.is_empty:
            self._report()
        elif self._quiet_number is not None and not self.gate.is_open:
            number, self._quiet_number = self._quiet_number, None
            self.post(self.attempt.is_quiet, number)

    # Held still and let go on

    def hold(self, hold: Hold) -> None:
        """Have this stand still whenever the code does."""
        self._holds.append(hold)

    def let_go(self, hold: Hold) -> None:
        """Bother it no longer."""
        self._holds.remove(hold)

    def shut(self) -> None:
        """Hold the code at its next await."""
        if self.gate.is_open:
            self.gate.close()
            self._each_hold("pause")

    def open(self) -> None:
        """Let the code go on."""
        if not self.gate.is_open:
            self._each_hold("resume")
            self.gate.open()

    def _each_hold(self, call: str) -> None:
        for hold in list(self._holds):
            try:
                getattr(hold, call)()
            except Exception:
                _log.exception("a hook of ctx.pausing failed", call=call, task_id=self.task.task_id)

    def pause(self, number: int) -> None:
        """Hold the code, and say when none of it runs any more: at once, unless a thread has to reach a checkpoint."""
        if self._is_ended:
            return
        self.shut()
        self._quiet_number = number
        if not self.gate.threads:
            self._on_still()

    def go_on(self) -> None:
        """Let the code go on after a pause, or under a new claim; it parks again if what it waits for has not come."""
        self._quiet_number = None
        if not self._is_ended:
            self.waits.go_on()

    # Stopped

    def cancel(self) -> None:
        """Stop: the attempt is over."""
        self.is_canceled = True
        self._stop()

    def drain(self) -> None:
        """Have the code unwound when it next calls its context; at once where it waits in such a call."""
        self.is_leaving = True
        self.waits.refuse(self.evicted)

    def unwind(self) -> None:
        """Unwind the code now, to be run again later."""
        self.is_leaving = True
        if self._code is not None:
            self._code.verdict = self.evicted
            self._was_evicted = True
        self._stop()

    def evicted(self) -> Evicted:
        """Make what unwinds the code, and remember that it was thrown: what the code returns after that means nothing."""
        self._was_evicted = True
        return Evicted()

    def _stop(self, number: int = 1) -> None:
        if self._root.done() or self._is_ended:
            return
        if self._is_begun:
            self._root.cancel()
        self.open()
        if number < CANCELS_MAX:
            self._set_timer(CANCEL_AGAIN_MS, self._stop, number + 1)
        else:
            _log.warning(
                "code does not end although it was canceled; its slot stays taken",
                task_id=self.task.task_id,
                capability_id=self.label,
            )

    # Asking the main loop

    async def hop(self, call: Callable[..., Awaitable[Value]], *arguments: Any) -> Value:
        """Have a method of the attempt run on the main loop, and give its value.

        Raises:
            CancelledError: The attempt is over.
        """
        self.check()
        self.check_loop()
        future: asyncio.Future[Value] = self.lane.loop.create_future()
        self.post(self.attempt.serve, call, arguments, future)
        self.hops += 1
        try:
            return await future
        except Conflict:
            self.is_canceled = True
            raise asyncio.CancelledError from None
        finally:
            self.hops -= 1

    def post(self, call: Callable[..., object], *arguments: Any) -> None:
        """Have a method of the attempt called on the main loop, after what has been reported before."""
        self._reported = None
        self.main.post(call, *arguments)

    def report(self, progress: Progress) -> None:
        """Report progress; what the main loop has not taken yet is replaced: a flood of reports is one call."""
        slot = self._reported
        try:
            if slot is not None:
                slot[0] = progress
                return
        except IndexError:  # Taken at this moment.
            pass
        self._reported = slot = [progress]
        self.main.post(self.attempt.report, slot)

    def answer(self, future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
        """Bring the answer of a hop."""
        if future.done():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    def start(self, coroutine: Coroutine[Any, Any, Value]) -> asyncio.Task[Value]:
        """Run something as a task of the attempt's code."""
        return asyncio.get_running_loop().create_task(coroutine)
