"""A daemon as one object: opened, listening, closed. `process.py` makes a process of it, `aios.testing` a fixture."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import ssl
from collections.abc import Iterable
from contextlib import AsyncExitStack
from functools import partial
from importlib.metadata import version
from pathlib import Path

from aios.adapter import Adapter
from aios.config import Config, split_address
from aios.daemon import folder as data
from aios.engine.clock import SystemClock
from aios.engine.engine import Engine
from aios.engine.registry import Registry
from aios.engine.runner import Runner
from aios.engine.vault import Vault
from aios.failpoints import failpoint
from aios.service.call import ROLES, Principal
from aios.service.dispatcher import Service
from aios.service.key import OWNER, Keys
from aios.stores.sqlite import SqliteStore
from aios.transports.http import HttpDoor
from aios.transports.http_pages import Pages
from aios.transports.http_server import HttpServer
from aios.transports.listening import listen_tcp, listen_unix, load_certificate, tls_context
from aios.transports.metrics import Metrics
from aios.transports.sockets import LineDoor
from aios.transports.stdio import StdioDoor
from aios.transports.websocket import WebSocketDoor

VERSION = version("aiosd")
DOORS_GRACE_MS = 1_000
"""How long answers that are being made when the daemon stops may take."""
ENGINE_GRACE_MS = 1_500
"""How long running attempts may then take to reach a step; with the doors' grace, and with all that the runner may take besides
for code that hears nothing, it is five seconds at most."""
INSTRUCTIONS = "A durable task service: create tasks on capabilities, follow them, answer what they ask."


class Daemon:
    """Store, engine, service and doors.

    Args:
        adapters: What the daemon can do.
        stdio: Descriptors to read from and write to, where the door of standard input and output is wanted.
    """

    def __init__(
        self, config: Config, *, adapters: Iterable[Adapter] = (), stdio: tuple[int, int] | None = None
    ) -> None:
        self.config = config
        self._adapters = list(adapters)
        self._stdio_descriptors = stdio
        self._opened: AsyncExitStack | None = None
        self._lines: list[LineDoor] = []
        self._tls: ssl.SSLContext | None = None
        self._stdio: StdioDoor | None = None
        self.stdio_ended: asyncio.Task[None] | None = None
        """Done when whoever started the daemon has closed its end."""
        self.token = ""
        """The owner's."""
        self.url = ""
        """Of the HTTP door, as soon as it is bound."""
        self.socket_path: Path | None = None
        self.tcp_url: str | None = None
        self.service: Service
        self.engine: Engine
        self.http: HttpServer
        self._websocket: WebSocketDoor

    async def start(self) -> None:
        """Open everything; when this returns the daemon can be called.

        Raises:
            AiosError: Something is in the way; the sentence says what, and nothing was left open.
        """
        async with AsyncExitStack() as opening:
            folder = self.config.folder
            data.prepare(folder)
            clock = SystemClock(asyncio.get_running_loop())
            store = await self._open_store(folder, clock)
            opening.push_async_callback(store.close)
            self.token = data.token(folder)
            self._tls = tls_context(self.config.tls)
            self.engine, runner = self._make_engine(store, clock)
            info = {"name": "aios-daemon", "version": VERSION, "instructions": INSTRUCTIONS}
            self.service = Service(engine=self.engine, keys=Keys(self.token, os.geteuid()), server_info=info)
            await self._bind(opening)
            await self.engine.start(runner)
            opening.push_async_callback(self.engine.stop, ENGINE_GRACE_MS)
            await self._open_doors(opening)
            data.put_note(folder, self._note())
            opening.callback(data.remove_note, folder, os.getpid())
            self._opened = opening.pop_all()

    async def _open_store(self, folder: Path, clock: SystemClock) -> SqliteStore:
        opening = partial(SqliteStore.open, folder, limits=self.config.limits, now=clock.now)
        return await asyncio.get_running_loop().run_in_executor(None, opening)

    def _make_engine(self, store: SqliteStore, clock: SystemClock) -> tuple[Engine, Runner]:
        registry = Registry()
        for adapter in self._adapters:
            registry.add(adapter)
        vault = Vault(data.master_key(self.config.key_file))
        engine = Engine(
            store=store,
            registry=registry,
            clock=clock,
            limits=self.config.limits,
            vault=vault,
            worker=f"{os.getpid()}-{secrets.token_hex(8)}",
            retention_days=self.config.retention.days,
        )
        runner = Runner(engine=engine, registry=registry, clock=clock, limits=self.config.limits, vault=vault)
        return engine, runner

    async def _bind(self, opening: AsyncExitStack) -> None:
        """Take all addresses before anything runs: that a port is taken must not be found out half-way."""
        config = self.config
        listener = await listen_tcp(config.http.host, config.http.port, door="http", tls=config.tls)
        opening.callback(listener.close)
        self.http = self._make_http(listener)
        if config.unix.enabled:
            self.socket_path = Path(config.unix.path)
            self._add_line(listen_unix(self.socket_path), opening)
        if config.tcp.address:
            host, port = split_address(config.tcp.address)
            listener = await listen_tcp(host, port, door="tcp.address", tls=config.tls)
            self.tcp_url = self._add_line(listener, opening).url
        self.url = self.http.url

    def _add_line(self, listener: socket.socket, opening: AsyncExitStack) -> LineDoor:
        opening.callback(listener.close)
        line = LineDoor(
            listener,
            service=self.service,
            settings=self.config.duplex,
            max_message_size=self.config.limits.max_message_size,
            tls=self._tls,
        )
        opening.callback(line.stop_accepting)
        self._lines.append(line)
        return line

    def _make_http(self, listener: socket.socket) -> HttpServer:
        config = self.config
        self._websocket = WebSocketDoor(service=self.service, settings=config.duplex, is_draining=self._is_draining)
        door = HttpDoor(
            service=self.service,
            max_streams=config.http.max_streams,
            unready=self._unready,
            websocket=self._websocket,
        )
        http = HttpServer(
            listener,
            door=door,
            settings=config.http,
            duplex=config.duplex,
            max_message_size=config.limits.max_message_size,
            tls=self._tls,
        )
        metrics = Metrics(
            service=self.service,
            connections=self.open_connections,
            streams=lambda: len(door.streams),
            requests=lambda: http.requests,
        )
        Pages(door=door, service=self.service, metrics=metrics.text)
        return http

    def _is_draining(self) -> bool:
        return self.http.is_draining

    def _unready(self) -> str | None:
        health = self.engine.health()
        return None if health.is_writable else health.reason or "the store cannot write"

    def open_connections(self) -> dict[str, int]:
        """How many there are, by door."""
        lines = {line.name: len(line.connections) for line in self._lines}
        return {"http": self.http.connections, "websocket": self._websocket.connections, **lines}

    async def _open_doors(self, opening: AsyncExitStack) -> None:
        opening.push_async_callback(self._stop_doors)
        for line in self._lines:
            await line.start()
        await self.http.start()
        if self._stdio_descriptors is not None:
            reading, writing = self._stdio_descriptors
            role = self.config.stdio.role
            self._stdio = StdioDoor(
                service=self.service,
                principal=Principal(OWNER.user, ROLES if role == "owner" else frozenset({role})),
                settings=self.config.duplex,
                max_message_size=self.config.limits.max_message_size,
                output=writing,
                input=reading,
            )
            self.stdio_ended = asyncio.get_running_loop().create_task(self._stdio.run(), name="stdio")

    async def _stop_doors(self) -> None:
        for line in self._lines:
            line.stop_accepting()
        self._websocket.stop(DOORS_GRACE_MS // 2)
        if self._stdio is not None:
            self._stdio.stop(DOORS_GRACE_MS // 2)
        stops = [self.http.stop(DOORS_GRACE_MS), *(line.stop(DOORS_GRACE_MS) for line in self._lines)]
        if self.stdio_ended is not None:
            stops.append(_ended(self.stdio_ended, DOORS_GRACE_MS))
        await asyncio.gather(*stops)
        failpoint("stop.doors_closed")

    def _note(self) -> data.Note:
        socket_path = str(self.socket_path) if self.socket_path else None
        return data.Note(url=self.url, socket=socket_path, tcp=self.tcp_url, pid=os.getpid(), version=VERSION)

    def reload_certificate(self) -> None:
        """Read the certificate again, for connections to come. Raises: ValidationFailed, and the old one stays."""
        if self._tls is not None:
            load_certificate(self._tls, self.config.tls)

    async def stop(self) -> None:
        """Take nothing more in, let running attempts reach a step or give them back, close the store."""
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.aclose()


async def _ended(task: asyncio.Task[None], grace_ms: int) -> None:
    await asyncio.wait({task}, timeout=grace_ms / 1000)
    task.cancel()
    await asyncio.wait({task})
