"""The seam to what does the work: what a capability is, who runs it, and what running code may ask of the daemon.

`Context` is the face that an `async def` capability is given, `BlockingContext` the same for a plain `def` (design.md §9).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from enum import StrEnum
from typing import Any, Protocol, TypeVar

from aios.model import JsonObject, OnCrash, Record

Value = TypeVar("Value")


class PermissionLevel(StrEnum):
    """How much harm a capability could do (protocol.md §9)."""

    PUBLIC = "public"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"


class Capability(Record, frozen=True, kw_only=True):
    """Something that can be asked for (protocol.md §8)."""

    id: str
    """Dotted lower-case words, `compat.shop.compare`; the first word is its namespace."""
    name: str
    adapter_id: str
    description: str = ""
    version: str = "1.0.0"
    category: str = ""
    permission_level: PermissionLevel = PermissionLevel.LOW
    permission_id: str = ""
    scope: str = ""
    """Fixed, or a template over the arguments (`{url}`)."""
    input: JsonObject = {}
    """JSON Schema of the arguments."""
    output: JsonObject | None = None
    timeout_ms: int | None = None
    on_crash: OnCrash = OnCrash.RERUN
    is_streaming: bool = False
    examples: list[JsonObject] = []
    estimated_duration_ms: int | None = None

    @property
    def namespace(self) -> str:
        """The first word of the id."""
        return self.id.partition(".")[0]


class OAuth2(Record, frozen=True, kw_only=True):
    """A sign-in by authorization code (protocol.md §4, `auth_request`)."""

    authorization_url: str
    provider: str | None = None
    scopes: list[str] = []
    state: str | None = None


class Child(Protocol):
    """A task that a capability spawned. Awaiting it gives its result, or raises its error."""

    @property
    def task_id(self) -> str:
        """Its id."""
        ...

    def __await__(self) -> Any: ...


class Context(Protocol):
    """What an async capability may ask of the daemon while it runs."""

    task_id: str
    attempt: int
    max_attempts: int
    idempotency_token: str
    """The same when an attempt is run again after a crash: for side effects outside."""
    metadata: JsonObject
    principal: str

    @property
    def is_canceled(self) -> bool:
        """Whether the task was canceled, or the attempt ended otherwise: stop soon."""
        ...

    async def progress(
        self,
        percent: float | None = None,
        message: str | None = None,
        current_step: int | None = None,
        total_steps: int | None = None,
    ) -> None:
        """Say how far the task is; what comes more often than 20 times a second is coalesced, the latest wins."""
        ...

    async def log(self, level: str, message: str, **fields: Any) -> None:
        """Write a line to the task's log; level is debug, info, warning or error."""
        ...

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
        """Emit an artifact and give its id; the same id again makes a new version.

        A part is one of the six of protocol.md §7. A `file`, `image`, `audio` or `video` part may bring its bytes (or text)
        as `content` instead of a `uri`: they are kept by the daemon and the part's `uri` then leads to them.
        """
        ...

    async def chunk(self, data: Any) -> None:
        """Emit the next piece of streamed output."""
        ...

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
        """Put a question to a person and wait, without holding a slot. Durable: the answer is kept over re-runs.

        `reason` stands in the task's history, where it says in short why it waits. All code of the attempt stands still
        meanwhile. `timeout_ms` holds through restarts; where an `asyncio.timeout` around the call runs out, or the call is
        canceled otherwise, the question is withdrawn.

        Raises:
            TaskTimeout: Nobody answered within `timeout_ms`.
        """
        ...

    async def authenticate(
        self,
        type: str | OAuth2 = "api_key",
        name: str | None = None,
        *,
        reason: str = "",
        provider: str | None = None,
        timeout_ms: int | None = None,
    ) -> JsonObject:
        """Ask for a sign-in and wait for it; the response is kept sealed until the task ends. Raises: TaskTimeout."""
        ...

    async def step(
        self,
        name: str,
        fn: Callable[..., Value | Awaitable[Value]],
        *args: Any,
        key: str | None = None,
        secret: bool = False,
    ) -> Value:
        """Run `fn(*args)` once: after a crash the recorded value comes back instead. The value goes through JSON.

        Raises:
            CapabilityChanged: The record was made by another function or other arguments.
            StepNameRepeated: A step of this name is open already.
        """
        ...

    def spawn(self, capability_id: str, arguments: JsonObject | None = None, **options: Any) -> Child:
        """Start another capability as a child task; `await` it for its result. Its end wakes this task, this task's end
        cancels it. Options are those of `aios/task.create`.
        """
        ...

    async def sleep(self, duration_ms: int) -> None:
        """Wait durably; past one second without holding a slot."""
        ...

    def timeout(self, duration_ms: int) -> AbstractAsyncContextManager[None]:
        """Bound a block by working time: while the task is paused or waits the clock stands. Raises: TaskTimeout."""
        ...

    async def checkpoint(self) -> None:
        """Let pause and cancel take effect here."""
        ...

    async def in_thread(self, call: Callable[[BlockingContext], Value], *, is_last: bool = False) -> Value:
        """Run `call` in a thread of the attempt; it is given the blocking face of this context.

        `is_last` promises that its value is the capability's result and nothing follows: should the thread end while the task
        is paused, its result is recorded at once, and applied at resume.
        """
        ...

    def pausing(self, *, pause: Callable[[], None], resume: Callable[[], None]) -> AbstractContextManager[None]:
        """Call `pause` when the task is paused and `resume` when it goes on, for what runs outside the event loop
        (a process, a remote peer); called on the capability's event loop.
        """
        ...


class BlockingContext(Protocol):
    """What a `def` capability, in its thread, may ask of the daemon: as `Context`, with calls that block.

    Every call is a checkpoint: it waits while the task is paused and raises once it is canceled.
    """

    task_id: str
    attempt: int
    max_attempts: int
    idempotency_token: str
    metadata: JsonObject
    principal: str

    @property
    def is_canceled(self) -> bool:
        """Whether to stop soon."""
        ...

    def progress(
        self,
        percent: float | None = None,
        message: str | None = None,
        current_step: int | None = None,
        total_steps: int | None = None,
    ) -> None:
        """See `Context.progress`."""
        ...

    def log(self, level: str, message: str, **fields: Any) -> None:
        """See `Context.log`."""
        ...

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
        """See `Context.artifact`."""
        ...

    def chunk(self, data: Any) -> None:
        """See `Context.chunk`."""
        ...

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
        """See `Context.ask`."""
        ...

    def authenticate(
        self,
        type: str | OAuth2 = "api_key",
        name: str | None = None,
        *,
        reason: str = "",
        provider: str | None = None,
        timeout_ms: int | None = None,
    ) -> JsonObject:
        """See `Context.authenticate`."""
        ...

    def step(
        self, name: str, fn: Callable[..., Value], *args: Any, key: str | None = None, secret: bool = False
    ) -> Value:
        """See `Context.step`."""
        ...

    def run(self, capability_id: str, arguments: JsonObject | None = None, **options: Any) -> Any:
        """Spawn a child task and wait for its result; see `Context.spawn`."""
        ...

    def sleep(self, duration_ms: int) -> None:
        """See `Context.sleep`."""
        ...

    def checkpoint(self) -> None:
        """Wait while the task is paused; raise once it is canceled."""
        ...


class Adapter(Protocol):
    """Who does the work: a bundle of capabilities and the way to run them."""

    @property
    def adapter_id(self) -> str:
        """Reverse-domain name, `org.aios.system.files`."""
        ...

    @property
    def name(self) -> str:
        """For people."""
        ...

    @property
    def version(self) -> str:
        """Of the adapter."""
        ...

    def capabilities(self) -> Iterable[Capability]:
        """What it offers."""
        ...

    async def run(self, capability_id: str, arguments: JsonObject, ctx: Context) -> Any:
        """Do the work once and return its result, a value that is JSON.

        Arguments have been checked against the capability's schema. Raising `CapabilityFailed` fails the attempt in the
        adapter's words; anything else fails it as an internal error.
        """
        ...
