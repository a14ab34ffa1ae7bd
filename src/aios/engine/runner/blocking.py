"""How an attempt's threads and its lane speak: a thread is counted while it runs code, and calls the lane from inside.

A thread cannot be held from outside. So each call that it makes of its context is a checkpoint: it is made on the lane, behind
the attempt's gate, and while the gate is closed the thread waits in it.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

from aios.engine.runner import outcomes
from aios.engine.runner.gate import GATE, Gated

if TYPE_CHECKING:
    from aios.engine.runner.run import Run

Value = TypeVar("Value")


async def in_thread(run: Run, call: Callable[[], Value], *, is_last: bool) -> Value:
    """Run `call` in a thread that counts as the attempt's; on its lane.

    With `is_last` its value is the attempt's result: should the code be held when the thread ends, that is the attempt's end.
    """
    run.check()
    future: asyncio.Future[Value] = run.lane.loop.create_future()
    context = contextvars.copy_context()
    post = run.lane.mailbox.post

    def work() -> None:
        try:
            value = context.run(call)
        except BaseException as error:  # It is raised where the thread was asked for.
            post(_ended, run, future, None, error, is_last)
        else:
            post(_ended, run, future, value, None, is_last)

    run.gate.enter_thread()
    run.lane.threads.start(work)
    return await future


def _ended(run: Run, future: asyncio.Future[Any], value: Any, error: BaseException | None, is_last: bool) -> None:
    if isinstance(error, StopIteration):  # A future cannot carry it: it would end whoever awaits.
        error = RuntimeError(f"the code raised {error!r}")
    is_held = not run.gate.is_open
    if is_last and is_held and not (run.is_canceled or run.is_leaving):
        run.end_early(outcomes.completed(value) if error is None else run.judge(error))
    run.answer(future, value, error)
    run.gate.leave_thread()


def from_thread(run: Run, make: Callable[[], Coroutine[Any, Any, Value]]) -> Value:
    """Run a coroutine on the attempt's lane and wait for its value; called in one of its threads.

    Raises:
        CancelledError: The attempt is over.
        Evicted: The code is to run again later.
    """
    run.check()
    answer: Future[Value] = Future()
    run.lane.mailbox.post(_serve, run, make, answer)
    try:
        return answer.result()
    except asyncio.CancelledError:
        run.check()
        raise


def _serve(run: Run, make: Callable[[], Coroutine[Any, Any, Any]], answer: Future[Any]) -> None:
    gate = run.gate
    gate.parked_threads += 1
    gate.leave_thread()
    context = contextvars.copy_context()
    context.run(GATE.set, gate)
    task: asyncio.Task[None] = asyncio.Task(
        Gated(_answer(run, make, answer), gate), loop=run.lane.loop, context=context
    )
    gate.adopt(task)
    task.add_done_callback(lambda _: _see_off(run, answer))


async def _answer(run: Run, make: Callable[[], Coroutine[Any, Any, Any]], answer: Future[Any]) -> None:
    error: BaseException | None = None
    value: Any = None
    try:
        value = await make()
    except BaseException as raised:  # It is the thread's to deal with.
        error = raised
    # No await between this step, which the gate has let through, and the thread's going on.
    _let_thread_go(run)
    if error is None:
        answer.set_result(value)
    else:
        answer.set_exception(error)


def _see_off(run: Run, answer: Future[Any]) -> None:
    """Let the thread go whose call was canceled before it began."""
    if not answer.done():
        _let_thread_go(run)
        answer.set_exception(asyncio.CancelledError())


def _let_thread_go(run: Run) -> None:
    run.gate.parked_threads -= 1
    run.gate.enter_thread()
