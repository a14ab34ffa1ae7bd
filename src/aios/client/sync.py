"""The client for code without an event loop: the same client, on a loop in a thread of its own."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Coroutine, Generator, Iterable, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar, overload

from aios.client.client import PATIENCE_MS, Client
from aios.client.streams import TaskEvent
from aios.client.waiting import Answer, Authenticate, Watch
from aios.model import JsonObject
from aios.protocol.artifact import ArtifactView
from aios.protocol.capability import CapabilityDetails, CapabilitySummary
from aios.protocol.params import Params
from aios.protocol.task import Sort, TaskCanceled, TaskMoved, TasksListed, TaskView

LET_GO_MS = 5_000

Value = TypeVar("Value")
Result = TypeVar("Result")


class _Loop:
    """An event loop in a thread, which ends with the program."""

    def __init__(self) -> None:
        self._is_up = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="aios-client", daemon=True)
        self._thread.start()
        self._is_up.wait()

    def _serve(self) -> None:
        asyncio.run(self._stay())

    async def _stay(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._is_up.set()
        await self._stop.wait()

    def wait(self, work: Coroutine[Any, Any, Value]) -> Value:
        """Run it there and wait here; what interrupts the waiting cancels it, and waits until it has let go."""
        has_ended = threading.Event()

        async def worked() -> Value:
            try:
                return await work
            finally:
                has_ended.set()

        future = asyncio.run_coroutine_threadsafe(worked(), self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            has_ended.wait(LET_GO_MS / 1000)
            raise

    def close(self) -> None:
        """Stop the thread; safe to be called twice."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()


class SyncClient:
    """A connection to a daemon whose calls block. Make one with `SyncClient.connect`; close it, or use `with`.

    Everything is as with `Client`, which see. One may be shared by threads.
    """

    def __init__(self, *, client: Client, loop: _Loop) -> None:
        self._client = client
        self._loop = loop

    @classmethod
    def connect(
        cls,
        url: str | None = None,
        token: str | None = None,
        *,
        data: Path | str | None = None,
        ca_file: str | None = None,
        patience_ms: int = PATIENCE_MS,
    ) -> SyncClient:
        """Find the daemon and see that it answers; see `Client.connect`."""
        loop = _Loop()

        async def connected() -> Client:
            return await Client.connect(url, token, data=data, ca_file=ca_file, patience_ms=patience_ms)

        try:
            return cls(client=loop.wait(connected()), loop=loop)
        except BaseException:
            loop.close()
            raise

    def close(self) -> None:
        """Let go of the connection. Tasks go on."""
        try:
            self._loop.wait(self._client.close())
        finally:
            self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        """Where the daemon is now."""
        return self._client.url

    @overload
    def call(self, method: Params[Result], /, *, timeout_ms: int | None = None) -> Result: ...

    @overload
    def call(
        self, method: str, params: JsonObject | None = None, /, *, timeout_ms: int | None = None
    ) -> JsonObject: ...

    def call(
        self, method: Params[Any] | str, params: JsonObject | None = None, /, *, timeout_ms: int | None = None
    ) -> Any:
        """See `Client.call`."""
        if isinstance(method, str):
            return self._loop.wait(self._client.call(method, params, timeout_ms=timeout_ms))
        return self._loop.wait(self._client.call(method, timeout_ms=timeout_ms))

    def create(
        self,
        capability_id: str,
        arguments: JsonObject | None = None,
        *,
        metadata: JsonObject | None = None,
        wait: bool = False,
        **options: Any,
    ) -> TaskView:
        """See `Client.create`."""
        return self._loop.wait(self._client.create(capability_id, arguments, metadata=metadata, wait=wait, **options))

    def get(self, task_id: str, *, include_history: bool = False) -> TaskView:
        """See `Client.get`."""
        return self._loop.wait(self._client.get(task_id, include_history=include_history))

    def list(
        self, *, limit: int = 50, cursor: str | None = None, sort: Sort | None = None, **filter: Any
    ) -> TasksListed:
        """See `Client.list`."""
        return self._loop.wait(self._client.list(limit=limit, cursor=cursor, sort=sort, **filter))

    def history(
        self, *, limit: int = 50, cursor: str | None = None, sort: Sort | None = None, **filter: Any
    ) -> TasksListed:
        """See `Client.history`."""
        return self._loop.wait(self._client.history(limit=limit, cursor=cursor, sort=sort, **filter))

    def cancel(self, task_id: str, reason: str | None = None) -> TaskCanceled:
        """See `Client.cancel`."""
        return self._loop.wait(self._client.cancel(task_id, reason))

    def pause(self, task_id: str, reason: str | None = None) -> TaskMoved:
        """See `Client.pause`."""
        return self._loop.wait(self._client.pause(task_id, reason))

    def resume(self, task_id: str, reason: str | None = None) -> TaskMoved:
        """See `Client.resume`."""
        return self._loop.wait(self._client.resume(task_id, reason))

    def input(self, task_id: str, value: Any) -> TaskMoved:
        """See `Client.input`."""
        return self._loop.wait(self._client.input(task_id, value))

    def authenticate(self, task_id: str, auth_response: JsonObject) -> TaskMoved:
        """See `Client.authenticate`."""
        return self._loop.wait(self._client.authenticate(task_id, auth_response))

    def capabilities(self, namespace: str | None = None, category: str | None = None) -> Sequence[CapabilitySummary]:
        """See `Client.capabilities`."""
        return self._loop.wait(self._client.capabilities(namespace, category))

    def capability(self, capability_id: str) -> CapabilityDetails:
        """See `Client.capability`."""
        return self._loop.wait(self._client.capability(capability_id))

    def artifacts(self, task_id: str) -> Sequence[ArtifactView]:
        """See `Client.artifacts`."""
        return self._loop.wait(self._client.artifacts(task_id))

    def artifact(self, artifact_id: str) -> ArtifactView:
        """See `Client.artifact`."""
        return self._loop.wait(self._client.artifact(artifact_id))

    def artifact_content(self, artifact_id: str, part: int | None = None) -> bytes:
        """See `Client.artifact_content`."""
        return self._loop.wait(self._client.artifact_content(artifact_id, part))

    def follow(self, task_id: str, after: int = 0, events: Iterable[str] | None = None) -> Generator[TaskEvent]:
        """See `Client.follow`."""
        following = self._client.follow(task_id, after, events)

        async def following_one() -> TaskEvent | None:
            return await anext(following, None)

        try:
            while (event := self._loop.wait(following_one())) is not None:
                yield event
        finally:
            self._loop.wait(following.aclose())

    def run(
        self,
        capability_id: str,
        arguments: JsonObject | None = None,
        *,
        on_input: Answer | None = None,
        on_auth: Authenticate | None = None,
        on_event: Watch | None = None,
        metadata: JsonObject | None = None,
        **options: Any,
    ) -> Any:
        """See `Client.run`. Callbacks may block: each call of one has a thread."""
        return self._loop.wait(
            self._client.run(
                capability_id,
                arguments,
                on_input=_in_thread(on_input),
                on_auth=_in_thread(on_auth),
                on_event=_in_thread(on_event),
                metadata=metadata,
                **options,
            )
        )

    def wait(
        self,
        task_id: str,
        *,
        after: int = 0,
        on_input: Answer | None = None,
        on_auth: Authenticate | None = None,
        on_event: Watch | None = None,
    ) -> Any:
        """See `Client.wait`. Callbacks may block: each call of one has a thread."""
        return self._loop.wait(
            self._client.wait(
                task_id,
                after=after,
                on_input=_in_thread(on_input),
                on_auth=_in_thread(on_auth),
                on_event=_in_thread(on_event),
            )
        )


def _in_thread(callback: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
    """Let a callback that blocks hold up nobody: not the connection, nor the events."""
    if callback is None or inspect.iscoroutinefunction(callback):
        return callback

    async def called(argument: Any) -> Any:
        return await asyncio.to_thread(callback, argument)

    return called
