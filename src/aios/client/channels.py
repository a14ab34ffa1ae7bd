"""Whole messages over one open connection: a text frame each on a WebSocket, a line each on a socket."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Protocol

from aios.client.connections import ANSWER_SIZE_MAX, CONNECT_TIMEOUT_MS
from aios.client.discovery import Endpoint, Target, describe
from aios.client.tls import trust
from aios.errors import AiosError, AuthenticationRequired, DaemonUnreachable


class ChannelClosed(Exception):
    """The other side is gone."""


class Channel(Protocol):
    """An open connection that carries messages."""

    async def send(self, message: bytes) -> None:
        """Raises: ChannelClosed."""
        ...

    async def receive(self) -> bytes:
        """Raises: ChannelClosed."""
        ...

    async def close(self) -> None:
        """Close, without waiting for the other side."""
        ...


class LineChannel:
    """Newline-delimited JSON on a Unix or TCP socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, message: bytes) -> None:
        """See `Channel.send`."""
        try:
            self._writer.write(message + b"\n")
            await self._writer.drain()
        except OSError as error:
            raise ChannelClosed(describe(error)) from error

    async def receive(self) -> bytes:
        """See `Channel.receive`."""
        try:
            return await self._reader.readuntil(b"\n")
        except asyncio.IncompleteReadError as error:
            raise ChannelClosed("the daemon closed the connection") from error
        except asyncio.LimitOverrunError as error:
            raise ChannelClosed(f"a message is larger than {ANSWER_SIZE_MAX} bytes") from error
        except OSError as error:
            raise ChannelClosed(describe(error)) from error

    async def close(self) -> None:
        """See `Channel.close`."""
        self._writer.close()
        # That the other side has broken it off already is no matter: it is closed.
        with suppress(OSError):
            await self._writer.wait_closed()


async def open_channel(target: Target, *, ca_file: str | None) -> Channel:
    """Connect to `unix:`, `tcp(s):` or `ws(s):`.

    Raises:
        DaemonUnreachable: Nobody listens there.
        AiosError: The WebSocket's door refused us, for want of a credential perhaps.
    """
    endpoint = target.endpoint
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_MS / 1000):
            if endpoint.scheme in {"ws", "wss"}:
                return await _open_websocket(target, ca_file)
            return LineChannel(*await _open_socket(endpoint, ca_file))
    except (OSError, TimeoutError) as error:
        raise DaemonUnreachable(f"no daemon answers at {target.url}: {describe(error)}") from error


async def _open_socket(endpoint: Endpoint, ca_file: str | None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if endpoint.scheme == "unix":
        return await asyncio.open_unix_connection(endpoint.path, limit=ANSWER_SIZE_MAX)
    tls = trust(ca_file) if endpoint.scheme == "tcps" else None
    return await asyncio.open_connection(endpoint.host, endpoint.port, limit=ANSWER_SIZE_MAX, ssl=tls)


async def _open_websocket(target: Target, ca_file: str | None) -> Channel:
    # Loaded only by those who use it: half of a bare client's start.
    from aios.client.websocket import open_websocket

    return await open_websocket(target, ca_file=ca_file)


def refusal(status: int, where: str) -> AiosError:
    """What a door means that answers a WebSocket upgrade with this status."""
    if status in {401, 403}:
        return AuthenticationRequired(
            f"{where} refuses the connection with status {status}; is the token right (AIOS_TOKEN)?"
        )
    return DaemonUnreachable(f"{where} answers, but not as an AIOS daemon does: status {status}")
