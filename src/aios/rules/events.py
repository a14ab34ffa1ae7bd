"""The data of each kind of event as JSON bytes, encoded once for everyone who will ever read it (protocol.md §5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from aios.model import Artifact, AuthRequest, InputRequest, JsonObject, Progress, Status, TaskId, wire_time

_encode = msgspec.json.Encoder().encode


def status(
    task_id: TaskId, timestamp: str, *, status: Status, previous: Status, attempt: int, reason: str | None = None
) -> bytes:
    """Say that the task has moved along the table, or begins another attempt."""
    data: JsonObject = {"task_id": task_id, "status": status, "previous_status": previous}
    if reason:
        data["reason"] = reason
    data["attempt"] = attempt
    data["timestamp"] = timestamp
    return _encode(data)


def progress(task_id: TaskId, timestamp: str, progress: Progress) -> bytes:
    """Say how far the task is."""
    return _encode({"task_id": task_id, "progress": progress, "timestamp": timestamp})


def artifact(
    task_id: TaskId,
    timestamp: str,
    artifact: Artifact,
    *,
    append: bool | None = None,
    last_chunk: bool | None = None,
    index: int | None = None,
) -> bytes:
    """Show an artifact, or the next part of one that is streamed."""
    data: JsonObject = {"task_id": task_id, "artifact": artifact_to_wire(artifact)}
    streamed = {"append": append, "last_chunk": last_chunk, "index": index}
    data.update({name: value for name, value in streamed.items() if value is not None})
    data["timestamp"] = timestamp
    return _encode(data)


def input_required(task_id: TaskId, timestamp: str, request: InputRequest) -> bytes:
    """Put the question."""
    return _encode({"task_id": task_id, **input_request_to_wire(request), "timestamp": timestamp})


def auth_required(task_id: TaskId, timestamp: str, request: AuthRequest) -> bytes:
    """Ask for a sign-in."""
    data: JsonObject = {
        "task_id": task_id,
        "status": Status.AUTH_REQUIRED,
        "auth_request": auth_request_to_wire(request),
        "timestamp": timestamp,
    }
    return _encode(data)


def log(task_id: TaskId, timestamp: str, *, level: str, message: str, fields: JsonObject) -> bytes:
    """Give a line of the task's log."""
    return _encode({"task_id": task_id, "level": level, "message": message, "fields": fields, "timestamp": timestamp})


def chunk(task_id: TaskId, timestamp: str, *, attempt: int, index: int, data: Any) -> bytes:
    """Give the next piece of streamed output."""
    return _encode({"task_id": task_id, "attempt": attempt, "index": index, "data": data, "timestamp": timestamp})


def result(task_id: TaskId, timestamp: str, *, result: Any, artifacts: Sequence[Artifact]) -> bytes:
    """Say what came of the task."""
    made = [artifact_to_wire(each) for each in artifacts]
    return _encode({"task_id": task_id, "result": result, "artifacts": made, "timestamp": timestamp})


def error(task_id: TaskId, timestamp: str, error: JsonObject) -> bytes:
    """Say why the task failed."""
    return _encode({"task_id": task_id, "error": error, "timestamp": timestamp})


def artifact_to_wire(artifact: Artifact) -> JsonObject:
    """Give an artifact in the seeds' form (protocol.md §7); where it came from and its version stand in its metadata."""
    wire: JsonObject = {"id": artifact.id, "name": artifact.name, "type": artifact.type}
    if artifact.mime_type is not None:
        wire["mime_type"] = artifact.mime_type
    wire["created_at"] = wire_time(artifact.created_at)
    wire["parts"] = artifact.parts
    wire["metadata"] = {**artifact.metadata, "source_task": artifact.task_id, "version": artifact.version}
    return wire


def input_request_to_wire(request: InputRequest) -> JsonObject:
    """Give a question as callers see it: without the step that will hold its answer."""
    wire: JsonObject = {"prompt": request.prompt}
    optional = {"options": request.options, "schema": request.schema, "timeout_ms": request.timeout_ms}
    wire.update({name: value for name, value in optional.items() if value is not None})
    return wire


def auth_request_to_wire(request: AuthRequest) -> JsonObject:
    """Give a sign-in as callers see it."""
    optional = {
        "provider": request.provider,
        "authorization_url": request.authorization_url,
        "scopes": request.scopes,
        "state": request.state,
        "timeout_ms": request.timeout_ms,
    }
    wire: JsonObject = {"type": request.type, "reason": request.reason}
    wire.update({name: value for name, value in optional.items() if value is not None})
    return wire
