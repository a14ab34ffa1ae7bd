"""A context that records what a capability says, keeps its steps, and can be paused, canceled and crashed at will."""

import asyncio
import contextlib
import json
import threading
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any, cast

from aios.adapter import BlockingContext, Child, Context, OAuth2
from aios.model import JsonObject


class Crash(BaseException):
    """The daemon was killed just here."""


class Recorded:
    """What outlives a run: steps, and everything that was said."""

    def __init__(self, answers: Sequence[Any] = ()) -> None:
        self.steps: dict[str, str] = {}
        self.answers = list(answers)
        self.questions: list[JsonObject] = []
        self.artifacts: list[JsonObject] = []
        self.progress: list[tuple[float | None, str | None, int | None, int | None]] = []
        self.logs: list[tuple[str, str, JsonObject]] = []
        self.chunks: list[Any] = []
        self.runs: list[str] = []
        """Names of the steps that were really run."""


class _Blocking:
    """The blocking face; every call is a checkpoint."""

    def __init__(self, owner: "RecordingContext") -> None:
        self._owner = owner

    def checkpoint(self) -> None:
        self._owner.on_checkpoint()
        self._owner.going.wait(30)
        if self._owner.is_canceled:
            raise asyncio.CancelledError

    def progress(
        self,
        percent: float | None = None,
        message: str | None = None,
        current_step: int | None = None,
        total_steps: int | None = None,
    ) -> None:
        self.checkpoint()
        self._owner.recorded.progress.append((percent, message, current_step, total_steps))


class RecordingContext:
    """`aios.adapter.Context`, as far as the built-in capabilities need it."""

    task_id = "task-test"
    attempt = 1
    max_attempts = 1
    idempotency_token = "token"
    principal = "owner"

    def __init__(self, recorded: Recorded | None = None) -> None:
        self.metadata: JsonObject = {}
        self.recorded = recorded or Recorded()
        self.going = threading.Event()
        self.going.set()
        self.is_canceled = False
        self.on_checkpoint: Callable[[], None] = lambda: None
        self.on_step: Callable[[str], None] = lambda _: None
        self.on_ask: Callable[[], None] = lambda: None
        self.pausers: list[tuple[Callable[[], None], Callable[[], None]]] = []
        self._occurrences: dict[str, int] = {}

    async def progress(
        self,
        percent: float | None = None,
        message: str | None = None,
        current_step: int | None = None,
        total_steps: int | None = None,
    ) -> None:
        self.recorded.progress.append((percent, message, current_step, total_steps))

    async def log(self, level: str, message: str, **fields: Any) -> None:
        self.recorded.logs.append((level, message, fields))

    async def artifact(self, name: str, type: str = "data", parts: Sequence[JsonObject] = (), **more: Any) -> str:
        del more
        self.recorded.artifacts.append({"name": name, "type": type, "parts": list(parts)})
        return f"art-{len(self.recorded.artifacts)}"

    async def chunk(self, data: Any) -> None:
        self.recorded.chunks.append(data)

    async def step(
        self, name: str, fn: Callable[..., Any], *args: Any, key: str | None = None, secret: bool = False
    ) -> Any:
        del secret
        name = key or name
        occurrence = self._occurrences[name] = self._occurrences.get(name, 0) + 1
        place = f"{name}#{occurrence}"
        if place not in self.recorded.steps:
            value = fn(*args)
            if asyncio.iscoroutine(value):
                value = await cast("Awaitable[Any]", value)
            self.recorded.runs.append(name)
            self.on_step(place)
            self.recorded.steps[place] = json.dumps(value)
        return json.loads(self.recorded.steps[place])

    async def ask(self, prompt: str, name: str | None = None, **question: Any) -> Any:
        def answer() -> Any:
            self.recorded.questions.append({"prompt": prompt, **question})
            self.on_ask()
            return self.recorded.answers.pop(0)

        return await self.step(name or prompt, answer)

    async def in_thread(self, call: Callable[[BlockingContext], Any], *, is_last: bool = False) -> Any:
        del is_last
        return await asyncio.to_thread(call, cast("BlockingContext", _Blocking(self)))

    @contextlib.contextmanager
    def pausing(self, *, pause: Callable[[], None], resume: Callable[[], None]) -> Generator[None]:
        self.pausers.append((pause, resume))
        try:
            yield
        finally:
            self.pausers.pop()

    def timeout(self, duration_ms: int) -> Any:
        return asyncio.timeout(duration_ms / 1000)

    async def sleep(self, duration_ms: int) -> None:
        raise NotImplementedError

    async def checkpoint(self) -> None:
        self.on_checkpoint()

    async def authenticate(self, type: str | OAuth2 = "api_key", name: str | None = None, **more: Any) -> JsonObject:
        raise NotImplementedError

    def spawn(self, capability_id: str, arguments: JsonObject | None = None, **options: Any) -> Child:
        raise NotImplementedError


def as_context(recording: RecordingContext) -> Context:
    return cast("Context", recording)
