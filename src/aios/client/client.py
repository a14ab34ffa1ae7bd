"""The client: every method of the daemon as a call, typed or raw, and tasks that can be followed whatever breaks.

async with Client.connect() as client:
    result = await client.run("demo.echo", {"text": "hello"})
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable
from contextlib import aclosing
from pathlib import Path
from typing import Any, Self, TypeVar, overload

import msgspec

from aios.client.connections import Backoff, Connection, Refused, Route, Stream
from aios.client.discovery import Target, locate
from aios.client.duplex import DuplexConnection
from aios.client.http import HttpConnection
from aios.client.methods import ANSWER_TIMEOUT_MS, Methods, is_safe, timeout_of
from aios.client.streams import Follower, TaskEvent
from aios.client.waiting import Answer, Attendant, Authenticate, Watch
from aios.errors import AnswerLost, AuthenticationRequired, DaemonUnreachable, InvalidParams
from aios.model import JsonObject
from aios.protocol.handshake import Ping
from aios.protocol.params import Params

PATIENCE_MS = 60_000
"""How long a call or a stream goes on trying while the daemon cannot be reached: longer than a restart takes."""

Result = TypeVar("Result")
Value = TypeVar("Value")


class Client(Methods):
    """A connection to a daemon, from asyncio code. Make one with `Client.connect`.

    A lost connection is made anew by itself, at the daemon's new address if it was found by its data folder. A call is repeated
    only where that does no harm: nothing had been sent yet, it only reads, or it carries an idempotency key, as every
    `create` and `run` here does. Otherwise `AnswerLost` says that it may have been carried out.

    One client may be shared by all tasks of an event loop.
    """

    def __init__(self, *, route: Route, patience_ms: int) -> None:
        self._route = route
        self._patience_ms = patience_ms
        self.on_away: Callable[[DaemonUnreachable], None] | None = None
        """Is told each time that a follower finds nobody and will try again: a person who waits would like to know."""

    @staticmethod
    def connect(
        url: str | None = None,
        token: str | None = None,
        *,
        data: Path | str | None = None,
        ca_file: str | None = None,
        patience_ms: int = PATIENCE_MS,
    ) -> Connecting:
        """Find the daemon and see that it answers: `await` this, or use it in `async with`.

        Args:
            url: `http(s)://`, `ws(s)://`, `tcp(s)://host:port` or `unix:/path`; None: `AIOS_URL`, else the data folder's daemon.
            token: The credential; None: `AIOS_TOKEN`, else the token in the data folder, if the daemon there is meant.
            data: The data folder to look into, before the environment.
            ca_file: Certificates to trust on TLS connections, in place of the system's.
            patience_ms: How long to go on trying when the daemon cannot be reached any more. At first it must answer at once.

        Raises:
            DaemonUnreachable: No daemon answers.
            AuthenticationRequired: The token is missing or wrong.
        """

        def dial(target: Target) -> Connection:
            if target.endpoint.scheme in {"http", "https"}:
                return HttpConnection(target, ca_file=ca_file)
            return DuplexConnection(target, ca_file=ca_file)

        def where() -> Target:
            return locate(url, token, data=data)

        return Connecting(Client(route=Route(locate=where, dial=dial), patience_ms=patience_ms))

    async def close(self) -> None:
        """Let go of the connection. Tasks go on."""
        await self._route.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def url(self) -> str:
        """Where the daemon is now. Raises: DaemonUnreachable."""
        return self._route.connection().target.url

    @overload
    async def call(self, method: Params[Result], /, *, timeout_ms: int | None = None) -> Result: ...

    @overload
    async def call(
        self, method: str, params: JsonObject | None = None, /, *, timeout_ms: int | None = None
    ) -> JsonObject: ...

    async def call(
        self, method: Params[Any] | str, params: JsonObject | None = None, /, *, timeout_ms: int | None = None
    ) -> Any:
        """Call a method: with typed params for a typed result, or by name with a dict for a dict.

        Args:
            method: The params as a record (`TaskGet(task_id=…)`), or the method's name.
            params: With a name: its params.
            timeout_ms: How long to wait for the answer; None: as long as the method may need.

        Raises:
            AiosError: What the daemon answered, as the class it raised.
            DaemonUnreachable: Nothing was done: the daemon cannot be reached.
            AnswerLost: It may have been done: the connection broke before the answer.
        """
        sent: Any = (params or {}) if isinstance(method, str) else method
        name = method if isinstance(method, str) else method.method
        wait_ms = timeout_ms or timeout_of(name, sent)
        return await self._persist(lambda: self._ask(method, sent, wait_ms), is_safe=is_safe(name, sent))

    async def _persist(self, ask: Callable[[], Awaitable[Value]], *, is_safe: bool) -> Value:
        """Ask until there is an answer, or patience ends, or asking again could do something twice."""
        backoff = Backoff(self._patience_ms)
        while True:
            try:
                return await ask()
            except AnswerLost as error:
                if not is_safe:
                    raise
                await backoff.pause(error)
            except (DaemonUnreachable, Refused) as error:
                await backoff.pause(error)

    async def call_once(self, params: Any) -> Any:
        """See `streams.Source`: the follower has a patience of its own."""
        return await self._ask(params, params, timeout_of(params.method, params))

    async def subscribe(self, params: JsonObject) -> Stream:
        """See `streams.Source`."""
        wait_ms = timeout_of("aios/task.subscribe", params)
        return await self._use(lambda connection: connection.subscribe(params, timeout_ms=wait_ms))

    async def _ask(self, method: Params[Any] | str, params: Any, timeout_ms: int) -> Any:
        """Ask once."""
        name = method if isinstance(method, str) else method.method
        kind: Any = dict[str, Any] if isinstance(method, str) else method.result
        raw = await self._use(lambda connection: connection.ask(name, params, timeout_ms=timeout_ms))
        try:
            return msgspec.json.decode(raw, type=kind)
        except msgspec.MsgspecError as error:
            raise AnswerLost(f"{name} was answered with something else than it should be: {error}") from error

    async def _use(self, work: Callable[[Connection], Awaitable[Value]]) -> Value:
        """Do something with the connection; leave it behind if the daemon is not there any more."""
        connection = self._route.connection()
        try:
            return await work(connection)
        except (AnswerLost, DaemonUnreachable):
            await self._route.forget(connection)
            raise
        except AuthenticationRequired:
            # A daemon on a new data folder has a new token, perhaps at the old address.
            if not await self._route.forget(connection):
                raise
            return await self._use(work)

    async def follow(
        self, task_id: str, after: int = 0, events: Iterable[str] | None = None
    ) -> AsyncGenerator[TaskEvent]:
        """Read a task's events to their end, each once and in order, whatever breaks between.

        Reconnects by itself and goes on after the last event handed out, also when the daemon was restarted elsewhere. Where
        the daemon has cut old events away, a `task.snapshot` stands for them. Leaving the loop leaves the task alone.

        Args:
            task_id: Whose events; of a finished task they are all there too.
            after: The number of the last event that is known already; 0: from the first.
            events: The kinds wanted (`status`, `progress`, `artifact`, `log`, `chunk`, …); None: all, `chunk` too, and then
                the numbers are checked to have no gap.

        Raises:
            TaskNotFound: There is no such task, or it was deleted meanwhile.
            DaemonUnreachable: The daemon stayed away for longer than the client has patience.
        """
        follower = Follower(self, task_id, after=after, events=events, patience_ms=self._patience_ms)
        follower.on_away = self.on_away
        async with aclosing(follower.events()) as found:
            async for event in found:
                yield event

    async def run(
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
        """Run a capability as a task and give its result.

        Args:
            capability_id: What to run.
            arguments: For it.
            on_input: Answers the task's questions; called again with `question.errors` where an answer does not fit.
            on_auth: Gives the `auth_response` for a sign-in.
            on_event: Is told of every event.
            metadata: Kept with the task.
            options: Those of `aios/task.create`: `priority`, `timeout_ms`, `retry`, `idempotency_key`, `delay_ms` …

        Raises:
            InputRequired: The task asks and nobody is there to answer; it goes on waiting.
            UserCanceled: The task was canceled.
            AiosError: The task's own error, as the class that it failed with; `data["task_id"]` says which task.
        """
        task = await self.create(capability_id, arguments, metadata=metadata, **options)
        return await self.wait(task.task_id, on_input=on_input, on_auth=on_auth, on_event=on_event)

    async def wait(
        self,
        task_id: str,
        *,
        after: int = 0,
        on_input: Answer | None = None,
        on_auth: Authenticate | None = None,
        on_event: Watch | None = None,
    ) -> Any:
        """See a task through to its end and give its result; arguments and errors as for `run`.

        If this is canceled the task goes on.
        """
        # Without a listener only those events are asked for that decide something.
        events = self.follow(task_id, after, events=("status",) if on_event is None else None)
        attendant = Attendant(self, task_id, on_input=on_input, on_auth=on_auth, on_event=on_event)
        return await attendant.result(events)

    async def artifact_content(self, artifact_id: str, part: int | None = None) -> bytes:
        """Give the bytes of an artifact, or of one of its parts (counted from 0), as the daemon serves them.

        Raises:
            ArtifactNotFound: There is none.
            InvalidParams: This connection is not HTTP; only that serves contents.
        """
        path = f"/aios/artifacts/{artifact_id}" + ("" if part is None else f"/{part}")

        async def fetched() -> bytes | None:
            return await self._use(lambda connection: connection.fetch(path, timeout_ms=ANSWER_TIMEOUT_MS))

        content = await self._persist(fetched, is_safe=True)
        if content is None:
            raise InvalidParams("contents of artifacts are served over HTTP; connect to an http:// address")
        return content


class Connecting:
    """What `Client.connect` gives: to be awaited, or entered by `async with`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def __await__(self) -> Generator[Any, None, Client]:
        return self._open().__await__()

    async def __aenter__(self) -> Client:
        return await self._open()

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    async def _open(self) -> Client:
        try:
            await self._client.call_once(Ping())
        except BaseException:
            await self._client.close()
            raise
        return self._client
