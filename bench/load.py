"""The load generator, a process of its own: reads what to do from standard input, prints what came of it as JSON."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time

import msgspec
import uvloop

from bench.talks import TALKS, Talk, Where
from bench.wire import Wire


class Order(msgspec.Struct):
    """What to do: so many clients, one task after the other each, for so long or so many tasks in all."""

    talk: str
    where: Where
    clients: int
    seconds: float = 0.0
    tasks: int = 0
    warm_up_s: float = 0.5


class Done(msgspec.Struct):
    """What came of it."""

    tasks: int
    seconds: float
    latencies_ms: list[float]


async def work(order: Order) -> Done:
    """Keep all clients busy; what was begun in the warm-up does not count."""
    talk = TALKS[order.talk](order.where)
    wires = [await Wire.open(order.where.host, order.where.port) for _ in range(order.clients)]
    begins = time.perf_counter() + (0 if order.tasks else order.warm_up_s)
    ends = begins + order.seconds if order.seconds else float("inf")
    left = order.tasks
    latencies: list[float] = []

    async def client(wire: Wire, talk: Talk) -> None:
        nonlocal left
        while True:
            asked = time.perf_counter()
            if asked >= ends or (order.tasks and left <= 0):
                return
            left -= 1
            await talk(wire)
            now = time.perf_counter()
            if asked >= begins and now <= ends:
                latencies.append((now - asked) * 1000)

    gc.freeze()
    gc.disable()
    await asyncio.gather(*(client(wire, talk) for wire in wires))
    took = (ends if order.seconds else time.perf_counter()) - begins
    for wire in wires:
        wire.close()
    return Done(tasks=len(latencies), seconds=took, latencies_ms=latencies)


def give(done: msgspec.Struct) -> None:
    """Write what came of it to standard output, however often that takes: a long write may be broken off."""
    left = msgspec.json.encode(done)
    while left:
        left = left[os.write(1, left) :]


def main() -> None:
    """Do what standard input says."""
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=Order)
    give(uvloop.run(work(order)))


if __name__ == "__main__":
    main()
