"""Calls for the event loop of another thread: however many are posted, the loop is woken once.

Waking a loop costs a system call and a change of threads, far more than the call itself. So what is posted is gathered, and
whatever has come by the time the loop gets to it is carried out in one go, in the order in which it was posted.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context
from typing import Any

import structlog

_log = structlog.get_logger("aios.runner")


class Mailbox:
    """The calls that wait for one event loop. `post` may be called from any thread."""

    __slots__ = ("_calls", "_context", "_is_signaled", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._calls: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._is_signaled = False
        self._context = Context()
        """Empty: what one thread knows of whom it works for is no business of the other's."""

    def post(self, call: Callable[..., object], *arguments: Any) -> None:
        """Have `call(*arguments)` made on the loop, soon. A loop that is closed makes no calls any more."""
        self._calls.append((call, arguments))
        # Appended before the look at the mark, which `_drain` takes away before it empties the queue: none is overlooked.
        if not self._is_signaled:
            self._is_signaled = True
            self._wake()

    def _wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._drain, context=self._context)
        except RuntimeError:
            if not self._loop.is_closed():
                raise
            self._calls.clear()

    def _drain(self) -> None:
        self._is_signaled = False
        calls = self._calls
        for _ in range(len(calls)):  # What comes meanwhile wakes the loop anew: others have their turn between.
            call, arguments = calls.popleft()
            try:
                call(*arguments)
            except Exception:
                _log.exception("a posted call failed", call=getattr(call, "__qualname__", repr(call)))
