"""Clients of Procrastinate: each defers one job after the other and hears of progress and end by LISTEN."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from itertools import count
from typing import Any

import psycopg

from bench.peers.procrastinate_app import DONE, PROGRESS, make_app


class Ears:
    """Hears what PostgreSQL notifies, and wakes whoever waits for it."""

    def __init__(self) -> None:
        self.progress: dict[int, asyncio.Future[None]] = {}
        self.ends: dict[int, asyncio.Future[str]] = {}
        self.early: dict[int, str] = {}
        """Ends of jobs whose client has not heard the job's number yet."""

    async def listen(self, ready: asyncio.Event) -> None:
        """Hear for ever."""
        connection = await psycopg.AsyncConnection.connect(os.environ["BENCH_POSTGRES"], autocommit=True)
        await connection.execute(f"LISTEN {DONE}")
        await connection.execute(f"LISTEN {PROGRESS}")
        ready.set()
        async for heard in connection.notifies():
            if heard.channel == PROGRESS:
                # The clients before us may have left jobs behind.
                waiting_for = self.progress.pop(json.loads(heard.payload)["number"], None)
                if waiting_for is not None:
                    waiting_for.set_result(None)
            else:
                job, status = heard.payload.split()
                waiting = self.ends.pop(int(job), None)
                if waiting is None:
                    self.early[int(job)] = status
                else:
                    waiting.set_result(status)

    async def end(self, job: int) -> str:
        """Wait for the end of a job."""
        if job in self.early:
            return self.early.pop(job)
        self.ends[job] = asyncio.get_running_loop().create_future()
        return await self.ends[job]


async def load(order: dict[str, Any]) -> dict[str, Any]:
    """Keep all clients busy."""
    ears, ready, numbers, latencies = Ears(), asyncio.Event(), count(random.randrange(10**12)), list[float]()
    app = make_app(order["clients"])
    async with app.open_async():
        listening = asyncio.create_task(ears.listen(ready))
        await ready.wait()
        job = app.configure_task("bench.once")
        begins = time.perf_counter() + order["warm_up_s"]
        ends = begins + order["seconds"]

        async def client() -> None:
            while (asked := time.perf_counter()) < ends:
                number = next(numbers)
                told = ears.progress[number] = asyncio.get_running_loop().create_future()
                status = await ears.end(await job.defer_async(number=number, **order["arguments"]))
                await told
                if status != "succeeded":
                    sys.exit(f"job ended as {status}")
                now = time.perf_counter()
                if asked >= begins and now <= ends:
                    latencies.append((now - asked) * 1000)

        await asyncio.gather(*(client() for _ in range(order["clients"])))
        listening.cancel()
    return {"tasks": len(latencies), "seconds": order["seconds"], "latencies_ms": latencies}


if __name__ == "__main__":
    json.dump(asyncio.run(load(json.load(sys.stdin))), sys.stdout)
