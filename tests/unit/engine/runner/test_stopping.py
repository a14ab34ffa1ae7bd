"""Cancel, timeouts, code that does not listen, and the daemon's own end."""

import asyncio
import threading
import time
from pathlib import Path

import pytest

from aios.adapter import BlockingContext, Context
from aios.engine.runner import run as run_module
from aios.engine.runner.lanes import LANES_MAX
from aios.errors import InternalError
from aios.model import OnCrash, Retry, Status
from aios.testing.clock import ManualClock
from tests.unit.engine.runner.workshop import PATIENCE_S, Signal, open_workshop


async def test_a_canceled_thread_raises_at_its_next_call_of_the_context() -> None:
    begun, may_go, ended = Signal(), Signal(), Signal()
    told = list[str]()

    def work(ctx: BlockingContext) -> None:
        begun.set()
        may_go.wait()
        try:
            ctx.progress(50)
        except asyncio.CancelledError:
            told.append(f"canceled: {ctx.is_canceled}")
            raise
        finally:
            ended.set()

    async def code(ctx: Context) -> None:
        await ctx.in_thread(work)

    async with open_workshop() as shop:
        task = await shop.create(code)
        await begun.reached()
        await shop.engine.cancel(task.task_id)
        await shop.settle()
        assert (await shop.store.task(task.task_id)).worker is not None
        may_go.set()
        await ended.reached()
        await shop.released(task)
        assert told == ["canceled: True"]


async def test_a_thread_that_waits_in_a_call_is_woken_by_cancel() -> None:
    asked, ended = Signal(), Signal()

    def work(ctx: BlockingContext) -> None:
        asked.set()
        try:
            ctx.ask("Which?")
        finally:
            ended.set()

    async def code(ctx: Context) -> None:
        await ctx.in_thread(work)

    async with open_workshop() as shop:
        task = await shop.create(code)
        await shop.wait(task, Status.INPUT_REQUIRED)
        await shop.engine.cancel(task.task_id)
        await ended.reached()


async def test_code_that_swallows_cancellation_keeps_its_slot_until_it_really_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_module, "CANCEL_AGAIN_MS", 1)
    begun, may_end, swallowed = Signal(), Signal(), list[int]()

    async def code(_: Context) -> str:
        begun.set()
        while not may_end.is_set:
            try:
                await may_end.reached()
            except asyncio.CancelledError:
                swallowed.append(1)
        return "too late"

    async with open_workshop(max_concurrent_tasks=2) as shop:
        task = await shop.create(code)
        await begun.reached()
        assert (await shop.engine.cancel(task.task_id)).status is Status.CANCELED
        await shop.settle(nap_ms=50)
        assert 1 <= len(swallowed) <= run_module.CANCELS_MAX
        assert (await shop.engine.counts())["slots"] == 1
        may_end.set()
        assert (await shop.released(task)).result is None


async def test_a_late_result_of_an_attempt_that_timed_out_is_dropped_and_the_next_attempt_counts() -> None:
    begun, may_end = Signal(), Signal()
    late = list[str]()

    def work(ctx: BlockingContext) -> str:
        if ctx.attempt == 1:
            begun.set()
            may_end.wait()
            late.append("late")
        return f"attempt {ctx.attempt}"

    async def code(ctx: Context) -> str:
        return await ctx.in_thread(work, is_last=True)

    async with open_workshop() as shop:
        task = await shop.create(code, timeout_ms=1_000, retry=Retry(max_attempts=2))
        await begun.reached()
        shop.clock.advance(1_000)
        await shop.wait(task, lambda task: task.attempt == 2)
        may_end.set()
        done = await shop.wait(task, Status.COMPLETED)
        assert done.result == {"value": "attempt 2"}
        assert late == ["late"]


async def test_a_cancellation_that_nobody_asked_for_fails_the_attempt() -> None:
    async def code(_: Context) -> None:
        raise asyncio.CancelledError

    async with open_workshop() as shop:
        done = await shop.run(code)
        assert done.status is Status.FAILED
        assert done.error is not None
        assert done.error["data"]["exception"] == "CancelledError"


async def test_what_code_leaves_running_ends_with_it() -> None:
    ended = Signal()

    async def stray() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.set()

    strays: list[asyncio.Task[None]] = []

    async def code(_: Context) -> str:
        strays.append(asyncio.create_task(stray()))
        await asyncio.sleep(0)
        return "done"

    async with open_workshop() as shop:
        done = await shop.run(code)
        assert done.result == {"value": "done"}
        assert ended.is_set


async def test_code_that_calls_exit_fails_its_attempt_and_nobody_elses() -> None:
    async def code(_: Context) -> None:
        raise SystemExit(1)

    async with open_workshop() as shop:
        done = await shop.run(code)
        assert done.status is Status.FAILED
        assert "SystemExit" in str(done.error)
        assert (await shop.run("test.nothing")).status is Status.COMPLETED


async def test_a_capability_that_blocks_its_loop_delays_nobody() -> None:
    begun, may_end = Signal(), Signal()

    async def code(_: Context) -> None:
        begun.set()
        may_end.wait()

    async with open_workshop() as shop:
        blocker = await shop.create(code)
        await begun.reached()
        started = time.monotonic()
        assert (await shop.run("test.nothing")).status is Status.COMPLETED
        assert time.monotonic() - started < PATIENCE_S / 2
        may_end.set()
        assert (await shop.wait(blocker, Status.COMPLETED)).attempt == 1


async def test_stopping_unwinds_running_code_at_a_call_of_its_context_and_hands_it_back(tmp_path: Path) -> None:
    clock, begun = ManualClock(), Signal()
    runs, kinds = list[int](), list[str]()

    async def code(ctx: Context) -> str:
        runs.append(ctx.attempt)
        await ctx.step("first", lambda: 1)
        begun.set()
        try:
            while len(runs) == 1:
                await ctx.checkpoint()
        except BaseException as error:
            kinds.append(type(error).__name__)
            raise
        return "done"

    async with open_workshop(tmp_path, clock=clock, grace_ms=5_000) as shop:
        task = await shop.create(code)
        await begun.reached()
    async with open_workshop(tmp_path, clock=clock, worker="worker-2") as shop:
        shop.offer(code)
        left = await shop.store.task(task.task_id)
        assert (left.attempt, left.crashes) == (1, 0)
        shop.store.wake()
        done = await shop.wait(task, Status.COMPLETED)
        assert (done.attempt, done.crashes) == (1, 0)
    assert runs == [1, 1]
    assert kinds == ["Evicted"]


async def test_stopping_unwinds_code_that_calls_nothing_after_the_grace(tmp_path: Path) -> None:
    clock, begun, kinds = ManualClock(), Signal(), list[str]()

    async def code(_: Context) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except BaseException as error:
            kinds.append(type(error).__name__)
            raise

    async with open_workshop(tmp_path, clock=clock, grace_ms=20) as shop:
        task = await shop.create(code)
        await begun.reached()
    async with open_workshop(tmp_path, clock=clock, worker="worker-2") as shop:
        left = await shop.store.task(task.task_id)
        assert (left.status, left.attempt, left.crashes) == (Status.WORKING, 1, 0)
        assert kinds == ["Evicted"]
        await shop.engine.cancel(task.task_id)


async def test_stopping_does_not_wait_for_code_that_is_stuck_and_hands_it_back(tmp_path: Path) -> None:
    clock, begun, may_end = ManualClock(), Signal(), Signal()

    def work(_: BlockingContext) -> None:
        begun.set()
        may_end.wait()

    async def code(ctx: Context) -> None:
        await ctx.in_thread(work)

    started = time.monotonic()
    async with open_workshop(tmp_path, clock=clock, grace_ms=20) as shop:
        task = await shop.create(code)
        await begun.reached()
    assert time.monotonic() - started < 5
    may_end.set()
    async with open_workshop(tmp_path, clock=clock, worker="worker-2") as shop:
        left = await shop.store.task(task.task_id)
        assert (left.status, left.attempt, left.crashes) == (Status.WORKING, 1, 0)
        await shop.engine.cancel(task.task_id)


async def test_code_that_must_not_run_twice_fails_when_the_daemon_stops_it(tmp_path: Path) -> None:
    clock, begun = ManualClock(), Signal()

    async def code(_: Context) -> None:
        begun.set()
        await asyncio.Event().wait()

    async with open_workshop(tmp_path, clock=clock, grace_ms=20) as shop:
        task = await shop.create(shop.offer(code, on_crash=OnCrash.FAIL))
        await begun.reached()
    async with open_workshop(tmp_path, clock=clock, worker="worker-2") as shop:
        left = await shop.store.task(task.task_id)
        assert left.status is Status.FAILED
        assert left.error is not None
        assert left.error["data"]["error_id"] == "AIOS-WORKER-LOST"


async def test_code_that_ends_within_the_grace_is_recorded(tmp_path: Path) -> None:
    clock, begun, leaving = ManualClock(), Signal(), Signal()

    async def code(_: Context) -> str:
        begun.set()
        await leaving.reached()
        return "done"

    async with open_workshop(tmp_path, clock=clock, grace_ms=5_000) as shop:
        task = await shop.create(code)
        await begun.reached()
        asyncio.get_running_loop().call_later(0.05, leaving.set)
    async with open_workshop(tmp_path, clock=clock, worker="worker-2") as shop:
        assert (await shop.store.task(task.task_id)).result == {"value": "done"}


async def test_code_that_no_lane_has_begun_is_not_begun_any_more_and_keeps_no_slot() -> None:
    begun, may_end, runs = Signal(), Signal(), list[str]()

    async def blocking(ctx: Context) -> None:
        runs.append(ctx.task_id)
        begun.set()
        may_end.wait()

    async with open_workshop() as shop:
        shop.offer(blocking, "blocking")
        tasks = [await shop.create("test.blocking") for _ in range(LANES_MAX + 2)]
        await begun.reached()
        # Somebody else's task gets through at once, whatever waits before it.
        await shop.settle()
        await shop.engine.cancel(tasks[-1].task_id)
        await shop.released(tasks[-1])
        may_end.set()
        for task in tasks[:-1]:
            await shop.wait(task, Status.COMPLETED)
    assert tasks[-1].task_id not in runs


async def test_a_blocking_call_on_the_event_loop_is_an_error_instead_of_a_deadlock() -> None:
    async def code(ctx: Context) -> str:
        faces = list[BlockingContext]()
        await ctx.in_thread(faces.append)
        try:
            faces[0].log("info", "hello")
        except InternalError as error:
            return error.detail
        return ""

    async with open_workshop() as shop:
        done = await shop.run(code)
        assert "await the async context instead" in done.result["value"]


async def test_a_thread_that_the_code_made_itself_may_call_the_context_and_the_slot_stays_right() -> None:
    called, may_end = Signal(), Signal()

    def work(ctx: BlockingContext) -> None:
        def own() -> None:
            ctx.log("info", "from a thread of my own")
            called.set()

        thread = threading.Thread(target=own)
        thread.start()
        thread.join()
        may_end.wait()

    async def code(ctx: Context) -> None:
        await ctx.in_thread(work)

    async with open_workshop() as shop:
        task = await shop.create(code)
        await called.reached()
        await shop.engine.pause(task.task_id)
        await shop.settle()
        assert (await shop.store.task(task.task_id)).worker is not None
        may_end.set()
        await shop.released(task)
        await shop.engine.resume(task.task_id)
        await shop.wait(task, Status.COMPLETED)
