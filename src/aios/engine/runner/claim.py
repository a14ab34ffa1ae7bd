"""An attempt's hold on its task: what its code says counts while nobody holds a later one.

The number grows whenever the task is claimed anew, and an attempt that was parked goes on under the new one. So what is said is
said under the claim of just then, and again where it has been renewed meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from aios.engine.orders import NewTask
from aios.engine.recorder import Recorder
from aios.engine.runner import outcomes
from aios.errors import Conflict, InvalidTaskState, ResourceBusy, ValidationFailed
from aios.model import Progress, Status, Step, Task, TaskId
from aios.rules.lifecycle import Command, Complete, Fail, HandBack

AGAIN_MS = 500
"""After which something is asked of the store again that it could not do."""
REFUSALS_MAX = 16
"""How often a command is refused for the task's status, though the task works, before its code is told."""

Value = TypeVar("Value")
_log = structlog.get_logger("aios.runner")


class Claim:
    """What may be recorded of an attempt, and the state of its task as far as that is known here.

    Args:
        task: As it was claimed.
        lost: Called when it turns out that somebody else has a later claim, or the task is terminal.
        is_stopping: Whether the process is about to end.
    """

    def __init__(
        self, task: Task, *, recorder: Recorder, lost: Callable[[], None], is_stopping: Callable[[], bool]
    ) -> None:
        self.task = task
        """As it was claimed last: its `claim` and `attempt` are the fence."""
        self.status = task.status
        self.holds_slot = True
        self.is_over = False
        self._is_closed = False
        self._recorder = recorder
        self._lost = lost
        self._is_stopping = is_stopping
        self._waiting: list[asyncio.Future[None]] = []

    def renew(self, task: Task) -> None:
        """Hold the task under a new claim."""
        self.task, self.status, self.holds_slot = task, task.status, True
        self.wake()

    def wake(self) -> None:
        """Have everybody look again who waits until the task works."""
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def close(self) -> None:
        """The code has ended: nothing is said for it any more, and nobody waits for its turn."""
        self._is_closed = True
        self._lost = _nobody
        self.wake()

    async def record(self, *commands: Command) -> Task:
        """Have commands carried out; while the task is paused or waits, that waits too. Raises: as `Recorder.record`."""
        return await self._under(lambda task: self._recorder.record(task, *commands))

    async def put_step(self, step: Step) -> None:
        """Record a step. Raises: as `Recorder.put_step`."""
        await self._under(lambda task: self._recorder.put_step(task, step))

    async def spawn(self, new: NewTask) -> Task:
        """Create a child. Raises: as `Recorder.spawn`."""
        return await self._under(lambda task: self._recorder.spawn(task, new))

    async def put_content(self, content: bytes) -> str:
        """Keep an artifact's content. Raises: as `Recorder.put_content`."""
        return await self._recorder.put_content(content)

    async def other(self, task_id: TaskId) -> Task:
        """Give another task as it stands. Raises: TaskNotFound."""
        return await self._recorder.task(task_id)

    def report(self, progress: Progress) -> None:
        """Report progress; nobody waits for it. An attempt that is over has none."""
        try:
            written = self._recorder.progress(self.task, progress)
        except Conflict:
            return
        if written is not None:
            written.add_done_callback(_note)

    def say_end(self, command: Complete | Fail, heard: Callable[[bool], object]) -> None:
        """Say how the attempt ended, once, and go on; `heard` is told whether it was recorded. If not, `end` sees to it.

        Nearly always once is enough, and a task for it would be one too many.
        """
        try:
            recorded = self._recorder.recorded(self.task, command)
        except ValidationFailed:
            heard(False)
        else:
            recorded.add_done_callback(lambda ended: heard(_is_done(ended)))

    async def end(self, command: Complete | Fail | HandBack) -> None:
        """Record how the attempt ended, whatever it takes: nobody else knows it. The slot is given back with it."""
        task = self.task
        while True:
            try:
                await self._recorder.record(task, command)
                return
            except (Conflict, InvalidTaskState):
                await self._recorder.release(task)
                return
            except ResourceBusy:
                if self._is_stopping():
                    return
                await asyncio.sleep(AGAIN_MS / 1000)
            except ValidationFailed as refused:
                if not isinstance(command, Complete):
                    raise
                command = outcomes.failed(task, refused)

    async def _under(self, call: Callable[[Task], Awaitable[Value]]) -> Value:
        refusals = 0
        while True:
            task = self.task
            try:
                return await call(task)
            except Conflict:
                if self.task.claim == task.claim:
                    await self._renewed(task)
            except InvalidTaskState:
                refusals += 1
                if refusals > REFUSALS_MAX:
                    raise
                await self.works()

    async def works(self) -> None:
        """Wait until the task works and has a slot here. Raises: Conflict, once it is over."""
        while not (self.is_over or self._is_closed):
            if self.status is Status.WORKING and self.holds_slot:
                return
            await self._changed()
        raise Conflict(f"Attempt {self.task.attempt} of task {self.task.task_id} is over.")

    async def _renewed(self, task: Task) -> None:
        """Wait for the new claim where the store has made it for us and we have not been told yet. Raises: Conflict."""
        newest = await self._recorder.task(task.task_id)
        is_ours = newest.worker == task.worker and newest.attempt == task.attempt and not newest.status.is_terminal
        if not (is_ours and newest.claim > task.claim) and self.task.claim == task.claim:
            self._lost()
            raise Conflict(f"Attempt {task.attempt} (claim {task.claim}) of task {task.task_id} is over.")
        while self.task.claim == task.claim:
            if self.is_over or self._is_closed:
                raise Conflict(f"Attempt {task.attempt} of task {task.task_id} is over.")
            await self._changed()

    async def _changed(self) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        await future


def _nobody() -> None:
    """Stand for an attempt whose code has ended: it loses nothing any more."""


def _is_done(recorded: asyncio.Future[Task]) -> bool:
    return not recorded.cancelled() and recorded.exception() is None


def _note(written: asyncio.Future[Task]) -> None:
    """Take note of what became of progress; that the task is paused, or the attempt over, is no news."""
    error = None if written.cancelled() else written.exception()
    if error is not None and not isinstance(error, Conflict | InvalidTaskState):
        _log.warning("progress was not written", error=str(error))
