"""The HTTP door on its sockets: uvicorn's protocols, our own accepting, sweeping and stopping."""

from __future__ import annotations

import asyncio
import socket
import ssl
from email.utils import formatdate
from functools import partial
from typing import Any, cast

import uvicorn

from aios.config import DuplexSection, HttpSection
from aios.transports.admission import Admission
from aios.transports.http import HttpDoor
from aios.transports.http_calls import CallingHttp
from aios.transports.http_guard import Gate
from aios.transports.listening import BACKLOG, TLS_HANDSHAKE_TIMEOUT_MS, reachable
from aios.transports.websocket import GuardedWebSocket

SWEEP_MS_MAX = 1_000


class HttpServer:
    """Accepts connections for the door, and looks after them.

    Args:
        listener: The bound socket.
        tls: Where the door is encrypted.
    """

    def __init__(
        self,
        listener: socket.socket,
        *,
        door: HttpDoor,
        settings: HttpSection,
        duplex: DuplexSection,
        max_message_size: int,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._listener = listener
        self._door = door
        self._settings = settings
        self._tls = tls
        admission = Admission(
            scheme="https" if tls else "http",
            host=settings.host,
            allowed_hosts=settings.allowed_hosts,
            allowed_origins=settings.allowed_origins,
        )
        self._gate = Gate(
            settings=settings,
            admission=admission,
            max_body_size=max_message_size,
            max_output_size=duplex.max_output_size,
            write_timeout_ms=duplex.write_timeout_ms,
        )
        self._config = uvicorn.Config(
            cast("Any", door),
            http=CallingHttp,
            ws=GuardedWebSocket,
            ws_max_size=max_message_size,
            ws_per_message_deflate=False,
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
        )
        self._config.load()
        self._config.ws_protocol_class = cast("Any", partial(GuardedWebSocket, gate=self._gate))
        shortest = min(settings.header_timeout_ms, settings.keep_alive_ms, settings.sse_keep_alive_ms)
        self._sweep_ms = min(SWEEP_MS_MAX, max(1, shortest // 4))
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.Task[None] | None = None
        self._sending: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """Where the door is."""
        return f"{'https' if self._tls else 'http'}://{reachable(self._listener.getsockname())}"

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._gate.state.connections)

    @property
    def requests(self) -> int:
        """How many have been answered."""
        return self._gate.state.total_requests

    @property
    def is_draining(self) -> bool:
        """Whether nobody is taken in any more."""
        return self._door.is_draining

    async def start(self) -> None:
        """Begin to accept."""
        loop = asyncio.get_running_loop()
        accept = partial(CallingHttp, config=self._config, gate=self._gate, door=self._door)
        timeout = TLS_HANDSHAKE_TIMEOUT_MS / 1000 if self._tls else None
        self._date()
        self._server = await loop.create_server(
            accept, sock=self._listener, backlog=BACKLOG, ssl=self._tls, ssl_handshake_timeout=timeout
        )
        self._sweeper = loop.create_task(self._sweep(), name="http sweeper")

    async def wait_for_change(self) -> None:
        """Wait until a connection is lost."""
        self._gate.changed.clear()
        await self._gate.changed.wait()

    async def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._sweep_ms / 1000)
            self._date()
            now = loop.time()
            for connection in list(self._gate.state.connections):
                cast("CallingHttp | GuardedWebSocket", connection).sweep(now)
            quiet = now - (self._settings.sse_keep_alive_ms - 2 * self._sweep_ms) / 1000
            for stream in [stream for stream in self._door.streams if stream.quiet_since < quiet]:
                sending = loop.create_task(stream.keep_alive())
                self._sending.add(sending)
                sending.add_done_callback(self._sending.discard)

    def _date(self) -> None:
        self._gate.state.default_headers = [(b"date", formatdate(usegmt=True).encode())]

    def stop_accepting(self) -> None:
        """Take no new connection; calls on those that are open are told that the daemon stops."""
        self._door.is_draining = True
        if self._server is not None:
            self._server.close()

    async def stop(self, grace_ms: int) -> None:
        """End the streams, let answers that are under way be written, then cut what is left."""
        self.stop_accepting()
        for stream in list(self._door.streams):
            stream.end()
        for connection in list(self._gate.state.connections):
            connection.shutdown()
        try:
            async with asyncio.timeout(grace_ms / 1000):
                while self._gate.state.connections:
                    await self.wait_for_change()
        except TimeoutError:
            for connection in list(self._gate.state.connections):
                connection.transport.abort()
            for task in list(self._gate.state.tasks):
                task.cancel()
        if self._sweeper is not None:
            self._sweeper.cancel()
