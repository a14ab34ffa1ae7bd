"""How tasks come to wait, and go on: paused and resumed, a question and its answer, a sign-in."""

from __future__ import annotations

from typing import TypeVar

from msgspec.structs import replace

from aios.model import AuthRequest, EventKind, InputRequest, Outcome, Status, Step
from aios.rules import events
from aios.rules.lifecycle.commands import (
    Answer,
    Ask,
    Authenticate,
    Pause,
    RequestTimeout,
    RequireAuth,
    Resume,
    Withdraw,
)
from aios.rules.lifecycle.draft import MILLISECOND, Draft
from aios.rules.lifecycle.ending import fail_attempt, succeed
from aios.rules.lifecycle.tables import refusal

Request = TypeVar("Request", InputRequest, AuthRequest)


def pause(draft: Draft, command: Pause) -> None:
    """Stop the attempt's clock. Its slot stays taken until its code has really stopped; a time it waits for stays set."""
    draft.move(Status.PAUSED, command.reason, used_ms=draft.used_ms(), deadline_at=None)


def resume(draft: Draft, command: Resume) -> None:
    """Let the task go on where it stood, or come to the end that it reached while it was paused.

    Code that has not stopped yet just goes on. A slot whose task has a `run_at` is only what is left of an attempt that timed
    out: no clock runs for it.
    """
    task = draft.task
    if task.outcome is not None:
        draft.move(Status.WORKING, command.reason, outcome=None)
        _apply(draft, task.outcome)
    elif task.worker is not None and task.run_at is None:
        left = (task.spec.timeout_ms - task.used_ms) * MILLISECOND
        draft.move(Status.WORKING, command.reason, deadline_at=draft.now + left)
    else:
        run_at = draft.now if task.run_at is None else max(task.run_at, draft.now)
        draft.move(Status.WORKING, command.reason, run_at=run_at)


def _apply(draft: Draft, outcome: Outcome) -> None:
    if outcome.error is None:
        succeed(draft, outcome.result, outcome.artifacts)
    else:
        fail_attempt(draft, outcome.error, is_retryable=outcome.is_retryable, jitter=outcome.jitter)


def ask(draft: Draft, command: Ask) -> None:
    """Put a question and give the slot back."""
    request = _park(draft, Status.INPUT_REQUIRED, command.request, command.reason)
    data = events.input_required(draft.task.task_id, draft.timestamp, request)
    draft.add(EventKind.INPUT_REQUIRED, data)


def require_auth(draft: Draft, command: RequireAuth) -> None:
    """Ask for a sign-in and give the slot back."""
    request = _park(draft, Status.AUTH_REQUIRED, command.request)
    draft.add(EventKind.AUTH_REQUIRED, events.auth_required(draft.task.task_id, draft.timestamp, request))


def _park(draft: Draft, status: Status, request: Request, reason: str | None = None) -> Request:
    if request.timeout_ms is not None and request.due_at is None:
        request = replace(request, due_at=draft.now + request.timeout_ms * MILLISECOND)
    used_ms = draft.used_ms()
    draft.move(status, reason, request=request, worker=None, used_ms=used_ms, deadline_at=None, run_at=None)
    return request


def answer(draft: Draft, command: Answer | Authenticate) -> None:
    """Record what a person gave and let the task go on as soon as a slot is free."""
    request = draft.task.request
    if request is None or request.step != command.step.key:
        raise refusal(draft.task, command, "it waits for something else than this answers")
    _go_on(draft, command.step, command.reason)


def time_out_request(draft: Draft, command: RequestTimeout) -> None:
    """Record that nobody answered in time; the waiting code gets that as an error."""
    request = draft.task.request
    if request is None or request.due_at is None or request.due_at > draft.now:
        raise refusal(draft.task, command, "its request is not due yet")
    _go_on(draft, Step(key=request.step, is_timeout=True), "timeout")


def withdraw(draft: Draft, command: Withdraw) -> None:
    """Let the task go on without an answer. Nothing is recorded: code that is run again asks again."""
    request = draft.task.request
    if request is None or request.step != command.step:
        raise refusal(draft.task, command, "it waits for something else than this withdraws")
    draft.move(Status.WORKING, "withdrawn", request=None, run_at=draft.now)


def _go_on(draft: Draft, step: Step, reason: str | None) -> None:
    draft.steps += (step,)
    draft.move(Status.WORKING, reason, request=None, run_at=draft.now)
