"""Callbacks that an attempt's code asks its event loop for while it is held: kept, and made when it goes on.

Code behind a closed gate does not run, but callbacks that it has set may: a timer of a library that cancels a scope and then
asks for itself again at each turn of the loop until the code has left the scope. That would turn for as long as the pause takes.
While any gate on a lane is closed, its loop therefore keeps what callbacks of a held attempt ask for. What tasks and futures ask
for passes: they always say in which context, and their coroutines are stopped by the gate itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from typing import Any, Protocol


class Keeper(Protocol):
    """Whose callbacks may have to be kept."""

    @property
    def is_open(self) -> bool:
        """Whether they need not be."""
        ...

    def keep(self, call: KeptCall) -> None:
        """Keep one until then."""
        ...


class KeptCall:
    """A callback that is kept; for whoever asked for it, a handle that can be canceled."""

    def __init__(self, loop: asyncio.AbstractEventLoop, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self._loop = loop
        self._callback = callback
        self._args = args
        self._context: Context = copy_context()
        self._when = loop.time()
        self._made: asyncio.Handle | None = None
        self._is_canceled = False

    def make(self) -> None:
        """Have it made now, unless it was canceled."""
        if not self._is_canceled:
            self._made = self._loop.call_soon(self._callback, *self._args, context=self._context)

    def cancel(self) -> None:
        """Do not make it."""
        self._is_canceled = True
        if self._made is not None:
            self._made.cancel()

    def cancelled(self) -> bool:
        """Whether it was canceled."""
        return self._is_canceled

    def when(self) -> float:
        """The time at which it was asked for: it is due as soon as its code goes on."""
        return self._when


def keep_calls(loop: asyncio.AbstractEventLoop, whose: ContextVar[Any]) -> None:
    """Have the loop keep what held attempts ask for, until `keep_no_calls`."""
    call_soon, call_later, call_at = loop.call_soon, loop.call_later, loop.call_at

    def kept(callback: Callable[..., object], args: tuple[Any, ...]) -> Any:
        keeper: Keeper | None = whose.get()
        if keeper is None or keeper.is_open:
            return None
        call = KeptCall(loop, callback, args)
        keeper.keep(call)
        return call

    def soon(callback: Callable[..., object], *args: Any, context: Context | None = None) -> Any:
        call = kept(callback, args) if context is None else None
        return call or call_soon(callback, *args, context=context)

    def later(delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Any:
        call = kept(callback, args) if context is None else None
        return call or call_later(delay, callback, *args, context=context)

    def at(when: float, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Any:
        call = kept(callback, args) if context is None else None
        return call or call_at(when, callback, *args, context=context)

    for name, stand_in in {"call_soon": soon, "call_later": later, "call_at": at}.items():
        setattr(loop, name, stand_in)


def keep_no_calls(loop: asyncio.AbstractEventLoop) -> None:
    """Let the loop be as it was."""
    for name in ("call_soon", "call_later", "call_at"):
        delattr(loop, name)
