"""The Python clients against a real daemon, over every kind of address (design.md §9)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from aios import CapabilityFailed, Client, SyncClient
from aios.adapter import Context
from aios.client import Question, SignIn, TaskEvent
from aios.errors import (
    CapabilityNotFound,
    InputRequired,
    InvalidParams,
    InvalidTaskState,
    TaskFinal,
    TaskNotFound,
    TaskTimeout,
    UserCanceled,
    ValidationFailed,
)
from aios.protocol.task import TaskGet
from tests.spec.stage import CAPABILITY, Arguments, Code, Gate, Stage, staged

ADDRESSES = ("http", "ws", "unix", "tcp")
on_addresses = pytest.mark.parametrize("scheme", ADDRESSES)


def address(scheme: str, stage: Stage) -> str:
    daemon = stage.daemon
    return {
        "http": daemon.url,
        "ws": daemon.websocket_url,
        "unix": f"unix:{daemon.socket_path}",
        "tcp": daemon.tcp_url,
    }[scheme]


@pytest.fixture
async def client(scheme: str, stage: Stage) -> AsyncGenerator[Client]:
    async with Client.connect(address(scheme, stage), stage.daemon.token) as connected:
        yield connected


async def shops(arguments: Arguments, ctx: Context) -> Any:
    await ctx.progress(50, "half")
    await ctx.chunk("piece")
    await ctx.artifact("report", "report", [{"type": "file", "file": {"content": "鸭" * 100}}])
    chosen = await ctx.ask("Which?", options=["a", "b"])
    await ctx.authenticate("api_key", reason="the shop wants to know you")
    return {"chosen": chosen}


@on_addresses
@pytest.mark.promise("2.client.run")
async def test_run_answers_questions_and_sign_ins_and_gives_the_result(client: Client, stage: Stage) -> None:
    seen: list[TaskEvent] = []
    asked: list[Question] = []

    async def answer(question: Question) -> str:
        asked.append(question)
        return "b" if question.errors else "none of them"

    def sign_in(request: SignIn) -> dict[str, str]:
        return {"api_key": "key-123"}

    result = await client.run(
        CAPABILITY, stage.named(shops), on_input=answer, on_auth=sign_in, on_event=seen.append, priority="high"
    )
    assert result == {"chosen": "b"}
    assert [(question.prompt, question.options, bool(question.errors)) for question in asked] == [
        ("Which?", ["a", "b"], False),
        ("Which?", ["a", "b"], True),
    ]
    assert [event.number for event in seen] == list(range(1, len(seen) + 1))
    assert {event.kind for event in seen} >= {"task.progress", "task.chunk", "task.artifact", "task.result"}


@on_addresses
@pytest.mark.promise("2.client.errors")
async def test_errors_come_as_the_classes_that_the_daemon_raised(client: Client, stage: Stage) -> None:
    async def fails(arguments: Arguments, ctx: Context) -> Any:
        raise CapabilityFailed("no more ducks", code=-32042, data={"ducks": 0})

    async def waits(arguments: Arguments, ctx: Context) -> Any:
        await Gate().passed()

    async def asks(arguments: Arguments, ctx: Context) -> Any:
        await ctx.ask("Go on?")

    with pytest.raises(CapabilityNotFound):
        await client.run("spec.nothing")
    with pytest.raises(TaskNotFound):
        await client.get("task-nobody")
    with pytest.raises(InvalidParams) as refused:
        await client.call("aios/task.list", {"pagination": {"limit": 0}})
    assert refused.value.data["errors"][0]["path"] == "/pagination/limit"
    with pytest.raises(ValidationFailed):
        await client.list(cursor="nonsense")
    with pytest.raises(CapabilityFailed, match="no more ducks") as failed:
        await client.run(CAPABILITY, stage.named(fails))
    assert (failed.value.wire_code, failed.value.data["ducks"]) == (-32042, 0)
    with pytest.raises(TaskTimeout):
        await client.run(CAPABILITY, stage.named(waits), timeout_ms=40)
    with pytest.raises(InputRequired) as asked:
        await client.run(CAPABILITY, stage.named(asks))
    with pytest.raises(InvalidTaskState):
        await client.resume(asked.value.data["task_id"])
    running = asyncio.ensure_future(client.wait(asked.value.data["task_id"], on_input=lambda _: asyncio.Event().wait()))
    await client.cancel(asked.value.data["task_id"], "enough")
    with pytest.raises(UserCanceled):
        await running
    with pytest.raises(TaskFinal):
        await client.cancel(asked.value.data["task_id"])


@on_addresses
@pytest.mark.promise("2.client.calls")
async def test_calls_are_typed_or_raw_and_say_the_same(client: Client, stage: Stage) -> None:
    created = await client.create(CAPABILITY, stage.named(shops), metadata={"tags": ["typed"]})
    async with aclosing(client.follow(created.task_id)) as events:
        async for event in events:
            if event.kind == "task.input_required":
                break
    typed = await client.call(TaskGet(task_id=created.task_id))
    raw = await client.call("aios/task.get", {"task_id": created.task_id})
    assert (typed.status, typed.metadata) == (raw["status"], raw["metadata"]) == ("input_required", {"tags": ["typed"]})
    [artifact] = await client.artifacts(created.task_id)
    assert raw["artifacts"][0]["id"] == artifact.id
    listed = await client.list(tags=["typed"])
    assert created.task_id in [task.task_id for task in listed.tasks]


@pytest.mark.promise("2.client.follow")
@on_addresses
async def test_a_follower_reads_on_through_the_daemons_end_and_its_next_life(scheme: str) -> None:
    plays: dict[str, Code] = {}

    async def code(arguments: Arguments, ctx: Context) -> Any:
        for number in range(20):
            await ctx.step(f"line {number}", ctx.log, "info", f"line {number}")
            if number == 9:
                # Parked: the daemon does not wait for this code when it stops.
                await ctx.ask("Go on?")
        return {"lines": 20}

    with TemporaryDirectory(prefix="aios-") as folder:
        async with staged(folder=Path(folder), code=plays) as stage:
            task_id = await stage.create(code)
            # By its data folder it is found again, on whatever port it is then.
            url = None if scheme == "http" else address(scheme, stage)
            token = stage.daemon.token
            port = int(address("http" if scheme == "ws" else "tcp", stage).rpartition(":")[2])
            client = await Client.connect(url, token, data=folder)
            following = asyncio.ensure_future(read_all(client, task_id))
            await stage.reach(task_id, "input_required")
        ports = {"ws": {"http__port": port}, "tcp": {"tcp__address": f"127.0.0.1:{port}"}}.get(scheme, {})
        async with staged(folder=Path(folder), code=plays, **ports) as stage:
            await stage.call("aios/task.input", task_id=task_id, input="yes")
            async with asyncio.timeout(20):
                seen = await following
            await client.close()
            told = await stage.end(task_id)
    assert [(event.number, event.kind) for event in seen] == [(event.number, event.kind) for event in told]


async def read_all(client: Client, task_id: str) -> list[TaskEvent]:
    return [event async for event in client.follow(task_id)]


@on_addresses
@pytest.mark.promise("2.client.sync")
async def test_the_blocking_client_does_the_same_in_a_thread(scheme: str, stage: Stage) -> None:
    def talk() -> Any:
        with SyncClient.connect(address(scheme, stage), stage.daemon.token) as client:
            result = client.run(
                CAPABILITY,
                stage.named(shops),
                on_input=lambda _: "a",
                on_auth=lambda _: {"api_key": "key-123"},
                metadata={"tags": [f"sync-{scheme}"]},
            )
            [task] = client.list(tags=[f"sync-{scheme}"]).tasks
            kinds = [event.kind for event in client.follow(task.task_id)]
            with pytest.raises(TaskFinal):
                client.pause(task.task_id)
            return result, kinds[-1]

    assert await asyncio.to_thread(talk) == ({"chosen": "a"}, "task.result")


@pytest.mark.promise("2.client.artifact-content")
async def test_the_bytes_of_an_artifact_are_read_over_http(stage: Stage) -> None:
    async with Client.connect(stage.daemon.url, stage.daemon.token) as client:
        task_id = await stage.create(shops)
        await stage.reach(task_id, "input_required")
        [artifact] = await client.artifacts(task_id)
        assert (await client.artifact_content(artifact.id, 0)).decode() == "鸭" * 100
