"""One at a time for each task, so that those who change the same task wait for one another instead of colliding."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import AbstractAsyncContextManager

from aios.errors import ResourceBusy
from aios.model import TaskId

CALLERS_MAX = 1_000
"""How many callers may wait for one task; the next is told that it is busy."""


class _Queue:
    __slots__ = ("callers", "code")

    def __init__(self) -> None:
        self.callers: deque[asyncio.Future[None]] = deque()
        self.code: deque[asyncio.Future[None]] = deque()

    def pass_on(self) -> bool:
        """Give the turn to the next who still wants it; say whether there was one."""
        for line in (self.callers, self.code):
            while line:
                turn = line.popleft()
                if not turn.done():
                    turn.set_result(None)
                    return True
        return False


class _Turn:
    """A turn, held for as long as a block lasts."""

    __slots__ = ("_is_caller", "_task_id", "_turns")

    def __init__(self, turns: Turns, task_id: TaskId, *, is_caller: bool) -> None:
        self._turns = turns
        self._task_id = task_id
        self._is_caller = is_caller

    async def __aenter__(self) -> None:
        await self._turns.enter(self._task_id, is_caller=self._is_caller)

    async def __aexit__(self, *_: object) -> None:
        self._turns.leave(self._task_id)


class Turns:
    """The turn to change a task. Callers come before running code: a cancel does not wait behind a thousand log lines.

    What code has queued is bounded by the code: each of its calls waits for its own turn.
    """

    def __init__(self) -> None:
        self._queues: dict[TaskId, _Queue] = {}

    def of(self, task_id: TaskId, *, is_caller: bool = True) -> AbstractAsyncContextManager[None]:
        """Hold the task's turn for a block. Raises, on entering: ResourceBusy."""
        return _Turn(self, task_id, is_caller=is_caller)

    async def enter(self, task_id: TaskId, *, is_caller: bool) -> None:
        """Wait for the turn. Raises: ResourceBusy."""
        queue = self._queues.get(task_id)
        if queue is None:
            self._queues[task_id] = _Queue()
        else:
            await self._wait(queue, task_id, is_caller=is_caller)

    def leave(self, task_id: TaskId) -> None:
        """Give up the turn."""
        if not self._queues[task_id].pass_on():
            del self._queues[task_id]

    async def _wait(self, queue: _Queue, task_id: TaskId, *, is_caller: bool) -> None:
        if is_caller and len(queue.callers) >= CALLERS_MAX:
            raise ResourceBusy(f"{CALLERS_MAX} calls wait to change task {task_id}; try again later.", task_id=task_id)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        (queue.callers if is_caller else queue.code).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave(task_id)
            raise
