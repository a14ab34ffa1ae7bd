"""Tasks that were committed lately, so that deciding on them costs no read.

Written by the writer's thread alone, after the commit and before its answers; read from any thread, where a dictionary's `get`
is one step of the interpreter.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from aios.model import TaskId
from aios.stores.sqlite.records import Known

CACHED_TASKS_MAX: Final = 4_096
CACHED_BYTES_MAX: Final = 32 * 1024
"""Of one task; bigger ones are read from the disk each time."""


class Cache:
    """The last tasks that were written, by row and by id."""

    def __init__(self) -> None:
        # The first of a plain dictionary is found ever more slowly, the more were taken out before it.
        self._by_row: OrderedDict[int, Known] = OrderedDict()
        self._by_id: dict[TaskId, Known] = {}

    def by_row(self, row: int) -> Known | None:
        """Give the task as last committed, if it is at hand."""
        return self._by_row.get(row)

    def by_id(self, task_id: TaskId) -> Known | None:
        """Give the task as last committed, if it is at hand."""
        return self._by_id.get(task_id)

    def put(self, known: Known) -> None:
        """Keep a task that was just committed, and let the longest untouched go where there are too many."""
        task = known.task
        if known.size + known.moving_size > CACHED_BYTES_MAX:
            self.drop(task.row)
            return
        self._by_row[task.row] = known
        self._by_row.move_to_end(task.row)
        self._by_id[task.task_id] = known
        if len(self._by_row) > CACHED_TASKS_MAX:
            self.drop(next(iter(self._by_row)))

    def drop(self, row: int) -> None:
        """Forget a task."""
        known = self._by_row.pop(row, None)
        if known is not None:
            self._by_id.pop(known.task.task_id, None)
