"""`aios/capability.*`: what can be asked for, and asking for it in one call (protocol.md §8)."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from aios.errors import (
    CapabilityNotFound,
    InputRequired,
    PermissionDenied,
    QueueFull,
    TaskFinal,
    TaskNotFound,
    TaskTimeout,
    UserCanceled,
    ValidationFailed,
)
from aios.model import JsonObject
from aios.protocol.params import CapabilityId, Done, Duration, Identifier, Params, Timestamp, View
from aios.protocol.task import ErrorView, IdempotencyKey


class CapabilitySummary(View, frozen=True, kw_only=True):
    """A capability in a list."""

    id: str
    name: str
    namespace: str
    version: str
    permission_level: str
    description: str = ""
    category: str = ""


class CapabilitiesListed(View, frozen=True, kw_only=True):
    """Capabilities, ordered by id."""

    capabilities: list[CapabilitySummary]


class CapabilityList(Params[CapabilitiesListed], frozen=True, kw_only=True):
    """List what can be asked for."""

    method = "aios/capability.list"
    result = CapabilitiesListed
    namespace: Annotated[str, msgspec.Meta(max_length=128)] | None = None
    category: Annotated[str, msgspec.Meta(max_length=128)] | None = None


class PermissionView(View, frozen=True, kw_only=True):
    """What a capability needs permission for."""

    level: str
    scope: str
    permission_id: str = ""


class CapabilityDetails(View, frozen=True, kw_only=True):
    """All about a capability; `input` and `output` are JSON Schemas."""

    id: str
    name: str
    description: str
    namespace: str
    version: str
    permission: PermissionView
    input: JsonObject
    output: JsonObject | None = None
    category: str = ""
    adapter_id: str = ""
    timeout_ms: int | None = None
    estimated_duration_ms: int | None = None
    streaming: bool = False
    examples: list[JsonObject] = []


class CapabilityInfo(Params[CapabilityDetails], frozen=True, kw_only=True):
    """Tell all about a capability."""

    method = "aios/capability.info"
    result = CapabilityDetails
    errors = (CapabilityNotFound,)
    capability_id: CapabilityId


class InvokeContext(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """In which session."""

    session_id: Identifier | None = None


class InvokeOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How to run it. `stream`: tell what happens by `aios/stream.*` notifications before the answer."""

    timeout_ms: Duration | None = None
    stream: bool = False
    idempotency_key: IdempotencyKey | None = None


class Invoked(View, frozen=True, kw_only=True):
    """What the capability returned (`data`) and said last (`message`)."""

    success: bool
    message: str
    data: Any
    task_id: str
    execution_time_ms: int


class CapabilityInvoke(Params[Invoked], frozen=True, kw_only=True):
    """Run a capability and answer with what it returned; a failed task gives its error."""

    method = "aios/capability.invoke"
    result = Invoked
    errors = (
        CapabilityNotFound,
        ValidationFailed,
        PermissionDenied,
        QueueFull,
        InputRequired,
        UserCanceled,
        TaskTimeout,
    )
    capability_id: CapabilityId
    arguments: JsonObject = {}
    context: InvokeContext = InvokeContext()
    options: InvokeOptions = InvokeOptions()


class CapabilityState(View, frozen=True, kw_only=True):
    """A task in the words of `capability.status`: `running` for working, progress as a whole percent."""

    task_id: str
    status: str
    progress: int
    message: str
    started_at: Timestamp | None = None
    result: Any = msgspec.UNSET
    error: ErrorView | None = None


class CapabilityStatus(Params[CapabilityState], frozen=True, kw_only=True):
    """Say how far a task is."""

    method = "aios/capability.status"
    result = CapabilityState
    errors = (TaskNotFound,)
    task_id: Identifier


class CapabilityCancel(Params[Done], frozen=True, kw_only=True):
    """Cancel a task."""

    method = "aios/capability.cancel"
    result = Done
    errors = (TaskNotFound, TaskFinal)
    task_id: Identifier


METHODS: tuple[type[Params[Any]], ...] = (
    CapabilityList,
    CapabilityInfo,
    CapabilityInvoke,
    CapabilityStatus,
    CapabilityCancel,
)
