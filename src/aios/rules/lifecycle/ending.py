"""How attempts and tasks end: completed, failed, timed out, expired, canceled, or tried once more."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from aios.errors import TaskTimeout
from aios.model import Artifact, EventKind, JsonObject, Outcome, Status, Task, wire_time
from aios.rules import events, retry
from aios.rules.lifecycle.commands import Cancel, Complete, Expire, Fail, TimeOut
from aios.rules.lifecycle.draft import MILLISECOND, Draft
from aios.rules.lifecycle.tables import refusal

ENDING_MS_MIN = 10_000
"""However short its time-out is, so long a time the code of an attempt has to come to its end after that."""


def complete(draft: Draft, command: Complete) -> None:
    """End the task with its result; if it is paused, keep the result until it is resumed."""
    if draft.task.status is Status.PAUSED:
        _keep(draft, command, Outcome(result=command.result, artifacts=list(command.artifacts)))
    else:
        succeed(draft, command.result, command.artifacts)


def fail(draft: Draft, command: Fail) -> None:
    """End the attempt by an error; if the task is paused, keep the error until it is resumed.

    A task that waits for a person goes back to working first: there is no other way along the table.
    """
    status = draft.task.status
    if status is Status.PAUSED:
        kept = Outcome(error=command.error, is_retryable=command.is_retryable, jitter=command.jitter)
        _keep(draft, command, kept)
        return
    if status is Status.INPUT_REQUIRED or status is Status.AUTH_REQUIRED:
        draft.move(Status.WORKING, request=None)
    fail_attempt(draft, command.error, is_retryable=command.is_retryable, jitter=command.jitter)


def time_out(draft: Draft, command: TimeOut) -> None:
    """End an attempt that overran. Its slot stays taken until its code has really stopped.

    Code that never does must not keep its task working for ever: the next attempt is there and cannot begin, because nobody
    knows what two at once would do. When it has waited for as long as it might have run (and for `ENDING_MS_MIN`), that is
    the task's end.
    """
    task = draft.task
    stuck = stuck_at(task)
    if stuck is not None and stuck <= draft.now:
        waited_ms = max(task.spec.timeout_ms, ENDING_MS_MIN) + (draft.now - stuck) // MILLISECOND
        what = (
            f"Attempt {task.attempt} waited {waited_ms} ms for the code of the one before to end, which has timed out"
        )
        fail_for_good(draft, _timeout(task, what, waited_ms), reason="timeout", worker=task.worker)
        return
    if task.deadline_at is None or task.deadline_at > draft.now:
        raise refusal(task, command, "its attempt has not used up its time")
    elapsed_ms = draft.used_ms()
    error = _timeout(task, f"Attempt {task.attempt} held its slot for {elapsed_ms} ms", elapsed_ms)
    fail_attempt(draft, error, is_retryable=True, jitter=command.jitter, reason="timeout", worker=task.worker)


def stuck_at(task: Task) -> datetime | None:
    """Say when the next attempt will have waited too long for a slot that the code of a timed-out one does not give back."""
    if task.status is not Status.WORKING or task.worker is None or task.run_at is None:
        return None
    return task.run_at + max(task.spec.timeout_ms, ENDING_MS_MIN) * MILLISECOND


def _timeout(task: Task, what: str, elapsed_ms: int) -> JsonObject:
    timeout_ms = task.spec.timeout_ms
    error = TaskTimeout(
        f"{what}; its timeout_ms is {timeout_ms}.",
        capability_id=task.spec.capability_id,
        timeout_ms=timeout_ms,
        elapsed_ms=elapsed_ms,
    ).to_wire()
    # The seeds show a task's own timeout under this message, and the error of a call under the table's.
    error["message"] = "Timeout"
    return error


def expire(draft: Draft, command: Expire) -> None:
    """Fail a task that did not start in time; no attempt was made, so none is repeated."""
    task = draft.task
    expires_at = task.spec.expires_at
    if expires_at is None or expires_at > draft.now:
        raise refusal(task, command, "its time to start is not over")
    error = TaskTimeout(
        f"The task was to start before {wire_time(expires_at)} and did not get a slot.",
        capability_id=task.spec.capability_id,
    )
    fail_for_good(draft, error.to_wire(), reason="expired", worker=None)


def cancel(draft: Draft, command: Cancel) -> None:
    """End the task at once. Its slot stays taken until its code has really stopped."""
    _finish(draft, Status.CANCELED, command.reason)


def succeed(draft: Draft, result: Any, artifacts: Sequence[Artifact]) -> None:
    """End a working task with its result."""
    _finish(draft, Status.COMPLETED, worker=None, result=result)
    data = events.result(draft.task.task_id, draft.timestamp, result=result, artifacts=artifacts)
    draft.add(EventKind.RESULT, data)


def fail_attempt(
    draft: Draft,
    error: JsonObject,
    *,
    is_retryable: bool,
    jitter: float,
    reason: str | None = None,
    worker: str | None = None,
) -> None:
    """End the attempt of a task that is working or pending: another follows if one is left and may help."""
    if is_retryable and retry.has_attempt_left(draft.task.spec.retry, draft.task.attempt):
        _try_again(draft, error, jitter=jitter, worker=worker)
    else:
        fail_for_good(draft, error, reason=reason, worker=worker)


def fail_for_good(draft: Draft, error: JsonObject, *, reason: str | None, worker: str | None) -> None:
    """End the task with an error."""
    _finish(draft, Status.FAILED, reason, worker=worker, error=error)
    draft.add(EventKind.ERROR, events.error(draft.task.task_id, draft.timestamp, error))


def _try_again(draft: Draft, error: JsonObject, *, jitter: float, worker: str | None) -> None:
    task = draft.task
    ended, of = task.attempt, task.spec.retry.max_attempts
    delay_ms = retry.delay_ms(task.spec.retry, ended, jitter=jitter)
    data = events.log(
        task.task_id,
        draft.timestamp,
        level="warning",
        message=f"Attempt {ended} of {of} ended by an error: {error.get('message', '')}; the next follows in {delay_ms} ms.",
        fields={"attempt": ended, "max_attempts": of, "delay_ms": delay_ms, "error": error},
    )
    draft.add(EventKind.LOG, data)
    run_at = draft.now + delay_ms * MILLISECOND
    draft.begin_attempt(ended + 1, used_ms=0, deadline_at=None, run_at=run_at, worker=worker)


def _finish(draft: Draft, status: Status, reason: str | None = None, **fields: Any) -> None:
    used_ms = draft.used_ms()
    draft.move(
        status,
        reason,
        ended_at=draft.at,
        request=None,
        outcome=None,
        run_at=None,
        deadline_at=None,
        used_ms=used_ms,
        **fields,
    )


def _keep(draft: Draft, command: Complete | Fail, outcome: Outcome) -> None:
    if draft.task.outcome is not None:
        raise refusal(draft.task, command, "its attempt has ended already and is kept for its resumption")
    draft.become(outcome=outcome, worker=None)
