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

from aios.engine.runner.gate import GATE, Gated
from aios.errors import InternalError

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
        run.end_early(run.completed(value) if error is None else run.judge(error))
    run.answer(future, value, error)
    run.gate.leave_thread()


def from_thread(run: Run, make: Callable[[], Coroutine[Any, Any, Value]]) -> Value:
    """Run a coroutine on the attempt's lane and wait for its value; called in one of its threads.

    Raises:
        CancelledError: The attempt is over.
        Evicted: The code is to run again later.
        InternalError: It is called where it would wait for itself.
    """
    run.check()
    if run.is_on_lane():
        raise InternalError(
            "a blocking call of the context was made on the event loop; await the async context instead"
        )
    answer: Future[Value] = Future()
    # A thread that the code has started by its own means runs uncounted, and is not missed while it waits either.
    run.lane.mailbox.post(_serve, run, make, answer, GATE.get() is run.gate)
    try:
        return answer.result()
    except asyncio.CancelledError:
        run.check()
        raise


def _serve(run: Run, make: Callable[[], Coroutine[Any, Any, Any]], answer: Future[Any], is_counted: bool) -> None:
    gate = run.gate
    if is_counted:
        gate.parked_threads += 1
        gate.leave_thread()

    def let_go() -> None:
        if is_counted:
            gate.parked_threads -= 1
            gate.enter_thread()

    def see_off(_: asyncio.Task[None]) -> None:
        """Let the thread go whose call was canceled before it began."""
        if not answer.done():
            let_go()
            answer.set_exception(asyncio.CancelledError())

    context = contextvars.copy_context()
    context.run(GATE.set, gate)
    code = Gated(_answer(make, answer, let_go), gate)
    task: asyncio.Task[None] = asyncio.Task(code, loop=run.lane.loop, context=context)
    gate.adopt(task)
    task.add_done_callback(see_off)


async def _answer(
    make: Callable[[], Coroutine[Any, Any, Any]], answer: Future[Any], let_go: Callable[[], None]
) -> None:
    error: BaseException | None = None
    value: Any = None
    try:
        value = await make()
    except BaseException as raised:  # It is the thread's to deal with.
        error = raised
    # No await between this step, which the gate has let through, and the thread's going on.
    let_go()
    if error is None:
        answer.set_result(value)
    else:
        answer.set_exception(error)
