"""One task in every status and one command of every kind, which fit together: all that is due is due at `LATE`."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

from msgspec.structs import replace

from aios.model import (
    Artifact,
    ArtifactId,
    AuthRequest,
    Change,
    Event,
    EventKind,
    InputRequest,
    Progress,
    Retry,
    Status,
    Step,
    Task,
    TaskId,
    TaskSpec,
)
from aios.rules.lifecycle import (
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

NOW = datetime(2026, 1, 5, 10, 0, tzinfo=UTC)
TIMEOUT_MS = 30_000
STEP = "ask:color#1"
ERROR: dict[str, Any] = {"code": -32603, "message": "no luck", "data": {"error_id": "JSONRPC-INTERNAL-ERROR"}}


def after(ms: int) -> datetime:
    return NOW + timedelta(milliseconds=ms)


LATE = after(3_600_000)

SPEC = TaskSpec(
    capability_id="compat.shop.compare",
    adapter_id="com.example.shop",
    principal="owner",
    created_at=NOW,
    timeout_ms=TIMEOUT_MS,
    expires_at=after(60_000),
)

QUESTION = InputRequest(step=STEP, prompt="Which color?", timeout_ms=5_000)
SIGN_IN = AuthRequest(step=STEP, type="api_key", reason="to read the mail", timeout_ms=5_000)
ARTIFACT = Artifact(id=ArtifactId("art-1"), task_id=TaskId("task-1"), name="Prices", type="report", created_at=NOW)

_FIELDS: dict[Status, dict[str, Any]] = {
    Status.PENDING: {"version": 0, "claim": 0, "run_at": NOW},
    Status.WORKING: {"worker": "w-1", "deadline_at": after(TIMEOUT_MS)},
    Status.PAUSED: {"used_ms": 1_000},
    Status.INPUT_REQUIRED: {"request": replace(QUESTION, due_at=after(5_000))},
    Status.AUTH_REQUIRED: {"request": replace(SIGN_IN, due_at=after(5_000))},
    Status.COMPLETED: {"ended_at": NOW, "result": 1},
    Status.FAILED: {"ended_at": NOW, "error": ERROR},
    Status.CANCELED: {"ended_at": NOW},
}


def a_task(status: Status = Status.PENDING, *, retry: Retry | None = None, **fields: Any) -> Task:
    """Give a task that stands in `status`; of the fields, those that belong to its spec go there."""
    given: dict[str, Any] = {"version": 3, "claim": 2, "started_at": NOW, **_FIELDS[status], **fields}
    if status is Status.PENDING:
        given.pop("started_at")
    of_spec = {name: given.pop(name) for name in list(given) if name in TaskSpec.__struct_fields__}
    spec = replace(SPEC, retry=retry or Retry(), **of_spec)
    return Task(task_id=TaskId("task-1"), spec=spec, status=status, updated_at=NOW, **given)


_SAMPLES: list[Command] = [
    Start("w-2"),
    Complete({"cheapest": "b"}, [ARTIFACT]),
    Fail(ERROR),
    TimeOut(),
    Pause("lunch"),
    Resume("back"),
    Cancel("user_request"),
    Ask(QUESTION),
    Answer(Step(key=STEP, value=b'"red"')),
    RequireAuth(SIGN_IN),
    Authenticate(Step(key=STEP, value=b"sealed", is_secret=True)),
    RequestTimeout(),
    Withdraw(STEP),
    Expire(),
    Lost(max_crashes=10),
    Await(TaskId("task-2")),
    HandBack(),
    Report(Progress(percent=50)),
    Log("info", "halfway"),
    Emit(ARTIFACT),
    Chunk("abc", 0),
]
COMMANDS: dict[type[Command], Command] = {type(each): each for each in _SAMPLES}
KINDS: tuple[type[Command], ...] = get_args(Command)


def data(event: Event) -> dict[str, Any]:
    return json.loads(event.data)


def kinds(change: Change) -> list[EventKind]:
    return [event.kind for event in change.events]


def steps_of(change: Change) -> list[tuple[Status, Status]]:
    """Give the steps along the table that a change's events tell of."""
    told = [data(event) for event in change.events if event.kind is EventKind.STATUS]
    return [(Status(each["previous_status"]), Status(each["status"])) for each in told]
