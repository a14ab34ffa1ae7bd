"""How a thread answers callers who wait in event loops: all of one loop at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any


class Call:
    """Something asked of a thread, and the future of whoever waits for it."""

    __slots__ = ("error", "future", "loop", "value")

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.value: Any = None
        self.error: BaseException | None = None


def _tell(calls: list[Call]) -> None:
    for call in calls:
        if call.future.done():
            continue  # Whoever asked was cancelled meanwhile.
        if call.error is not None:
            call.future.set_exception(call.error)
        else:
            call.future.set_result(call.value)


def answer(calls: Iterable[Call]) -> None:
    """Give everyone the value or the error, with one wake-up for each loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Call]] = {}
    for call in calls:
        by_loop.setdefault(call.loop, []).append(call)
    for loop, ready in by_loop.items():
        # A loop that was closed meanwhile has nobody left who waits.
        if not loop.is_closed():
            try:
                loop.call_soon_threadsafe(_tell, ready)
            except RuntimeError:
                if not loop.is_closed():
                    raise
