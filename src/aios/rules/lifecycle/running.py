"""Who runs a task: started, given back, waiting for a child, its worker lost; and what its code records meanwhile.

Of these only the first start is a step along the table: that a task has no worker just now is not a status (protocol.md §4).
"""

from __future__ import annotations

from msgspec.structs import replace

from aios.errors import WorkerLost
from aios.model import EventKind, OnCrash, Status
from aios.rules import events
from aios.rules.lifecycle.commands import Await, Chunk, Emit, HandBack, Log, Lost, Report, Start
from aios.rules.lifecycle.draft import MILLISECOND, Draft
from aios.rules.lifecycle.ending import fail_for_good
from aios.rules.lifecycle.tables import refusal

NOT_AGAIN = "The worker that ran the task vanished, and this capability must not be run a second time."


def start(draft: Draft, command: Start) -> None:
    """Take the slot under a new claim and let the attempt's clock run.

    Code that must not run a second time and was parked in a worker that is gone cannot go on: the task fails.
    """
    task = draft.task
    if task.worker is not None:
        raise refusal(task, command, "a worker holds its slot already")
    if task.spec.on_crash is OnCrash.FAIL:
        if task.begun_by not in (None, command.worker):
            draft.become(claim=task.claim + 1)
            error = WorkerLost(NOT_AGAIN, capability_id=task.spec.capability_id, crashes=task.crashes)
            fail_for_good(draft, error.to_wire(), reason="worker_lost", worker=None)
            return
        draft.become(begun_by=command.worker)
    if task.status is Status.PENDING:
        draft.move(Status.WORKING, started_at=task.started_at or draft.at)
    draft.become(
        claim=task.claim + 1,
        worker=command.worker,
        run_at=None,
        deadline_at=draft.now + (task.spec.timeout_ms - task.used_ms) * MILLISECOND,
    )


def wait(draft: Draft, command: Await) -> None:
    """Give the slot back until the child has ended or the time has come."""
    draft.become(worker=None, used_ms=draft.used_ms(), deadline_at=None, run_at=command.until)
    draft.awaits = command.child


def hand_back(draft: Draft, _: HandBack) -> None:
    """Give the slot back, to be claimed by whoever comes first. It costs neither an attempt nor a crash."""
    task = draft.task
    if task.worker is None:
        return
    draft.become(begun_by=None)
    if task.status is Status.PAUSED:
        draft.become(worker=None)
    else:
        draft.become(worker=None, used_ms=draft.used_ms(), deadline_at=None, run_at=task.run_at or draft.now)


def lost(draft: Draft, command: Lost) -> None:
    """Take the slot from a worker that is no more, and run the attempt again unless that was once too often.

    How long the lost worker really ran is not known, so the time since its claim is not charged to the attempt. Where the
    attempt had ended before (the task is terminal or waits, or it timed out and its code was still stopping), only the slot
    was left to lose.
    """
    task = draft.task
    if task.worker is None:
        return
    is_running = task.status in (Status.WORKING, Status.PAUSED) and task.run_at is None
    if not is_running:
        draft.become(worker=None)
        return
    crashes = task.crashes + 1
    is_paused = task.status is Status.PAUSED
    draft.become(worker=None, crashes=crashes, deadline_at=None, run_at=None if is_paused else draft.now)
    why = _why_not_again(crashes, command.max_crashes, task.spec.on_crash)
    if why is None:
        return
    if is_paused:
        draft.move(Status.WORKING, "worker_lost")
    error = WorkerLost(why, capability_id=task.spec.capability_id, crashes=crashes)
    fail_for_good(draft, error.to_wire(), reason="worker_lost", worker=None)


def _why_not_again(crashes: int, max_crashes: int, on_crash: OnCrash) -> str | None:
    if on_crash is OnCrash.FAIL:
        return NOT_AGAIN
    if crashes > max_crashes:
        return f"The task lost its worker {crashes} times without recording a new step; max_crashes is {max_crashes}."
    return None


def report(draft: Draft, command: Report) -> None:
    """Say how far the task is; a whole percentage is an integer, however it was computed."""
    progress = command.progress
    if isinstance(progress.percent, float) and progress.percent.is_integer():
        progress = replace(progress, percent=int(progress.percent))
    draft.become(progress=progress)
    draft.add(EventKind.PROGRESS, events.progress(draft.task.task_id, draft.timestamp, progress))


def log(draft: Draft, command: Log) -> None:
    """Write a line to the task's log."""
    data = events.log(
        draft.task.task_id, draft.timestamp, level=command.level, message=command.message, fields=command.fields
    )
    draft.add(EventKind.LOG, data)


def emit(draft: Draft, command: Emit) -> None:
    """Keep an artifact and show it."""
    draft.artifacts += (command.artifact,)
    data = events.artifact(
        draft.task.task_id,
        draft.timestamp,
        command.piece or command.artifact,
        append=command.append,
        last_chunk=command.last_chunk,
        index=command.index,
    )
    draft.add(EventKind.ARTIFACT, data)


def chunk(draft: Draft, command: Chunk) -> None:
    """Stream a piece of output under the number of its attempt, which voids those of earlier ones."""
    task = draft.task
    data = events.chunk(task.task_id, draft.timestamp, attempt=task.attempt, index=command.index, data=command.data)
    draft.add(EventKind.CHUNK, data)
