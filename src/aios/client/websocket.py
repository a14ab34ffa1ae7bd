"""The WebSocket as a channel."""

from __future__ import annotations

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from aios.client.channels import Channel, ChannelClosed, refusal
from aios.client.connections import ANSWER_SIZE_MAX, PROTOCOL_VERSION
from aios.client.discovery import Target, describe
from aios.client.tls import trust
from aios.errors import DaemonUnreachable

QUEUE_MAX = 64
"""Messages that wait for the reader before the socket is read no further."""


class WebSocketChannel:
    """One JSON-RPC message in each text frame."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket

    async def send(self, message: bytes) -> None:
        """See `Channel.send`."""
        try:
            await self._socket.send(message, text=True)
        except ConnectionClosed as error:
            raise ChannelClosed(describe(error)) from error

    async def receive(self) -> bytes:
        """See `Channel.receive`."""
        try:
            return await self._socket.recv(decode=False)
        except ConnectionClosed as error:
            raise ChannelClosed(describe(error)) from error

    async def close(self) -> None:
        """See `Channel.close`."""
        await self._socket.close()


async def open_websocket(target: Target, *, ca_file: str | None) -> Channel:
    """Connect to `ws(s)://host:port`; the path is `/aios/ws` unless the URL has one.

    Raises:
        AuthenticationRequired: The door wants another token.
        DaemonUnreachable: What answers is no daemon.
        OSError: Nobody answers.
    """
    endpoint = target.endpoint
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    headers = {"AIOS-Version": PROTOCOL_VERSION}
    if target.token:
        headers["Authorization"] = f"Bearer {target.token}"
    try:
        socket = await connect(
            f"{endpoint.scheme}://{host}:{endpoint.port}{endpoint.path or '/aios/ws'}",
            additional_headers=headers,
            ssl=trust(ca_file) if endpoint.scheme == "wss" else None,
            proxy=None,
            compression=None,
            max_size=ANSWER_SIZE_MAX,
            max_queue=QUEUE_MAX,
            close_timeout=1,
        )
    except InvalidStatus as error:
        raise refusal(error.response.status_code, target.url) from error
    except InvalidHandshake as error:
        raise DaemonUnreachable(f"{target.url} is no WebSocket of an AIOS daemon: {describe(error)}") from error
    return WebSocketChannel(socket)
