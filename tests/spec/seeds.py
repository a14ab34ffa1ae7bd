"""The seeds' examples, as they are written there, and the capabilities of which they speak.

`seed_000.json` and `seed_002.json` hold them without comments and with `{...}` filled in. Ids (`task-001`) stand for real ones:
`Seed.request` puts those in, and `assert_like` asks of an answer every member that the example has, with its type and meaning.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from aios.adapter import Context
from aios.testing.adapters import ScriptedAdapter
from aios.testing.connected import connected
from tests.spec.doors import Caller, Message
from tests.spec.stage import Arguments, Code, Gate, Stage

SHOP = "compat.browser.search_and_compare"
PROMPT = "找到多个商品，请选择要比较的商品"
LIMITS = {"limits.max_concurrent_tasks": 10, "limits.max_tasks_per_tool": 3, "limits.max_queue_size": 100}
"""The numbers of the seed's answer to `initialize`."""

_PLACES = ("task-001", "art-001", "sub-001", "sess-001")


class Seed:
    """The examples of one document."""

    def __init__(self, name: str) -> None:
        self._examples: dict[str, dict[str, Message]] = json.loads(Path(__file__).with_name(name).read_text("utf-8"))

    def request(self, name: str, **ids: str) -> Message:
        """The request of an example with real ids: `task=…` for `task-001`, `art=…`, `sub=…`, `sess=…`."""
        text = json.dumps(self._examples[name]["request"], ensure_ascii=False)
        for place in _PLACES:
            kind = place.partition("-")[0]
            if kind in ids:
                text = text.replace(place, ids[kind])
        assert not any(place in text for place in _PLACES), text
        return json.loads(text)

    def bytes(self, name: str) -> bytes:
        """The request of an example without ids, as it goes over the wire."""
        return json.dumps(self.request(name), ensure_ascii=False).encode()

    def response(self, name: str) -> Any:
        """The answer of an example."""
        return self._examples[name]["response"]

    async def ask(self, name: str, client: Caller, **ids: str) -> Any:
        """Send the request of an example, see that the answer is like the example's, and give its result."""
        answer = await client.ask(self.request(name, **ids))
        assert_like(self.response(name), answer)
        return answer["result"]


SEED_000 = Seed("seed_000.json")
SEED_002 = Seed("seed_002.json")


def assert_like(example: Any, actual: Any, path: str = "") -> None:
    """Hold an answer against an example: each member there, of the same type; ids and times of the same form.

    Words of a person and numbers that were measured may differ; what must be equal, the tests say.
    """
    match example:
        case dict():
            assert isinstance(actual, dict), f"{path}: {actual!r}"
            for key, value in cast("Message", example).items():
                assert key in actual, f"{path}/{key} is missing in {actual!r}"
                assert_like(value, actual[key], f"{path}/{key}")
        case list():
            assert isinstance(actual, list), f"{path}: {actual!r}"
            examples, found = cast("list[Any]", example), cast("list[Any]", actual)
            assert len(found) >= len(examples), f"{path}: {found!r}"
            for number, value in enumerate(examples):
                assert_like(value, found[number], f"{path}/{number}")
        case bool():
            assert isinstance(actual, bool), f"{path}: {actual!r}"
        case int():
            assert isinstance(actual, int), f"{path}: {actual!r}"
            assert not isinstance(actual, bool), f"{path}: {actual!r}"
        case _:
            assert isinstance(actual, str), f"{path}: {actual!r}"
            assert _form(actual) == _form(cast("str", example)), f"{path}: {actual!r} is not like {example!r}"


def _form(text: str) -> str:
    """What kind of text it is: an id of some kind, an instant, a protocol's word, or any other."""
    kind, dash, _ = text.partition("-")
    if dash and kind in {"task", "art", "sub", "sess", "evt", "stream"}:
        return kind
    if text.endswith("Z"):
        try:
            return "instant" if datetime.fromisoformat(text) else ""
        except ValueError:
            return "text"
    if text.startswith(("aios/", "task.", "compat.", "system.")):
        return text
    return "text"


class Shop(Stage):
    """A daemon with the seeds' limits and the capabilities of their examples."""

    def play(self, code: Code) -> None:
        """Let the next tasks of the shop run this code; it is given the seed's own arguments."""
        self._code[SHOP] = code

    async def order(self, client: Caller, code: Code, *, seed: Seed = SEED_000) -> str:
        """Create a task with the seed's request; gives its id."""
        self.play(code)
        return str((await seed.ask("task.create", client))["task_id"])

    async def shop(self, client: Caller, *, seed: Seed = SEED_000) -> str:
        """Go shopping as the seed does, up to the question; gives the task's id."""
        seen = Gate()
        task = await self.order(client, shopping(seen), seed=seed)
        async with self.follow(task) as follower:
            await follower.until("task.progress", progress={"percent": 25, "message": "正在搜索京东..."})
            seen.open()
            await follower.until("task.input_required")
        return task


def shopping(seen: Gate) -> Code:
    """Stand in for the capability as the seed's list of events shows it: progress, an artifact, a question, a result.

    Between two reports it waits for the gate, as the second would take the place of the first if nobody had seen that yet.
    """

    async def shops(arguments: Arguments, ctx: Context) -> Any:
        await ctx.progress(25, "正在搜索京东...")
        await seen.passed()
        await ctx.progress(50, "正在搜索淘宝...")
        await ctx.artifact("京东搜索结果", "data", [{"type": "data", "data": {"jd": {"price": 299}}}])
        options = [{"id": f"product-{number}", "name": f"耳机 {number}"} for number in range(121, 126)]
        schema = {"type": "object", "required": ["selected_product"]}
        chosen = await ctx.ask(PROMPT, options=options, schema=schema, reason="需要选择商品")
        return {"chosen": chosen["selected_product"]}

    return shops


async def waits(arguments: Arguments, ctx: Context) -> Any:
    """Stand at 45 %, step 2 of 4, until the task is canceled."""
    await ctx.progress(45, "正在搜索淘宝...", current_step=2, total_steps=4)
    await Gate().passed()


async def changes_wallpaper(arguments: Arguments, ctx: Context) -> Any:
    await ctx.chunk("部分结果...")
    await ctx.progress(50, "正在处理...")
    await ctx.log("info", "写出进度")
    await ctx.progress(100, "壁纸已更换")
    return {"previous_path": "/usr/share/backgrounds/default.jpg", "current_path": arguments["path"]}


async def shows_wallpaper(arguments: Arguments, ctx: Context) -> Any:
    return {"path": "/usr/share/backgrounds/default.jpg"}


@asynccontextmanager
async def opened() -> AsyncGenerator[Shop]:
    """Run the shop."""
    code: dict[str, Code] = {}

    async def shop(arguments: Arguments, ctx: Context) -> Any:
        return await code[SHOP](arguments, ctx)

    words = {"type": "array", "items": {"type": "string"}}
    wanted = {"type": "object", "properties": {"query": {"type": "string"}, "sites": words}, "required": ["query"]}
    desktop = ScriptedAdapter(adapter_id="org.aios.desktop")
    details = SEED_002.response("capability.info")["result"]
    desktop.offer(
        "system.desktop.set_wallpaper",
        changes_wallpaper,
        name="设置壁纸",
        description="设置桌面壁纸",
        category="desktop",
        scope="system.desktop",
        input=details["input"],
        output=details["output"],
    )
    desktop.offer(
        "system.desktop.get_wallpaper", shows_wallpaper, name="获取壁纸", category="desktop", permission_level="public"
    )
    browser = ScriptedAdapter(adapter_id="org.aios.browser.chrome")
    browser.offer(SHOP, shop, name="搜索并比较", input=wanted, estimated_duration_ms=30_000)
    async with connected(adapters=[browser, desktop], flags=LIMITS) as daemon:
        yield Shop(daemon, code)
