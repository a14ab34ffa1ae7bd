"""What the measured daemon can do: the task of the bench, and one that talks."""

import asyncio
import time

from aios import Adapter, Context

bench = Adapter("dev.aiosd.bench", name="Bench")


@bench.capability("bench.once", name="One progress event")
async def once(ctx: Context, query: str, sites: list[str], limit: int = 10) -> dict[str, object]:
    """Report once, and end."""
    await ctx.progress(percent=50, message="half of it", current_step=1, total_steps=2)
    return {"query": query, "found": len(sites), "limit": limit}


@bench.capability("bench.talk", name="Many log lines")
async def talk(ctx: Context, lines: int, every_ms: int) -> int:
    """Write a line at a steady pace; each says when it was said."""
    begun = time.monotonic()
    for number in range(lines):
        await asyncio.sleep(max(0.0, begun + number * every_ms / 1000 - time.monotonic()))
        await ctx.log("info", "a line of the log", number=number, said_ns=time.time_ns())
    return lines
