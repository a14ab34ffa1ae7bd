"""The Unix socket and TCP: newline-delimited JSON both ways (protocol.md §2)."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from pathlib import Path
from typing import cast

import structlog

from aios.config import DuplexSection
from aios.errors import ParseError
from aios.protocol.framing import LineReader
from aios.service.call import Principal
from aios.service.dispatcher import Service
from aios.transports.duplex import Duplex, peer_principal
from aios.transports.listening import BACKLOG, TLS_HANDSHAKE_TIMEOUT_MS, peer_uid, reachable, unlink_own

INBOX_SIZE_MAX = 256 * 1024
"""Bytes that were read and not looked at yet; past it the system keeps them, and then the peer."""

_log = structlog.get_logger("aios.doors")


class LineDoor:
    """Listens on one socket: Unix, where the peer is known by its uid, or TCP, where `aios/initialize` brings the credential."""

    def __init__(
        self,
        listener: socket.socket,
        *,
        service: Service,
        settings: DuplexSection,
        max_message_size: int,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.service = service
        self.settings = settings
        self.max_message_size = max_message_size
        self.is_unix = listener.family == socket.AF_UNIX
        self.connections: set[LineConnection] = set()
        self._listener = listener
        self._tls = None if self.is_unix else tls
        self._server: asyncio.Server | None = None
        self._path = Path(listener.getsockname()) if self.is_unix else None
        self._inode = self._path.lstat().st_ino if self._path else 0

    @property
    def name(self) -> str:
        """What the transport is called."""
        return "unix" if self.is_unix else "tcp"

    @property
    def url(self) -> str:
        """Where a TCP door is."""
        return f"{'tcps' if self._tls else 'tcp'}://{reachable(self._listener.getsockname())}"

    async def start(self) -> None:
        """Begin to accept."""
        loop = asyncio.get_running_loop()
        if self.is_unix:
            self._server = await loop.create_unix_server(self._accept, sock=self._listener, backlog=BACKLOG)
        else:
            timeout = TLS_HANDSHAKE_TIMEOUT_MS / 1000 if self._tls else None
            self._server = await loop.create_server(
                self._accept, sock=self._listener, backlog=BACKLOG, ssl=self._tls, ssl_handshake_timeout=timeout
            )

    def _accept(self) -> asyncio.Protocol:
        return LineConnection(self)

    def stop_accepting(self) -> None:
        """Take no new connection; the socket's file is removed at once, so that another daemon may have the place."""
        if self._server is not None:
            self._server.close()
        if self._path is not None:
            unlink_own(self._path, self._inode)

    async def stop(self, grace_ms: int) -> None:
        """Close what is open, after the answers that are being made, if they do not take longer."""
        self.stop_accepting()
        for connection in list(self.connections):
            connection.stop(grace_ms)
        await asyncio.gather(*(connection.ended() for connection in list(self.connections)))


class LineConnection(asyncio.Protocol):
    """One peer."""

    def __init__(self, door: LineDoor) -> None:
        self._door = door
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._duplex: Duplex
        self._inbox: deque[bytes] = deque()
        self._inbox_size = 0
        self._arrived = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._is_ended = False
        self._is_lost = False
        self._is_reading = True
        self._patience: asyncio.TimerHandle | None = None
        self._run: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to read, if there is room for one more."""
        self._transport = cast("asyncio.Transport", transport)
        if len(self._door.connections) >= self._door.settings.max_connections:
            _log.warning("too many connections", transport=self._door.name)
            self._transport.abort()
            return
        self._door.connections.add(self)
        self._duplex = Duplex(
            service=self._door.service,
            principal=self._principal(),
            transport=self._door.name,
            settings=self._door.settings,
            write=self._write,
            cut=self._transport.abort,
        )
        self._run = self._loop.create_task(self._serve(), name=f"{self._door.name} connection")

    def _principal(self) -> Principal | None:
        if not self._door.is_unix:
            return None
        return peer_principal(self._door.service.keys, peer_uid(self._transport.get_extra_info("socket")))

    def data_received(self, data: bytes) -> None:
        """Keep what arrived, up to a bound."""
        self._inbox.append(data)
        self._inbox_size += len(data)
        if self._inbox_size > INBOX_SIZE_MAX and self._is_reading:
            self._is_reading = False
            self._transport.pause_reading()
        self._arrived.set()

    def eof_received(self) -> bool:
        """The peer has said its last word; it may still want to hear ours."""
        self._is_ended = True
        self._arrived.set()
        return self._transport.get_extra_info("ssl_object") is None

    def stop(self, grace_ms: int) -> None:
        """Read nothing more."""
        if self._run is not None:
            self._duplex.stop(grace_ms)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is there any more; what has arrived is still carried out."""
        self._is_lost = self._is_ended = True
        self.resume_writing()
        self._arrived.set()

    def pause_writing(self) -> None:
        """The peer reads more slowly than we write; it has so long to catch up."""
        self._writable.clear()
        self._patience = self._loop.call_later(self._door.settings.write_timeout_ms / 1000, self._transport.abort)

    def resume_writing(self) -> None:
        """The peer has caught up."""
        self._writable.set()
        if self._patience is not None:
            self._patience.cancel()

    async def ended(self) -> None:
        """Wait until all is over."""
        if self._run is not None:
            await asyncio.wait({self._run})

    async def _write(self, body: bytes) -> None:
        # Looked at again each time: of all that waited only the first may find room.
        while not self._writable.is_set():
            await self._writable.wait()
        if self._is_lost or self._transport.is_closing():
            raise ConnectionResetError("the peer is gone")
        self._transport.write(body + b"\n")

    async def _serve(self) -> None:
        try:
            await self._duplex.serve(self._read)
        except Exception:
            _log.exception("connection failed", transport=self._door.name)
        finally:
            self._door.connections.discard(self)
            self._transport.close()

    async def _read(self) -> None:
        reader = LineReader(max_bytes=self._door.max_message_size)
        try:
            while True:
                for body in reader.feed(await self._next()):
                    await self._duplex.take(body)
        except ParseError as error:
            await self._duplex.refuse(error)
        except EOFError:
            return

    async def _next(self) -> bytes:
        """Give what arrived next. Raises: EOFError when nothing will."""
        while not self._inbox:
            if self._is_ended:
                if self._is_lost:
                    self._duplex.closing.set()
                raise EOFError
            self._arrived.clear()
            await self._arrived.wait()
        data = self._inbox.popleft()
        self._inbox_size -= len(data)
        if not self._is_reading and self._inbox_size <= INBOX_SIZE_MAX and not self._is_lost:
            self._is_reading = True
            self._transport.resume_reading()
        return data
