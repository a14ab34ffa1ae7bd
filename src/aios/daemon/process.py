"""The daemon as a process of its own: its loop, its signals, its log, and what it does to be quick."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterable
from typing import Any

import structlog
import uvloop

from aios.adapter import Adapter
from aios.config import Config
from aios.daemon import folder as data
from aios.daemon.composition import Daemon
from aios.daemon.cores import keep_together
from aios.errors import ValidationFailed
from aios.stores.sqlite.writer import WRITER_THREAD
from aios.transports.stdio import claim_output

SWITCH_INTERVAL_S = 0.0005
"""How long one thread may keep the interpreter while another waits: the store's writer must not wait long for the loop."""
FILES_MAX = 65_536
"""Open files that are asked of the system; each connection is one."""
GC_THRESHOLDS = (50_000, 20, 100)

_log = structlog.get_logger("aios.daemon")


def run(config: Config, *, adapters: Iterable[Adapter] = (), ready: Callable[[Daemon], None] | None = None) -> int:
    """Serve until a signal comes, on a loop of its own; gives the exit code. Raises: AiosError where it cannot start."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(serve(config, adapters=adapters, ready=ready))


async def serve(
    config: Config, *, adapters: Iterable[Adapter] = (), ready: Callable[[Daemon], None] | None = None
) -> int:
    """Serve until SIGTERM or SIGINT comes, or whoever speaks over standard input has closed it.

    Args:
        config: Everything that can be set.
        adapters: What the daemon can do.
        ready: Called once the daemon can be called; `daemon.url` says where.

    Returns:
        The exit code.

    Raises:
        AiosError: Something is in the way; nothing was left open.
    """
    _log_to_stderr()
    _tune()
    stdio = (0, claim_output()) if config.stdio.enabled else None
    daemon = Daemon(config, adapters=adapters, stdio=stdio)
    stopping = _heed_signals(daemon)
    await daemon.start()
    keeping = asyncio.ensure_future(keep_together([WRITER_THREAD]))
    try:
        _freeze()
        if ready is not None:
            ready(daemon)
        ends: set[asyncio.Future[Any]] = {asyncio.ensure_future(stopping.wait())}
        if daemon.stdio_ended is not None:
            ends.add(daemon.stdio_ended)
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        keeping.cancel()
        await daemon.stop()
    return 0


def _tune() -> None:
    """Be quick, and have room for as many connections as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_MAX if hard == resource.RLIM_INFINITY else min(FILES_MAX, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    # Before anything is read: what a long queue makes at the start is kept, and was looked through again and again.
    gc.set_threshold(*GC_THRESHOLDS)


def _freeze() -> None:
    """Look once more through what was made at the start, and never again."""
    gc.collect()
    gc.freeze()


def _heed_signals(daemon: Daemon) -> asyncio.Event:
    """Let the first signal stop the daemon in order, and the second at once: what was acknowledged is on disk."""
    stopping = asyncio.Event()

    def stop() -> None:
        if stopping.is_set():
            data.remove_note(daemon.config.folder, os.getpid())
            os._exit(1)
        stopping.set()

    def reload() -> None:
        try:
            daemon.reload_certificate()
        except ValidationFailed as error:
            _log.error("certificate not reloaded", reason=error.detail)

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop)
    loop.add_signal_handler(signal.SIGINT, stop)
    loop.add_signal_handler(signal.SIGHUP, reload)
    return stopping


def _log_to_stderr() -> None:
    """Log lines of warnings and what lies above, where they disturb neither answers nor the terminal."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
