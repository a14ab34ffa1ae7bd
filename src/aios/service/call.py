"""Who calls, in what, and which function answers which method."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from aios.model import SessionId
from aios.protocol.params import Params

if TYPE_CHECKING:
    from aios.engine.engine import Engine
    from aios.service.connection import Connection
    from aios.service.dispatcher import Service
    from aios.service.subscriptions import Subscription

CLIENT = "client"
OPERATOR = "operator"
APPROVER = "approver"
ADMIN = "admin"
ROLES = frozenset({CLIENT, OPERATOR, APPROVER, ADMIN})


class Principal(msgspec.Struct, frozen=True):
    """Who calls: the credential's user, with the credential's roles (protocol.md §2)."""

    user: str
    roles: frozenset[str] = frozenset({CLIENT})


class Call:
    """One request on its way: who asks, over which connection, in which session."""

    __slots__ = ("connection", "is_notification", "principal", "service", "session_id", "subscriptions")

    def __init__(
        self,
        *,
        service: Service,
        connection: Connection,
        principal: Principal,
        session_id: SessionId,
        is_notification: bool,
        subscriptions: list[Subscription],
    ) -> None:
        self.service = service
        self.connection = connection
        self.principal = principal
        self.session_id = session_id
        self.is_notification = is_notification
        self.subscriptions = subscriptions
        """Those that this call makes; they are read once the answer is out."""

    @property
    def engine(self) -> Engine:
        """Where everything happens."""
        return self.service.engine


AnyParams = TypeVar("AnyParams", bound=Params[Any])
Function = Callable[[Call, AnyParams], Awaitable[Any]]


class Handler(msgspec.Struct, frozen=True):
    """What carries out a method."""

    kind: type[Params[Any]]
    function: Function[Any]
    needs_session: bool


HANDLERS: dict[str, Handler] = {}
"""Filled where the functions are defined."""


def handles(
    kind: type[AnyParams], *, needs_session: bool = True
) -> Callable[[Function[AnyParams]], Function[AnyParams]]:
    """Say that the function answers a method. Without `needs_session` a lost session does not hinder it."""

    def register(function: Function[AnyParams]) -> Function[AnyParams]:
        HANDLERS[kind.method] = Handler(kind, function, needs_session)
        return function

    return register
