"""One connection on which both sides speak, whatever cuts messages out of its bytes: WebSocket, Unix socket, TCP, stdio.

Requests are worked on side by side and answered as they are done. What a peer may make us keep is bounded: so many requests at
once, then nothing more is read; so many bytes that it does not read, then it is cut off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from aios.config import DuplexSection
from aios.errors import AuthenticationRequired, ParseError
from aios.protocol import jsonrpc
from aios.service.call import Principal
from aios.service.dispatcher import Service
from aios.service.key import Keys

GRACE_MS = 5_000
"""How long calls go on after their connection is gone: enough for what was asked in passing, and no wait for ever."""
HALF_OPEN_MS = 60_000
"""How long a peer that has said its last word is given its answers."""

_log = structlog.get_logger("aios.doors")

Write = Callable[[bytes], Awaitable[None]]


class Duplex:
    """The part that all such doors share.

    Args:
        write: Puts one message on the wire and waits while the peer is slow; raises OSError when it is gone.
        cut: Ends the connection at once.
        principal: None where `aios/initialize` is to bring the credential.
    """

    def __init__(
        self,
        *,
        service: Service,
        principal: Principal | None,
        transport: str,
        settings: DuplexSection,
        write: Write,
        cut: Callable[[], None],
    ) -> None:
        self._service = service
        self._settings = settings
        self._write = write
        self._cut = cut
        self._room = asyncio.Semaphore(settings.max_in_flight)
        self._working: set[asyncio.Task[None]] = set()
        self._unsent = 0
        self._grace_ms = GRACE_MS
        self.closing = asyncio.Event()
        """Nothing more is to be read, and no answer is to be waited for long."""
        self._connection = service.connect(principal, transport=transport, is_duplex=True, send=self.send)

    async def serve(self, read: Callable[[], Awaitable[None]], *, awaits_handshake: bool = True) -> None:
        """Read until the peer has said its last word and has its answers, or until nothing more is to be read.

        Args:
            read: Calls `take` with each message; it ends with the last one.
            awaits_handshake: Cut the peer off unless it introduces itself in time.
        """
        handshake = self._expect_handshake() if awaits_handshake else None
        reading = asyncio.ensure_future(read())
        closing = asyncio.ensure_future(self.closing.wait())
        try:
            await asyncio.wait({reading, closing}, return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                reading.result()
            await self._finish(closing)
        finally:
            if handshake is not None:
                handshake.cancel()
            reading.cancel()
            closing.cancel()
            await self._close()

    def _expect_handshake(self) -> asyncio.TimerHandle:
        def look() -> None:
            if self._connection.session is None:
                _log.info("no handshake in time", transport=self._connection.transport)
                self.closing.set()
                self._cut()

        return asyncio.get_running_loop().call_later(self._settings.handshake_timeout_ms / 1000, look)

    def stop(self, grace_ms: int) -> None:
        """Read nothing more, and give what is being worked on so long."""
        self._grace_ms = grace_ms
        self.closing.set()

    async def take(self, body: bytes) -> None:
        """Begin to work on a message; waits while too many are being worked on."""
        await self._room.acquire()
        task = asyncio.get_running_loop().create_task(self._work(body))
        self._working.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._working.discard(task)
        self._room.release()

    async def _work(self, body: bytes) -> None:
        try:
            reply = await self._service.receive(self._connection, body)
            if reply is None:
                return
            if reply.body:
                await self.send(reply.body)
            for subscription in reply.subscriptions:
                self._connection.start(subscription)
            if reply.closes:
                self.closing.set()
        except OSError:
            # The peer is gone; whoever reads from it sees that too.
            self.closing.set()
        except Exception:
            _log.exception("message failed", transport=self._connection.transport)
            self.closing.set()

    async def send(self, body: bytes) -> None:
        """Send a message, and wait while the peer is slow. Raises: OSError when it is gone, or was cut off."""
        self._unsent += len(body)
        try:
            if self._unsent > self._settings.max_output_size:
                _log.warning("peer reads too little", transport=self._connection.transport, bytes=self._unsent)
                self._cut()
                raise ConnectionResetError("the peer reads too little")
            await self._write(body)
        finally:
            self._unsent -= len(body)

    async def refuse(self, error: ParseError) -> None:
        """Say why nothing more is read, if the peer still listens."""
        try:
            await self.send(jsonrpc.failure(None, error))
        except OSError:
            self.closing.set()

    async def _finish(self, closing: asyncio.Future[Any]) -> None:
        """Let the work that was begun come to its end and its answers be sent."""
        until = asyncio.get_running_loop().time() + HALF_OPEN_MS / 1000
        while self._working and not closing.done():
            rest = until - asyncio.get_running_loop().time()
            if rest <= 0:
                return
            await asyncio.wait({*self._working, closing}, timeout=rest, return_when=asyncio.FIRST_COMPLETED)

    async def _close(self) -> None:
        """Stop sending events, and after a while what is still being worked on. Tasks go on."""
        try:
            await self._connection.close()
            if self._working:
                await asyncio.wait(set(self._working), timeout=self._grace_ms / 1000)
        finally:
            for task in self._working:
                task.cancel()
        if self._working:
            await asyncio.wait(set(self._working))


def peer_principal(keys: Keys, uid: int | None) -> Principal | None:
    """Say who a peer is by its uid; None where that says nothing."""
    try:
        return keys.authenticate(None, uid)
    except AuthenticationRequired:
        return None
