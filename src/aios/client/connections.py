"""What the client needs of a connection, whichever way it goes, and the one that finds the daemon again.

`HttpConnection` (`http.py`) asks by POST and streams by SSE; `DuplexConnection` (`duplex.py`) does both over one WebSocket or
socket. Either says precisely what was lost: `DaemonUnreachable` when nothing was sent, `AnswerLost` when nobody knows.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from itertools import count
from math import isfinite
from typing import Any, Protocol, cast

import msgspec

from aios.client.discovery import Target
from aios.errors import AiosError, AnswerLost, DaemonUnreachable, InvalidParams
from aios.errors.wire import from_wire
from aios.model import JsonObject, Record
from aios.protocol import jsonrpc

PROTOCOL_VERSION = "0.3.0"
ANSWER_SIZE_MAX = 64 * 1024 * 1024
CONNECT_TIMEOUT_MS = 5_000
SILENCE_MS_MAX = 45_000
"""A stream on which not even a keep-alive came for so long is dead: the daemon sends one every 15 s."""
DELAY_MS_FIRST = 50
DELAY_MS_MAX = 5_000
RETRY_AFTER_MS_MAX = 30_000

_dice = random.SystemRandom()


class RawEvent(Record, frozen=True, kw_only=True):
    """An event as the connection brought it."""

    kind: str
    event_id: str
    data: JsonObject


class Refused(Exception):
    """The door turned the request away before anything was done: it drains, or is asked too often."""

    def __init__(self, error: AiosError, *, retry_after_ms: int | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.retry_after_ms = retry_after_ms


class Stream(Protocol):
    """An open subscription. Iteration ends where the daemon ended it and raises `AnswerLost` where it was cut."""

    answer: JsonObject
    """What `task.subscribe` answered."""
    closes_by_itself: bool
    """Whether the daemon closes it when the task has nothing more to say."""

    def __aiter__(self) -> AsyncIterator[RawEvent]: ...

    async def close(self, *, is_at_end: bool = False) -> None:
        """Read no further. Neither the subscription nor the task ends by this."""
        ...


class Connection(Protocol):
    """One way to one daemon."""

    target: Target

    @property
    def is_open(self) -> bool:
        """Whether it may still be used."""
        ...

    async def ask(self, method: str, params: Any, *, timeout_ms: int) -> msgspec.Raw:
        """Call a method and give its result, still encoded.

        Raises:
            AiosError: What the daemon answered, as the class it raised.
            DaemonUnreachable: Nothing was sent.
            AnswerLost: It was sent, and no answer came.
            Refused: The door turned it away; nothing was done.
        """
        ...

    async def subscribe(self, params: JsonObject, *, timeout_ms: int) -> Stream:
        """Open `aios/task.subscribe`; raises as `ask`."""
        ...

    async def fetch(self, path: str, *, timeout_ms: int) -> bytes | None:
        """GET a path of the daemon's own; None where the way is not HTTP."""
        ...

    async def close(self) -> None:
        """Let go. No task is touched by it."""
        ...


class Envelope(msgspec.Struct):
    """A JSON-RPC message that the daemon sent."""

    id: Any = None
    method: str | None = None
    params: JsonObject | None = None
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: JsonObject | msgspec.UnsetType = msgspec.UNSET


_numbers = count(1)
_envelopes = msgspec.json.Decoder(Envelope)


def request(method: str, params: Any) -> tuple[int, bytes]:
    """Encode a call; gives its id too.

    Raises:
        InvalidParams: The params are not JSON.
    """
    number = next(_numbers)
    try:
        body = jsonrpc.request(number, method, params)
        # The encoder writes null for NaN and infinity, which would change what was asked without a word.
        if b"null" in body:
            _refuse_nan(msgspec.to_builtins(params))
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        raise InvalidParams(f"the params of {method} are not JSON: {error}") from error
    return number, body


def _refuse_nan(value: Any) -> None:
    if isinstance(value, float) and not isfinite(value):
        raise ValueError(f"{value} is no JSON number")
    if isinstance(value, dict):
        for member in cast("JsonObject", value).values():
            _refuse_nan(member)
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            _refuse_nan(item)


def envelope(body: bytes | str, where: str) -> Envelope:
    """Decode what the daemon sent.

    Raises:
        AnswerLost: It is no JSON-RPC message.
    """
    try:
        return _envelopes.decode(body)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise AnswerLost(f"{where} answered with something that is not JSON-RPC: {error}") from error


def result_of(answer: Envelope, number: int, where: str) -> msgspec.Raw:
    """Give the result of call `number`, or raise its error as the class that the daemon raised."""
    if not isinstance(answer.error, msgspec.UnsetType):
        raise from_wire(answer.error)
    if isinstance(answer.result, msgspec.UnsetType) or answer.id != number:
        raise AnswerLost(f"{where} gave an answer to another question: id {answer.id!r} instead of {number}")
    return answer.result


class Backoff:
    """How long to wait before the next try: longer each time, never the same for two clients, and not for ever.

    Args:
        patience_ms: How long it may go on without a success.
    """

    def __init__(self, patience_ms: int) -> None:
        self._patience_ms = patience_ms
        self._delay_ms = DELAY_MS_FIRST
        self._since = asyncio.get_running_loop().time()

    def reset(self) -> None:
        """Begin again: something worked."""
        self._delay_ms = DELAY_MS_FIRST
        self._since = asyncio.get_running_loop().time()

    async def pause(self, cause: Exception) -> None:
        """Wait before another try, or raise `cause` because patience is at its end."""
        after_ms = cause.retry_after_ms if isinstance(cause, Refused) else None
        delay_ms = self._delay_ms if after_ms is None else min(max(after_ms, self._delay_ms), RETRY_AFTER_MS_MAX)
        spent_ms = (asyncio.get_running_loop().time() - self._since) * 1000
        if spent_ms + delay_ms > self._patience_ms:
            raise cause.error if isinstance(cause, Refused) else cause
        self._delay_ms = min(self._delay_ms * 2, DELAY_MS_MAX)
        # What a server asks of all alike would bring all back together.
        low, high = (delay_ms / 2, delay_ms) if after_ms is None else (delay_ms, delay_ms * 1.25)
        await asyncio.sleep(_dice.uniform(low, high) / 1000)


Dial = Callable[[Target], "Connection"]


class Route:
    """The way to the daemon, wherever it is now: opens a connection when one is needed and finds the daemon again.

    Args:
        locate: Says where the daemon is; asked again whenever nobody answers where it was.
        dial: Makes a connection that opens itself on first use.
    """

    def __init__(self, *, locate: Callable[[], Target], dial: Dial) -> None:
        self._locate = locate
        self._dial = dial
        self._connection: Connection | None = None
        self.is_closed = False

    def connection(self) -> Connection:
        """The connection in use, or a new one to where the daemon is now.

        Raises:
            DaemonUnreachable: Nobody knows where it is, or the client is closed.
        """
        if self.is_closed:
            raise DaemonUnreachable("this client is closed; connect another")
        if self._connection is None or not self._connection.is_open:
            self._connection = self._dial(self._locate())
        return self._connection

    async def forget(self, connection: Connection) -> bool:
        """Leave this connection if the daemon is not where it leads to any more; says whether it did."""
        if self._connection is connection and self._locate_quietly() == connection.target:
            return False
        if self._connection is connection:
            self._connection = None
            await connection.close()
        return True

    def _locate_quietly(self) -> Target | None:
        try:
            return self._locate()
        except DaemonUnreachable:
            return None

    async def close(self) -> None:
        """Close for good."""
        self.is_closed = True
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()
