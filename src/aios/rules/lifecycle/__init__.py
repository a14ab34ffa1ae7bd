"""The lifecycle of a task: what becomes of it when something is asked of it (protocol.md §4).

`decide` is the one place where a task changes. It is pure: the same task, command and time give the same change, down to the
bytes of its events. The tables are in `tables.py`, the commands in `commands.py`, and each group of commands has a file of
functions that carry them out on a `Draft`.

What holds for every change: the version is the number of the last event, events are numbered without a gap, no time in the
log lies before the one in front of it, a terminal task is moved by nothing, and a slot is taken only by `Start`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Final

from aios.model import Change, Task
from aios.rules.lifecycle import ending, running, waiting
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
from aios.rules.lifecycle.draft import Draft
from aios.rules.lifecycle.ending import stuck_at
from aios.rules.lifecycle.tables import ALLOWED, EDGES, STANDING, TRANSITIONS, refusal

__all__ = [
    "EDGES",
    "STANDING",
    "TRANSITIONS",
    "Answer",
    "Ask",
    "Authenticate",
    "Await",
    "Cancel",
    "Chunk",
    "Command",
    "Complete",
    "Emit",
    "Expire",
    "Fail",
    "HandBack",
    "Log",
    "Lost",
    "Pause",
    "Report",
    "RequestTimeout",
    "RequireAuth",
    "Resume",
    "Start",
    "TimeOut",
    "Withdraw",
    "decide",
    "decide_all",
    "stuck_at",
]

_CARRIED_OUT_BY: Final[dict[type[Command], Callable[[Draft, Any], None]]] = {
    Start: running.start,
    Complete: ending.complete,
    Fail: ending.fail,
    TimeOut: ending.time_out,
    Pause: waiting.pause,
    Resume: waiting.resume,
    Cancel: ending.cancel,
    Ask: waiting.ask,
    Answer: waiting.answer,
    RequireAuth: waiting.require_auth,
    Authenticate: waiting.answer,
    RequestTimeout: waiting.time_out_request,
    Withdraw: waiting.withdraw,
    Expire: ending.expire,
    Lost: running.lost,
    Await: running.wait,
    HandBack: running.hand_back,
    Report: running.report,
    Log: running.log,
    Emit: running.emit,
    Chunk: running.chunk,
}


def decide(task: Task, command: Command, *, now: datetime) -> Change:
    """Say what becomes of `task` if `command` is carried out at `now`.

    Raises:
        InvalidTaskState: The task does not stand where this command is possible, or its time has not come.
        TaskFinal: The task is terminal.
    """
    return decide_all(task, (command,), now=now)


def decide_all(task: Task, commands: Iterable[Command], *, now: datetime) -> Change:
    """Say what becomes of `task` if the commands are carried out one after the other, as one change.

    Raises:
        InvalidTaskState: One of them is not possible where the task then stands; none is carried out.
        TaskFinal: The task is terminal, or one of the commands made it so and another follows.
    """
    draft = Draft(task, now=now)
    for command in commands:
        kind = type(command)
        if (kind, draft.task.status) not in ALLOWED:
            raise refusal(draft.task, command)
        _CARRIED_OUT_BY[kind](draft, command)
    return draft.change()
