"""The real `aios serve` as a process of its own, in a folder that outlives it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.faults.driver.wire import Http

AIOS = str(Path(sys.executable).with_name("aios"))
TOOLS = str(Path(__file__).with_name("tools.py"))
READY = re.compile(r"aios is ready at (http://\S+) ")
PATIENCE_S = 30.0
"""How long anything may take that is not what a test is about."""
LINES_MAX = 10_000


def environment(folder: Path) -> dict[str, str]:
    """Give what a daemon is to know of the world; it keeps its bytecode, or each start would compile the house."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "FAULTS_LEDGER": str(folder / "ledger.jsonl"),
        "AIOS_LIMITS__MAX_CRASHES": "1000000",
        "AIOS_LIMITS__MAX_CONCURRENT_TASKS": "12",
    }


class Daemon:
    """A daemon that is started, killed, and started again on the same data.

    Args:
        folder: Holds the data folder and the ledger.
        environ: Besides the usual.
        arguments: Of `aios serve`, besides the usual.
        prefix: A command that is to run the daemon.
        seen: The folder as we see it, where the daemon sees another disk there.
    """

    def __init__(
        self,
        folder: Path,
        *,
        environ: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
        prefix: Sequence[str] = (),
        seen: Path | None = None,
    ) -> None:
        self.folder = seen or folder
        self.data = self.folder / "data"
        self._own_folder = str(folder / "data")
        self.environ = {**environment(folder), **(environ or {})}
        self.url = ""
        self.lines: list[str] = []
        """What it wrote to standard error, over all its lives."""
        self.up = asyncio.Event()
        """Set while it may be called."""
        self.starts = 0
        self.pids: dict[int, int] = {}
        """Of each of its lives."""
        self._arguments = list(arguments)
        self._prefix = list(prefix)
        self._connections: list[Http] = []
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        """Where HTTP is."""
        return int(self.url.rpartition(":")[2])

    def connect(self) -> Http:
        """Make a connection to the daemon of now; closed when it ends."""
        self._connections.append(Http(self.port, self.token))
        return self._connections[-1]

    @property
    def token(self) -> str:
        """The owner's."""
        return (self.data / "token").read_text("ascii").strip()

    @property
    def socket_path(self) -> str:
        """Where the Unix socket is."""
        return str(self.data / "aios.sock")

    @property
    def process(self) -> asyncio.subprocess.Process:
        """The process that was started last."""
        assert self._process is not None
        return self._process

    @property
    def ledger(self) -> list[dict[str, Any]]:
        """What its capabilities have done, in all its lives."""
        path = self.folder / "ledger.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    async def launch(self, **environ: str) -> None:
        """Start the process, and wait for nothing."""
        self.starts += 1
        self.up.clear()
        self._process = await asyncio.create_subprocess_exec(
            *[*self._prefix, AIOS, "serve", "--data", self._own_folder, "--port", "0", "--adapter", TOOLS],
            *self._arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env={**self.environ, **environ},
        )
        self.pids[self.starts] = self._process.pid
        self._reading = asyncio.create_task(self._read(self._process))

    async def start(self, **environ: str) -> None:
        """Start it and wait until it can be called."""
        await self.launch(**environ)
        assert await self.comes_up(), f"it ended with {self.process.returncode}:\n" + "\n".join(self.lines[-20:])

    async def comes_up(self) -> bool:
        """Wait until it can be called, or has ended; say which."""
        assert self._reading is not None
        up = asyncio.ensure_future(self.up.wait())
        await asyncio.wait({up, self._reading}, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
        is_up = up.done()
        up.cancel()
        assert is_up or self._reading.done(), "it neither came up nor ended"
        return is_up

    async def kill(self) -> None:
        """Kill it: nothing is flushed, nobody is told."""
        self.up.clear()
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGKILL)
        await self.ended()

    async def stop(self) -> int:
        """Ask it to stop; gives the exit code."""
        self.up.clear()
        self.process.send_signal(signal.SIGTERM)
        return await self.ended()

    async def ended(self) -> int:
        """Wait until it has ended by itself; gives the exit code, negative for a signal."""
        code = await asyncio.wait_for(self.process.wait(), PATIENCE_S)
        assert self._reading is not None
        await self._reading
        for connection in self._connections:
            connection.close()
        self._connections.clear()
        return code

    @property
    def complaints(self) -> list[str]:
        """Lines of its log that tell of what nobody foresaw."""
        return [line for line in self.lines if "level=error" in line or "Traceback" in line]

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        async for line in process.stderr:
            text = line.decode("utf-8", "replace").rstrip()
            if len(self.lines) < LINES_MAX:
                self.lines.append(text)
            ready = READY.match(text)
            if ready:
                self.url = ready[1]
                self.up.set()
        self.up.clear()
