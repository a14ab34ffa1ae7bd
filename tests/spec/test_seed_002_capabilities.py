"""Seed 002, chapters 2 and 5 as written: capabilities listed, described, invoked, asked after, canceled, and streamed."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aios.adapter import Context
from tests.spec.doors import Caller, caller, initialize
from tests.spec.seeds import SEED_002, SHOP, Shop, assert_like, opened
from tests.spec.stage import Arguments, Gate

on_doors = pytest.mark.parametrize("door", ["http", "websocket", "unix"])


@pytest.fixture(scope="module")
async def shop() -> AsyncGenerator[Shop]:
    async with opened() as running:
        yield running


@asynccontextmanager
async def in_session(door: str, shop: Shop) -> AsyncGenerator[tuple[Caller, str]]:
    """A caller, and the session that its handshake made."""
    async with caller(door, shop.daemon, handshake=False) as client:
        answer = await client.ask(initialize(door, shop.daemon.token))
        yield client, answer["result"]["session"]["session_id"]


@on_doors
@pytest.mark.promise("8.list-and-info")
async def test_capabilities_are_listed_and_described_as_the_seed_shows(door: str, shop: Shop) -> None:
    async with shop.at(door) as client:
        listed = (await client.ask(SEED_002.request("capability.list")))["result"]["capabilities"]
        members = ("id", "name", "namespace", "version", "permission_level")
        shown = [{name: each[name] for name in members} for each in listed]
        expected = SEED_002.response("capability.list")["result"]["capabilities"]
        assert sorted(shown, key=str) == sorted(expected, key=str)
        info = await SEED_002.ask("capability.info", client)
        example = SEED_002.response("capability.info")["result"]
        assert info | {"permission": example["permission"]} == info | example
        assert info["permission"].items() >= example["permission"].items()
        everything = await client.result("aios/capability.list")
        assert SHOP in [each["id"] for each in everything["capabilities"]]


@pytest.mark.promise("8.list-and-info")
async def test_an_unknown_capability_is_not_found_and_app_is_another_name_for_compat(shop: Shop) -> None:
    async with shop.at("http") as client:
        for method in ("aios/capability.info", "aios/capability.invoke", "aios/task.create"):
            error = await client.error(method, {"capability_id": "compat.browser.fly"})
            assert (error["code"], error["message"]) == (-32003, "Capability not found")
            assert error["data"]["error_id"] == "AIOS-CAP-NOT-FOUND"
        alias = await client.result("aios/capability.info", {"capability_id": SHOP.replace("compat.", "app.")})
        assert alias["id"] == SHOP


@on_doors
@pytest.mark.promise("8.invoke.result")
async def test_invoke_answers_with_what_the_capability_gave(door: str, shop: Shop) -> None:
    async with in_session(door, shop) as (client, session_id):
        answer = await client.ask(SEED_002.request("capability.invoke", sess=session_id))
        example = SEED_002.response("capability.invoke")
        assert_like(example, answer)
        result = answer["result"]
        assert {name: result[name] for name in ("success", "message", "data")} == {
            name: example["result"][name] for name in ("success", "message", "data")
        }
        task = await shop.task(result["task_id"])
        assert (task["result"], task["session_id"]) == (result["data"], session_id)


@pytest.mark.promise("3.session.of-the-connection")
async def test_an_invocation_cannot_name_another_session_than_its_connections(shop: Shop) -> None:
    async with in_session("http", shop) as (_, session_id), in_session("unix", shop) as (client, _):
        error = (await client.ask(SEED_002.request("capability.invoke", sess=session_id)))["error"]
        assert (error["code"], error["message"]) == (-32600, "Invalid Request")
        error = (await client.ask(SEED_002.request("capability.invoke", sess="sess-nobody")))["error"]
        assert error["code"] == -32600
    async with shop.at("http") as client:
        error = (await client.ask(SEED_002.request("capability.invoke", sess="sess-nobody")))["error"]
        assert (error["code"], error["message"]) == (-32105, "Session not found")


@pytest.mark.promise("8.invoke.errors")
async def test_arguments_that_break_the_schema_start_nothing(shop: Shop) -> None:
    async with in_session("http", shop) as (client, session_id):
        before = (await client.result("aios/task.list"))["total"]
        request = SEED_002.request("capability.invoke", sess=session_id)
        request["params"]["arguments"] = {"mode": "upside-down"}
        error = (await client.ask(request))["error"]
        assert (error["code"], error["message"]) == (-32108, "Validation failed")
        assert {each["path"] for each in error["data"]["errors"]} >= {"/arguments/mode"}
        assert (await client.result("aios/task.list"))["total"] == before


@on_doors
@pytest.mark.promise("8.status-and-cancel")
async def test_status_and_cancel_tell_of_a_running_task(door: str, shop: Shop) -> None:
    reported = Gate()

    async def code(arguments: Arguments, ctx: Context) -> Any:
        await ctx.progress(75, "正在处理...")
        await ctx.log("info", "75")
        reported.open()
        await Gate().passed()

    async with shop.at(door) as client:
        task = await shop.order(client, code)
        await reported.passed()
        status = await SEED_002.ask("capability.status", client, task=task)
        example = SEED_002.response("capability.status")["result"]
        assert {name: status[name] for name in ("status", "progress", "message")} == {
            name: example[name] for name in ("status", "progress", "message")
        }
        assert (await SEED_002.ask("capability.cancel", client, task=task)) == {"success": True}
        assert (await client.ask(SEED_002.request("capability.status", task=task)))["result"]["status"] == "canceled"
        again = (await client.ask(SEED_002.request("capability.cancel", task=task)))["error"]
        assert (again["code"], again["message"]) == (-32107, "Task already canceled")


@on_doors
@pytest.mark.promise("8.stream")
async def test_a_streamed_invocation_tells_start_chunk_progress_and_end_before_its_answer(
    door: str, shop: Shop
) -> None:
    async with in_session(door, shop) as (client, session_id):
        request = SEED_002.request("capability.invoke", sess=session_id)
        request["params"]["options"]["stream"] = True
        answer = await client.ask(request)
        assert answer["result"]["success"] is True
        told = list(client.told)
        assert [each["method"] for each in told] == [
            "aios/stream.start",
            "aios/stream.chunk",
            "aios/stream.progress",
            "aios/stream.progress",
            "aios/stream.end",
        ]
        for name in ("start", "chunk", "progress", "end"):
            [*_, example] = [each for each in told if each["method"] == f"aios/stream.{name}"]
            assert_like(SEED_002.response(f"stream.{name}"), example)
        assert len({each["params"]["stream_id"] for each in told}) == 1
        assert told[0]["params"]["task_id"] == answer["result"]["task_id"]
        assert told[1]["params"].items() >= {"index": 0, "data": "部分结果..."}.items()
        assert told[2]["params"].items() >= {"progress": 50, "message": "正在处理..."}.items()
        assert told[4]["params"]["result"] == answer["result"]["data"]


@on_doors
@pytest.mark.promise("4.create.async", "4.get.progress", "4.pause.only-working", "4.resume.only-paused")
async def test_the_task_examples_of_seed_002_work_too(door: str, shop: Shop) -> None:
    async with shop.at(door) as client, shop.at("http") as other:
        task = await shop.shop(other, seed=SEED_002)
        answer = await SEED_002.ask("task.subscribe", client, task=task)
        assert answer["task_id"] == task
        missed = await SEED_002.ask("task.resubscribe", other, task=task)
        assert missed["missed_events"][0]["id"] == "evt-004"
        artifact = missed["missed_events"][0]["data"]["artifact"]["id"]
        got = (await other.ask(SEED_002.request("artifact.get", art=artifact)))["result"]["artifact"]
        assert got["parts"] == [{"type": "data", "data": {"jd": {"price": 299}}}]
        assert (await SEED_002.ask("artifact.list", other, task=task))["artifacts"] == [got]
        assert (await SEED_002.ask("task.input", other, task=task))["status"] == "working"
        assert (await client.events())[-1][2]["result"] == {"chosen": "product-123"}
        refused = (await other.ask(SEED_002.request("task.cancel", task=task)))["error"]
        assert refused["message"] == "Task already completed"


@on_doors
@pytest.mark.promise("4.authenticate.four-types")
async def test_steering_and_signing_in_as_seed_002_writes_it(door: str, shop: Shop) -> None:
    async def code(arguments: Arguments, ctx: Context) -> Any:
        await ctx.progress(45, "正在搜索淘宝...")
        return {"type": (await ctx.authenticate("oauth2", provider="google"))["type"]}

    async with shop.at(door) as client:
        task = await shop.order(client, code, seed=SEED_002)
        await shop.reach(task, "auth_required")
        shown = (await client.ask(SEED_002.request("task.get", task=task)))["result"]
        assert [entry["state"] for entry in shown["state_history"]] == ["pending", "working", "auth_required"]
        assert shown["progress"].items() >= {"percent": 45, "message": "正在搜索淘宝..."}.items()
        assert (await client.ask(SEED_002.request("task.pause", task=task)))["error"]["code"] == -32108
        assert (await SEED_002.ask("task.authenticate", client, task=task))["status"] == "working"
        assert (await shop.end(task))[-1].data["result"] == {"type": "oauth2"}
