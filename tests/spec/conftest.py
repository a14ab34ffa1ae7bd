"""A daemon for each test, with capabilities that do what the tests need."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from aios.adapter import Context
from aios.testing.adapters import ScriptedAdapter
from aios.testing.connected import Connected, connected
from tests.spec.stage import Stage, staged

Arguments = dict[str, Any]


async def echo(arguments: Arguments, ctx: Context) -> Any:
    return arguments


async def count(arguments: Arguments, ctx: Context) -> Any:
    for number in range(1, arguments["to"] + 1):
        await ctx.log("info", f"第 {number} 步", number=number)
    return {"counted": arguments["to"]}


async def ask(arguments: Arguments, ctx: Context) -> Any:
    return {"answer": await ctx.ask("Go on?", options=["yes", "no"])}


async def wait(arguments: Arguments, ctx: Context) -> Any:
    await asyncio.Event().wait()


async def shout(arguments: Arguments, ctx: Context) -> Any:
    print("this must not get between the frames")  # noqa: T201 - the very thing that is tested
    return {"shouted": True}


async def draw(arguments: Arguments, ctx: Context) -> Any:
    page = "<script>alert(1)</script>" * 4_000
    parts = [{"type": "file", "file": {"mime_type": "text/html", "content": page}}, {"type": "text", "text": "说明"}]
    return {"artifact": await ctx.artifact("page", "report", parts)}


async def flood(arguments: Arguments, ctx: Context) -> Any:
    for number in range(arguments["times"]):
        await ctx.log("info", "x" * 100_000, number=number)


SCHEMA = {"type": "object", "properties": {"to": {"type": "integer", "minimum": 1}}, "required": ["to"]}


def scripts() -> ScriptedAdapter:
    """What every daemon here can do."""
    adapter = ScriptedAdapter(
        {
            "spec.echo": echo,
            "spec.ask": ask,
            "spec.wait": wait,
            "spec.shout": shout,
            "spec.draw": draw,
            "spec.flood": flood,
        }
    )
    adapter.offer("spec.count", count, input=SCHEMA)
    return adapter


@pytest.fixture
async def daemon() -> AsyncGenerator[Connected]:
    async with connected(adapters=[scripts()]) as running:
        yield running


@pytest.fixture(scope="module")
async def stage() -> AsyncGenerator[Stage]:
    async with staged() as running:
        yield running
        await running.clear()
