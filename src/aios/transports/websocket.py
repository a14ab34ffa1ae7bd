"""The WebSocket door: one JSON-RPC message per text frame, over uvicorn's sans-I/O implementation (protocol.md §2)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import structlog
from uvicorn import Config
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.frames import Frame
from websockets.http11 import Request

from aios.config import DuplexSection
from aios.errors import AuthenticationRequired, NotFound, ResourceBusy
from aios.service.call import Principal
from aios.service.dispatcher import Service
from aios.transports.admission import Refused, credential, unauthorized
from aios.transports.duplex import Duplex
from aios.transports.http_guard import RETRY_AFTER, Gate, answer_of

PATH = "/aios/ws"
FRAGMENTS_MAX = 1_000
"""Of one message: empty ones would never add up to its size."""
NORMAL, GOING_AWAY, UNSUPPORTED, POLICY = 1000, 1001, 1003, 1008
"""Codes with which a WebSocket is closed (RFC 6455)."""

_log = structlog.get_logger("aios.doors")

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class GuardedWebSocket(WebSocketsSansIOProtocol):
    """One WebSocket, with the bounds that uvicorn's lacks: fragments of a message, and what the peer does not read."""

    def __init__(self, *, config: Config, server_state: ServerState, app_state: dict[str, Any], gate: Gate) -> None:
        super().__init__(config, server_state, app_state)
        self._gate = gate
        self._patience: asyncio.TimerHandle | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.resume_writing()
        self._gate.changed.set()

    def pause_writing(self) -> None:
        """Give a peer that reads too slowly so long to catch up."""
        super().pause_writing()
        self._patience = self.loop.call_later(self._gate.write_timeout_ms / 1000, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._patience is not None:
            self._patience.cancel()

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if self.response.status_code == 101:
            self.scope["extensions"]["aios"] = self  # type: ignore[index,assignment]

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        # Pings are answered without asking anybody; a peer that sends them and reads nothing would fill our memory.
        if self.transport.get_write_buffer_size() > self._gate.max_output_size:
            self.transport.abort()

    def handle_cont(self, event: Frame) -> None:
        if len(self.frames) < FRAGMENTS_MAX:
            super().handle_cont(event)
        elif not self.close_sent:
            self.conn.fail(POLICY, "too many fragments")
            self.handle_parser_exception()

    def shutdown(self) -> None:
        """Ask the door to end it: the answers under way come first."""
        self.stop_keepalive()
        if self.handshake_complete and not self.close_sent:
            self.queue.put_nowait({"type": "websocket.disconnect", "code": GOING_AWAY})
        else:
            super().shutdown()

    def sweep(self, now: float) -> None:
        """Nothing to do: it has its own ping and the door's deadline for the handshake."""


class WebSocketDoor:
    """The application that takes a connection which changes to WebSocket.

    Args:
        is_draining: Whether the daemon stops and takes nobody in.
    """

    def __init__(self, *, service: Service, settings: DuplexSection, is_draining: Callable[[], bool]) -> None:
        self._service = service
        self._settings = settings
        self._is_draining = is_draining
        self._open: set[Duplex] = set()
        self._admitted = 0

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Serve one connection from its handshake to its end."""
        try:
            principal = self._admit(scope)
        except Refused as refused:
            status, headers, body = answer_of(refused)
            await send({"type": "websocket.http.response.start", "status": status, "headers": headers})
            await send({"type": "websocket.http.response.body", "body": body})
            return
        self._admitted += 1
        try:
            await receive()
            await send({"type": "websocket.accept"})
            await self._serve(scope["extensions"]["aios"], principal, receive, send)
        finally:
            self._admitted -= 1

    @property
    def connections(self) -> int:
        """How many are open."""
        return self._admitted

    def stop(self, grace_ms: int) -> None:
        """Read nothing more, and give the answers that are being made so long."""
        for duplex in self._open:
            duplex.stop(grace_ms)

    def _admit(self, scope: dict[str, Any]) -> Principal | None:
        """Raises: Refused, before anything is changed."""
        if scope["path"] != PATH:
            raise Refused(404, NotFound(f"there is nothing here; WebSocket is at {PATH}"))
        if self._is_draining() or self._admitted >= self._settings.max_connections:
            raise Refused(503, ResourceBusy("the daemon takes no more connections now"), RETRY_AFTER)
        presented = credential(dict(scope["headers"]))
        try:
            # Without the header the handshake brings it: a browser's WebSocket cannot set one.
            return None if presented is None else self._service.keys.authenticate(presented)
        except AuthenticationRequired as error:
            raise unauthorized(error.detail) from error

    async def _serve(self, wire: GuardedWebSocket, principal: Principal | None, receive: Receive, send: Send) -> None:
        async def write(body: bytes) -> None:
            # Looked at again each time: of all that waited only the first may find room.
            while not wire.writable.is_set():
                await wire.writable.wait()
            await send({"type": "websocket.send", "text": body.decode()})

        async def read() -> None:
            while (message := await receive())["type"] == "websocket.receive":
                text = message.get("text")
                if text is None:
                    nonlocal code
                    code = UNSUPPORTED
                    break
                await duplex.take(text.encode())
            else:
                code = message.get("code", code)
            duplex.closing.set()

        code = NORMAL
        duplex = Duplex(
            service=self._service,
            principal=principal,
            transport="websocket",
            settings=self._settings,
            write=write,
            cut=wire.transport.abort,
        )
        self._open.add(duplex)
        try:
            await duplex.serve(read)
            await send({"type": "websocket.close", "code": GOING_AWAY if self._is_draining() else code})
        except OSError:
            return
        finally:
            self._open.discard(duplex)
