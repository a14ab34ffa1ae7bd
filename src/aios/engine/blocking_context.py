"""The context of a plain `def`, in its thread: the same calls, made on the attempt's lane while the thread waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from aios.adapter import OAuth2
from aios.engine.runner.blocking import from_thread
from aios.engine.runner.steps import StepCall
from aios.model import JsonObject

if TYPE_CHECKING:
    from aios.engine.context import AttemptContext

Value = TypeVar("Value")


class ThreadContext:
    """The blocking face of a context. Every call waits while the task is paused, and raises once it is canceled."""

    def __init__(self, context: AttemptContext) -> None:
        self.task_id = context.task_id
        self.attempt = context.attempt
        self.max_attempts = context.max_attempts
        self.idempotency_token = context.idempotency_token
        self.metadata = context.metadata
        self.principal = context.principal
        self._context = context
        self._run = context.run

    @property
    def is_canceled(self) -> bool:
        """Whether to stop soon."""
        return self._context.is_canceled

    def progress(
        self,
        percent: float | None = None,
        message: str | None = None,
        current_step: int | None = None,
        total_steps: int | None = None,
    ) -> None:
        """Say how far the task is."""
        from_thread(self._run, lambda: self._context.progress(percent, message, current_step, total_steps))

    def log(self, level: str, message: str, **fields: Any) -> None:
        """Write a line to the task's log."""
        from_thread(self._run, lambda: self._context.log(level, message, **fields))

    def artifact(
        self,
        name: str,
        type: str = "data",
        parts: Sequence[JsonObject] = (),
        *,
        id: str | None = None,
        mime_type: str | None = None,
        metadata: JsonObject | None = None,
        append: bool = False,
        last_chunk: bool | None = None,
        index: int | None = None,
    ) -> str:
        """Emit an artifact and give its id."""
        return from_thread(
            self._run,
            lambda: self._context.artifact(
                name,
                type,
                parts,
                id=id,
                mime_type=mime_type,
                metadata=metadata,
                append=append,
                last_chunk=last_chunk,
                index=index,
            ),
        )

    def chunk(self, data: Any) -> None:
        """Emit the next piece of streamed output."""
        from_thread(self._run, lambda: self._context.chunk(data))

    def ask(
        self,
        prompt: str,
        name: str | None = None,
        *,
        options: Sequence[Any] | None = None,
        schema: JsonObject | None = None,
        timeout_ms: int | None = None,
        reason: str | None = None,
    ) -> Any:
        """Put a question and wait for its answer, without a slot."""
        return from_thread(
            self._run,
            lambda: self._context.ask(
                prompt, name, options=options, schema=schema, timeout_ms=timeout_ms, reason=reason
            ),
        )

    def authenticate(
        self,
        type: str | OAuth2 = "api_key",
        name: str | None = None,
        *,
        reason: str = "",
        provider: str | None = None,
        timeout_ms: int | None = None,
    ) -> JsonObject:
        """Ask for a sign-in and wait for it, without a slot."""
        return from_thread(
            self._run,
            lambda: self._context.authenticate(type, name, reason=reason, provider=provider, timeout_ms=timeout_ms),
        )

    def step(
        self, name: str, fn: Callable[..., Value], *args: Any, key: str | None = None, secret: bool = False
    ) -> Value:
        """Run `fn(*args)` once, in this thread."""
        call = StepCall(self._run, name, fn, args, key=key, is_secret=secret)
        from_thread(self._run, lambda: _enter(call))
        try:
            if call.recorded is not None:
                return from_thread(self._run, lambda: _recall(call))
            value = fn(*args)
            return from_thread(self._run, lambda: call.keep(value))
        finally:
            # Not through the gate: a thread that is unwound leaves the name behind it whatever happens.
            self._run.lane.mailbox.post(call.__exit__)

    def run(self, capability_id: str, arguments: JsonObject | None = None, **options: Any) -> Any:
        """Spawn a child task and wait for its result."""

        async def spawned() -> Any:
            return await self._context.spawn(capability_id, arguments, **options)

        return from_thread(self._run, spawned)

    def sleep(self, duration_ms: int) -> None:
        """Wait durably; past one second without a slot."""
        from_thread(self._run, lambda: self._context.sleep(duration_ms))

    def checkpoint(self) -> None:
        """Wait while the task is paused; raise once it is canceled."""
        self._run.check()
        # A look that costs nothing where nobody wants anything; the lane alone closes the gate.
        if not self._run.gate.is_open:
            from_thread(self._run, self._context.checkpoint)


async def _enter(call: StepCall) -> None:
    call.__enter__()


async def _recall(call: StepCall) -> Any:
    await asyncio.sleep(0)
    return call.recall()
