"""`aios/task.*`: asking for tasks and steering them (protocol.md §4). Following them is in `subscriptions.py`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from aios.errors import (
    CapabilityNotFound,
    InvalidInput,
    InvalidTaskState,
    PermissionDenied,
    QueueFull,
    TaskFinal,
    TaskNotFound,
    ValidationFailed,
)
from aios.model import Backoff, JsonObject, Priority, Status
from aios.protocol.artifact import ArtifactView
from aios.protocol.params import (
    CapabilityId,
    Delay,
    Duration,
    Identifier,
    Instant,
    Params,
    Reason,
    Timestamp,
    View,
    Wait,
)

IdempotencyKey = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]


class ProgressView(View, frozen=True, kw_only=True):
    """How far a task is; `percent` from 0 to 100."""

    percent: float | int | None = None
    message: str | None = None
    current_step: int | None = None
    total_steps: int | None = None


class ErrorView(View, frozen=True, kw_only=True):
    """Why a task failed; the error object of JSON-RPC."""

    code: int
    message: str
    data: JsonObject = {}


class InputRequestView(View, frozen=True, kw_only=True):
    """The question that a task waits with; the answer must be one of `options`, or fit `schema`, where there is one."""

    prompt: str
    options: list[Any] | None = None
    schema: JsonObject | None = None
    timeout_ms: int | None = None


class AuthRequestView(View, frozen=True, kw_only=True):
    """The sign-in that a task waits for; shown to the task's own principal only."""

    type: str
    reason: str = ""
    provider: str | None = None
    authorization_url: str | None = None
    scopes: list[str] | None = None
    state: str | None = None
    timeout_ms: int | None = None


class StateEntry(View, frozen=True, kw_only=True):
    """One entry of a task's history."""

    state: Status
    timestamp: Timestamp
    reason: str | None = None
    metadata: JsonObject | None = None


class TaskView(View, frozen=True, kw_only=True):
    """A task as callers see it.

    An asynchronous `task.create` answers with the first three members and, where it is known, `estimated_duration_ms`;
    `task.get` gives everything that applies; items of a list have no arguments, result and artifacts.
    """

    task_id: str
    status: Status
    created_at: Timestamp
    estimated_duration_ms: int | None = None
    capability_id: str | None = None
    arguments: JsonObject | None = None
    metadata: JsonObject | None = None
    priority: Priority | None = None
    session_id: str | None = None
    parent_task_id: str | None = None
    attempt: int | None = None
    progress: ProgressView | None = None
    started_at: Timestamp | None = None
    updated_at: Timestamp | None = None
    completed_at: Timestamp | None = None
    failed_at: Timestamp | None = None
    canceled_at: Timestamp | None = None
    artifacts: list[ArtifactView] | None = None
    result: Any = msgspec.UNSET
    error: ErrorView | None = None
    input_request: InputRequestView | None = None
    auth_request: AuthRequestView | None = None
    state_history: list[StateEntry] | None = None


class RetryOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How often a task is attempted in all, and after what delay."""

    max_attempts: Annotated[int, msgspec.Meta(ge=1, le=100)] = 1
    delay_ms: Delay = 0
    backoff: Backoff = Backoff.FIXED
    max_delay_ms: Delay | None = None


class CreateOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the task is to be run, and when the call is to be answered."""

    is_async: bool = msgspec.field(default=False, name="async")
    """True: answer at once, the task is detached from its session. False: answer when it ends or waits for someone."""
    wait_ms: Wait = 60_000
    """After which a call that is not `async` is answered with the task as it is then."""
    priority: Priority = Priority.NORMAL
    timeout_ms: Duration | None = None
    retry: RetryOptions | None = None
    idempotency_key: IdempotencyKey | None = None
    expires_in_ms: Duration | None = None
    delay_ms: Delay | None = None
    run_at: Instant | None = None


class TaskCreate(Params[TaskView], frozen=True, kw_only=True):
    """Create a task that runs a capability."""

    method = "aios/task.create"
    result = TaskView
    errors = (CapabilityNotFound, ValidationFailed, PermissionDenied, QueueFull)
    capability_id: CapabilityId
    arguments: JsonObject = {}
    options: CreateOptions = CreateOptions()
    metadata: JsonObject = {}


class TaskGet(Params[TaskView], frozen=True, kw_only=True):
    """Give a task as it is now."""

    method = "aios/task.get"
    result = TaskView
    errors = (TaskNotFound,)
    task_id: Identifier
    include_history: bool = False


class TaskFilter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which tasks; all conditions must hold. In `capability_id` a `*` is any run of characters."""

    status: Annotated[list[Status], msgspec.Meta(max_length=64)] = []
    capability_id: Annotated[str, msgspec.Meta(max_length=256)] | None = None
    tags: Annotated[list[Annotated[str, msgspec.Meta(max_length=256)]], msgspec.Meta(max_length=64)] = []
    """Of `metadata.tags`."""
    session_id: Identifier | None = None
    created_after: Instant | None = None
    created_before: Instant | None = None


class HistoryFilter(TaskFilter, frozen=True, kw_only=True, omit_defaults=True):
    """As for `task.list`, and when the task ended."""

    start_time: Instant | None = None
    end_time: Instant | None = None


class Pagination(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which page. `cursor` is the `next_cursor` of the page before, quicker than a deep `offset`."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 50
    offset: Annotated[int, msgspec.Meta(ge=0, le=2**53)] = 0
    cursor: Annotated[str, msgspec.Meta(max_length=1_024)] | None = None


class Sort(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """In which order; ties are ordered by task_id."""

    field: Literal["created_at", "updated_at", "started_at", "priority", "status"] = "created_at"
    order: Literal["asc", "desc"] = "desc"


class TasksListed(View, frozen=True, kw_only=True):
    """One page of tasks; `total` counts all that match."""

    tasks: list[TaskView]
    total: int
    has_more: bool
    next_cursor: str | None = None
    total_is_estimate: bool = False


class TaskList(Params[TasksListed], frozen=True, kw_only=True):
    """List tasks."""

    method = "aios/task.list"
    result = TasksListed
    errors = (ValidationFailed,)
    filter: TaskFilter = TaskFilter()
    pagination: Pagination = Pagination()
    sort: Sort = Sort()


class TaskHistory(Params[TasksListed], frozen=True, kw_only=True):
    """List finished tasks."""

    method = "aios/task.history"
    result = TasksListed
    errors = (ValidationFailed,)
    filter: HistoryFilter = HistoryFilter()
    pagination: Pagination = Pagination()
    sort: Sort = Sort()


class TaskCanceled(View, frozen=True, kw_only=True):
    """The task is canceled."""

    task_id: str
    status: Status
    canceled_at: Timestamp


class TaskCancel(Params[TaskCanceled], frozen=True, kw_only=True):
    """Cancel a task that is not terminal; nothing it still produces changes it."""

    method = "aios/task.cancel"
    result = TaskCanceled
    errors = (TaskNotFound, TaskFinal)
    task_id: Identifier
    reason: Reason | None = None


class TaskMoved(View, frozen=True, kw_only=True):
    """Where the task stands after the command."""

    task_id: str
    status: Status
    updated_at: Timestamp


class TaskPause(Params[TaskMoved], frozen=True, kw_only=True):
    """Pause a working task; it gives its slot back."""

    method = "aios/task.pause"
    result = TaskMoved
    errors = (TaskNotFound, TaskFinal, InvalidTaskState)
    task_id: Identifier
    reason: Reason | None = None


class TaskResume(Params[TaskMoved], frozen=True, kw_only=True):
    """Let a paused task go on, as soon as a slot is free for it."""

    method = "aios/task.resume"
    result = TaskMoved
    errors = (TaskNotFound, TaskFinal, InvalidTaskState)
    task_id: Identifier
    reason: Reason | None = None


class TaskInput(Params[TaskMoved], frozen=True, kw_only=True):
    """Answer the question that a task waits with."""

    method = "aios/task.input"
    result = TaskMoved
    errors = (TaskNotFound, TaskFinal, InvalidTaskState, InvalidInput)
    task_id: Identifier
    input: Any


class TaskAuthenticate(Params[TaskMoved], frozen=True, kw_only=True):
    """Give the sign-in that a task waits for: api_key {api_key}, password {username, password},
    certificate {certificate, private_key?}, oauth2 {authorization_code, state?}, each with its `type`.
    """

    method = "aios/task.authenticate"
    result = TaskMoved
    errors = (TaskNotFound, TaskFinal, InvalidTaskState, InvalidInput)
    task_id: Identifier
    auth_response: JsonObject

    def __repr__(self) -> str:
        """Keep what it carries out of logs."""
        return f"TaskAuthenticate(task_id={self.task_id!r})"


METHODS: tuple[type[Params[Any]], ...] = (
    TaskCreate,
    TaskGet,
    TaskList,
    TaskCancel,
    TaskPause,
    TaskResume,
    TaskInput,
    TaskAuthenticate,
    TaskHistory,
)
