"""How long a capability will take, judged by how long it took; never invented (protocol.md §4)."""

from __future__ import annotations

from collections import deque
from statistics import median

from aios.engine.clock import MILLISECOND
from aios.engine.registry import Registry
from aios.model import Status, Task
from aios.store import Store

RUNS_MAX = 20
"""How many of the last completed runs are looked at."""


class Estimates:
    """The durations of each capability's last runs: read once, then kept up to date."""

    def __init__(self, *, store: Store, registry: Registry) -> None:
        self._store = store
        self._registry = registry
        self._durations: dict[str, deque[int]] = {}

    async def of(self, capability_id: str) -> int | None:
        """Give the median of the last completed runs, else what the descriptor says, else nothing.

        Raises:
            CapabilityNotFound: Nobody offers it.
        """
        capability = self._registry.capability(capability_id)
        if capability.id not in self._durations:
            found = await self._store.recent_durations(capability.id, limit=RUNS_MAX)
            self._durations.setdefault(capability.id, deque(reversed(found), maxlen=RUNS_MAX))
        durations = self._durations[capability.id]
        return round(median(durations)) if durations else capability.estimated_duration_ms

    def note(self, task: Task) -> None:
        """Take a task's end into account, where somebody has asked for its capability."""
        durations = self._durations.get(task.spec.capability_id)
        if durations is None or task.status is not Status.COMPLETED or not task.started_at or not task.ended_at:
            return
        durations.append((task.ended_at - task.started_at) // MILLISECOND)
