"""Capabilities that the program is tried on."""

import asyncio
from typing import Annotated, Any, Literal

from msgspec import Meta

from aios import Adapter, CapabilityFailed, Context

demo = Adapter("test.demo", name="Demo")
PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Name"},
        "age": {"type": "integer", "minimum": 0},
        "pin": {"type": "string", "writeOnly": True},
    },
    "required": ["name", "pin"],
}


@demo.capability("demo.echo", name="Echo", permission="public", examples=({"text": "two words", "times": 2},))
async def echo(
    ctx: Context,
    text: str,
    times: Annotated[int, Meta(ge=1)] = 1,
    loud: bool = False,
    tags: list[str] | None = None,
    mode: Literal["plain", "fancy"] = "plain",
) -> dict[str, Any]:
    """Say something again.

    Args:
        ctx: The task.
        text: What to say.
        times: How often.
        loud: In capitals.
        tags: Some words.
        mode: How.
    """
    await ctx.progress(50, f"saying {text}", 1, 2)
    return {"text": (text.upper() if loud else text) * times, "tags": tags, "mode": mode}


@demo.capability("demo.report", name="Report", permission="public")
async def report(ctx: Context) -> str:
    await ctx.log("warning", "careful \x1b[31m[bold]now[/bold]", place="here")
    await ctx.chunk("streamed\n")
    parts = [
        {"type": "text", "text": "# Findings\n\nAll *well*."},
        {"type": "data", "data": {"found": [1, 2]}},
        {"type": "file", "file": {"mime_type": "application/octet-stream", "content": b"\x00\xff" * 50_000}},
    ]
    await ctx.artifact("Findings", "report", parts)
    return "done\x1b[2J"


@demo.capability("demo.ask", name="Ask", permission="public")
async def ask(ctx: Context) -> dict[str, Any]:
    options = ["red", {"id": "b", "label": "Blue (dark)"}]
    return {
        "color": await ctx.ask("Which color?", options=options),
        "letters": await ctx.ask("Which letters?", options=["x", "y", "z"], schema={"type": "array", "maxItems": 2}),
        "sure": await ctx.ask("Really?", schema={"type": "boolean", "default": True}),
        "count": await ctx.ask("How many?", schema={"type": "integer", "maximum": 9}),
        "person": await ctx.ask("Who?", schema=PERSON),
    }


@demo.capability("demo.question", name="Question", permission="public")
async def question(ctx: Context) -> Any:
    return await ctx.ask("Which letters?", options=["x", "y", "z"], schema={"type": "array"})


@demo.capability("demo.door", name="Door", permission="public")
async def door(ctx: Context) -> int:
    response = await ctx.authenticate("password", reason="for the shop")
    return len(response["password"])


@demo.capability("demo.fail", name="Fail", permission="public")
async def fail(ctx: Context) -> None:
    raise CapabilityFailed("no luck today", code=-32050, data={"suggestion": "try tomorrow"}, retryable=False)


@demo.capability("demo.wait", name="Wait", permission="public")
async def wait(ctx: Context, seconds: float = 3_600) -> str:
    await ctx.progress(message="waiting long")
    await asyncio.sleep(seconds)
    return "waited"
