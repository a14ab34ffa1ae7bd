"""Capabilities that write down in a ledger when they run: loaded by the daemon that is going to be killed.

The ledger is a file outside the daemon's data: what a capability does to the world. One line a deed, appended in one write; its
times are of the machine's monotonic clock, so that lines of one daemon can be held against those of the next and of the clients.
"""

import asyncio
import os
import secrets
import signal
import time
from typing import Any

import msgspec

from aios import Adapter, BlockingContext, CapabilityFailed, Context

SMALL, LARGE = 100, 70_000
"""Bytes of an artifact's content that is kept in its row, and of one that becomes a file."""
NAP_MS = 1_050
"""A sleep that is durable, and during which the task holds no slot."""
GATE_LOOKS_MAX = 20_000

faults = Adapter("test.faults", name="What is killed")
_ledger = os.open(os.environ["FAULTS_LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


def _write(ctx: Context | BlockingContext, deed: str, **facts: Any) -> None:
    line = {
        "at": time.monotonic_ns(),
        "pid": os.getpid(),
        "task_id": ctx.task_id,
        "token": ctx.idempotency_token,
        "attempt": ctx.attempt,
        "deed": deed,
        **facts,
    }
    os.write(_ledger, msgspec.json.encode(line) + b"\n")


async def _work(ctx: Context, work_ms: int) -> None:
    """Take some time, in pieces, telling how far it is."""
    pieces = 4
    for piece in range(pieces):
        await asyncio.sleep(work_ms / pieces / 1000)
        await ctx.progress(percent=100 * (piece + 1) / pieces, message=f"piece {piece}")


@faults.capability("test.faults.plain", name="Plain")
async def plain(ctx: Context, op: int, work_ms: int = 0) -> dict[str, Any]:
    """Begin, work, end."""
    _write(ctx, "begin")
    await _work(ctx, work_ms)
    _write(ctx, "end")
    return {"op": op}


@faults.capability("test.faults.stepped", name="Stepped")
async def stepped(ctx: Context, op: int, steps: int, work_ms: int = 0) -> dict[str, Any]:
    """Do durable steps, each with a value that no other run of it would give."""
    _write(ctx, "begin")

    async def do(number: int) -> str:
        value = secrets.token_hex(4)
        _write(ctx, "step", number=number, value=value)
        await asyncio.sleep(work_ms / steps / 1000)
        return value

    values = [await ctx.step(f"step {number}", do, number) for number in range(steps)]
    _write(ctx, "end")
    return {"op": op, "values": values}


@faults.capability("test.faults.flaky", name="Flaky")
async def flaky(ctx: Context, op: int, fails: int, work_ms: int = 0) -> dict[str, Any]:
    """Fail as often as was asked for."""
    _write(ctx, "begin")
    await _work(ctx, work_ms)
    if ctx.attempt <= fails:
        raise CapabilityFailed("planned", data={"planned": True, "attempt": ctx.attempt}, retryable=True)
    return {"op": op}


@faults.capability("test.faults.asking", name="Asking")
async def asking(ctx: Context, op: int, questions: int, timeout_ms: int | None = None) -> dict[str, Any]:
    """Ask one question after the other."""
    _write(ctx, "begin")
    answers: list[Any] = []
    for number in range(questions):
        answers.append(await ctx.ask(f"question {number}", schema={"type": "integer"}, timeout_ms=timeout_ms))
        _write(ctx, "answered", number=number, value=answers[-1])
    return {"op": op, "answers": answers}


@faults.capability("test.faults.signing", name="Signing in")
async def signing(ctx: Context, op: int) -> dict[str, Any]:
    """Ask for a sign-in, and tell no more of it than its length."""
    _write(ctx, "begin")
    given = await ctx.authenticate("api_key", reason="to see that it is kept")
    return {"op": op, "size": len(given["api_key"])}


@faults.capability("test.faults.family", name="Family")
async def family(ctx: Context, op: int, children: int, work_ms: int = 0) -> dict[str, Any]:
    """Have children do it."""
    _write(ctx, "begin")
    spawned = [
        ctx.spawn("test.faults.plain", {"op": op, "work_ms": work_ms}, key=f"child {number}")
        for number in range(children)
    ]
    results = [await child for child in spawned]
    return {"op": op, "children": [child.task_id for child in spawned], "results": results}


@faults.capability("test.faults.making", name="Making")
async def making(ctx: Context, op: int) -> dict[str, Any]:
    """Make artifacts, write to the log, stream."""
    _write(ctx, "begin")
    made: list[str] = []
    for name, size in (("small", SMALL), ("large", LARGE)):
        content = f"{op}-{name}-".encode() * (size // 8)
        part = {"type": "file", "file": {"content": content, "mime_type": "text/plain"}}
        made.append(await ctx.artifact(name=name, type="document", parts=[part]))
        await ctx.log("info", f"made {name}", op=op)
        await ctx.chunk({"made": name})
    return {"op": op, "artifacts": made}


@faults.capability("test.faults.blocking", name="Blocking")
def blocking(ctx: BlockingContext, op: int, steps: int, work_ms: int = 0) -> dict[str, Any]:
    """Do durable steps in a thread."""
    _write(ctx, "begin")

    def do(number: int) -> str:
        value = secrets.token_hex(4)
        _write(ctx, "step", number=number, value=value)
        time.sleep(work_ms / steps / 1000)
        return value

    values = [ctx.step(f"step {number}", do, number) for number in range(steps)]
    return {"op": op, "values": values}


@faults.capability("test.faults.sleeping", name="Sleeping")
async def sleeping(ctx: Context, op: int) -> dict[str, Any]:
    """Sleep durably."""
    _write(ctx, "begin")
    await ctx.sleep(NAP_MS)
    _write(ctx, "end")
    return {"op": op}


@faults.capability("test.faults.endless", name="Endless")
async def endless(ctx: Context, op: int) -> dict[str, Any]:
    """Go on until somebody stops it."""
    _write(ctx, "begin")
    number = 0
    while True:
        await asyncio.sleep(0.01)
        number += 1
        await ctx.progress(percent=number % 100, message=f"round {number}")
        _write(ctx, "round", number=number)


@faults.capability("test.faults.once", name="Once", on_crash="fail")
async def once(ctx: Context, op: int, work_ms: int = 0, asks: bool = False) -> dict[str, Any]:
    """Must not run a second time after a crash."""
    _write(ctx, "begin")
    await _work(ctx, work_ms)
    if asks:
        await ctx.ask("go on?")
    return {"op": op}


@faults.capability("test.faults.gated", name="Gated")
async def gated(ctx: Context, op: int, gate: str) -> dict[str, Any]:
    """Do a step, then wait for a file to be there, and do another."""
    _write(ctx, "begin")
    await ctx.step("before", _write, ctx, "before")
    for _ in range(GATE_LOOKS_MAX):
        if await asyncio.to_thread(os.path.exists, gate):
            break
        await asyncio.sleep(0.005)
    await ctx.step("after", _write, ctx, "after")
    return {"op": op}


@faults.capability("test.faults.poison", name="Poison")
async def poison(ctx: Context, op: int, way: str = "kill") -> dict[str, Any]:
    """Take the whole daemon down."""
    _write(ctx, "begin")
    if way == "exit":
        os._exit(3)
    os.kill(os.getpid(), signal.SIGKILL)
    return {"op": op}


@faults.capability("test.faults.deaf", name="Deaf")
def deaf(ctx: BlockingContext, op: int) -> None:
    """Hear nothing for longer than anybody waits."""
    _write(ctx, "begin")
    time.sleep(30)
