"""Seed 000, its artifacts with parts of all six types, and its sign-ins of all four types."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from aios import OAuth2
from aios.adapter import Context
from aios.model import JsonObject
from tests.spec.doors import call
from tests.spec.seeds import SEED_000, SHOP, Shop, assert_like, opened
from tests.spec.stage import Arguments, Code

on_doors = pytest.mark.parametrize("door", ["http", "websocket", "unix"])

REPORT: JsonObject = SEED_000.response("artifact.get")["result"]["artifact"]

PARTS: list[JsonObject] = [
    *REPORT["parts"],
    {"type": "file", "file": {"uri": "file:///tmp/prices.csv", "mime_type": "text/csv", "size": 4096}},
    {"type": "audio", "audio": {"uri": "file:///tmp/review.ogg", "duration_ms": 61_000}},
    {"type": "video", "video": {"uri": "file:///tmp/unboxing.webm", "duration_ms": 184_000}},
]
"""All six types, each with the members of the seed's table."""

AUTH_REQUEST: JsonObject = SEED_000.response("task.auth_required")["data"]["auth_request"]

PEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
RESPONSES: dict[str, JsonObject] = {
    "oauth2": SEED_000.request("task.authenticate", task="-")["params"]["auth_response"],
    "api_key": {"type": "api_key", "api_key": "key-123"},
    "password": {"type": "password", "username": "duck", "password": "pond"},
    "certificate": {"type": "certificate", "certificate": PEM},
}


@pytest.fixture(scope="module")
async def shop() -> AsyncGenerator[Shop]:
    async with opened() as running:
        yield running


async def reports(arguments: Arguments, ctx: Context) -> Any:
    await ctx.artifact(REPORT["name"], REPORT["type"], PARTS, mime_type=REPORT["mime_type"])
    return {}


@on_doors
@pytest.mark.promise("7.parts.six-types", "7.get-and-list")
async def test_an_artifact_with_parts_of_all_six_types_is_told_kept_and_given(door: str, shop: Shop) -> None:
    async with shop.at(door) as client:
        task = await shop.order(client, reports)
        events = await shop.end(task)
        emitted = events[1].data["artifact"]
        got = (await SEED_000.ask("artifact.get", client, art=emitted["id"]))["artifact"]
        assert got == emitted
        assert got["parts"] == PARTS
        assert {part["type"] for part in got["parts"]} == {"text", "data", "file", "image", "audio", "video"}
        assert got["metadata"] == {"source_task": task, "version": 1}
        listed = await SEED_000.ask("artifact.list", client, task=task)
        assert listed["artifacts"] == [got]
        assert events[-1].data["artifacts"] == [got]
        assert (await shop.task(task))["artifacts"] == [got]


@pytest.mark.promise("7.again-is-a-new-version")
async def test_the_same_artifact_again_is_a_new_version_of_it(shop: Shop) -> None:
    async def twice(arguments: Arguments, ctx: Context) -> Any:
        first = await ctx.artifact("价格", "data", [{"type": "data", "data": {"jd": 299}}])
        again = await ctx.artifact("价格", "data", [{"type": "data", "data": {"jd": 289}}], id=first)
        return {"same": first == again}

    async with shop.at("http") as client:
        task = await shop.order(client, twice)
        assert (await shop.end(task))[-1].data["result"] == {"same": True}
        [kept] = (await client.result("aios/artifact.list", {"task_id": task}))["artifacts"]
        assert (kept["metadata"]["version"], kept["parts"][0]["data"]) == (2, {"jd": 289})


@pytest.mark.promise("7.get-and-list")
async def test_artifacts_that_do_not_exist_are_not_found(shop: Shop) -> None:
    async with shop.at("http") as client:
        error = (await client.ask(SEED_000.request("artifact.get", art="art-nothing")))["error"]
        assert (error["code"], error["data"]["error_id"]) == (-32106, "AIOS-ARTIFACT-NOT-FOUND")
        error = (await client.ask(SEED_000.request("artifact.list", task="task-nobody")))["error"]
        assert (error["code"], error["data"]["error_id"]) == (-32106, "AIOS-TASK-NOT-FOUND")


def signs_in(kind: str) -> Code:
    """Code that asks for a sign-in as the seed shows it, and tells the names of what it was given: never the values."""

    async def code(arguments: Arguments, ctx: Context) -> Any:
        about = {name: AUTH_REQUEST[name] for name in ("provider", "authorization_url", "scopes")}
        wanted = OAuth2(**about, state="xyzzy") if kind == "oauth2" else kind
        reason, timeout_ms = AUTH_REQUEST["reason"], AUTH_REQUEST["timeout_ms"]
        given = await ctx.authenticate(wanted, reason=reason, timeout_ms=timeout_ms)
        return {"given": sorted(given)}

    return code


@on_doors
@pytest.mark.parametrize("kind", RESPONSES)
@pytest.mark.promise("4.authenticate.four-types")
async def test_a_sign_in_of_each_type_is_asked_for_given_and_used(door: str, kind: str, shop: Shop) -> None:
    async with shop.at(door) as client:
        task = await shop.order(client, signs_in(kind))
        async with shop.follow(task) as follower:
            asked = await follower.until("task.auth_required")
        assert asked.data["status"] == "auth_required"
        example = SEED_000.response("task.auth_required")
        if kind == "oauth2":
            assert_like(example["data"], asked.data)
            assert asked.data["auth_request"] == {**example["data"]["auth_request"], "state": "xyzzy"}
        assert (asked.kind, asked.data["auth_request"]["type"]) == (example["event"], kind)
        assert asked.data["auth_request"]["reason"] == AUTH_REQUEST["reason"]
        assert (await shop.task(task))["auth_request"] == asked.data["auth_request"]
        request = SEED_000.request("task.authenticate", task=task)
        request["params"]["auth_response"] = RESPONSES[kind]
        answer = await client.ask(request)
        assert_like(SEED_000.response("task.authenticate"), answer)
        events = await shop.end(task)
        assert events[-1].data["result"] == {"given": sorted(RESPONSES[kind])}
        told = repr([event.data for event in events]) + repr(await shop.task(task, include_history=True))
        assert not [each for name, each in RESPONSES[kind].items() if name not in {"type", "state"} and each in told]


WRONG: list[tuple[str, JsonObject]] = [
    ("oauth2", {"type": "oauth2", "authorization_code": "4/0AX4XfWh", "state": "plugh"}),
    ("oauth2", {"type": "oauth2", "authorization_code": "4/0AX4XfWh"}),
    ("oauth2", {"type": "oauth2", "state": "xyzzy"}),
    ("oauth2", {"type": "api_key", "api_key": "key-123"}),
    ("api_key", {"type": "api_key"}),
    ("api_key", {"api_key": "key-123"}),
    ("password", {"type": "password", "username": "duck"}),
    ("certificate", {"type": "certificate", "certificate": "no PEM"}),
    ("certificate", {"type": "certificate", "certificate": PEM, "private_key": "no PEM"}),
]


@pytest.mark.parametrize(("kind", "response"), WRONG)
@pytest.mark.promise("4.authenticate.checked")
async def test_a_sign_in_that_does_not_fit_is_refused_and_the_task_still_waits(
    kind: str, response: JsonObject, shop: Shop
) -> None:
    async with shop.at("http") as client:
        task = await shop.order(client, signs_in(kind))
        await shop.reach(task, "auth_required")
        before = await shop.task(task)
        given = {"task_id": task, "auth_response": response}
        error = (await client.ask(call(1, "aios/task.authenticate", given)))["error"]
        assert (error["code"], error["message"]) == (-32108, "Invalid input")
        assert error["data"]["errors"][0]["path"].startswith("/auth_response")
        assert await shop.task(task) == before
        right = {"task_id": task, "auth_response": RESPONSES[kind]}
        assert (await client.result("aios/task.authenticate", right))["status"] == "working"
        assert (await shop.end(task))[-1].kind == "task.result"
        assert (await shop.task(task))["capability_id"] == SHOP
