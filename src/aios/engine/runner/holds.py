"""What has to stand still with an attempt's code though no gate can hold it: clocks, processes, remote peers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING

from aios.errors import TaskTimeout

if TYPE_CHECKING:
    from aios.engine.runner.run import Run


class Hooks:
    """Two calls of the code's own: `ctx.pausing`."""

    def __init__(self, pause: Callable[[], None], resume: Callable[[], None]) -> None:
        self._pause = pause
        self._resume = resume

    def pause(self) -> None:
        """Make what the code holds stand still."""
        self._pause()

    def resume(self) -> None:
        """Let it go on."""
        self._resume()


class WorkingTime(AbstractAsyncContextManager[None]):
    """A bound on a block of code by the time for which it may work: `ctx.timeout`.

    While the code is held the clock stands. When the time is up the task that entered is canceled, and what comes out of the
    block is a `TaskTimeout` (as `asyncio.timeout` does it).
    """

    def __init__(self, run: Run, duration_ms: int) -> None:
        self._run = run
        self._duration_ms = duration_ms
        self._left_s = duration_ms / 1000
        self._since = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[object] | None = None
        self._canceling = 0
        self._is_up = False

    async def __aenter__(self) -> None:
        self._run.check()
        self._task = asyncio.current_task()
        self._canceling = self._task.cancelling() if self._task is not None else 0
        self._run.hold(self)
        self.resume()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.pause()
        self._run.let_go(self)
        if not self._is_up or self._task is None:
            return
        # Somebody else may have canceled as well; then that is what counts.
        if self._task.uncancel() <= self._canceling and kind is asyncio.CancelledError:
            raise TaskTimeout(
                f"the code worked for longer than the {self._duration_ms} ms that it gave itself",
                timeout_ms=self._duration_ms,
            ) from error

    def pause(self) -> None:
        """Stop the clock."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._left_s -= self._run.lane.loop.time() - self._since

    def resume(self) -> None:
        """Let the clock run."""
        if self._timer is None and not self._is_up:
            loop = self._run.lane.loop
            self._since = loop.time()
            self._timer = loop.call_later(max(0.0, self._left_s), self._up)

    def _up(self) -> None:
        self._timer = None
        self._is_up = True
        if self._task is not None:
            self._task.cancel()
