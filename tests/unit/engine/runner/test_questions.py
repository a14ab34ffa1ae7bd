"""Questions and sign-ins: no slot while they wait, one answer, bounded memory however many wait."""

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from aios.adapter import BlockingContext, Context, OAuth2
from aios.errors import CapabilityFailed, InternalError, TaskTimeout
from aios.model import EventKind, Limits, OnCrash, Retry, Status, Task
from tests.unit.engine.runner.workshop import Signal, Workshop, open_workshop


async def answered(shop: Workshop, task: Task, value: Any) -> Task:
    await shop.wait(task, Status.INPUT_REQUIRED)
    return await shop.engine.give_input(task.task_id, value)


async def test_code_goes_on_with_the_answer_and_held_no_slot_meanwhile() -> None:
    async def code(ctx: Context) -> Any:
        return await ctx.ask("Which?", options=["a", "b"])

    async with open_workshop(max_concurrent_tasks=1) as shop:
        task = await shop.create(code)
        waiting = await shop.wait(task, Status.INPUT_REQUIRED)
        assert waiting.worker is None
        assert (await shop.run("test.nothing")).status is Status.COMPLETED
        await answered(shop, task, "b")
        assert (await shop.wait(task, Status.COMPLETED)).result == {"value": "b"}


async def test_an_answer_is_kept_over_attempts_and_the_same_question_is_not_asked_again() -> None:
    async def code(ctx: Context) -> list[Any]:
        answers = [await ctx.ask("Which?"), await ctx.ask("Which?"), await ctx.ask("Sure?", name="sure")]
        if ctx.attempt == 1:
            raise CapabilityFailed("once more")
        return answers

    async with open_workshop() as shop:
        task = await shop.create(code, retry=Retry(max_attempts=2))
        for step in ("ask:Which?#1", "ask:Which?#2", "ask:sure#1"):
            await shop.wait(task, lambda task, step=step: task.request is not None and task.request.step == step)
            await shop.engine.give_input(task.task_id, step)
        done = await shop.wait(task, Status.COMPLETED)
        assert done.result == {"value": ["ask:Which?#1", "ask:Which?#2", "ask:sure#1"]}


@pytest.mark.parametrize("is_caught", [True, False])
async def test_a_question_that_nobody_answers_times_out_in_the_code(is_caught: bool) -> None:
    async def code(ctx: Context) -> str:
        try:
            await ctx.ask("Which?", timeout_ms=1_000)
        except TaskTimeout:
            if is_caught:
                return "alone"
            raise
        return ""

    async with open_workshop() as shop:
        task = await shop.create(code, retry=Retry(max_attempts=3))
        await shop.wait(task, Status.INPUT_REQUIRED)
        shop.clock.advance(1_000)
        done = await shop.wait(task, lambda task: task.status.is_terminal)
        assert done.attempt == 1
        if is_caught:
            assert done.result == {"value": "alone"}
        else:
            assert done.error is not None
            assert done.error["code"] == -32005


async def test_all_code_of_the_attempt_stands_still_while_one_strand_asks_and_questions_come_one_by_one() -> None:
    ticks = list[int]()

    async def tick() -> None:
        while True:
            ticks.append(1)
            await asyncio.sleep(0)

    async def code(ctx: Context) -> list[Any]:
        ticking = asyncio.create_task(tick())
        answers = await asyncio.gather(ctx.ask("First?"), ctx.ask("Second?"))
        ticking.cancel()
        return list(answers)

    async with open_workshop() as shop:
        task = await shop.create(code)
        await shop.wait(task, Status.INPUT_REQUIRED)
        counted = len(ticks)
        await shop.settle()
        assert len(ticks) == counted
        await answered(shop, task, 1)
        await shop.wait(task, lambda task: task.request is not None and task.request.step == "ask:Second?#1")
        await answered(shop, task, 2)
        assert (await shop.wait(task, Status.COMPLETED)).result == {"value": [1, 2]}


async def test_a_question_that_cannot_be_put_is_an_error_in_the_code() -> None:
    async def code(ctx: Context) -> str:
        try:
            await ctx.ask("Which?", schema={"type": "no such type"})
        except Exception as error:
            return type(error).__name__
        return ""

    async with open_workshop() as shop:
        assert (await shop.run(code)).result == {"value": "ValidationFailed"}


ODD_QUESTIONS: list[dict[str, Any]] = [
    {"timeout_ms": 10**30},
    {"timeout_ms": -1},
    {"timeout_ms": 300.5},
    {"timeout_ms": "5"},
    {"schema": "text"},
    {"schema": True},
]


@pytest.mark.parametrize("odd", ODD_QUESTIONS)
async def test_a_question_of_odd_values_is_refused_at_once(odd: dict[str, Any]) -> None:
    async def code(ctx: Context) -> Any:
        return await ctx.ask("Which?", **odd)

    async with open_workshop() as shop:
        failed = await shop.run(code, retry=Retry(max_attempts=2))
        assert failed.error is not None
        assert (failed.status, failed.attempt, failed.error["code"]) == (Status.FAILED, 1, -32108)


@pytest.mark.parametrize("kind", ["retina", None])
async def test_a_sign_in_that_nobody_could_give_is_refused_at_once(kind: Any) -> None:
    async def code(ctx: Context) -> Any:
        return await ctx.authenticate(kind)

    async with open_workshop() as shop:
        failed = await shop.run(code)
        assert failed.error is not None
        assert f"not {str(kind)!r}" in failed.error["data"]["detail"]


async def test_an_async_call_of_the_context_on_a_loop_of_the_codes_own_is_an_error_instead_of_a_deadlock() -> None:
    async def code(ctx: Context) -> list[str]:
        async def own(call: Coroutine[Any, Any, Any]) -> None:
            await call

        told = list[str]()
        for call in (ctx.ask("Which?"), ctx.log("info", "x"), ctx.sleep(5_000), ctx.step("s", int)):
            with pytest.raises(InternalError) as refused:
                await asyncio.to_thread(asyncio.run, own(call))
            told.append(refused.value.detail)
        return told

    async with open_workshop() as shop:
        done = await shop.run(code)
        assert done.status is Status.COMPLETED
        assert all("another event loop" in each for each in done.result["value"])


async def test_a_sign_in_is_sealed_reaches_the_code_and_is_there_again_for_the_next_attempt() -> None:
    async def code(ctx: Context) -> str:
        given = await ctx.authenticate("api_key", reason="to read")
        if ctx.attempt == 1:
            raise CapabilityFailed("once more")
        return given["api_key"][:6]

    async with open_workshop() as shop:
        task = await shop.create(code, retry=Retry(max_attempts=2))
        await shop.wait(task, Status.AUTH_REQUIRED)
        await shop.engine.authenticate(task.task_id, {"type": "api_key", "api_key": "canary-77"})
        assert (await shop.wait(task, Status.COMPLETED)).result == {"value": "canary"}


async def test_an_oauth2_request_carries_what_the_client_needs() -> None:
    async def code(ctx: Context) -> dict[str, Any]:
        about = OAuth2(authorization_url="https://login.example/", provider="example", scopes=["read"], state="s1")
        return await ctx.authenticate(about, name="drive", reason="to read", timeout_ms=1_000)

    async with open_workshop() as shop:
        task = await shop.create(code)
        request = (await shop.wait(task, Status.AUTH_REQUIRED)).request
        assert request is not None
        assert request.step == "authenticate:drive#1"
        response = {"type": "oauth2", "authorization_code": "c-123456", "state": "s1"}
        await shop.engine.authenticate(task.task_id, response)
        assert (await shop.wait(task, Status.COMPLETED)).result == response


async def test_past_the_cap_the_longest_waiter_is_unwound_and_goes_on_from_its_steps() -> None:
    runs, kinds = list[str](), list[str]()

    async def code(ctx: Context) -> Any:
        runs.append(ctx.task_id)
        await ctx.step("first", lambda: 1)
        try:
            return await ctx.ask("Which?")
        except BaseException as error:
            kinds.append(type(error).__name__)
            raise

    async with open_workshop(max_parked=2) as shop:
        capability = shop.offer(code)
        tasks = list[Task]()
        for _ in range(5):
            tasks.append(await shop.create(capability))
            await shop.wait(tasks[-1], Status.INPUT_REQUIRED)
        await shop.settle()
        assert kinds == ["Evicted"] * 3
        for number, task in enumerate(tasks):
            await answered(shop, task, number)
            done = await shop.wait(task, Status.COMPLETED)
            assert (done.result, done.attempt, done.crashes) == ({"value": number}, 1, 0)
        assert [runs.count(task.task_id) for task in tasks] == [2, 2, 2, 1, 1]


async def test_waiting_threads_have_a_cap_of_their_own() -> None:
    runs = list[str]()

    def work(ctx: BlockingContext) -> Any:
        runs.append(ctx.task_id)
        return ctx.ask("Which?")

    async def code(ctx: Context) -> Any:
        return await ctx.in_thread(work, is_last=True)

    async with open_workshop(max_parked_threads=1) as shop:
        capability = shop.offer(code)
        tasks = [await shop.create(capability) for _ in range(3)]
        for task in tasks:
            await shop.wait(task, Status.INPUT_REQUIRED)
        await shop.settle()
        for task in tasks:
            await answered(shop, task, "a")
            assert (await shop.wait(task, Status.COMPLETED)).result == {"value": "a"}
        assert sorted(runs.count(task.task_id) for task in tasks) == [1, 2, 2]


async def test_code_that_must_not_run_twice_is_the_last_to_be_unwound() -> None:
    runs = list[str]()

    async def code(ctx: Context) -> Any:
        runs.append(ctx.task_id)
        return await ctx.ask("Which?")

    async with open_workshop(max_parked=1) as shop:
        once, again = shop.offer(code, "once", on_crash=OnCrash.FAIL), shop.offer(code, "again")
        tasks = [await shop.create(once), await shop.create(again)]
        for task in tasks:
            await shop.wait(task, Status.INPUT_REQUIRED)
        await shop.settle()
        for task in tasks:
            await answered(shop, task, "a")
            await shop.wait(task, Status.COMPLETED)
        assert [runs.count(task.task_id) for task in tasks] == [1, 2]


async def test_many_waiting_questions_leave_neither_threads_nor_attempts_behind(rounds: int) -> None:
    async def code(ctx: Context) -> Any:
        return await ctx.ask("Which?")

    before = threading.active_count()
    async with open_workshop(max_parked=5, max_queue_size=10_000) as shop:
        capability = shop.offer(code)
        tasks = [await shop.create(capability) for _ in range(rounds)]
        for task in tasks:
            await shop.wait(task, Status.INPUT_REQUIRED)
        await shop.settle()
        assert len(shop.runner) <= 5 + 1
        assert (await shop.engine.counts())["slots"] == 0
        assert threading.active_count() < before + 20
        for task in tasks:
            await answered(shop, task, "a")
        for task in tasks:
            assert (await shop.wait(task, Status.COMPLETED)).crashes == 0
    assert Limits().max_parked == 1_000


async def test_a_question_put_while_the_task_is_being_paused_is_put_when_it_goes_on() -> None:
    begun, may_ask = Signal(), Signal()

    def work(ctx: BlockingContext) -> Any:
        begun.set()
        may_ask.wait()
        return ctx.ask("Which?")

    async def code(ctx: Context) -> Any:
        return await ctx.in_thread(work)

    async with open_workshop() as shop:
        task = await shop.create(code)
        await begun.reached()
        await shop.engine.pause(task.task_id)
        may_ask.set()
        await shop.released(task)
        await shop.engine.resume(task.task_id)
        await answered(shop, task, "a")
        assert (await shop.wait(task, Status.COMPLETED)).result == {"value": "a"}


async def test_the_question_of_a_thread_that_outlives_its_code_is_withdrawn() -> None:
    put = Signal()

    def work(ctx: BlockingContext) -> str:
        def own() -> None:
            with suppress(asyncio.CancelledError):
                ctx.ask("Which?")

        threading.Thread(target=own, daemon=True).start()
        put.wait()
        return "done"

    async def code(ctx: Context) -> Any:
        return await ctx.in_thread(work, is_last=True)

    async with open_workshop() as shop:
        task = await shop.create(code)
        await shop.wait(task, Status.INPUT_REQUIRED)
        put.set()
        assert (await shop.wait(task, Status.COMPLETED)).result == {"value": "done"}
        await shop.settle()
        assert len(shop.runner) == 0


async def test_an_answer_reaches_code_that_is_paused_and_resumed_while_it_is_brought(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reading, may_read, blocked, may_go = Signal(), Signal(), Signal(), Signal()

    async def block(_: Context) -> None:
        blocked.set()
        may_go.wait()

    async with open_workshop() as shop:
        recorded = shop.engine.steps

        async def steps(task: Task) -> Any:
            reading.set()
            await may_read.reached()
            return await recorded(task)

        task = await shop.create(lambda ctx: ctx.ask("Which?"))
        await shop.wait(task, Status.INPUT_REQUIRED)
        blocker = await shop.create(shop.offer(block, "block"))
        await blocked.reached()
        monkeypatch.setattr(shop.engine, "steps", steps)
        await shop.engine.give_input(task.task_id, "a")
        await reading.reached()
        await shop.engine.pause(task.task_id)
        await shop.engine.resume(task.task_id)
        may_read.set()
        may_go.set()
        assert (await shop.wait(task, Status.COMPLETED)).result == {"value": "a"}
        await shop.wait(blocker, Status.COMPLETED)


async def within(seconds: float, asking: Coroutine[Any, Any, Any]) -> Any:
    async with asyncio.timeout(seconds):
        return await asking


async def test_code_that_waits_no_longer_for_an_answer_goes_on_without_it() -> None:
    async def code(ctx: Context) -> list[Any]:
        try:
            await within(0.001, ctx.ask("Which?"))
        except TimeoutError:
            await ctx.log("info", "nobody knew")
        return [await ctx.ask("Which?"), await ctx.ask("Sure?")]

    async with open_workshop(max_concurrent_tasks=1) as shop:
        task = await shop.create(code)
        await shop.wait(task, lambda task: task.request is not None and task.request.step.endswith("#2"))
        assert len(await shop.logged(task.task_id, EventKind.LOG)) == 1
        for answer in ("a", "b"):
            await answered(shop, task, answer)
            await shop.settle()
        assert (await shop.wait(task, Status.COMPLETED)).result == {"value": ["a", "b"]}
        told = await shop.logged(task.task_id, EventKind.STATUS)
        assert next(each.get("reason") for each in told if each["previous_status"] == "input_required") == "withdrawn"


async def test_a_withdrawn_question_is_asked_again_by_a_run_that_begins_anew(tmp_path: Path) -> None:
    waited = list[str]()

    async def code(ctx: Context) -> Any:
        if not waited:
            waited.append("once")
            with suppress(TimeoutError):
                await within(0.001, ctx.ask("Which?"))
            raise CapabilityFailed("try again")
        return await ctx.ask("Which?")

    async with open_workshop(tmp_path) as shop:
        task = await shop.create(code, retry=Retry(max_attempts=2))
        await shop.wait(task, lambda task: task.attempt == 2 and task.status is Status.INPUT_REQUIRED)
        await answered(shop, task, "a")
        assert (await shop.wait(task, Status.COMPLETED)).result == {"value": "a"}
