"""What running code may ask of the daemon: `ctx` (design.md §9).

Every call is a point where the code can be stopped: canceled, or unwound to be run again later. What is durable (`step`, `ask`,
`authenticate`, `spawn`, a long `sleep`) is looked up in the run's book first, and written there.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import inspect
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from typing import Any, TypeVar, cast

import msgspec

from aios.adapter import BlockingContext, Child, OAuth2
from aios.engine.answers import FIELDS
from aios.engine.artifacts import uri_of
from aios.engine.blocking_context import ThreadContext
from aios.engine.checks import checked_progress
from aios.engine.clock import MILLISECOND
from aios.engine.runner import blocking
from aios.engine.runner.children import SpawnedChild, order
from aios.engine.runner.holds import Hooks, WorkingTime
from aios.engine.runner.run import Run
from aios.engine.runner.steps import StepCall
from aios.errors import TaskTimeout, ValidationFailed
from aios.model import (
    Artifact,
    ArtifactId,
    AuthRequest,
    Blob,
    InputRequest,
    JsonObject,
    Progress,
    Step,
    TaskId,
    from_ms,
    to_ms,
)
from aios.rules.lifecycle import Ask, Chunk, Emit, Log, RequireAuth

Value = TypeVar("Value")

PLAIN_SLEEP_MS_MAX = 1_000
"""A longer sleep is durable, and gives the slot back."""
SLEEP_MS_MAX = 366 * 24 * 3_600_000
_CONTENT_KINDS = {"file", "image", "audio", "video"}
_PREFIX = "task-"
_TIME_DIGITS = 10
_HASH_BYTES = 15


class AttemptContext:
    """The context of one run of a capability."""

    def __init__(self, run: Run) -> None:
        task = run.task
        self.task_id: str = task.task_id
        self.attempt = task.attempt
        self.max_attempts = task.spec.retry.max_attempts
        self.principal = task.spec.principal
        self.metadata: JsonObject = msgspec.to_builtins(task.spec.metadata)
        self.idempotency_token = f"{task.task_id}.{task.attempt}"
        self.run = run
        self._chunks = 0

    @property
    def is_canceled(self) -> bool:
        """Whether to stop soon."""
        return self.run.is_canceled

    # Told

    async def progress(
        self,
        percent: float | None = None,
        message: str | None = None,
        current_step: int | None = None,
        total_steps: int | None = None,
    ) -> None:
        """Say how far the task is."""
        self.run.check()
        given = Progress(percent=percent, message=message, current_step=current_step, total_steps=total_steps)
        self.run.report(checked_progress(given, limits=self.run.limits))
        # Nobody waits until it is written; but code that does nothing else must let others have their turn.
        await asyncio.sleep(0)

    async def log(self, level: str, message: str, **fields: Any) -> None:
        """Write a line to the task's log."""
        await self.run.hop(self.run.attempt.claim.record, Log(level, message, fields))

    async def chunk(self, data: Any) -> None:
        """Emit the next piece of streamed output."""
        index, self._chunks = self._chunks, self._chunks + 1
        await self.run.hop(self.run.attempt.claim.record, Chunk(data, index))

    async def artifact(
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
        """Emit an artifact; without an id, its id follows from its name and which of that name it is in this run."""
        artifact_id = ArtifactId(id) if id is not None else self._artifact_id(name, is_next=not append)
        kept = [await self._kept(part, artifact_id, number) for number, part in enumerate(parts)]
        made = Artifact(
            id=artifact_id,
            task_id=TaskId(self.task_id),
            name=name,
            type=type,
            created_at=self.run.clock.now(),
            parts=[part for part, _ in kept],
            mime_type=mime_type,
            metadata=metadata or {},
            blobs=[blob for _, blob in kept if blob is not None],
        )
        is_streamed = append or last_chunk is not None or index is not None
        emit = Emit(made, append=append if is_streamed else None, last_chunk=last_chunk, index=index)
        await self.run.hop(self.run.attempt.claim.record, emit)
        return artifact_id

    def _artifact_id(self, name: str, *, is_next: bool) -> ArtifactId:
        count = self.run.book.occurrence(f"artifact:{name}") if is_next else self.run.book.count(f"artifact:{name}")
        told = hashlib.sha256(f"{self.task_id}\n{count}\n{name}".encode("utf-8", "surrogatepass")).digest()
        digits = base64.b32hexencode(told[:_HASH_BYTES]).decode().lower()
        # As sortable as its task's id, and as hard to guess.
        return ArtifactId(f"art-{self.task_id.removeprefix(_PREFIX)[:_TIME_DIGITS]}{digits}")

    async def _kept(self, part: JsonObject, artifact_id: str, number: int) -> tuple[JsonObject, Blob | None]:
        """Have the daemon keep the bytes that a part brings with it."""
        kind = str(part.get("type"))
        member = part.get(kind) if kind in _CONTENT_KINDS else None
        if not isinstance(member, dict) or "content" not in member:
            return part, None
        about = {key: value for key, value in cast("JsonObject", member).items() if key != "content"}
        content = cast("JsonObject", member)["content"]
        if not isinstance(content, str | bytes | bytearray | memoryview):
            raise ValidationFailed(f"the content of part {number} must be bytes or text")
        default = "text/plain; charset=utf-8" if isinstance(content, str) else "application/octet-stream"
        encoded = content.encode() if isinstance(content, str) else bytes(cast("bytes", content))
        sha256 = await self.run.hop(self.run.attempt.claim.put_content, encoded)
        mime_type = str(about.get("mime_type") or default)
        about |= {"uri": uri_of(artifact_id, number), "mime_type": mime_type, "size": len(encoded)}
        return {**part, kind: about}, Blob(part=number, sha256=sha256, size=len(encoded), mime_type=mime_type)

    # Asked of people

    async def ask(
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

        def question(key: str) -> Ask:
            choices = list(options) if options is not None else None
            request = InputRequest(step=key, prompt=prompt, options=choices, schema=schema, timeout_ms=timeout_ms)
            return Ask(request, reason)

        return await self._requested("ask", name or prompt, question)

    async def authenticate(
        self,
        type: str | OAuth2 = "api_key",
        name: str | None = None,
        *,
        reason: str = "",
        provider: str | None = None,
        timeout_ms: int | None = None,
    ) -> JsonObject:
        """Ask for a sign-in and wait for it, without a slot."""
        about = type if isinstance(type, OAuth2) else None
        kind = type if isinstance(type, str) else "oauth2" if about is not None else str(type)
        if kind not in FIELDS:
            raise ValidationFailed(f"A sign-in is of one of the types {', '.join(FIELDS)}; not {kind!r}.")

        def request(key: str) -> RequireAuth:
            wanted = AuthRequest(step=key, type=kind, reason=reason, provider=provider, timeout_ms=timeout_ms)
            if about is not None:
                wanted = msgspec.structs.replace(
                    wanted,
                    provider=provider or about.provider,
                    authorization_url=about.authorization_url,
                    scopes=about.scopes,
                    state=about.state,
                )
            return RequireAuth(wanted)

        return await self._requested("authenticate", name or kind, request)

    async def _requested(self, kind: str, name: str, make: Callable[[str], Ask | RequireAuth]) -> Any:
        run = self.run
        run.check()
        with run.book.opened(kind, name) as key:
            step = run.book.recall(key)
            if step is None:
                command = make(key)
                step = await run.waits.answered(command)
                run.book.note(step)
            if step.is_timeout:
                # It is recorded: whoever runs this code again comes to the same.
                run.final_error = TaskTimeout(f"nobody answered {name!r} in time")
                raise run.final_error
            return run.book.value_of(step)

    # Durable

    async def step(
        self,
        name: str,
        fn: Callable[..., Value | Awaitable[Value]],
        *args: Any,
        key: str | None = None,
        secret: bool = False,
    ) -> Value:
        """Run `fn(*args)` once; give what it gave, as JSON."""
        call = StepCall(self.run, name, fn, args, key=key, is_secret=secret)
        with call:
            if call.recorded is not None:
                return call.recall()
            value = fn(*args)
            return await call.keep(await value if inspect.isawaitable(value) else value)

    def spawn(self, capability_id: str, arguments: JsonObject | None = None, **options: Any) -> Child:
        """Start another capability as a child task."""
        self.run.check()
        key = options.pop("key", None)
        new = order(self.run, capability_id, arguments, options)
        return SpawnedChild(self.run, new, key=key, now=self.run.clock.now())

    async def sleep(self, duration_ms: int) -> None:
        """Wait durably; past one second without a slot."""
        run = self.run
        run.check()
        if not 0 <= duration_ms <= SLEEP_MS_MAX:
            raise ValidationFailed(f"a sleep takes from 0 to {SLEEP_MS_MAX} ms, not {duration_ms}")
        if duration_ms <= PLAIN_SLEEP_MS_MAX:
            await asyncio.sleep(duration_ms / 1000)
            return
        key = run.book.name("sleep", "")
        step = run.book.recall(key)
        if step is None:
            until = self.run.clock.now() + duration_ms * MILLISECOND
            step = Step(key=key, value=msgspec.json.encode(to_ms(until)))
            await run.hop(run.attempt.claim.put_step, step)
            run.book.note(step)
        until = from_ms(msgspec.json.decode(step.value, type=int))
        if until > self.run.clock.now():
            await run.waits.time(until)

    def timeout(self, duration_ms: int) -> AbstractAsyncContextManager[None]:
        """Bound a block by working time."""
        return WorkingTime(self.run, duration_ms)

    async def checkpoint(self) -> None:
        """Let pause and cancel take effect here."""
        self.run.check()
        await asyncio.sleep(0)
        self.run.check()

    async def in_thread(self, call: Callable[[BlockingContext], Value], *, is_last: bool = False) -> Value:
        """Run `call` in a thread of the attempt."""
        face = ThreadContext(self)
        return await blocking.in_thread(self.run, lambda: call(face), is_last=is_last)

    def pausing(self, *, pause: Callable[[], None], resume: Callable[[], None]) -> AbstractContextManager[None]:
        """Have `pause` and `resume` called when the code is held and goes on."""
        return self._pausing(Hooks(pause, resume))

    @contextmanager
    def _pausing(self, hooks: Hooks) -> Generator[None]:
        self.run.hold(hooks)
        try:
            yield
        finally:
            self.run.let_go(hooks)
