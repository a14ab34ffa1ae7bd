"""Running one capability in a test: the real engine, runner and store, without a daemon, a socket or a second of waiting."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, cast

from aios.adapter import Adapter
from aios.adapters.functions import HOME
from aios.engine.clock import MILLISECOND
from aios.engine.engine import Engine
from aios.engine.orders import NewTask
from aios.engine.registry import Registry
from aios.engine.runner import Runner
from aios.engine.vault import KEY_BYTES, Vault
from aios.errors import InputRequired, TaskTimeout, UserCanceled, ValidationFailed
from aios.errors.wire import from_wire
from aios.model import AuthRequest, InputRequest, JsonObject, Limits, Retry, Status, Task
from aios.stores.sqlite import SqliteStore
from aios.testing.clock import ManualClock

PATIENCE_MS = 30_000
"""Real time after which a capability under test is taken to hang."""
GRACE_MS = 1_000
LOOK_MS = 10
"""Real time without news of the task, after which we look whether it only waits for time to pass."""
PRINCIPAL = "tester"

Answers = Mapping[str, Any]
"""By a question's `name` or prompt, by a sign-in's `name` or type: the answer, or a function of the request that gives it."""


async def run(
    capability: Callable[..., Any] | str,
    arguments: JsonObject | None = None,
    answers: Answers | None = None,
    *,
    adapters: Iterable[Adapter] = (),
    retry: Retry | None = None,
    metadata: JsonObject | None = None,
) -> JsonObject:
    """Run a capability as a task and give its result, as a client would get it.

    Time does not pass but where the task waits for it: a long `ctx.sleep`, a retry's delay, a question with a timeout that has
    no answer here. Then it jumps.

    Args:
        capability: A function decorated with `Adapter.capability`; or an id that one of `adapters` offers.
        arguments: What it is called with.
        answers: What is given when it asks. A question that has neither an answer nor a timeout raises `InputRequired`.
        adapters: Others whose capabilities it may spawn.
        retry: How often it is attempted; once, where it is not given.
        metadata: The task's.

    Raises:
        AiosError: As which the task failed.
        UserCanceled: It was canceled.
        InputRequired: It asked for something that `answers` does not have.
        TaskTimeout: It did not end.
    """
    home, capability_id = _found(capability)
    async with _opened([*home, *adapters]) as (engine, clock):
        order = NewTask(
            capability_id=capability_id,
            principal=PRINCIPAL,
            arguments=arguments or {},
            metadata=metadata or {},
            retry=retry or Retry(),
        )
        task = await engine.create(order)
        try:
            async with asyncio.timeout(PATIENCE_MS / 1000):
                task = await _accompanied(engine, clock, task, answers or {})
        except TimeoutError:
            raise TaskTimeout(f"{capability_id} did not end within {PATIENCE_MS} ms") from None
    if task.status is Status.CANCELED:
        raise UserCanceled(f"the task of {capability_id} was canceled")
    if task.error is not None:
        raise from_wire(task.error)
    return task.result


def _found(capability: Callable[..., Any] | str) -> tuple[list[Adapter], str]:
    if isinstance(capability, str):
        return [], capability
    home: tuple[Adapter, str] | None = getattr(capability, HOME, None)
    if home is None:
        raise ValidationFailed(f"{capability!r} is no capability: decorate it with `@adapter.capability(...)`")
    return [home[0]], home[1]


@asynccontextmanager
async def _opened(adapters: Iterable[Adapter]) -> AsyncGenerator[tuple[Engine, ManualClock]]:
    clock, limits, registry, vault = ManualClock(), Limits(), Registry(), Vault(secrets.token_bytes(KEY_BYTES))
    for adapter in adapters:
        registry.add(adapter)
    store = SqliteStore.open(":memory:", limits=limits, now=clock.now)
    try:
        engine = Engine(store=store, registry=registry, clock=clock, limits=limits, vault=vault, worker="test")
        await engine.start(Runner(engine=engine, registry=registry, clock=clock, limits=limits, vault=vault))
        try:
            yield engine, clock
        finally:
            await engine.stop(GRACE_MS)
    finally:
        await store.close()


async def _accompanied(engine: Engine, clock: ManualClock, task: Task, answers: Answers) -> Task:
    """Give the task what it asks for, and let time pass when nothing else happens, until it has ended."""
    while True:
        waiting = asyncio.ensure_future(engine.until(task.task_id, _is_at_a_stand, None))
        try:
            while not (await asyncio.wait({waiting}, timeout=LOOK_MS / 1000))[0]:
                await _let_time_pass(engine, clock)
            task = await waiting
        finally:
            waiting.cancel()
        if task.request is None:
            return task
        await _answer(engine, clock, task, task.request, answers)


def _is_at_a_stand(task: Task) -> bool:
    return task.status.is_terminal or task.request is not None


async def _let_time_pass(engine: Engine, clock: ManualClock) -> None:
    """Jump to the next time for which anybody waits, if nobody is at work."""
    if clock.waiting and (await engine.counts())["slots"] == 0:
        clock.advance(max(0, _ms_until(clock, clock.waiting[0])))


def _ms_until(clock: ManualClock, when: datetime) -> int:
    return -((clock.now() - when) // MILLISECOND)


async def _answer(
    engine: Engine, clock: ManualClock, task: Task, request: InputRequest | AuthRequest, answers: Answers
) -> None:
    name = request.step.partition(":")[2].rpartition("#")[0]
    other = request.prompt if isinstance(request, InputRequest) else request.type
    found = next((each for each in (name, other) if each in answers), None)
    if found is not None:
        answer = answers[found]
        given: Any = answer(request) if callable(answer) else answer
        if isinstance(request, InputRequest):
            await engine.give_input(task.task_id, given)
        else:
            await engine.authenticate(task.task_id, {"type": request.type, **cast("JsonObject", given)})
    elif request.due_at is not None:
        clock.advance(max(0, _ms_until(clock, request.due_at)))
        await engine.until(task.task_id, lambda newest: newest.version > task.version, None)
    else:
        raise InputRequired(f"the task asks {name!r} ({other!r}); `answers` has neither", asked=name)
