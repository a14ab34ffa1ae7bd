"""What the code of an attempt waits for without needing a slot: a child, a time, a question's answer.

A slot is given back when all of the attempt waits. Where the code has only one strand, that is as soon as it waits; where it has
several (a `TaskGroup` whose children sleep and work), when none of them has been given control for a while. Should another
strand be able to go on before what was waited for has come, the attempt asks for a slot again.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from aios.model import Step, Task, TaskId
from aios.rules.lifecycle import Ask, RequireAuth

if TYPE_CHECKING:
    from aios.engine.runner.run import Run

STILL_MS = 20
"""After so long without a step all strands of the attempt are taken to wait."""


class Waits:
    """The durable waits of one run, on its lane."""

    __slots__ = ("_asking", "_children", "_finished", "_is_parked", "_lock", "_parked_on", "_run", "_timer", "_times")

    def __init__(self, run: Run) -> None:
        self._run = cast("Run", weakref.proxy(run))
        """Weakly: see `Run._report`."""
        self._children: dict[TaskId, list[asyncio.Future[Task]]] = {}
        self._times: list[tuple[datetime, asyncio.Future[None]]] = []
        self._finished: dict[TaskId, Task] = {}
        self._asking: asyncio.Future[Step] | None = None
        self._lock: asyncio.Lock | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_parked = False
        self._parked_on: TaskId | None = None

    # Asked by the code

    async def answered(self, command: Ask | RequireAuth) -> Step:
        """Put a question (or ask for a sign-in) and wait for what is recorded of it; one at a time."""
        self._run.check_loop()
        if self._lock is None:
            self._lock = asyncio.Lock()
        async with self._lock:
            self._run.check()
            self._asking = asyncio.get_running_loop().create_future()
            self._asking.add_done_callback(self._settled)
            # The whole attempt waits: its task is not working, and holds no slot, until the answer comes.
            self._run.shut()
            self._run.post(self._run.attempt.put_question, command)
            try:
                return await self._asking
            finally:
                self._asking = None

    def _settled(self, asking: asyncio.Future[Step]) -> None:
        """Withdraw a question whose asker was canceled: by a timeout of its own, or because all of the code has ended."""
        if asking.cancelled():
            self._run.post(self._run.attempt.withdraw_question)

    async def child(self, task_id: TaskId) -> Task:
        """Wait until a child has ended."""
        self._run.check()
        self._run.check_loop()
        future: asyncio.Future[Task] = asyncio.get_running_loop().create_future()
        if task_id not in self._children:
            self._run.post(self._run.attempt.watch, task_id)
        self._children.setdefault(task_id, []).append(future)
        self._consider()
        try:
            return await future
        finally:
            waiting = self._children[task_id]
            waiting.remove(future)
            if not waiting:
                del self._children[task_id]
                self._finished.pop(task_id, None)

    async def time(self, at: datetime) -> None:
        """Wait until a time has come."""
        self._run.check()
        self._run.check_loop()
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        wait = (at, future)
        self._times.append(wait)
        self._run.post(self._run.attempt.ring_at, at)
        self._consider()
        try:
            await future
        finally:
            self._times.remove(wait)

    # Told by the main loop

    def answer(self, step: Step) -> None:
        """Bring what is recorded of the question."""
        if self._asking is not None and not self._asking.done():
            self._asking.set_result(step)
        self._run.open()

    def ended(self, child: Task) -> None:
        """Know that a child has ended. Parked for it, the attempt waits for its claim: the store has woken the task."""
        if child.task_id in self._children:
            self._finished[child.task_id] = child
            if not (self._is_parked and child.task_id == self._parked_on):
                self._wake_children()

    def lost(self, child: TaskId, error: BaseException) -> None:
        """Know that nothing can be known of a child."""
        for future in self._children.get(child, []):
            if not future.done():
                future.set_exception(error)

    def rang(self, at: datetime) -> None:
        """Know that a time has come. Parked, the attempt waits for its claim: it was promised for this time."""
        if not self._is_parked:
            self._wake_times(at)

    def resumed(self, now: datetime, child: Task | None) -> None:
        """Go on under a new claim."""
        if child is not None and child.task_id in self._children:
            self._finished[child.task_id] = child
        self._wake_children()
        self._wake_times(now)
        self._run.go_on()

    def deny(self, error: BaseException) -> None:
        """Bring the error that kept the question from being put."""
        if self._asking is not None and not self._asking.done():
            self._asking.set_exception(error)
        self._run.open()

    def refuse(self, make_error: Callable[[], BaseException]) -> None:
        """Raise an error wherever the code waits here, and let it go on."""
        waiting: list[asyncio.Future[Any]] = [future for futures in self._children.values() for future in futures]
        waiting += [future for _, future in self._times]
        if self._asking is not None:
            waiting.append(self._asking)
        for future in waiting:
            if not future.done():
                future.set_exception(make_error())
        if waiting:
            self._is_parked = False
            self._run.open()

    def end(self) -> None:
        """Wait for nothing any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # Parking

    def go_on(self) -> None:
        """Let the code go on where something has come that it waited for; else park again."""
        self._is_parked = False
        if self._asking is not None and not self._asking.done():
            return
        if (
            self._is_waiting
            and not self._run.gate.is_blocked
            and not self._run.gate.threads
            and not self._has_woken
            and not self._run.hops
        ):
            self._park()
        else:
            self._run.open()
            self._consider()

    def on_blocked(self) -> None:
        """Ask for a slot: some strand could go on while the attempt is parked."""
        if self._is_parked:
            self._run.post(self._run.attempt.want_slot)

    @property
    def _is_waiting(self) -> bool:
        return bool(self._times or self._children)

    @property
    def _has_woken(self) -> bool:
        """Whether something has come of which the code has not heard yet."""
        waiting = [future for futures in self._children.values() for future in futures]
        return any(future.done() for future in waiting) or any(future.done() for _, future in self._times)

    def _wake_children(self) -> None:
        for task_id, futures in self._children.items():
            if task_id in self._finished:
                for future in futures:
                    if not future.done():
                        future.set_result(self._finished[task_id])

    def _wake_times(self, now: datetime) -> None:
        for at, future in self._times:
            if at <= now and not future.done():
                future.set_result(None)

    def _consider(self) -> None:
        """Park, or look again in a while."""
        gate = self._run.gate
        if not self._is_waiting or not gate.is_open or self._timer is not None:
            return
        if gate.is_empty and not self._has_woken:
            self._park()
        else:
            self._timer = self._run.lane.loop.call_later(STILL_MS / 1000, self._look, gate.steps)

    def _look(self, steps: int) -> None:
        self._timer = None
        gate = self._run.gate
        if not self._is_waiting or not gate.is_open:
            return
        if gate.steps == steps and not gate.threads and not self._has_woken and not self._run.hops:
            self._park()
        else:
            self._timer = self._run.lane.loop.call_later(STILL_MS / 1000, self._look, gate.steps)

    def _park(self) -> None:
        """Hold the code and give the slot back until the first of what it waits for has come."""
        self._run.shut()
        self._is_parked = True
        self._parked_on = next(iter(self._children), None)
        until = min((at for at, _ in self._times), default=None)
        self._run.post(self._run.attempt.park, self._parked_on, until)
