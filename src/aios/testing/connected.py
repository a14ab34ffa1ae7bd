"""A whole daemon inside a test: real store, real sockets, all five doors, in a folder that goes away."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from aios.adapter import Adapter
from aios.config import load
from aios.daemon import Daemon

ANY_PORT = {"http.port": 0, "tcp.address": "127.0.0.1:0"}


class Connected:
    """A running daemon, and how to reach it."""

    def __init__(self, daemon: Daemon, *, stdin: int, stdout: int) -> None:
        self.daemon = daemon
        self.folder = daemon.config.folder
        self.token = daemon.token
        self.url = daemon.url
        self.tcp_url = daemon.tcp_url or ""
        self.socket_path = str(daemon.socket_path)
        self.stdin = stdin
        """A descriptor; what is written to it the daemon reads as its standard input."""
        self.stdout = stdout

    @property
    def websocket_url(self) -> str:
        """Where the WebSocket is."""
        return self.url.replace("http", "ws", 1) + "/aios/ws"


@asynccontextmanager
async def connected(
    *, adapters: Iterable[Adapter] = (), folder: Path | None = None, flags: Mapping[str, Any] | None = None
) -> AsyncGenerator[Connected]:
    """Run a daemon on this event loop, on free ports.

    Args:
        adapters: What it can do.
        folder: Its data; None: a new one that is removed at the end.
        flags: Settings by their dotted names, as `{"limits.max_queue_size": 5}`.
    """
    async with AsyncExitStack() as stack:
        if folder is None:
            # A short path: a Unix socket is to lie in it.
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="aios-")))
        settings = {**ANY_PORT, "store.folder": str(folder), "stdio.role": "owner", **(flags or {})}
        config = load(environ={"XDG_CONFIG_HOME": str(folder)}, flags=settings)
        reads, stdin = os.pipe()
        stdout, writes = os.pipe()
        for descriptor in (reads, stdout, writes):
            stack.callback(os.close, descriptor)
        daemon = Daemon(config, adapters=adapters, stdio=(reads, writes))
        try:
            await daemon.start()
            stack.push_async_callback(daemon.stop)
            yield Connected(daemon, stdin=stdin, stdout=stdout)
        finally:
            # The end of its input, at which the reading thread ends.
            os.close(stdin)
            if daemon.stdio_ended is not None:
                await asyncio.wait({daemon.stdio_ended}, timeout=5)
