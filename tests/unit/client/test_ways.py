"""The client against a real daemon, by every way there is."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aios.adapter import BlockingContext, Context
from aios.adapters.functions import Adapter
from aios.client import Client, Question, SignIn, SyncClient, TaskEvent
from aios.errors import (
    AuthenticationRequired,
    CapabilityFailed,
    CapabilityNotFound,
    InvalidTaskState,
    TaskFinal,
    TaskNotFound,
    UserCanceled,
    ValidationFailed,
)
from aios.testing.connected import Connected, connected

WAYS = ["http", "websocket", "unix", "tcp", "found"]


def tools() -> Adapter:
    demo = Adapter("test.demo")

    @demo.capability("demo.echo", name="Echo", permission="public")
    async def echo(ctx: Context, value: Any) -> dict[str, Any]:
        await ctx.progress(50, "half")
        await ctx.chunk("piece")
        return {"value": value}

    @demo.capability("demo.buy", name="Buy", permission="public")
    async def buy(ctx: Context) -> dict[str, Any]:
        signed = await ctx.authenticate("api_key", reason="shop")
        choice = await ctx.ask("Which?", options=["a", "b"])
        return {"choice": choice, "key": len(signed["api_key"])}

    @demo.capability("demo.fail", name="Fail", permission="public")
    async def fail(ctx: Context) -> None:
        raise CapabilityFailed("no luck", code=-32050, data={"why": "rain"}, retryable=False)

    @demo.capability("demo.wait", name="Wait", permission="public")
    async def wait(ctx: Context) -> None:
        await asyncio.Event().wait()

    @demo.capability("demo.talk", name="Talk", permission="public")
    def talk(ctx: BlockingContext, lines: int) -> int:
        for number in range(lines):
            ctx.log("info", f"line {number}")
        return lines

    return demo


@asynccontextmanager
async def by(way: str, daemon: Connected) -> AsyncGenerator[Client]:
    urls = {
        "http": daemon.url,
        "websocket": daemon.url.replace("http", "ws", 1),
        "unix": f"unix:{daemon.socket_path}",
        "tcp": daemon.tcp_url,
    }
    chosen: dict[str, Any] = {"data": daemon.folder} if way == "found" else {"url": urls[way], "token": daemon.token}
    async with Client.connect(**chosen) as client:
        yield client


@pytest.mark.parametrize("way", WAYS)
async def test_a_task_is_made_followed_and_read_by_every_way(way: str) -> None:
    async with connected(adapters=[tools()]) as daemon, by(way, daemon) as client:
        assert [each.id for each in await client.capabilities("demo")] == [
            "demo.buy",
            "demo.echo",
            "demo.fail",
            "demo.talk",
            "demo.wait",
        ]
        seen: list[TaskEvent] = []
        value = {"n": 2**53, "x": "无线耳机 \u2028 \r\n data: x", "f": 1.5, "no": None}
        assert await client.run("demo.echo", {"value": value}, on_event=seen.append) == {"value": value}
        assert [each.kind for each in seen] == [
            "task.status",
            "task.progress",
            "task.chunk",
            "task.status",
            "task.result",
        ]
        (task,) = (await client.history(status="completed", capability_id="demo.*")).tasks
        assert [each.number async for each in client.follow(task.task_id, after=3)] == [4, 5]
        assert [each async for each in client.follow(task.task_id, after=5)] == []
        assert [each.number async for each in client.follow(task.task_id, events=["status"])] == [1, 4, 5]


@pytest.mark.parametrize("way", WAYS)
async def test_a_task_is_answered_and_signed_in_by_every_way(way: str) -> None:
    def answer(question: Question) -> str:
        return "b" if question.errors else "purple"

    async def sign_in(need: SignIn) -> dict[str, str]:
        return {"api_key": "12345"} if need.errors else {"wrong": ""}

    async with connected(adapters=[tools()]) as daemon, by(way, daemon) as client:
        result = await client.run("demo.buy", on_input=answer, on_auth=sign_in)
        assert result == {"choice": "b", "key": 5}


@pytest.mark.parametrize("way", WAYS)
async def test_errors_are_the_same_classes_by_every_way(way: str) -> None:
    async with connected(adapters=[tools()]) as daemon, by(way, daemon) as client:
        with pytest.raises(CapabilityFailed, match="no luck") as failed:
            await client.run("demo.fail")
        assert (failed.value.wire_code, failed.value.data["why"]) == (-32050, "rain")
        with pytest.raises(CapabilityNotFound):
            await client.run("demo.nothing")
        with pytest.raises(ValidationFailed) as invalid:
            await client.run("demo.talk", {"lines": "x"})
        assert invalid.value.data["errors"][0]["path"] == "/arguments/lines"
        with pytest.raises(TaskNotFound):
            await client.get("task-unknown")
        with pytest.raises(TaskNotFound):
            await anext(client.follow("task-unknown"))
        task = await client.create("demo.wait")
        running = asyncio.create_task(client.wait(task.task_id))
        with pytest.raises(InvalidTaskState):
            await client.resume(task.task_id)
        await client.cancel(task.task_id, "enough")
        with pytest.raises(UserCanceled, match="enough"):
            await running
        with pytest.raises(TaskFinal, match="canceled"):
            await client.cancel(task.task_id)


@pytest.mark.parametrize("way", ["http", "websocket", "tcp"])
async def test_a_wrong_token_is_told_by_every_way(way: str) -> None:
    async with connected() as daemon:
        daemon.token = "wrong" * 10
        with pytest.raises(AuthenticationRequired):
            async with by(way, daemon):
                pass


@pytest.mark.parametrize("way", WAYS)
async def test_many_follow_many_events_by_every_way(way: str) -> None:
    async with connected(adapters=[tools()]) as daemon, by(way, daemon) as client:
        task = await client.create("demo.talk", {"lines": 300})

        async def numbers() -> list[int]:
            return [each.number async for each in client.follow(task.task_id)]

        assert await asyncio.gather(*(numbers() for _ in range(20))) == [list(range(1, 304))] * 20


async def test_the_same_request_makes_one_task() -> None:
    async with connected(adapters=[tools()]) as daemon, by("http", daemon) as client:
        made = [await client.create("demo.wait", idempotency_key="mine") for _ in range(2)]
        assert made[0].task_id == made[1].task_id
        assert (await client.create("demo.wait")).task_id != made[0].task_id
        assert (await client.list(status=["working", "pending"])).total == 2


async def test_a_follower_goes_on_when_the_daemon_comes_back_at_another_address() -> None:
    def answered(client: Client) -> Any:
        return client.run("demo.buy", on_input=lambda _: "a", on_auth=lambda _: {"api_key": "k"})

    async with connected(adapters=[tools()]) as first:
        folder = first.folder
        client = await Client.connect(data=folder)
        assert await answered(client) == {"choice": "a", "key": 1}
        task = await client.create("demo.buy")
        following = client.follow(task.task_id)
        seen = [await anext(following) for _ in range(3)]
        await first.daemon.stop()
        rest = asyncio.ensure_future(anext(following))
        async with connected(adapters=[tools()], folder=folder) as second:
            assert second.url != first.url
            await client.authenticate(task.task_id, {"type": "api_key", "api_key": "k"})
            seen += [await rest, *[await anext(following) for _ in range(2)]]
            await client.input(task.task_id, "b")
            seen += [each async for each in following]
            assert [each.number for each in seen] == list(range(1, len(seen) + 1))
            assert seen[-1].data["result"] == {"choice": "b", "key": 1}
            await client.close()


async def test_the_blocking_client_works_beside_a_running_loop() -> None:
    def blocking(url: str, token: str) -> Any:
        with SyncClient.connect(url, token) as client:
            task = client.create("demo.echo", {"value": 1}, wait=True)
            assert [each.number for each in client.follow(task.task_id)] == [1, 2, 3, 4, 5]
            return client.run("demo.buy", on_input=lambda _: "a", on_auth=lambda _: {"api_key": "k"})

    async with connected(adapters=[tools()]) as daemon:
        assert await asyncio.to_thread(blocking, daemon.url, daemon.token) == {"choice": "a", "key": 1}
