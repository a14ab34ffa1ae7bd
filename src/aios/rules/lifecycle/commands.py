"""What can be asked of a task, as frozen records: by callers, by its running code, by the keeper of times.

A command carries every fact that its decision needs, so that `decide` is a function of the task, the command and the time.
Its `kind` is its word on the wire and in the docs: for what a caller may ask, the last word of the method (`aios/task.input`).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar, TypeAlias

import msgspec

from aios.model import Artifact, AuthRequest, InputRequest, JsonObject, Progress, Step, TaskId


class Start(msgspec.Struct, frozen=True):
    """A worker has claimed the task and runs it now."""

    kind: ClassVar[str] = "start"
    worker: str


class Complete(msgspec.Struct, frozen=True):
    """The code has returned."""

    kind: ClassVar[str] = "complete"
    result: Any
    artifacts: Sequence[Artifact] = ()
    """All that the task made, for its `task.result` event."""


class Fail(msgspec.Struct, frozen=True):
    """The attempt ended by an error."""

    kind: ClassVar[str] = "fail"
    error: JsonObject
    """Wire form, as `AiosError.to_wire` gives it."""
    is_retryable: bool = True
    jitter: float = 0.0
    """Drawn from [0, 1) by the caller; the rules roll no dice."""


class TimeOut(msgspec.Struct, frozen=True):
    """The attempt has held its slot for longer than it may."""

    kind: ClassVar[str] = "time_out"
    jitter: float = 0.0


class Pause(msgspec.Struct, frozen=True):
    """A caller wants the task to stand still."""

    kind: ClassVar[str] = "pause"
    reason: str | None = None


class Resume(msgspec.Struct, frozen=True):
    """A caller wants a paused task to go on."""

    kind: ClassVar[str] = "resume"
    reason: str | None = None


class Cancel(msgspec.Struct, frozen=True):
    """A caller, or the end of a parent, wants the task to end."""

    kind: ClassVar[str] = "cancel"
    reason: str | None = None


class Ask(msgspec.Struct, frozen=True):
    """The code puts a question to a person and parks. `due_at` follows from `timeout_ms` if it is not set."""

    kind: ClassVar[str] = "ask"
    request: InputRequest
    reason: str | None = None


class Answer(msgspec.Struct, frozen=True):
    """A person has answered; the step holds the answer under the key that the question named."""

    kind: ClassVar[str] = "input"
    step: Step
    reason: str | None = None


class RequireAuth(msgspec.Struct, frozen=True):
    """The code needs a sign-in and parks. `due_at` follows from `timeout_ms` if it is not set."""

    kind: ClassVar[str] = "require_auth"
    request: AuthRequest


class Authenticate(msgspec.Struct, frozen=True):
    """A person has signed in; the step holds the sealed response."""

    kind: ClassVar[str] = "authenticate"
    step: Step
    reason: str | None = None


class RequestTimeout(msgspec.Struct, frozen=True):
    """Nobody answered, or signed in, by the time the request was due."""

    kind: ClassVar[str] = "request_timeout"


class Withdraw(msgspec.Struct, frozen=True):
    """The code waits no longer for what it asked for: it has bounded its waiting by itself, or has ended."""

    kind: ClassVar[str] = "withdraw"
    step: str
    """Of the request that is withdrawn."""


class Expire(msgspec.Struct, frozen=True):
    """The task was to start before `expires_at`, and has not."""

    kind: ClassVar[str] = "expire"


class Lost(msgspec.Struct, frozen=True):
    """The worker that held the task's slot has vanished."""

    kind: ClassVar[str] = "lost"
    max_crashes: int


class Await(msgspec.Struct, frozen=True):
    """The code waits for a child or a time, and gives its slot back meanwhile."""

    kind: ClassVar[str] = "await"
    child: TaskId | None = None
    until: datetime | None = None


class HandBack(msgspec.Struct, frozen=True):
    """A worker that stops in good order gives the task back to be run elsewhere."""

    kind: ClassVar[str] = "hand_back"


class Report(msgspec.Struct, frozen=True):
    """The code says how far it is."""

    kind: ClassVar[str] = "report"
    progress: Progress


class Log(msgspec.Struct, frozen=True):
    """The code writes a line to the task's log."""

    kind: ClassVar[str] = "log"
    level: str
    message: str
    fields: JsonObject = {}


class Emit(msgspec.Struct, frozen=True):
    """The code has made an artifact, or the next part of one that is streamed."""

    kind: ClassVar[str] = "emit"
    artifact: Artifact
    """As it is to be kept: whole."""
    append: bool | None = None
    last_chunk: bool | None = None
    index: int | None = None
    piece: Artifact | None = None
    """What the event shows, where that is only what this part adds."""


class Chunk(msgspec.Struct, frozen=True):
    """The code streams the next piece of its output."""

    kind: ClassVar[str] = "chunk"
    data: Any
    index: int
    """From 0 in each attempt."""


Command: TypeAlias = (
    Start
    | Complete
    | Fail
    | TimeOut
    | Pause
    | Resume
    | Cancel
    | Ask
    | Answer
    | RequireAuth
    | Authenticate
    | RequestTimeout
    | Withdraw
    | Expire
    | Lost
    | Await
    | HandBack
    | Report
    | Log
    | Emit
    | Chunk
)
