"""What the gate holds and what it lets through, on a plain event loop."""

import asyncio
import contextvars
import threading
from collections.abc import AsyncGenerator, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from aios.engine.runner.gate import GATE, Evicted, Gate, Gated, Track, task_factory
from aios.errors import InternalError

WAIT_S = 5
TURNS = 20


async def turns() -> None:
    """Let the loop do all that is ready now."""
    for _ in range(TURNS):
        await asyncio.sleep(0)


def a_track() -> Track:
    loop = asyncio.get_running_loop()
    return Track(loop.call_soon_threadsafe, loop)


def a_gate() -> Gate:
    return Gate(a_track())


@asynccontextmanager
async def running(code: Coroutine[Any, Any, Any], gate: Gate) -> AsyncGenerator[asyncio.Task[Any]]:
    """Run code behind a gate, with the lanes' task factory."""
    loop = asyncio.get_running_loop()
    before = loop.get_task_factory()

    async def root() -> Any:
        GATE.set(gate)
        return await Gated(code, gate)

    task: asyncio.Task[Any] = asyncio.Task(root(), loop=loop)
    loop.set_task_factory(task_factory)  # type: ignore[arg-type]
    try:
        yield task
    finally:
        gate.open()
        task.cancel()
        await asyncio.wait([task], timeout=WAIT_S)
        loop.set_task_factory(before)


class Ticker:
    """Counts while it is let run; every tick is an await."""

    def __init__(self) -> None:
        self.ticks = 0

    async def run(self) -> None:
        while True:
            self.ticks += 1
            await asyncio.sleep(0)


async def test_a_coroutine_stops_at_its_next_await_when_the_gate_closes_and_goes_on_when_it_opens() -> None:
    gate, ticker = a_gate(), Ticker()
    async with running(ticker.run(), gate):
        await turns()
        gate.close()
        at = ticker.ticks
        assert at > 0
        await turns()
        assert ticker.ticks == at
        assert gate.is_blocked
        gate.open()
        await turns()
        assert ticker.ticks > at


async def test_the_children_of_a_task_group_stop_too() -> None:
    gate, tickers = a_gate(), [Ticker(), Ticker(), Ticker()]

    async def code() -> None:
        async with asyncio.TaskGroup() as group:
            for ticker in tickers:
                group.create_task(ticker.run())

    async with running(code(), gate):
        await turns()
        gate.close()
        counted = [ticker.ticks for ticker in tickers]
        assert min(counted) > 0
        await turns()
        assert [ticker.ticks for ticker in tickers] == counted
        gate.open()
        await turns()
        assert all(ticker.ticks > before for ticker, before in zip(tickers, counted, strict=True))


async def test_what_is_gathered_and_what_those_make_stops_too() -> None:
    gate, ticker, grandchild = a_gate(), Ticker(), Ticker()

    async def child() -> None:
        await asyncio.create_task(grandchild.run())

    async def code() -> None:
        await asyncio.gather(ticker.run(), child())

    async with running(code(), gate):
        await turns()
        gate.close()
        counted = ticker.ticks, grandchild.ticks
        assert min(counted) > 0
        await turns()
        assert (ticker.ticks, grandchild.ticks) == counted


async def test_a_task_made_in_an_empty_context_stops_too_and_so_do_those_it_makes() -> None:
    gate, grandchild = a_gate(), Ticker()

    async def child() -> None:
        await asyncio.create_task(grandchild.run())

    async def code() -> None:
        await asyncio.get_running_loop().create_task(child(), context=contextvars.Context())

    async with running(code(), gate):
        await turns()
        gate.close()
        at = grandchild.ticks
        assert at > 0
        await turns()
        assert grandchild.ticks == at


async def test_a_sleep_that_ends_while_the_gate_is_closed_takes_effect_when_it_opens() -> None:
    gate, told = a_gate(), list[str]()
    alarm: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def code() -> None:
        await alarm
        told.append("woken")

    async with running(code(), gate) as task:
        await turns()
        gate.close()
        alarm.set_result(None)
        await turns()
        assert told == []
        gate.open()
        await asyncio.wait_for(task, WAIT_S)
        assert told == ["woken"]


async def test_a_timeout_that_ran_out_meanwhile_is_raised_when_the_gate_opens() -> None:
    gate, told = a_gate(), list[str]()
    scopes: list[asyncio.Timeout] = []

    async def code() -> None:
        try:
            async with asyncio.timeout(None) as scope:
                scopes.append(scope)
                await asyncio.Event().wait()
        except TimeoutError:
            told.append("timed out")

    async with running(code(), gate) as task:
        await turns()
        gate.close()
        scopes[0].reschedule(0)
        await turns()
        assert told == []
        gate.open()
        await asyncio.wait_for(task, WAIT_S)
        assert told == ["timed out"]


async def test_a_sibling_that_fails_cancels_its_closed_in_siblings_only_when_the_gate_opens() -> None:
    gate, told = a_gate(), list[str]()
    fail: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def patient() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            told.append("canceled")

    async def code() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(patient())
            await fail

    async with running(code(), gate) as task:
        await turns()
        gate.close()
        fail.set_exception(ValueError("no"))
        await turns()
        assert told == []
        gate.open()
        with pytest.raises(ExceptionGroup):
            await asyncio.wait_for(task, WAIT_S)
        assert told == ["canceled"]


async def test_cancelling_and_opening_throws_before_any_more_code_runs() -> None:
    gate, ticker = a_gate(), Ticker()

    async def code() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(ticker.run())

    async with running(code(), gate) as task:
        await turns()
        gate.close()
        await turns()
        at = ticker.ticks
        task.cancel()
        gate.open()
        await asyncio.wait([task], timeout=WAIT_S)
        assert task.cancelled()
        assert ticker.ticks == at
        assert gate.is_empty


async def test_a_verdict_is_thrown_in_the_place_of_a_cancellation() -> None:
    gate, caught = a_gate(), list[BaseException]()

    async def code() -> None:
        try:
            await asyncio.Event().wait()
        except BaseException as error:
            caught.append(error)
            raise

    gated = Gated(code(), gate)
    task = asyncio.ensure_future(gated)
    await turns()
    gated.verdict = Evicted
    task.cancel()
    await asyncio.wait([task], timeout=WAIT_S)
    assert [type(error) for error in caught] == [Evicted]
    assert isinstance(task.exception(), Evicted)


async def test_a_coroutine_that_is_canceled_before_its_first_step_is_closed_quietly() -> None:
    gate, ticker = a_gate(), Ticker()
    task = asyncio.ensure_future(Gated(ticker.run(), gate))
    task.cancel()
    await asyncio.wait([task], timeout=WAIT_S)
    assert task.cancelled()
    assert ticker.ticks == 0


async def test_code_that_calls_exit_does_not_end_the_loop() -> None:
    gate = a_gate()

    async def code() -> None:
        raise SystemExit(3)

    async with running(code(), gate) as task:
        with pytest.raises(InternalError, match="SystemExit"):
            await asyncio.wait_for(task, WAIT_S)


async def test_a_gate_tells_when_code_could_go_on_and_when_nothing_of_the_attempt_is_left() -> None:
    told = list[str]()
    gate = Gate(
        a_track(),
        on_blocked=lambda: told.append("blocked"),
        on_still=lambda: told.append("empty" if gate.is_empty else "still"),
    )

    async def code() -> None:
        await asyncio.gather(asyncio.sleep(0), asyncio.sleep(0))

    async with running(code(), gate) as task:
        await asyncio.wait_for(task, WAIT_S)
        await turns()
        assert told[-1] == "empty"
        told.clear()
        gate.close()
        async with running(code(), gate):
            await turns()
            assert told == ["blocked"]


async def test_a_thread_that_the_code_starts_counts_until_it_ends() -> None:
    from aios.engine.runner.threads import Threads

    gate, may_end = a_gate(), threading.Event()
    loop, threads = asyncio.get_running_loop(), Threads(2)
    loop.set_default_executor(threads)

    async def code() -> None:
        await asyncio.to_thread(may_end.wait, WAIT_S)

    async with running(code(), gate) as task:
        await turns()
        assert gate.threads == 1
        assert not gate.is_empty
        may_end.set()
        await asyncio.wait_for(task, WAIT_S)
        await turns()
        assert gate.is_empty
    threads.stop()
    with ThreadPoolExecutor(1) as plain:
        loop.set_default_executor(plain)


async def test_a_library_that_asks_for_itself_again_and_again_is_kept_until_the_gate_opens() -> None:
    gate, turns_made, told = a_gate(), list[int](), list[str]()
    loop = asyncio.get_running_loop()
    before = loop.call_soon

    async def code() -> None:
        def again() -> None:
            turns_made.append(1)
            asyncio.get_running_loop().call_soon(again)

        asyncio.get_running_loop().call_soon(again)
        asyncio.get_running_loop().call_later(0, told.append, "later")
        await asyncio.Event().wait()

    async with running(code(), gate):
        gate.close()
        await turns()
        assert turns_made == []
        gate.open()
        await turns()
        gate.close()
        made = len(turns_made)
        assert made > 0
        await turns()
        assert len(turns_made) == made + 1
        gate.open()
        await turns()
        assert len(turns_made) > made + 1
        gate.close()
        handle = contextvars.copy_context().run(_asked, gate, loop)
        handle.cancel()
        assert handle.cancelled()
        gate.open()
    await turns()
    assert told == ["later"]
    assert loop.call_soon == before


def _asked(gate: Gate, loop: asyncio.AbstractEventLoop) -> asyncio.TimerHandle:
    GATE.set(gate)
    return loop.call_at(loop.time(), pytest.fail, "it was canceled")


async def test_a_scope_of_anyio_that_runs_out_while_the_gate_is_closed_takes_effect_when_it_opens() -> None:
    gate, told = a_gate(), list[str]()

    async def child() -> None:
        with anyio.move_on_after(0.01):
            await anyio.sleep(WAIT_S)
        told.append("moved on")

    async def code() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(child)
            group.start_soon(child)

    async with running(code(), gate) as task:
        await turns()
        gate.close()
        await asyncio.sleep(0.05)
        at = gate.steps
        await turns()
        assert gate.steps == at
        assert told == []
        gate.open()
        await asyncio.wait_for(task, WAIT_S)
        assert told == ["moved on", "moved on"]
