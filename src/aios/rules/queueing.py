"""Who may have a slot, and who may still join the queue (protocol.md §12).

The queue is all pending tasks, delayed ones included; a slot is a task whose `worker` is set. Both are counted by the store,
exactly, inside the transaction that asks.
"""

from __future__ import annotations

from aios.model import Limits


def has_slot(running: int, running_of_adapter: int, limits: Limits) -> bool:
    """Whether one more task of an adapter may run."""
    return running < limits.max_concurrent_tasks and running_of_adapter < limits.max_tasks_per_tool


def has_room(pending: int, limits: Limits) -> bool:
    """Whether one more task may wait."""
    return pending < limits.max_queue_size


def may_enter(*, pending: int, running: int, running_of_adapter: int, limits: Limits, is_due: bool = True) -> bool:
    """Whether a new task is accepted: refused exactly when the queue is full and no slot is free for it.

    A delayed task (`is_due` false) takes no slot now, so a free one does not help it. Resuming and retrying never ask.
    """
    return has_room(pending, limits) or (is_due and has_slot(running, running_of_adapter, limits))
