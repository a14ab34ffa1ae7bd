"""`system.command.run`: run a program and tell what it says."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from contextlib import AsyncExitStack
from typing import Annotated

from msgspec import Meta

from aios.adapter import Context
from aios.adapters.functions import Adapter
from aios.builtin.command.outputs import Ear
from aios.builtin.command.programs import Program, environment, launch
from aios.errors import CapabilityFailed
from aios.model import JsonObject

LEFTOVER_GRACE_S = 1.0
"""What a program leaves behind in its group may write its last words for so long after the program's own end."""
SILENCE_S = 0.5
"""What has left the group may hold the pipes open for ever; after so long a silence nobody listens any more."""
PIPES_BYTES_MAX = 2 * 1024 * 1024
"""Nor after so much, which is more than the pipes can have held when the program ended."""
OUTPUT_LIMIT_MAX = 256 * 1024

command = Adapter("org.aios.system.command", name="Programs")


@command.capability(
    "system.command.run",
    name="Run a program",
    permission="critical",
    permission_id="aios.permission.system.command.run",
    scope="system.command",
    on_crash="fail",
    category="system",
    examples=[{"command": ["git", "status", "--short"], "cwd": "~/project"}],
)
async def run(
    ctx: Context,
    command: Annotated[Sequence[str], Meta(min_length=1, max_length=1000)],
    cwd: str | None = None,
    env: dict[str, str] | None = None,
    stdin: str | None = None,
    timeout_ms: Annotated[int, Meta(ge=1)] | None = None,
    output_limit: Annotated[int, Meta(ge=0, le=OUTPUT_LIMIT_MAX)] = 64 * 1024,
    check: bool = True,
) -> JsonObject:
    """Run a program. Its output comes as chunks while it runs, its standard error as log lines.

    Pausing the task stops the program with all that it has started, canceling ends them. What it leaves running in the
    background of its process group is ended with it.

    Args:
        ctx: The task.
        command: The program and its arguments; no shell reads them.
        cwd: The folder it starts in; the daemon's own if left out.
        env: What to add to its environment; of the daemon's own it has only `PATH`, `HOME`, the language and the like.
        stdin: What it reads as its standard input.
        timeout_ms: End it after so long; time for which the task is paused does not count.
        output_limit: Of each of its streams, so many bytes are in the result.
        check: Fail if its exit code is not 0.
    """
    started_at = time.monotonic()
    surroundings = environment(os.environ, env or {})
    program = Program(launch(command, cwd=cwd, env=surroundings, has_input=stdin is not None))
    ear = Ear(ctx, output_limit)
    try:
        async with AsyncExitStack() as bounds:
            bounds.enter_context(ctx.pausing(pause=program.pause, resume=program.resume))
            if timeout_ms is not None:
                await bounds.enter_async_context(ctx.timeout(timeout_ms))
            code = await _attend(program, ear, stdin)
    finally:
        await program.finish()
    duration_ms = round((time.monotonic() - started_at) * 1000)
    if check and code != 0:
        raise _failure(command[0], code, ear.last_lines(), duration_ms)
    return {"exit_code": code, **ear.result(), "duration_ms": duration_ms}


async def _attend(program: Program, ear: Ear, stdin: str | None) -> int:
    """Listen until the program and all that it started has ended, and give its exit code."""
    output, errors = await program.output(), await program.errors()
    try:
        async with asyncio.TaskGroup() as group:
            listening = {
                group.create_task(ear.output.listen(output)),
                group.create_task(ear.errors.listen(errors)),
            }
            feeding = group.create_task(program.feed((stdin or "").encode("utf-8")))
            code = await asyncio.shield(program.exit_code)
            await asyncio.wait(listening, timeout=LEFTOVER_GRACE_S)
            await program.end()
            await _hear_out(ear, listening)
            for task in (feeding, *listening):
                task.cancel()
    except BaseExceptionGroup as failures:
        # What the store said to a chunk, for one; better told than a group of one.
        raise failures.exceptions[0] from None
    return code


async def _hear_out(ear: Ear, listening: AbstractSet[asyncio.Task[None]]) -> None:
    """Listen to the end of what was written, but not to what has left the group with a pipe in its hand."""
    bytes_max = ear.heard_bytes + PIPES_BYTES_MAX
    while not all(task.done() for task in listening) and ear.heard_bytes < bytes_max:
        before = ear.heard_bytes
        await asyncio.wait(listening, timeout=SILENCE_S)
        if ear.heard_bytes == before and not ear.is_telling:
            return


def _failure(name: str, code: int, last: Sequence[str], duration_ms: int) -> CapabilityFailed:
    how = f"ended with exit code {code}" if code > 0 else f"was ended by {_signal_name(-code)}"
    return CapabilityFailed(
        f"{name!r} {how}" + (f": {last[-1]}" if last else "."),
        data={"exit_code": code, "stderr": "\n".join(last), "duration_ms": duration_ms},
    )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
