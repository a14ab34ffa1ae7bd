"""`aios/initialize`, `aios/shutdown`, `aios/ping` and what goes with them (protocol.md §3)."""

from __future__ import annotations

import asyncio

import msgspec

from aios.errors import (
    AlreadyInitialized,
    AuthenticationRequired,
    InvalidInput,
    TaskFinal,
    TaskNotFound,
)
from aios.model import SessionId, Task, wire_time
from aios.protocol.events import message
from aios.protocol.handshake import (
    Initialize,
    Initialized,
    InitializedNotice,
    Ping,
    Pong,
    PongView,
    SessionView,
    ShutDown,
    Shutdown,
)
from aios.protocol.params import Nothing, refuse
from aios.rules import handshake as rules
from aios.service.call import Call, Principal, handles
from aios.service.session import default_id

CLIENT_INFO_BYTES_MAX = 8 * 1024
ABILITIES = {"streaming": True, "batch": True, "notifications": True}
EXTENSIONS = ("urn:aios:ext:priority:1.0",)


@handles(Initialize, needs_session=False)
async def initialize(call: Call, params: Initialize) -> Initialized:
    """Agree, and make a session or find the previous one again."""
    connection = call.connection
    if len(msgspec.json.encode(params.client_info)) > CLIENT_INFO_BYTES_MAX:
        raise refuse("/client_info", f"is kept with the session and may have {CLIENT_INFO_BYTES_MAX} bytes")
    if connection.opening is not None:
        raise AlreadyInitialized("this connection is being initialized; wait for the answer")
    connection.opening = asyncio.get_running_loop().create_future()
    try:
        principal = _principal(call, params)
        version = rules.choose_version(params.protocol_version, params.supported_versions)
        extensions = rules.choose_extensions(
            supported=params.extensions.supported, required=params.extensions.required, ours=EXTENSIONS
        )
        previous = params.session_recovery.previous_session_id if params.session_recovery else None
        session, is_recovered = await call.service.sessions.open(
            principal, client_info=params.client_info, previous=previous
        )
        if connection.is_duplex:
            connection.principal, connection.session = principal, session
    finally:
        connection.opening.set_result(None)
        connection.opening = None
    return Initialized(
        protocol_version=version,
        server_info=call.service.server_info,
        capabilities=rules.choose_capabilities(params.capabilities, ours=ABILITIES, limits=call.engine.limits),
        session=SessionView(
            session_id=session.session_id, expires_at=wire_time(session.expires_at), recovered=is_recovered
        ),
        extensions={"supported": extensions},
    )


@handles(InitializedNotice)
async def initialized(call: Call, params: InitializedNotice) -> Nothing:
    """Take note; nothing waits for it."""
    return Nothing()


@handles(Ping, needs_session=False)
async def ping(call: Call, params: Ping) -> PongView:
    """Answer with the time; a notification, which cannot be answered, by a notification where one can be sent."""
    pong = PongView(timestamp=params.timestamp, server_time=wire_time(call.engine.clock.now()))
    if call.is_notification and call.connection.is_duplex and call.connection.send is not None:
        await call.connection.send(message(Pong.method, pong))
    return pong


@handles(Pong, needs_session=False)
async def pong(call: Call, params: Pong) -> Nothing:
    """Take note."""
    return Nothing()


@handles(Shutdown)
async def shutdown(call: Call, params: Shutdown) -> ShutDown:
    """Close the session, then see to its foreground tasks; detached ones go on."""
    if call.session_id == default_id(call.principal.user):
        raise InvalidInput("shutdown closes a session: name it with AIOS-Session-Id; the default session stays open")
    session = await call.service.sessions.use(call.session_id, call.principal)
    await call.service.sessions.close(session)
    if not params.force:
        waited = await call.engine.foreground(session.session_id)
        await asyncio.gather(*(call.engine.until(each.task_id, _is_over, params.timeout_ms) for each in waited))
    cancelled = await _cancel_all(call, session.session_id, params.reason or "shutdown")
    call.connection.closes = call.connection.is_duplex
    lasted = call.engine.clock.now() - session.created_at
    return ShutDown(
        success=True, pending_tasks_cancelled=cancelled, session_duration_ms=int(lasted.total_seconds() * 1000)
    )


async def _cancel_all(call: Call, session_id: SessionId, reason: str) -> int:
    cancelled = 0
    for task in await call.engine.foreground(session_id):
        try:
            await call.engine.cancel(task.task_id, reason)
            cancelled += 1
        except (TaskFinal, TaskNotFound):
            continue  # It ended by itself just now.
    return cancelled


def _is_over(task: Task) -> bool:
    return task.status.is_terminal


def _principal(call: Call, params: Initialize) -> Principal:
    """Say who opens the connection. A credential in the params decides alone, where there is no header for it."""
    if params.authentication is not None and call.connection.is_duplex:
        if params.authentication.type != "bearer":
            raise AuthenticationRequired("authentication.type must be bearer")
        return call.service.keys.authenticate(params.authentication.token)
    if call.connection.principal is None:
        raise AuthenticationRequired('a credential is needed: params.authentication {type: "bearer", token}')
    return call.connection.principal
