"""The smallest client of HTTP/1.1 that can be trusted: raw sockets, whole answers, chunked streams, nothing else.

The load generator shares two cores with what it measures, so each microsecond here is missing there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

HEAD_END = b"\r\n\r\n"


class Broken(Exception):
    """The server answered what was not to be expected, or went away."""


class Wire(asyncio.Protocol):
    """One connection that is kept alive; one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.WriteTransport | None = None
        self._buffer = b""
        self._body: list[bytes] = []
        self._rest = -1
        """Bytes of a plain body still to come; -1: the header is being read; -2: the body is chunked."""
        self._status = b""
        self._answer: asyncio.Future[bytes] | None = None
        self._on_piece: Callable[[bytes], None] | None = None

    @classmethod
    async def open(cls, host: str, port: int) -> Wire:
        """Connect."""
        _, wire = await asyncio.get_running_loop().create_connection(cls, host, port)
        return wire

    def ask(self, request: bytes, on_piece: Callable[[bytes], None] | None = None) -> asyncio.Future[bytes]:
        """Send a request; the future gives the whole body, or, where `on_piece` takes the pieces as they come, nothing.

        Raises:
            Broken: The status is not 200, or the connection ended.
        """
        if self._transport is None or self._transport.is_closing():
            raise Broken("the connection is closed")
        self._answer = asyncio.get_running_loop().create_future()
        self._on_piece = on_piece
        self._transport.write(request)
        return self._answer

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not every loop's transports are asyncio's by class.
        self._transport = cast("asyncio.WriteTransport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(Broken(f"the server hung up ({exc})"))

    def data_received(self, data: bytes) -> None:
        self._buffer = self._buffer + data if self._buffer else data
        if self._rest == -1 and not self._read_head():
            return
        if self._rest == -2:
            self._read_chunks()
        else:
            self._read_plain()

    def _read_head(self) -> bool:
        end = self._buffer.find(HEAD_END)
        if end < 0:
            return False
        head = self._buffer[:end].lower()
        self._status = head[9:12]
        self._buffer = self._buffer[end + 4 :]
        at = head.find(b"content-length:")
        if at >= 0:
            self._rest = int(head[at + 15 :].split(b"\r\n", 1)[0])
        elif b"transfer-encoding: chunked" in head:
            self._rest = -2
        else:
            raise Broken("an answer without a length")
        return True

    def _read_plain(self) -> None:
        if len(self._buffer) >= self._rest:
            body, self._buffer = self._buffer[: self._rest], self._buffer[self._rest :]
            self._give(body)

    def _give(self, body: bytes) -> None:
        self._rest = -1
        answer, self._answer = self._answer, None
        if answer is None or answer.done():
            return
        if self._status == b"200":
            answer.set_result(body)
        else:
            answer.set_exception(Broken(f"{self._status.decode()}: {body[:500]!r}"))

    def _read_chunks(self) -> None:
        buffer, start = self._buffer, 0
        while (line := buffer.find(b"\r\n", start)) >= 0:
            size = int(buffer[start:line], 16)
            end = line + 2 + size
            if len(buffer) < end + 2:
                break
            piece, start = buffer[line + 2 : end], end + 2
            if size == 0:
                self._buffer = buffer[start:]
                body, self._body = b"".join(self._body), []
                self._give(body)
                return
            if self._on_piece is None:
                self._body.append(piece)
            else:
                self._on_piece(piece)
        self._buffer = buffer[start:]


def post(
    path: str, body: bytes, *, host: str, token: str = "", accept: str = "application/json", more: str = ""
) -> bytes:
    """Make the bytes of a request."""
    bearer = f"Authorization: Bearer {token}\r\n" if token else ""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nAccept: {accept}\r\n{bearer}{more}"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
