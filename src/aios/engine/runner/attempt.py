"""One attempt as the engine sees it: its claim, its slot, what its code waits for. All on the main loop.

`run` is the code; it is told things through its lane's mailbox, and what it has to say comes through ours. The slot is given
back only when no code of the attempt runs any more: it has ended, or stands still at its gate. An attempt without a slot is
parked; it goes on when the store has claimed its task anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from aios.engine.clock import Timer
from aios.engine.runner import outcomes
from aios.engine.runner.book import Book
from aios.engine.runner.claim import AGAIN_MS, Claim
from aios.engine.runner.questions import Question
from aios.engine.runner.run import Run
from aios.engine.runner.surroundings import Surroundings
from aios.errors import (
    AdapterUnavailable,
    AiosError,
    Conflict,
    InvalidTaskState,
    NotFound,
    ResourceBusy,
    WorkerLost,
)
from aios.failpoints import failpoint
from aios.model import OnCrash, Progress, Status, Step, Task, TaskId
from aios.rules.lifecycle import Ask, Await, Complete, Fail, HandBack, RequireAuth


class Attempt:
    """An attempt at a task that was claimed for us."""

    def __init__(self, task: Task, *, around: Surroundings) -> None:
        self.claim = Claim(task, recorder=around.recorder, lost=self._end, is_stopping=around.is_stopping)
        self.next: Task | None = None
        """A later claim of the same task, to be begun when this one's code has been unwound."""
        self.is_leaving = False
        self._around = around
        self._run: Run | None = None
        self._is_paused = False
        self._number = 0
        """Of the latest change between running and paused: tells an answer to it from one to an earlier change."""
        self._question: Question | None = None
        self._child: TaskId | None = None
        self._wants_slot = False
        self._kept: Complete | Fail | None = None
        self._watching: dict[TaskId, asyncio.Task[None]] = {}
        self._timers: dict[int, Timer] = {}
        self._rings = 0

    # Told by the runner

    @property
    def may_run_again(self) -> bool:
        """Whether its code may be unwound and run again."""
        return self.claim.task.spec.on_crash is OnCrash.RERUN

    def accepts(self, task: Task) -> bool:
        """Say whether a claim is this attempt's, to go on with."""
        return not (self.claim.is_over or self.is_leaving) and task.attempt == self.claim.task.attempt

    def begin(self) -> None:
        """Begin the code; where it ran before, with what it recorded then."""
        task = self.claim.task
        if task.claim > 1 or task.attempt > 1:
            self._start(self._begin_again(), "steps")
        else:
            self._submit(())

    def go_on(self, task: Task) -> None:
        """Go on under a new claim."""
        self._is_paused = self._wants_slot = False
        self._number += 1
        self._around.parking.leave(self)
        self.claim.renew(task)
        if self._kept is not None:
            self._finish(self._kept)
        elif self._question is not None:
            self._start(self._bring_answer(self._question, self._number), "answer")
        elif self._child is not None:
            child, self._child = self._child, None
            self._start(self._bring_child(child, self._number), "child")
        else:
            self._resume(None)

    def changed(self, task: Task) -> None:
        """Take note of a commit about the task."""
        claim = self.claim
        if claim.is_over:
            return
        if task.status.is_terminal or task.attempt != claim.task.attempt:
            self._end()
            return
        if task.claim != claim.task.claim:
            return
        claim.status = task.status
        if not claim.holds_slot:
            return
        if task.status is Status.PAUSED and not self._is_paused:
            self._is_paused = True
            self._number += 1
            if self._run is not None:
                self._run.tell(self._run.pause, self._number)
        elif task.status is Status.WORKING and self._is_paused:
            self._is_paused = False
            self._number += 1
            claim.wake()
            if self._question is not None:  # The answer to it may have been on its way before the pause.
                self._start(self._bring_answer(self._question, self._number), "answer")
            if self._run is not None:
                self._run.tell(self._run.go_on)

    def drain(self) -> None:
        """The daemon stops: have the code unwound at its next step boundary; at once, if it is parked."""
        self._leave(at_once=not self.claim.holds_slot)

    def evict(self) -> None:
        """Unwind the code now; the task is run again when its turn comes, or is handed back."""
        self._leave(at_once=True)

    async def abandon(self) -> None:
        """Give the task back though its code has not ended: the process is about to."""
        if self.claim.holds_slot and not self.claim.is_over:
            await self._hand_back()

    # Told by the lane

    def ended(self, outcome: Complete | Fail | None) -> None:
        """The code has ended: by itself, with an outcome; or because it was stopped."""
        failpoint("code.ended")
        for watch in list(self._watching.values()):
            watch.cancel()
        for timer in self._timers.values():
            timer.cancel()
        if outcome is not None and not (self.claim.holds_slot or self.claim.is_over or self.is_leaving):
            # A thread has come to its end while the task waits; that can be recorded only when it goes on.
            self._kept = outcome
            return
        self._finish(outcome)

    def is_quiet(self, number: int) -> None:
        """No code runs any more since the pause of this number."""
        if number == self._number and self._is_paused and self.claim.holds_slot and not self.claim.is_over:
            self._leave_slot()
            self._start(self._around.recorder.release(self.claim.task), "release")

    def serve(
        self, call: Callable[..., Awaitable[Any]], arguments: tuple[Any, ...], future: asyncio.Future[Any]
    ) -> None:
        """Make a call for the code, and bring the answer."""
        self._start(self._serve(call, arguments, future), "call")

    def put_question(self, command: Ask | RequireAuth) -> None:
        """Put a question, and park until it is answered."""
        self._question = Question(command, claim=self.claim, recorder=self._around.recorder, run=self._begun)
        self._start(self._put_question(self._question), "question")

    def withdraw_question(self) -> None:
        """Wait for the answer no longer: the code does not."""
        if self._question is not None and not (self.claim.is_over or self.is_leaving):
            self._start(self._question.withdraw(), "withdraw")

    def park(self, child: TaskId | None, until: datetime | None) -> None:
        """Give the slot back until the child has ended or the time has come."""
        self._child = child
        self._start(self._park(Await(child, until)), "park")

    def want_slot(self) -> None:
        """Be claimed again, though what was waited for has not come: other code of the attempt could go on."""
        if not self._wants_slot:
            self._wants_slot = True
            self._ask_for_slot_if_parked()

    def watch(self, child: TaskId) -> None:
        """Tell the code when the child has ended."""
        if child not in self._watching:
            self._watching[child] = asyncio.get_running_loop().create_task(self._watch(child))

    def ring_at(self, at: datetime) -> None:
        """Tell the code when the time has come."""
        run = self._begun

        def ring() -> None:
            self._timers.pop(number, None)
            run.tell(run.waits.rang, at)

        number = self._rings = self._rings + 1
        self._timers[number] = self._around.clock.call_at(at, ring)

    def report(self, slot: list[Progress]) -> None:
        """Report progress; nobody waits for it."""
        self.claim.report(slot.pop())

    # Inside

    @property
    def _begun(self) -> Run:
        if self._run is None:
            raise InvalidTaskState("the attempt has not begun")
        return self._run

    def _start(self, errand: Any, name: str) -> None:
        self._around.errands.start(errand, name=name)

    async def _begin_again(self) -> None:
        steps = await self._steps()
        if self.claim.is_over or self.is_leaving:
            self._finish(None)
        else:
            self._submit(steps)

    async def _steps(self) -> Sequence[Step]:
        while not (self.claim.is_over or self.is_leaving):
            try:
                return await self._around.recorder.steps(self.claim.task)
            except ResourceBusy:
                await asyncio.sleep(AGAIN_MS / 1000)
        return ()

    def _submit(self, steps: Sequence[Step]) -> None:
        around, task = self._around, self.claim.task
        try:
            adapter = around.registry.adapter(task.spec.adapter_id)
        except NotFound:
            error = AdapterUnavailable(
                f"the adapter {task.spec.adapter_id} is not loaded", adapter_id=task.spec.adapter_id
            )
            self._finish(outcomes.failed(task, error))
            return
        self._run = run = Run(
            self,
            task,
            adapter=adapter,
            make_context=around.make_context,
            book=Book(task.task_id, steps, vault=around.vault),
            main=around.mailbox,
            clock=around.clock,
            limits=around.limits,
        )
        if self._is_paused:
            run.tell(run.pause, self._number)
        around.lanes.submit(run)

    def _end(self) -> None:
        """The attempt is over; stop its code."""
        if self.claim.is_over:
            return
        self.claim.is_over = True
        self.claim.wake()
        self._around.parking.leave(self)
        if self._run is not None:
            self._run.is_canceled = True
            self._stop(self._run.cancel)

    def _leave(self, *, at_once: bool) -> None:
        if self.is_leaving and not at_once:
            return
        self.is_leaving = True
        self.claim.wake()
        if self._run is not None:
            self._run.is_leaving = True
            self._stop(self._run.unwind if at_once else self._run.drain)

    def _stop(self, how: Callable[[], None]) -> None:
        """Have the code stopped; code that no lane has begun yet is not begun at all, and some has ended already."""
        if self._kept is not None or self._begun.take_back():
            self._kept = None
            self._finish(None)
        else:
            self._begun.tell(how)

    def _leave_slot(self) -> None:
        self.claim.holds_slot = False
        self._around.parking.enter(self, has_thread=self._begun.has_threads)
        if self._wants_slot:
            self._ask_for_slot_if_parked()

    def _ask_for_slot_if_parked(self) -> None:
        # A task that is paused, or waits for an answer, is claimed in its turn without being asked.
        if not self.claim.holds_slot and self.claim.status is Status.WORKING and not self.claim.is_over:
            self._start(self._ask_for_slot(), "slot")

    def _resume(self, child: Task | None) -> None:
        if self._run is not None:
            self._run.tell(self._run.waits.resumed, self._around.clock.now(), child)

    async def _serve(
        self, call: Callable[..., Awaitable[Any]], arguments: tuple[Any, ...], future: asyncio.Future[Any]
    ) -> None:
        try:
            answer = await call(*arguments), None
        except Exception as error:  # It is raised where the code has called.
            answer = None, error
        self._begun.tell(self._begun.answer, future, *answer)

    async def _put_question(self, question: Question) -> None:
        if not await question.put(self._leave_slot) and self._question is question:
            self._question = None

    async def _bring_answer(self, question: Question, number: int) -> None:
        step = next((step for step in await self._steps() if step.key == question.step), None)
        if number != self._number or (step is None and not question.is_given_up):
            return
        self._question = None
        if step is None:
            self._resume(None)
        else:
            self._begun.tell(self._begun.waits.answer, step)

    async def _bring_child(self, child: TaskId, number: int) -> None:
        task: Task | None = None
        with suppress(AiosError):  # Whoever watches the child gets the error too.
            task = await self.claim.other(child)
        if number == self._number:
            self._resume(task if task is not None and task.status.is_terminal else None)

    async def _park(self, command: Await) -> None:
        claim, number = self.claim, self._number
        before = claim.task.claim
        try:
            await self._around.recorder.record(claim.task, command)
        except InvalidTaskState:
            # Paused: that parks it, and when it goes on it looks again at what it waits for.
            return
        except Conflict:
            self._end()
            return
        except AiosError:
            await asyncio.sleep(AGAIN_MS / 1000)
            if number == self._number and not claim.is_over:
                self._begun.tell(self._begun.go_on)
            return
        if claim.task.claim == before and not claim.is_over:
            self._leave_slot()

    async def _ask_for_slot(self) -> None:
        try:
            await self._around.recorder.record(self.claim.task, Await(None, self._around.clock.now()))
        except (Conflict, InvalidTaskState):
            # It has been claimed, or paused, meanwhile; either way it goes on in its turn.
            return
        except ResourceBusy:
            await asyncio.sleep(AGAIN_MS / 1000)
            if self._wants_slot:
                self._ask_for_slot_if_parked()

    async def _watch(self, child: TaskId) -> None:
        run = self._begun
        try:
            task = await self._around.recorder.until(child, lambda task: task.status.is_terminal, None)
        except AiosError as error:
            run.tell(run.waits.lost, child, error)
        else:
            run.tell(run.waits.ended, task)
        finally:
            self._watching.pop(child, None)

    # The end

    def _finish(self, outcome: Complete | Fail | None) -> None:
        self._around.parking.leave(self)
        self.claim.close()
        self._around.ended(self)
        if outcome is None or self.claim.is_over:
            self._start(self._conclude(outcome), "end")
        else:
            self.claim.say_end(
                outcome,
                lambda said: self._around.settled(self) if said else self._start(self._conclude(outcome), "end"),
            )

    async def _conclude(self, outcome: Complete | Fail | None) -> None:
        try:
            await self._record_end(outcome)
        finally:
            self._around.settled(self)

    async def _record_end(self, outcome: Complete | Fail | None) -> None:
        claim = self.claim
        if claim.is_over or (outcome is None and not self.is_leaving):
            if claim.holds_slot:
                await self._around.recorder.release(claim.task)
        elif outcome is not None:
            await self.claim.end(outcome)
        elif claim.holds_slot:
            await self._hand_back()

    async def _hand_back(self) -> None:
        if self.may_run_again:
            await self.claim.end(HandBack())
        else:
            error = WorkerLost("the daemon stopped while the task ran, and its capability must not run a second time")
            await self.claim.end(Fail(error.to_wire(), is_retryable=False))
