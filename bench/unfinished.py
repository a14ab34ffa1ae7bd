"""Tasks that do not end: what the restarted daemon finds."""

import asyncio

from aios import Adapter, Context

unfinished = Adapter("dev.aiosd.unfinished", name="Unfinished")


@unfinished.capability("bench.ask", name="Waits for an answer")
async def ask(ctx: Context, number: int) -> int:
    """Ask, and wait."""
    return await ctx.ask(f"What is {number}?")


@unfinished.capability("bench.hold", name="Holds a slot")
async def hold(ctx: Context, number: int) -> int:
    """Do nothing, for long."""
    await asyncio.sleep(86_400)
    return number
