"""The tables of the lifecycle (protocol.md §4): which command moves a task from where to where, and which merely happens.

A command may take more than one step in one change: resuming a task whose outcome was kept goes on to that outcome, failing
one that waits goes through working. The table names the first step; each further one is an edge as well.
"""

from __future__ import annotations

from typing import Final

from aios.errors import InvalidTaskState, TaskFinal
from aios.model import Status, Task
from aios.rules.lifecycle.commands import (
    Answer,
    Ask,
    Authenticate,
    Await,
    Cancel,
    Chunk,
    Command,
    Complete,
    Emit,
    Expire,
    Fail,
    HandBack,
    Log,
    Lost,
    Pause,
    Report,
    RequestTimeout,
    RequireAuth,
    Resume,
    Start,
    TimeOut,
    Withdraw,
)

EDGES: Final[tuple[tuple[Status, Status], ...]] = (
    (Status.PENDING, Status.WORKING),
    (Status.PENDING, Status.FAILED),
    (Status.PENDING, Status.CANCELED),
    (Status.WORKING, Status.COMPLETED),
    (Status.WORKING, Status.FAILED),
    (Status.WORKING, Status.PAUSED),
    (Status.WORKING, Status.INPUT_REQUIRED),
    (Status.WORKING, Status.AUTH_REQUIRED),
    (Status.WORKING, Status.CANCELED),
    (Status.PAUSED, Status.WORKING),
    (Status.PAUSED, Status.CANCELED),
    (Status.INPUT_REQUIRED, Status.WORKING),
    (Status.INPUT_REQUIRED, Status.CANCELED),
    (Status.AUTH_REQUIRED, Status.WORKING),
    (Status.AUTH_REQUIRED, Status.CANCELED),
)
"""The fifteen steps from one status to another. A retry is the one self-step, from working to working."""

TRANSITIONS: Final[dict[Status, dict[type[Command], Status]]] = {
    Status.PENDING: {
        Start: Status.WORKING,
        Fail: Status.FAILED,
        Expire: Status.FAILED,
        Cancel: Status.CANCELED,
    },
    Status.WORKING: {
        Complete: Status.COMPLETED,
        Fail: Status.FAILED,
        TimeOut: Status.FAILED,
        Lost: Status.FAILED,
        Pause: Status.PAUSED,
        Ask: Status.INPUT_REQUIRED,
        RequireAuth: Status.AUTH_REQUIRED,
        Cancel: Status.CANCELED,
    },
    Status.PAUSED: {
        Resume: Status.WORKING,
        Lost: Status.WORKING,
        Cancel: Status.CANCELED,
    },
    Status.INPUT_REQUIRED: {
        Answer: Status.WORKING,
        RequestTimeout: Status.WORKING,
        Withdraw: Status.WORKING,
        Fail: Status.WORKING,
        Cancel: Status.CANCELED,
    },
    Status.AUTH_REQUIRED: {
        Authenticate: Status.WORKING,
        RequestTimeout: Status.WORKING,
        Withdraw: Status.WORKING,
        Fail: Status.WORKING,
        Cancel: Status.CANCELED,
    },
    Status.COMPLETED: {},
    Status.FAILED: {},
    Status.CANCELED: {},
}

RECORDS: Final[frozenset[type[Command]]] = frozenset({Report, Log, Emit, Chunk})
"""What code did while it ran. Some of it arrives when the task already waits: it is a fact all the same, and is kept."""

STANDING: Final[dict[Status, frozenset[type[Command]]]] = {
    Status.PENDING: frozenset({Lost}),
    Status.WORKING: RECORDS | {Start, Await, HandBack},
    Status.PAUSED: RECORDS | {Complete, Fail, HandBack},
    Status.INPUT_REQUIRED: RECORDS | {Lost},
    Status.AUTH_REQUIRED: RECORDS | {Lost},
    Status.COMPLETED: frozenset({Lost}),
    Status.FAILED: frozenset({Lost}),
    Status.CANCELED: frozenset({Lost}),
}
"""What is carried out where the task stands, without a step along the table."""

ASKED_BY_CALLERS: Final[tuple[type[Command], ...]] = (Pause, Resume, Answer, Authenticate, Cancel)

ALLOWED: Final[frozenset[tuple[type[Command], Status]]] = frozenset(
    (command, status) for status in Status for command in (*TRANSITIONS[status], *STANDING[status])
)


def refusal(task: Task, command: Command, why: str = "") -> InvalidTaskState | TaskFinal:
    """Make the error that says why `command` cannot be carried out; `allowed` is what a caller may ask for instead."""
    status = task.status
    if status.is_terminal:
        return TaskFinal(f"Task {task.task_id} is {status} and nothing moves it any more.", status=status.value)
    allowed = [each.kind for each in ASKED_BY_CALLERS if each in TRANSITIONS[status]]
    return InvalidTaskState(
        f"Task {task.task_id} is {status}: {why or f'`{command.kind}` is not possible there'}; "
        f"what can be asked for now: {', '.join(allowed)}.",
        status=status.value,
        requested=command.kind,
        allowed=allowed,
    )
