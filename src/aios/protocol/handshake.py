"""Opening, keeping and closing a connection: `aios/initialize` and its kin (protocol.md §3)."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from aios.errors import (
    AlreadyInitialized,
    AuthenticationRequired,
    InvalidInput,
    VersionMismatch,
)
from aios.model import JsonObject
from aios.protocol.params import Identifier, Nothing, Params, Reason, Timestamp, View, Wait

Version = Annotated[str, msgspec.Meta(min_length=1, max_length=64, examples=["0.3.0"])]
Word = Annotated[str, msgspec.Meta(max_length=256)]
Words = Annotated[list[Word], msgspec.Meta(max_length=100)]


class Authentication(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The credential, on transports that have no header for it."""

    type: str = "bearer"
    token: Annotated[str, msgspec.Meta(max_length=4_096)]

    def __repr__(self) -> str:
        """Keep the token out of logs."""
        return f"Authentication(type={self.type!r})"


class Extensions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Extensions by their URN: those that can be used, and those without which it makes no sense to go on."""

    supported: Words = []
    required: Words = []


class SessionRecovery(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The session to go on with."""

    previous_session_id: Identifier


class SessionView(View, frozen=True, kw_only=True):
    """The session that the handshake made, or found again."""

    session_id: str
    expires_at: Timestamp
    recovered: bool = False


class Initialized(View, frozen=True, kw_only=True):
    """What was agreed. `capabilities` is the common subset, its `limits` the smaller numbers of both sides."""

    protocol_version: str
    server_info: JsonObject
    capabilities: JsonObject
    session: SessionView
    extensions: JsonObject = {}


class Initialize(Params[Initialized], frozen=True, kw_only=True):
    """Open a connection: agree on version, capabilities and limits, and get a session."""

    method = "aios/initialize"
    result = Initialized
    errors = (VersionMismatch, AlreadyInitialized, AuthenticationRequired)
    protocol_version: Version
    supported_versions: Annotated[list[Version], msgspec.Meta(max_length=32)] = []
    client_info: JsonObject = {}
    capabilities: JsonObject = {}
    extensions: Extensions = Extensions()
    authentication: Authentication | None = None
    session_recovery: SessionRecovery | None = None


class InitializedNotice(Params[Nothing], frozen=True, kw_only=True):
    """Say that the handshake's answer has arrived; accepted, not required."""

    method = "aios/initialized"
    result = Nothing


class ShutDown(View, frozen=True, kw_only=True):
    """What closing the session meant."""

    success: bool
    pending_tasks_cancelled: int
    session_duration_ms: int


class Shutdown(Params[ShutDown], frozen=True, kw_only=True):
    """Close the session: wait for its foreground tasks, cancel those left, then close the connection.

    With `force` nothing is waited for.
    """

    method = "aios/shutdown"
    result = ShutDown
    errors = (InvalidInput,)
    reason: Reason = ""
    timeout_ms: Wait = 5_000
    force: bool = False


class PongView(View, frozen=True, kw_only=True):
    """The ping's own timestamp and the server's."""

    server_time: Timestamp
    timestamp: Any = msgspec.UNSET


class Ping(Params[PongView], frozen=True, kw_only=True):
    """Ask whether the other side is there. As a notification it is answered by the notification `aios/pong`."""

    method = "aios/ping"
    result = PongView
    timestamp: Annotated[str, msgspec.Meta(max_length=64)] | msgspec.UnsetType = msgspec.UNSET


class Pong(Params[Nothing], frozen=True, kw_only=True):
    """Answer a ping."""

    method = "aios/pong"
    result = Nothing
    timestamp: Annotated[str, msgspec.Meta(max_length=64)] | msgspec.UnsetType = msgspec.UNSET
    server_time: Annotated[str, msgspec.Meta(max_length=64)] | msgspec.UnsetType = msgspec.UNSET


METHODS: tuple[type[Params[Any]], ...] = (Initialize, InitializedNotice, Shutdown, Ping, Pong)
