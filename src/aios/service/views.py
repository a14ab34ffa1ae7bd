"""Records in the words of the wire (protocol.md §4, §7)."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from aios.engine.engine import Engine
from aios.model import Artifact, AuthRequest, InputRequest, JsonObject, Status, Task, wire_time
from aios.protocol.artifact import ArtifactView
from aios.protocol.task import AuthRequestView, ErrorView, InputRequestView, ProgressView, StateEntry, TaskView
from aios.rules import events

_ENDED_AT = {Status.COMPLETED: "completed_at", Status.FAILED: "failed_at", Status.CANCELED: "canceled_at"}


async def whole(engine: Engine, task: Task, *, shows_sign_ins: bool, has_history: bool = False) -> TaskView:
    """Show all of a task, as `task.get` does."""
    made = await engine.artifacts(task.task_id) if task.version > _fewest_events(task) else []
    artifacts = [artifact(each) for each in made]
    history = await engine.transitions(task) if has_history else None
    shown = _outline(task, shows_sign_ins=shows_sign_ins)
    if task.status is Status.COMPLETED:
        shown["result"] = result(task)
    return TaskView(
        **shown,
        arguments=task.spec.arguments,
        artifacts=artifacts,
        state_history=None if history is None else msgspec.convert(history, list[StateEntry]),
    )


def summary(task: Task, *, shows_sign_ins: bool) -> TaskView:
    """Show a task as an item of a list: without arguments, result and artifacts."""
    return TaskView(**_outline(task, shows_sign_ins=shows_sign_ins))


def result(task: Task) -> JsonObject:
    """Give a completed task's result; a bare value that is no object stands under `value`."""
    returned: Any = task.result
    return cast("JsonObject", returned) if isinstance(returned, dict) else {"value": returned}


def error(task: Task) -> ErrorView | None:
    """Give a failed task's error."""
    return None if task.error is None else msgspec.convert(task.error, ErrorView)


def artifact(artifact: Artifact) -> ArtifactView:
    """Show an artifact."""
    return msgspec.convert(events.artifact_to_wire(artifact), ArtifactView)


_EVENTS_OF = {
    Status.PENDING: 0,
    Status.WORKING: 0,
    Status.PAUSED: 1,
    Status.INPUT_REQUIRED: 2,
    Status.AUTH_REQUIRED: 2,
    Status.COMPLETED: 2,
    Status.FAILED: 2,
    Status.CANCELED: 1,
}
"""How many events a task has had by its status, besides the one of its start."""


def _fewest_events(task: Task) -> int:
    """Count the events that such a task has had at the least, none of them an artifact's.

    One that has had no more cannot have artifacts, and the store need not be asked: most tasks, and all of the quickest.
    """
    return _EVENTS_OF[task.status] + (task.started_at is not None) + (task.progress is not None)


def _outline(task: Task, *, shows_sign_ins: bool) -> dict[str, Any]:
    spec = task.spec
    shown: dict[str, Any] = {
        "task_id": task.task_id,
        "status": task.status,
        "created_at": wire_time(spec.created_at),
        "capability_id": spec.capability_id,
        "metadata": spec.metadata,
        "priority": spec.priority,
        "session_id": spec.session_id,
        "parent_task_id": spec.parent_task_id,
        "attempt": task.attempt,
        "updated_at": wire_time(task.updated_at),
        "error": error(task),
    }
    if task.progress is not None:
        progress = task.progress
        shown["progress"] = ProgressView(
            percent=progress.percent,
            message=progress.message,
            current_step=progress.current_step,
            total_steps=progress.total_steps,
        )
    if task.started_at is not None:
        shown["started_at"] = wire_time(task.started_at)
    if task.ended_at is not None:
        shown[_ENDED_AT[task.status]] = wire_time(task.ended_at)
    if isinstance(task.request, InputRequest):
        shown["input_request"] = msgspec.convert(events.input_request_to_wire(task.request), InputRequestView)
    if isinstance(task.request, AuthRequest) and shows_sign_ins:
        shown["auth_request"] = msgspec.convert(events.auth_request_to_wire(task.request), AuthRequestView)
    return shown
