"""Progress at the pace at which anybody can follow it: between two reports the latest is held (protocol.md §5)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from aios.engine.clock import MILLISECOND, Clock, Timer
from aios.model import Progress, Task, TaskId


class Fence(NamedTuple):
    """Which run of a task's code speaks."""

    claim: int
    attempt: int


def fence(task: Task) -> Fence:
    """Give the fence of the attempt as `task` knows it."""
    return Fence(task.claim, task.attempt)


class _Reports:
    def __init__(self, written_at: datetime) -> None:
        self.written_at = written_at
        self.held: tuple[Fence, Progress] | None = None
        self.timer: Timer | None = None


class Pace:
    """Holds what is reported too soon, for each task that runs here.

    Args:
        flush: Called when a held report's time has come.
    """

    def __init__(self, *, clock: Clock, per_second: int, flush: Callable[[TaskId], None]) -> None:
        self._clock = clock
        self._gap = 1000 // per_second * MILLISECOND
        self._flush = flush
        self._reports: dict[TaskId, _Reports] = {}

    def admit(self, task: Task, progress: Progress) -> bool:
        """Say whether this report may be written now; if not, it is held in place of the one before."""
        now = self._clock.now()
        reports = self._reports.get(task.task_id)
        if reports is None:
            self._reports[task.task_id] = _Reports(now)
            return True
        if reports.held is None and now >= reports.written_at + self._gap:
            reports.written_at = now
            return True
        reports.held = (fence(task), progress)
        if reports.timer is None:
            self._arm(task.task_id, reports)
        return False

    def held(self, task: Task) -> Progress | None:
        """Give what is to be written before this task's next event."""
        reports = self._reports.get(task.task_id)
        if reports is None or reports.held is None:
            return None
        whose, progress = reports.held
        return progress if whose == fence(task) and not task.status.is_terminal else None

    def written(self, task_id: TaskId, progress: Progress) -> None:
        """Hold this report no longer, unless a later one has taken its place."""
        reports = self._reports.get(task_id)
        if reports is None:
            return
        reports.written_at = self._clock.now()
        if reports.held is not None and reports.held[1] is progress:
            reports.held = None
            self._stop(reports)

    def forget(self, task_id: TaskId) -> None:
        """The task no longer runs here."""
        reports = self._reports.pop(task_id, None)
        if reports is not None:
            self._stop(reports)

    def holding(self) -> list[TaskId]:
        """Tasks of which a report is held."""
        return [task_id for task_id, reports in self._reports.items() if reports.held is not None]

    def _arm(self, task_id: TaskId, reports: _Reports) -> None:
        reports.timer = self._clock.call_at(reports.written_at + self._gap, lambda: self._ring(task_id, reports))

    def _ring(self, task_id: TaskId, reports: _Reports) -> None:
        reports.timer = None
        if reports.held is None:
            return
        now = self._clock.now()
        if now < reports.written_at + self._gap:
            self._arm(task_id, reports)  # Another event has brought a report with it meanwhile.
            return
        # Already now: what comes while this one is being written waits for its own time.
        reports.written_at = now
        self._flush(task_id)

    @staticmethod
    def _stop(reports: _Reports) -> None:
        if reports.timer is not None:
            reports.timer.cancel()
            reports.timer = None
