"""Work that nobody waits for, or that must be finished though the one who waited has left."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import structlog

from aios.errors import AiosError

Result = TypeVar("Result")

_log = structlog.get_logger("aios.engine")


class Errands:
    """Coroutines that run to their end, whoever is canceled; what fails unheard is logged."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    def start(self, errand: Coroutine[Any, Any, Any], *, name: str) -> None:
        """Run it; nobody waits for it."""
        task = asyncio.get_running_loop().create_task(errand, name=name)
        self._running.add(task)
        task.add_done_callback(self._ended)

    async def see_through(self, errand: Coroutine[Any, Any, Result]) -> Result:
        """Wait for it; if the waiting is canceled, it goes on all the same.

        A commit must be followed by telling everybody, even though the connection that asked for it is gone.
        """
        task = asyncio.get_running_loop().create_task(errand)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.done():
                task.add_done_callback(self._ended)
            raise

    async def finish(self) -> None:
        """Wait until nothing runs."""
        while self._running:
            await asyncio.wait(set(self._running))

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if isinstance(error, AiosError):
            _log.warning("errand failed", errand=task.get_name(), error=str(error), error_id=error.error_id)
        elif error is not None:
            _log.error("errand failed", errand=task.get_name(), exc_info=error)
