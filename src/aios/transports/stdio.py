"""Standard input and output as a door, for a program that starts the daemon as its child (protocol.md §2).

What code prints would break the framing, so standard output is re-pointed to standard error and only the door keeps the real
one. Reading and writing block, each in a thread of its own: the other end may be a pipe, a terminal or a file, and none of them
is to be switched to another mode, because others may hold it too.
"""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from collections.abc import Callable
from typing import Any

import structlog

from aios.config import DuplexSection
from aios.errors import ParseError
from aios.protocol.framing import OpeningReader
from aios.service.call import Principal
from aios.service.dispatcher import Service
from aios.transports.duplex import Duplex

CHUNK_SIZE = 64 * 1024

_log = structlog.get_logger("aios.doors")


def claim_output() -> int:
    """Keep the real standard output for the door and let everybody else print to standard error."""
    mine = os.dup(1)
    os.dup2(2, 1)
    return mine


class _Thread:
    """One thread that does blocking calls one after the other, and keeps no process from ending."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._orders: queue.SimpleQueue[tuple[Callable[[], Any], asyncio.Future[Any]]] = queue.SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    async def call(self, order: Callable[[], Any]) -> Any:
        """Call it there and give what it gives."""
        future: asyncio.Future[Any] = self._loop.create_future()
        self._orders.put((order, future))
        return await future

    def _run(self) -> None:
        while True:
            order, future = self._orders.get()
            outcome: Any = None
            failure: OSError | None = None
            try:
                outcome = order()
            except OSError as error:
                failure = error
            try:
                self._loop.call_soon_threadsafe(_settle, future, outcome, failure)
            except RuntimeError:
                # The loop is closed: nobody waits any more.
                return


def _settle(future: asyncio.Future[Any], outcome: Any, failure: OSError | None) -> None:
    if future.done():
        return
    if failure is None:
        future.set_result(outcome)
    else:
        future.set_exception(failure)


class StdioDoor:
    """The one connection that the starting program has.

    Args:
        principal: Whom the starting program speaks for.
        output: What `claim_output` gave.
    """

    def __init__(
        self,
        *,
        service: Service,
        principal: Principal,
        settings: DuplexSection,
        max_message_size: int,
        output: int,
        input: int = 0,
    ) -> None:
        self._service = service
        self._principal = principal
        self._settings = settings
        self._reader = OpeningReader(max_bytes=max_message_size)
        self._input = input
        self._output = output
        self._duplex: Duplex | None = None
        self._outbox: _Thread
        self._is_lost = False

    async def run(self) -> None:
        """Serve until the input ends and all is answered, or the output is gone."""
        self._outbox = _Thread("stdio writer")
        self._duplex = Duplex(
            service=self._service,
            principal=self._principal,
            transport="stdio",
            settings=self._settings,
            write=self._write,
            cut=self._cut,
        )
        await self._duplex.serve(self._read, awaits_handshake=False)

    def stop(self, grace_ms: int = 0) -> None:
        """Read nothing more."""
        if self._duplex is not None:
            self._duplex.stop(grace_ms)

    async def _read(self) -> None:
        inbox = _Thread("stdio reader")
        duplex = self._duplex
        if duplex is None:
            return
        try:
            while data := await inbox.call(lambda: os.read(self._input, CHUNK_SIZE)):
                for body in self._reader.feed(data):
                    await duplex.take(body)
            self._reader.end()
        except ParseError as error:
            _log.warning("standard input is out of step", reason=error.detail)
            await duplex.refuse(error)

    async def _write(self, body: bytes) -> None:
        if self._is_lost:
            raise ConnectionResetError("the output is gone")
        frame = self._reader.frame(body)
        await self._outbox.call(lambda: _write_all(self._output, frame))

    def _cut(self) -> None:
        self._is_lost = True
        self.stop()


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
