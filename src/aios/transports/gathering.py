"""What is written in one turn of the event loop goes out at the turn's end, in one piece.

Each write is a system call that wakes the peer, and costs more than what led to it: a streamed answer has a header, a few events
and an end that mostly come together.
"""

from __future__ import annotations

import asyncio
from typing import Any

SIZE_MAX = 64 * 1024
"""So many bytes go out at once, so that it is soon seen whether they go away."""


class Gathering:
    """A transport that gathers. Whatever is not about writing goes to the transport beneath."""

    __slots__ = ("_loop", "_size", "_transport", "_waiting")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._waiting: list[bytes] = []
        self._size = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Have it written soon, after all that was written before."""
        if not self._waiting:
            self._loop.call_soon(self.flush)
        self._waiting.append(data)
        self._size += len(data)
        if self._size >= SIZE_MAX:
            self.flush()

    def write_now(self, data: bytes) -> None:
        """Write it, and what waits before it: for who knows that nothing follows."""
        self._waiting.append(data)
        self.flush()

    def flush(self) -> None:
        """Write what waits."""
        waiting = self._waiting
        if waiting:
            self._waiting, self._size = [], 0
            self._transport.write(waiting[0] if len(waiting) == 1 else b"".join(waiting))

    def is_closing(self) -> bool:
        """Whether nothing more will be sent."""
        return self._transport.is_closing()

    def get_write_buffer_size(self) -> int:
        """How much the peer has not taken yet."""
        return self._transport.get_write_buffer_size() + self._size

    def write_eof(self) -> None:
        """Write what waits, and say that it was the last."""
        self.flush()
        self._transport.write_eof()

    def bare(self) -> asyncio.Transport:
        """Give the transport beneath, for a protocol that writes in its own way; what waits is written first."""
        self.flush()
        return self._transport

    def close(self) -> None:
        """Write what waits, then close."""
        self.flush()
        self._transport.close()

    def abort(self) -> None:
        """Close at once; what waits is lost."""
        self._waiting, self._size = [], 0
        self._transport.abort()
