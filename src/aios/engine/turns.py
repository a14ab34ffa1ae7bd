"""One at a time for each task, so that those who change the same task wait for one another instead of colliding."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

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


class Turns:
    """The turn to change a task. Callers come before running code: a cancel does not wait behind a thousand log lines.

    What code has queued is bounded by the code: each of its calls waits for its own turn.
    """

    def __init__(self) -> None:
        self._queues: dict[TaskId, _Queue] = {}

    @asynccontextmanager
    async def of(self, task_id: TaskId, *, is_caller: bool = True) -> AsyncGenerator[None]:
        """Hold the task's turn. Raises: ResourceBusy."""
        queue = self._queues.get(task_id)
        if queue is None:
            self._queues[task_id] = queue = _Queue()
        else:
            await self._wait(queue, task_id, is_caller=is_caller)
        try:
            yield
        finally:
            self._leave(queue, task_id)

    async def _wait(self, queue: _Queue, task_id: TaskId, *, is_caller: bool) -> None:
        if is_caller and len(queue.callers) >= CALLERS_MAX:
            raise ResourceBusy(f"{CALLERS_MAX} calls wait to change task {task_id}; try again later.", task_id=task_id)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        (queue.callers if is_caller else queue.code).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._leave(queue, task_id)
            raise

    def _leave(self, queue: _Queue, task_id: TaskId) -> None:
        if not queue.pass_on():
            del self._queues[task_id]
