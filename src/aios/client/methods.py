"""The daemon's methods by short names, and what the client knows about each: how long it may take, whether it may be repeated."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, TypeVar, cast

import msgspec

from aios.errors import InvalidParams
from aios.model import JsonObject
from aios.protocol.artifact import ArtifactGet, ArtifactList, ArtifactView
from aios.protocol.capability import CapabilityDetails, CapabilityInfo, CapabilityList, CapabilitySummary
from aios.protocol.params import Params
from aios.protocol.task import (
    CreateOptions,
    HistoryFilter,
    Pagination,
    Sort,
    TaskAuthenticate,
    TaskCancel,
    TaskCanceled,
    TaskCreate,
    TaskFilter,
    TaskGet,
    TaskHistory,
    TaskInput,
    TaskList,
    TaskMoved,
    TaskPause,
    TaskResume,
    TasksListed,
    TaskView,
)

ANSWER_TIMEOUT_MS = 30_000
"""For what the daemon answers at once; what it holds an answer back for comes on top."""
WAIT_MS_MAX = 24 * 3_600_000

SAFE = frozenset(
    {
        "aios/ping",
        "aios/task.get",
        "aios/task.list",
        "aios/task.history",
        "aios/task.subscribe",
        "aios/artifact.get",
        "aios/artifact.list",
        "aios/capability.list",
        "aios/capability.info",
        "aios/capability.status",
        "aios/permission.list",
        "aios/permission.pending",
        "aios/registry.search",
        "aios/registry.info",
        "aios/resource.list",
        "aios/resource.read",
        "aios/session.info",
        "rpc.discover",
    }
)
"""Methods that only read."""
KEYED = frozenset({"aios/task.create", "aios/capability.invoke"})
"""Methods that are safe with an idempotency key."""
HELD_BACK = {
    "aios/task.create": ("wait_ms", 60_000),
    "aios/capability.invoke": ("timeout_ms", WAIT_MS_MAX),
    "aios/permission.request": ("timeout_ms", 60_000),
    "aios/shutdown": ("timeout_ms", 5_000),
    "aios/batch.execute": ("timeout_ms", WAIT_MS_MAX),
}
"""Methods whose answer may be held back: by which member of params or options, and for how long without it."""

Result = TypeVar("Result")


def is_safe(method: str, params: Any) -> bool:
    """Whether the call may be sent again when its answer was lost."""
    if method in KEYED:
        return bool(_member(_member(params, "options"), "idempotency_key"))
    return method in SAFE


def timeout_of(method: str, params: Any) -> int:
    """How long the answer to this call may take."""
    if method not in HELD_BACK or _member(_member(params, "options"), "is_async", "async"):
        return ANSWER_TIMEOUT_MS
    name, default = HELD_BACK[method]
    asked = _member(_member(params, "options"), name) or _member(params, name)
    held = asked if isinstance(asked, int) and method != "aios/capability.invoke" else default
    return ANSWER_TIMEOUT_MS + min(max(held, 0), WAIT_MS_MAX)


def _member(value: Any, *names: str) -> Any:
    """A member of a record or a dict, under the first of these names that is there."""
    for name in names:
        found = cast("JsonObject", value).get(name) if isinstance(value, dict) else getattr(value, name, None)
        if found is not None:
            return found
    return None


def options_of(options: JsonObject) -> CreateOptions:
    """Read the options of `create` and `run`.

    Raises:
        InvalidParams: There is no such option, or it has a wrong type or range.
    """
    known = {field.encode_name for field in msgspec.structs.fields(CreateOptions)}
    if unknown := sorted(options.keys() - known):
        raise InvalidParams(f"no option {unknown[0]!r}; there are {', '.join(sorted(known))}")
    try:
        return msgspec.convert(options, CreateOptions)
    except msgspec.ValidationError as error:
        raise InvalidParams(f"options: {error}") from error


class Methods:
    """Short names for the methods that are called most; `call` reaches all others."""

    async def call(self, method: Params[Result], /) -> Result:
        """Call a method with typed params."""
        raise NotImplementedError

    async def create(
        self,
        capability_id: str,
        arguments: JsonObject | None = None,
        *,
        metadata: JsonObject | None = None,
        wait: bool = False,
        **options: Any,
    ) -> TaskView:
        """Create a task. Answers at once, or with `wait` when it has ended or waits for somebody.

        An idempotency key is made where none is given, so that a repetition after a lost answer makes no second task.

        Raises:
            CapabilityNotFound: Nobody offers it.
            ValidationFailed: The arguments do not fit its schema; `data["errors"]` says where.
            PermissionDenied: A grant is missing.
            QueueFull: There is no room for another task now.
        """
        chosen = {"async": not wait, "idempotency_key": f"client-{secrets.token_urlsafe(16)}", **options}
        return await self.call(
            TaskCreate(
                capability_id=capability_id,
                arguments=arguments or {},
                metadata=metadata or {},
                options=options_of(chosen),
            )
        )

    async def get(self, task_id: str, *, include_history: bool = False) -> TaskView:
        """Give a task as it is now. Raises: TaskNotFound."""
        return await self.call(TaskGet(task_id=task_id, include_history=include_history))

    async def list(
        self, *, limit: int = 50, cursor: str | None = None, sort: Sort | None = None, **filter: Any
    ) -> TasksListed:
        """List tasks, the newest first; filters are `status`, `capability_id` (with `*`), `tags`, `session_id`,
        `created_after` and `created_before`.
        """
        return await self.call(
            TaskList(
                filter=_filter(filter, TaskFilter),
                pagination=Pagination(limit=limit, cursor=cursor),
                sort=sort or Sort(),
            )
        )

    async def history(
        self, *, limit: int = 50, cursor: str | None = None, sort: Sort | None = None, **filter: Any
    ) -> TasksListed:
        """List finished tasks; filters are those of `list`, and `start_time` and `end_time` for when they ended."""
        return await self.call(
            TaskHistory(
                filter=_filter(filter, HistoryFilter),
                pagination=Pagination(limit=limit, cursor=cursor),
                sort=sort or Sort(),
            )
        )

    async def cancel(self, task_id: str, reason: str | None = None) -> TaskCanceled:
        """Cancel a task. Raises: TaskNotFound, TaskFinal."""
        return await self.call(TaskCancel(task_id=task_id, reason=reason))

    async def pause(self, task_id: str, reason: str | None = None) -> TaskMoved:
        """Pause a working task. Raises: TaskNotFound, TaskFinal, InvalidTaskState."""
        return await self.call(TaskPause(task_id=task_id, reason=reason))

    async def resume(self, task_id: str, reason: str | None = None) -> TaskMoved:
        """Let a paused task go on. Raises: TaskNotFound, TaskFinal, InvalidTaskState."""
        return await self.call(TaskResume(task_id=task_id, reason=reason))

    async def input(self, task_id: str, value: Any) -> TaskMoved:
        """Answer the question a task waits with.

        Raises:
            InvalidInput: The answer does not fit; the task still waits.
            InvalidTaskState: It does not wait for an answer.
        """
        return await self.call(TaskInput(task_id=task_id, input=value))

    async def authenticate(self, task_id: str, auth_response: JsonObject) -> TaskMoved:
        """Give the sign-in a task waits for: `{"type": "api_key", "api_key": …}` and so on. Raises as `input`."""
        return await self.call(TaskAuthenticate(task_id=task_id, auth_response=auth_response))

    async def capabilities(
        self, namespace: str | None = None, category: str | None = None
    ) -> Sequence[CapabilitySummary]:
        """List what can be asked for."""
        return (await self.call(CapabilityList(namespace=namespace, category=category))).capabilities

    async def capability(self, capability_id: str) -> CapabilityDetails:
        """Tell all about a capability. Raises: CapabilityNotFound."""
        return await self.call(CapabilityInfo(capability_id=capability_id))

    async def artifacts(self, task_id: str) -> Sequence[ArtifactView]:
        """Give what a task has made. Raises: TaskNotFound."""
        return (await self.call(ArtifactList(task_id=task_id))).artifacts

    async def artifact(self, artifact_id: str) -> ArtifactView:
        """Give the newest version of an artifact. Raises: ArtifactNotFound."""
        return (await self.call(ArtifactGet(artifact_id=artifact_id))).artifact


FilterKind = TypeVar("FilterKind", bound=TaskFilter)


def _filter(given: JsonObject, kind: type[FilterKind]) -> FilterKind:
    known = {field.encode_name for field in msgspec.structs.fields(kind)}
    if unknown := sorted(given.keys() - known):
        raise InvalidParams(f"no filter {unknown[0]!r}; there are {', '.join(sorted(known))}")
    wanted = {
        name: [value] if name in {"status", "tags"} and isinstance(value, str) else value
        for name, value in given.items()
    }
    try:
        return msgspec.convert(wanted, kind)
    except msgspec.ValidationError as error:
        raise InvalidParams(f"filter: {error}") from error
