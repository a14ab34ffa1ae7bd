"""The records of the house: what a task, an event, a change is. Frozen, without behaviour, without I/O.

Everything that is stored or handed between rooms is one of these. Their names are the seeds' words; a field that ends in
`_ms` is a duration in milliseconds, one that ends in `_at` an aware instant in UTC, cut to milliseconds.
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NewType

import msgspec

TaskId = NewType("TaskId", str)
ArtifactId = NewType("ArtifactId", str)
SessionId = NewType("SessionId", str)

JsonObject = dict[str, Any]


class Status(StrEnum):
    """Where a task stands; the eight words of protocol.md §4."""

    PENDING = "pending"
    WORKING = "working"
    PAUSED = "paused"
    INPUT_REQUIRED = "input_required"
    AUTH_REQUIRED = "auth_required"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"

    @property
    def is_terminal(self) -> bool:
        """Whether nothing moves the task any more."""
        return self in TERMINAL


TERMINAL = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELED})
WAITING = frozenset({Status.PAUSED, Status.INPUT_REQUIRED, Status.AUTH_REQUIRED})


class Priority(StrEnum):
    """Who goes first; strict, first in first out inside one."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"
    URGENT = "urgent"

    @property
    def rank(self) -> int:
        """0 for low up to 3 for urgent."""
        return _RANKS[self]


_RANKS = {Priority.LOW: 0, Priority.NORMAL: 1, Priority.HIGH: 2, Priority.URGENT: 3}


class EventKind(StrEnum):
    """The kinds of event in a task's log; the wire names of protocol.md §5."""

    STATUS = "task.status"
    PROGRESS = "task.progress"
    ARTIFACT = "task.artifact"
    INPUT_REQUIRED = "task.input_required"
    AUTH_REQUIRED = "task.auth_required"
    LOG = "task.log"
    CHUNK = "task.chunk"
    RESULT = "task.result"
    ERROR = "task.error"


class Backoff(StrEnum):
    """How the delay between attempts grows."""

    FIXED = "fixed"
    LINEAR = "linear"
    EXPONENTIAL = "exponential"
    EXPONENTIAL_JITTER = "exponential_jitter"


class OnCrash(StrEnum):
    """What becomes of an attempt whose worker vanished."""

    RERUN = "rerun"
    FAIL = "fail"


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What all records have in common: immutable, built by keyword, stored without their defaults."""


class Retry(Record, frozen=True, kw_only=True):
    """How often and after what delay a task is attempted (protocol.md §4, `options.retry`)."""

    max_attempts: int = 1
    delay_ms: int = 0
    backoff: Backoff = Backoff.FIXED
    max_delay_ms: int | None = None


class Progress(Record, frozen=True, kw_only=True):
    """How far a task is: `percent` from 0 to 100."""

    percent: float | int | None = None
    message: str | None = None
    current_step: int | None = None
    total_steps: int | None = None


class InputRequest(Record, frozen=True, kw_only=True, tag_field="kind", tag="input"):
    """A question that a task put to a person."""

    step: str
    """Key of the durable step that will hold the answer."""
    prompt: str
    options: list[Any] | None = None
    schema: JsonObject | None = None
    timeout_ms: int | None = None
    due_at: datetime | None = None


class AuthRequest(Record, frozen=True, kw_only=True, tag_field="kind", tag="auth"):
    """A sign-in that a task needs."""

    step: str
    type: str
    """oauth2, api_key, password or certificate."""
    reason: str = ""
    provider: str | None = None
    authorization_url: str | None = None
    scopes: list[str] | None = None
    state: str | None = None
    timeout_ms: int | None = None
    due_at: datetime | None = None


class Outcome(Record, frozen=True, kw_only=True):
    """How an attempt ended while its task was paused: kept, and applied at resume."""

    result: Any = None
    artifacts: list[Artifact] = []
    error: JsonObject | None = None
    is_retryable: bool = True
    jitter: float = 0.0
    """Drawn when the attempt failed, for the delay before the next one."""


class TaskSpec(Record, frozen=True, kw_only=True):
    """What was asked for when the task was created; never changes."""

    capability_id: str
    adapter_id: str
    principal: str
    """The user whose task this is."""
    created_at: datetime
    session_id: SessionId | None = None
    arguments: JsonObject = {}
    metadata: JsonObject = {}
    priority: Priority = Priority.NORMAL
    timeout_ms: int = 600_000
    """Time for which one attempt may hold a slot."""
    retry: Retry = Retry()
    is_detached: bool = False
    """`options.async`: the task outlives a `shutdown` of its session."""
    not_before: datetime | None = None
    expires_at: datetime | None = None
    on_crash: OnCrash = OnCrash.RERUN
    parent_task_id: TaskId | None = None
    depth: int = 0
    """0 for a task made by a caller, 1 for its child, and so on."""


class Task(Record, frozen=True, kw_only=True):
    """A task as it stands at one version.

    `status` is what callers see and moves only along the table (`rules/lifecycle.py`). `worker`, `run_at` and `claim` say who
    runs it, and are nobody's business outside: a slot is taken exactly while `worker` is set, and the task may be claimed when
    its status is pending or working, `worker` is None and `run_at` has passed (`run_at` None: not before something wakes it).
    """

    task_id: TaskId
    spec: TaskSpec
    status: Status = Status.PENDING
    version: int = 0
    """Number of the task's last event; 0 at creation, which emits none."""
    attempt: int = 1
    claim: int = 0
    """Grows at every claim; what an older claim writes is refused."""
    crashes: int = 0
    started_at: datetime | None = None
    updated_at: datetime
    ended_at: datetime | None = None
    progress: Progress | None = None
    result: Any = None
    error: JsonObject | None = None
    request: InputRequest | AuthRequest | None = None
    """What the task waits for while input_required or auth_required."""
    outcome: Outcome | None = None
    worker: str | None = None
    begun_by: str | None = None
    """Who began this attempt's code, where it must not begin a second time (`on_crash: fail`): while the attempt is parked it
    has no worker, and its code lives in that one alone."""
    run_at: datetime | None = None
    deadline_at: datetime | None = None
    """When the running attempt has used up its timeout; set only while it holds a slot and the clock runs."""
    used_ms: int = 0
    """Time for which this attempt has held a slot before now."""
    row: int = 0
    """The store's own number for it; 0 before it is stored."""
    stamp: int = 0
    """The store's count of its writes to this task, those too that give no new version (a claim, a release, a step, a child
    that woke it); a change that was made from an older one conflicts."""


class Event(Record, frozen=True, kw_only=True):
    """A stored past fact about a task.

    `data` is the event's JSON as it goes to callers, `task_id` and `timestamp` included: encoded once, for everyone.
    """

    number: int
    kind: EventKind
    at: datetime
    data: bytes

    @property
    def event_id(self) -> str:
        """The public id, `evt-007` for number 7."""
        return f"evt-{self.number:03d}"


class Step(Record, frozen=True, kw_only=True):
    """A durable step of a task's code, recorded once: a value, an answer, or an answer that did not come in time."""

    key: str
    """Kind, name and occurrence, unique inside the task."""
    digest: bytes = b""
    """Of function and arguments; if it differs on a re-run, the code has changed."""
    value: bytes = b""
    """JSON, or its sealed form where `is_secret`."""
    is_secret: bool = False
    is_timeout: bool = False


class Blob(Record, frozen=True, kw_only=True):
    """Content of an artifact's part that is kept outside the artifact's record."""

    part: int
    sha256: str
    size: int
    mime_type: str


class Artifact(Record, frozen=True, kw_only=True):
    """Something a task made (protocol.md §7). `parts` are JSON objects in the seeds' form."""

    id: ArtifactId
    task_id: TaskId
    name: str
    type: str
    created_at: datetime
    parts: list[JsonObject] = []
    mime_type: str | None = None
    metadata: JsonObject = {}
    version: int = 1
    blobs: list[Blob] = []


class IdempotencyKey(Record, frozen=True, kw_only=True):
    """A caller's own name for a request, so that asking twice makes one task."""

    key: str
    digest: bytes
    """Of the whole request: the same key with another request is refused."""


class Change(Record, frozen=True, kw_only=True):
    """A task as it should become, and the events that say so; written in one transaction or not at all."""

    task: Task
    before: int | None
    """The version the task must still have; None: it must not exist yet."""
    claim: int | None = None
    """The claim the task must still have, for what comes from running code."""
    events: tuple[Event, ...] = ()
    steps: tuple[Step, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    awaits: TaskId | None = None
    """The child that wakes the task; if that child has ended already the task is claimable at once."""
    idempotency: IdempotencyKey | None = None


class Session(Record, frozen=True, kw_only=True):
    """A client's session (protocol.md §3)."""

    session_id: SessionId
    principal: str
    created_at: datetime
    expires_at: datetime
    closed_at: datetime | None = None
    client_info: JsonObject = {}
    metadata: JsonObject = {}


class TaskQuery(Record, frozen=True, kw_only=True):
    """Which tasks to list, in which order, and how many (protocol.md §4, `task.list` and `task.history`)."""

    principal: str | None
    """Only this user's; None: everyone's."""
    statuses: tuple[Status, ...] = ()
    capability_glob: str | None = None
    """`*` is any run of characters; everything else is itself."""
    tags: tuple[str, ...] = ()
    session_id: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    ended_after: datetime | None = None
    ended_before: datetime | None = None
    only_ended: bool = False
    limit: int = 50
    offset: int = 0
    cursor: str | None = None
    sort: str = "created_at"
    """created_at, updated_at, started_at, priority or status; ties are ordered by task_id."""
    is_descending: bool = True


class TaskPage(Record, frozen=True, kw_only=True):
    """One page of tasks; `total` counts all that match."""

    tasks: list[Task]
    total: int
    has_more: bool = False
    next_cursor: str | None = None
    total_is_estimate: bool = False


class EventPage(Record, frozen=True, kw_only=True):
    """Events of one task after a number, in order."""

    events: list[Event]
    is_cut: bool = False
    """Some event after the asked number was cut away; the reader must be told."""


class Limits(Record, frozen=True, kw_only=True):
    """The named caps of the service (protocol.md §4, §5, §12)."""

    max_concurrent_tasks: int = 100
    max_tasks_per_tool: int = 100
    max_queue_size: int = 10_000
    max_batch_size: int = 100
    max_message_size: int = 4 * 1024 * 1024
    max_input_size: int = 1024 * 1024
    max_event_size: int = 256 * 1024
    max_result_size: int = 1024 * 1024
    max_step_size: int = 1024 * 1024
    max_events_per_task: int = 100_000
    max_artifact_size: int = 64 * 1024 * 1024
    max_inline_size: int = 64 * 1024
    max_parked: int = 1_000
    max_parked_threads: int = 64
    max_threads: int = 64
    max_crashes: int = 10
    max_depth: int = 8
    max_progress_per_second: int = 20
    default_timeout_ms: int = 600_000
    invoke_timeout_ms: int = 30_000
    max_subscriptions: int = 10_000


def to_ms(instant: datetime) -> int:
    """Milliseconds since 1970 of an aware instant."""
    return round(instant.timestamp() * 1000)


def from_ms(milliseconds: int) -> datetime:
    """The instant that lies so many milliseconds after 1970."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


_encode_time = msgspec.json.Encoder().encode


def wire_time(instant: datetime) -> str:
    """RFC 3339 in UTC with `Z` and milliseconds (protocol.md §1)."""
    # Every event has one, and msgspec writes it ten times as fast as `isoformat`; only the digits of the fraction differ.
    text = _encode_time(instant).decode()
    return f"{text[1:24]}Z" if instant.microsecond else f"{text[1:20]}.000Z"
