"""From a body to its answer: read, find the handler, check the params, call, and say what came of it.

`Service` is the one face that doors and bridges have to do with.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from typing import Any

import structlog

from aios.engine.engine import Engine
from aios.errors import (
    AiosError,
    AuthenticationRequired,
    InternalError,
    InvalidRequest,
    MethodNotFound,
    ParseError,
    SessionExpired,
    SessionNotFound,
)
from aios.model import JsonObject, SessionId
from aios.protocol import jsonrpc, params
from aios.protocol.jsonrpc import Broken, Request
from aios.rules import handshake as rules
from aios.service import access, artifact, capability, discovery, handshake, positions, task
from aios.service.access import Act
from aios.service.artifact import Content
from aios.service.call import HANDLERS, Call, Handler, Principal
from aios.service.connection import Connection, Reply, Send
from aios.service.key import Keys
from aios.service.session import Sessions, default_id
from aios.service.subscriptions import Subscription, Subscriptions

NAMESPACES = (artifact, capability, discovery, handshake, task)
"""Importing them fills `HANDLERS`."""
METHOD_SHOWN_MAX = 100

_log = structlog.get_logger()


class Service:
    """What callers may ask, for any number of doors.

    Args:
        engine: Where everything happens.
        keys: Whose credentials are good.
        server_info: `name`, `version` and `instructions`, as the handshake tells them.
    """

    def __init__(self, *, engine: Engine, keys: Keys, server_info: JsonObject) -> None:
        self.engine = engine
        self.keys = keys
        self.server_info = server_info
        self.sessions = Sessions(engine=engine)
        self.subscriptions = Subscriptions(engine=engine)

    def connect(
        self,
        principal: Principal | None,
        *,
        transport: str,
        is_duplex: bool,
        send: Send | None = None,
        session_id: str | None = None,
        version: str | None = None,
    ) -> Connection:
        """Take note of a new connection, or of one HTTP request. Never fails: what is wrong is told with the answers.

        Args:
            principal: Who it is; None where the handshake is to bring the credential.
            transport: A name for logs and metrics.
            is_duplex: Whether `aios/initialize` must come first, and events are sent unasked.
            send: Puts a message on its way: events on duplex transports, on HTTP what precedes a streamed answer.
            session_id: `AIOS-Session-Id` of HTTP.
            version: `AIOS-Version` of HTTP.
        """
        return Connection(
            principal=principal,
            transport=transport,
            is_duplex=is_duplex,
            send=send,
            session_id=session_id,
            version=version,
            subscriptions=self.subscriptions,
        )

    async def receive(self, connection: Connection, body: bytes) -> Reply | None:
        """Carry out what a body asks; None: nothing is to be answered.

        On duplex transports bodies may be received at the same time. A cancelled call does not cancel the task that it made.
        """
        limits = self.engine.limits
        try:
            parsed = jsonrpc.parse(body, max_bytes=limits.max_message_size, max_batch=limits.max_batch_size)
        except (ParseError, InvalidRequest) as error:
            return Reply(jsonrpc.failure(None, error), is_unreadable=True)
        made: list[Subscription] = []
        if not parsed.is_batch:
            answers = [await self._answer(connection, message, made) for message in parsed.messages]
        else:
            answers = await asyncio.gather(*(self._answer(connection, each, made) for each in parsed.messages))
        bodies = [answer for answer in answers if answer is not None]
        if not bodies and not connection.closes:
            return None
        body = b"" if not bodies else jsonrpc.batch(bodies) if parsed.is_batch else bodies[0]
        return Reply(
            body,
            subscriptions=made,
            closes=connection.closes,
            is_unreadable=not parsed.is_batch and any(_is_no_request(each) for each in parsed.messages),
        )

    async def open_task(
        self,
        principal: Principal,
        task_id: str,
        after: int | str = positions.START,
        *,
        events: Sequence[str] | None = None,
    ) -> Subscription | None:
        """Begin to follow a task without a subscription of its own (`GET /aios/tasks/…/events`).

        Args:
            principal: Who reads.
            task_id: Which task.
            after: `start`, `now`, an event id, or its number.
            events: Kinds as in `aios/task.subscribe`; None: all but chunk.

        Returns:
            What `subscriptions.follow` reads; None: the task has ended and nothing of it is left to read.

        Raises:
            TaskNotFound: There is none for this principal.
            ValidationFailed: `after` is malformed, or beyond the task's last event.
        """
        found = await access.reach_task(self.engine, principal, task_id, Act.READ)
        subscription = await self.subscriptions.open(
            principal,
            found,
            kinds=positions.kinds(events),
            after=positions.after(found, after, path="/last_event_id"),
            is_kept=False,
        )
        return None if found.status.is_terminal and subscription.cursor >= found.version else subscription

    async def open_subscription(
        self, principal: Principal, subscription_id: str, after: int | str | None = None
    ) -> Subscription | None:
        """Go on with a subscription from its own cursor, or after an event (`GET /aios/subscriptions/…/events`).

        Returns:
            What `subscriptions.follow` reads; None: the task has ended and nothing of it is left to read.

        Raises:
            SubscriptionNotFound: There is none of this principal.
            ValidationFailed: `after` is malformed, or beyond the task's last event.
        """
        subscription = self.subscriptions.find(principal, subscription_id)
        found = await access.reach_task(self.engine, principal, subscription.task_id, Act.READ)
        if after is not None:
            subscription.cursor = positions.event_number(found, after, path="/last_event_id")
        return None if found.status.is_terminal and subscription.cursor >= found.version else subscription

    async def artifact_content(self, principal: Principal, artifact_id: str, part: int | None = None) -> Content:
        """Give the content of an artifact's part, or of the whole.

        Raises:
            ArtifactNotFound: There is none for this principal.
        """
        return await artifact.content(self.engine, principal, artifact_id, part)

    async def _answer(
        self, connection: Connection, message: Request | Broken, made: list[Subscription]
    ) -> bytes | None:
        """Give the answer's bytes; None for a notification. Whatever goes wrong becomes an answer too."""
        if isinstance(message, Broken):
            return jsonrpc.failure(message.id, message.error)
        try:
            result = await self._carry_out(connection, message, made)
            return None if message.is_notification else jsonrpc.answer(message.id, result)
        except AiosError as error:
            if isinstance(error, AuthenticationRequired) and message.method == rules.INITIALIZE:
                connection.closes = connection.is_duplex
            return None if message.is_notification else jsonrpc.failure(message.id, error)
        except Exception:
            trace_id = secrets.token_hex(8)
            _log.exception("call failed", method=message.method[:METHOD_SHOWN_MAX], trace_id=trace_id)
            if message.is_notification:
                return None
            sentence = "something went wrong that nobody foresaw; the daemon's log has it under this trace_id"
            return jsonrpc.failure(message.id, InternalError(sentence, trace_id=trace_id))

    async def _carry_out(self, connection: Connection, message: Request, made: list[Subscription]) -> Any:
        handler = HANDLERS.get(message.method)
        if handler is None:
            raise MethodNotFound(f"there is no method {message.method[:METHOD_SHOWN_MAX]}")
        principal = await self._admit(connection, handler)
        read = params.decode(handler.kind, message.params)
        if message.may_hold_nul:
            params.refuse_nul(read)
        call = Call(
            service=self,
            connection=connection,
            principal=principal,
            session_id=await self._session_id(connection, handler, principal),
            is_notification=message.is_notification,
            subscriptions=made,
        )
        return await handler.function(call, read)

    async def _admit(self, connection: Connection, handler: Handler) -> Principal:
        """Let the call in, if it does not come too early, and say who it is."""
        method = handler.kind.method
        if connection.version is not None and connection.version not in rules.VERSIONS:
            rules.choose_version(connection.version)
        if connection.is_duplex:
            if connection.opening is not None and method not in rules.OPEN_METHODS:
                await asyncio.shield(connection.opening)
            # A session that is over may be followed by another on the same connection.
            is_open = connection.session is not None and not (
                method == rules.INITIALIZE and self.sessions.is_over(connection.session)
            )
            rules.check_order(method, is_initialized=is_open)
        if connection.principal is not None:
            return connection.principal
        if connection.is_duplex and method in rules.OPEN_METHODS:
            return NOBODY
        raise AuthenticationRequired("a credential is needed")

    async def _session_id(self, connection: Connection, handler: Handler, principal: Principal) -> SessionId:
        """Say in which session the call runs, and let the session live on."""
        default = default_id(principal.user)
        named = connection.session.session_id if connection.session is not None else connection.session_id
        if named is None or named == default or principal is NOBODY:
            return default
        try:
            return (await self.sessions.use(named, principal)).session_id
        except (SessionExpired, SessionNotFound):
            if handler.needs_session:
                raise
            return SessionId(named)


NOBODY = Principal("", frozenset())
"""Who has not yet shown a credential: may open the connection, and nothing else."""


def _is_no_request(message: Request | Broken) -> bool:
    return isinstance(message, Broken) and isinstance(message.error, InvalidRequest)
