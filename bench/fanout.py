"""Followers of one task: from the moment an event is made to the moment each of them has it. A process of its own."""

from __future__ import annotations

import asyncio
import gc
import re
import sys
import time
from typing import NamedTuple

import msgspec
import uvloop

from bench.load import give
from bench.talks import A2A, RPC, STREAM, Where, call
from bench.wire import Broken, Wire, post

HEAD_START_MS = 2_000
_SAID = re.compile(rb'\\?"number\\?":(\d+),\\?"said_ns\\?":(\d+)')


class Order(msgspec.Struct):
    """What to do."""

    talk: str
    where: Where
    followers: int
    events: int
    every_ms: int


class Done(msgspec.Struct):
    """How late each event was at each follower."""

    latencies_ms: list[float]


class Started(NamedTuple):
    """A task that will talk in a moment."""

    request: bytes
    """What each follower asks."""
    running: asyncio.Future[bytes] | None
    """Its creator's own answer, where that lasts as long as the task."""
    wire: Wire


async def _aios(order: Order) -> Started:
    """Create a task that talks in a moment, and give what each follower asks."""
    wire = await Wire.open(order.where.host, order.where.port)
    arguments = {"lines": order.events, "every_ms": order.every_ms}
    options = {"async": True, "delay_ms": HEAD_START_MS}
    body = call("aios/task.create", {"capability_id": "bench.talk", "arguments": arguments, "options": options})
    created = await wire.ask(post(RPC, body, host=order.where.name, token=order.where.token))
    task_id = msgspec.json.decode(created)["result"]["task_id"]
    follow = call("aios/task.subscribe", {"task_id": task_id, "from": "start"})
    request = post(RPC, follow, host=order.where.name, token=order.where.token, accept=STREAM)
    return Started(request, None, wire)


async def _a2a(order: Order) -> Started:
    """Send a message that begins such a task, and read the task's name off its first event."""
    wire = await Wire.open(order.where.host, order.where.port)
    named: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def heard(piece: bytes) -> None:
        if not named.done() and (found := re.search(rb'"task": ?\{"id": ?"([^"]+)"', piece)):
            named.set_result(found[1].decode())

    data = {"lines": order.events, "every_ms": order.every_ms}
    message = {"message": {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"data": data}]}}
    asked = post("/", call("SendStreamingMessage", message), host=order.where.name, accept=STREAM, more=A2A)
    running = wire.ask(asked, heard)
    follow = call("SubscribeToTask", {"id": await named})
    request = post("/", follow, host=order.where.name, accept=STREAM, more=A2A)
    return Started(request, running, wire)


async def work(order: Order) -> Done:
    """Follow, and see that every follower has every event once and in order."""
    started = await (_aios if order.talk == "aios" else _a2a)(order)
    wires = [started.wire]
    heard: list[list[tuple[int, bytes]]] = []

    async def follower() -> None:
        pieces: list[tuple[int, bytes]] = []
        heard.append(pieces)
        wire = await Wire.open(order.where.host, order.where.port)
        wires.append(wire)
        await wire.ask(started.request, lambda piece: pieces.append((time.time_ns(), piece)))

    gc.freeze()
    gc.disable()
    await asyncio.gather(*(follower() for _ in range(order.followers)))
    if started.running is not None:
        await started.running
    for wire in wires:
        wire.close()
    latencies: list[float] = []
    for pieces in heard:
        said = [(at, int(number), int(ns)) for at, piece in pieces for number, ns in _SAID.findall(piece)]
        if [number for _, number, _ in said] != list(range(order.events)):
            raise Broken(f"a follower has {len(said)} of {order.events} events, or not in order")
        latencies += [(at - ns) / 1e6 for at, _, ns in said]
    return Done(latencies_ms=latencies)


if __name__ == "__main__":
    give(uvloop.run(work(msgspec.json.decode(sys.stdin.buffer.read(), type=Order))))
