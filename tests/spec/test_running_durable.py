"""What is durable: the daemon ends, another goes on with its data, and code runs again on what it recorded (protocol.md §4)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from aios.adapter import Context
from tests.spec.stage import CAPABILITY, Arguments, Code, Gate, Stage, staged

API_KEY = "sk-duck-7f3a9c2e51"


class Place:
    """A data folder on which one daemon after another runs, with the same code."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._code: dict[str, Code] = {}

    @asynccontextmanager
    async def daemon(self) -> AsyncGenerator[Stage]:
        """Run the next one."""
        async with staged(folder=self.folder, code=self._code) as stage:
            yield stage

    def holds(self, text: str) -> bool:
        """Whether a text can be read anywhere in the folder."""
        return any(text.encode() in path.read_bytes() for path in self.folder.rglob("*") if path.is_file())


@pytest.fixture
async def place() -> AsyncGenerator[Place]:
    with TemporaryDirectory(prefix="aios-") as folder:
        yield Place(Path(folder))


@pytest.mark.promise("4.durable.steps", "4.durable.hand-back", "5.follow.over-restarts")
async def test_code_that_a_stopping_daemon_had_to_stop_goes_on_after_its_last_step_in_the_same_attempt(
    place: Place,
) -> None:
    runs: list[str] = []
    begun, hold = Gate(), Gate()

    async def search(site: str) -> str:
        runs.append(site)
        return site.upper()

    async def code(arguments: Arguments, ctx: Context) -> Any:
        await ctx.step("say", ctx.log, "info", "searching")
        first = await ctx.step("search", search, "jd")
        begun.open()
        await hold.passed()
        return {"found": [first, await ctx.step("search", search, "taobao")], "attempt": ctx.attempt}

    async with place.daemon() as stage:
        task_id = await stage.create(code)
        await begun.passed()
        async with stage.follow(task_id) as follower:
            last = await follower.until("task.log", message="searching")
    hold.open()
    async with place.daemon() as stage:
        # Who followed it goes on at the next daemon where the last one was cut off.
        async with stage.follow(task_id, after=last.id) as follower:
            rest = await follower.rest()
        events = await stage.end(task_id)
        assert rest == events[last.number :]
    assert events[-1].data["result"] == {"found": ["JD", "TAOBAO"], "attempt": 1}
    assert runs == ["jd", "taobao"]
    assert [event.status for event in events if event.status] == ["working", "completed"], "a restart is no event"


@pytest.mark.promise("4.durable.questions")
async def test_a_question_is_asked_once_however_often_its_code_runs(place: Place) -> None:
    runs: list[int] = []

    async def code(arguments: Arguments, ctx: Context) -> Any:
        runs.append(1)
        return {"answers": [await ctx.ask("First?"), await ctx.ask("Second?")]}

    async with place.daemon() as stage:
        task_id = await stage.create(code)
        await stage.reach(task_id, "input_required")
    async with place.daemon() as stage:
        assert (await stage.task(task_id))["input_request"]["prompt"] == "First?"
        await stage.call("aios/task.input", task_id=task_id, input=1)
        async with stage.follow(task_id) as follower:
            await follower.until("task.input_required", prompt="Second?")
    async with place.daemon() as stage:
        await stage.call("aios/task.input", task_id=task_id, input=2)
        events = await stage.end(task_id)
    assert events[-1].data["result"] == {"answers": [1, 2]}
    asked = [event.data["prompt"] for event in events if event.kind == "task.input_required"]
    assert asked == ["First?", "Second?"]
    assert len(runs) == 3


@pytest.mark.promise("4.durable.sign-ins-are-sealed")
async def test_a_sign_in_is_given_again_to_code_that_runs_again_and_stands_nowhere_in_the_open(place: Place) -> None:
    given: list[Any] = []
    hold = Gate()

    async def code(arguments: Arguments, ctx: Context) -> Any:
        given.append(await ctx.authenticate("api_key"))
        await ctx.step("keep", lambda: {"key": API_KEY}, secret=True)
        if not hold.is_open:
            await ctx.ask("Go on?")
        return {"signed_in": True}

    async with place.daemon() as stage:
        task_id = await stage.create(code)
        await stage.reach(task_id, "auth_required")
        response = {"type": "api_key", "api_key": API_KEY}
        await stage.call("aios/task.authenticate", task_id=task_id, auth_response=response)
        await stage.reach(task_id, "input_required")
        assert not place.holds(API_KEY)
    hold.open()
    async with place.daemon() as stage:
        await stage.call("aios/task.input", task_id=task_id, input="yes")
        events = await stage.end(task_id)
        told = repr(events) + repr(await stage.task(task_id, include_history=True))
    assert given == [{"type": "api_key", "api_key": API_KEY}] * 2
    assert API_KEY not in told
    assert not place.holds(API_KEY)


@pytest.mark.promise("4.durable.children")
async def test_a_parent_that_runs_again_finds_its_child_and_spawns_no_second(place: Place) -> None:
    spawned: list[str] = []

    async def child(arguments: Arguments, ctx: Context) -> Any:
        return {"answer": await ctx.ask("Go on?")}

    async def parent(arguments: Arguments, ctx: Context) -> Any:
        running = ctx.spawn(CAPABILITY, arguments["child"])
        spawned.append(running.task_id)
        return {"of_child": await running}

    async with place.daemon() as stage:
        task_id = await stage.create(parent, arguments={"child": stage.named(child)})
        async with asyncio.timeout(10):
            while not (await stage.call("aios/task.list", filter={"status": ["input_required"]}))["total"]:
                continue
    async with place.daemon() as stage:
        await stage.call("aios/task.input", task_id=spawned[0], input="yes")
        assert (await stage.end(task_id))[-1].data["result"] == {"of_child": {"answer": "yes"}}
        assert (await stage.call("aios/task.list"))["total"] == 2
    assert len(set(spawned)) == 1


@pytest.mark.promise("4.durable.delays")
async def test_delays_and_pauses_outlive_the_daemon(place: Place) -> None:
    async def returns(arguments: Arguments, ctx: Context) -> Any:
        return {"done": True}

    hold = Gate()

    async def waits(arguments: Arguments, ctx: Context) -> Any:
        await hold.passed()
        return {"done": True}

    async with place.daemon() as stage:
        far = await stage.create(returns, delay_ms=3_600_000)
        near = await stage.create(returns, delay_ms=100)
        late = await stage.create(returns, delay_ms=3_600_000, expires_in_ms=100)
        paused = await stage.create(waits)
        await stage.reach(paused, "working")
        await stage.call("aios/task.pause", task_id=paused)
    hold.open()
    async with place.daemon() as stage:
        assert (await stage.end(near))[-1].data["result"] == {"done": True}
        assert (await stage.end(late))[-1].data["error"]["code"] == -32005
        assert (await stage.task(far))["status"] == "pending"
        assert (await stage.task(paused))["status"] == "paused"
        await stage.call("aios/task.resume", task_id=paused)
        assert (await stage.end(paused))[-1].data["result"] == {"done": True}


@pytest.mark.promise("4.durable.names")
async def test_two_open_steps_of_one_name_are_an_error_that_says_so(stage: Stage) -> None:
    async def slow() -> int:
        await asyncio.sleep(0)
        return 1

    async def code(arguments: Arguments, ctx: Context) -> Any:
        names = arguments["names"]
        return {"values": await asyncio.gather(*(ctx.step(name, slow) for name in names))}

    distinct = await stage.create(code, arguments={"names": ["a", "b"]})
    assert (await stage.end(distinct))[-1].data["result"] == {"values": [1, 1]}
    equal = await stage.create(code, arguments={"names": ["a", "a"]})
    error = (await stage.end(equal))[-1].data["error"]
    assert error["data"]["error_id"] == "AIOS-STEP-NAME-REPEATED"
