"""What a new task is to be: the engine's words for `aios/task.create`, `capability.invoke` and `ctx.spawn`."""

from __future__ import annotations

from datetime import datetime

from aios.model import JsonObject, Priority, Record, Retry, SessionId


class NewTask(Record, frozen=True, kw_only=True):
    """An order for a task, as it was asked for."""

    capability_id: str
    principal: str
    arguments: JsonObject = {}
    metadata: JsonObject = {}
    session_id: SessionId | None = None
    priority: Priority = Priority.NORMAL
    timeout_ms: int | None = None
    """As the caller wants it; else the capability's, else `default_timeout_ms`."""
    default_timeout_ms: int | None = None
    """What the method asked by (invoke or create) takes where neither says; else `limits.default_timeout_ms`."""
    retry: Retry = Retry()
    is_detached: bool = False
    delay_ms: int | None = None
    run_at: datetime | None = None
    expires_in_ms: int | None = None
    idempotency_key: str | None = None
    """For a child: the key of the step that spawns it, so that a re-run finds it again."""
