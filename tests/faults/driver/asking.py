"""What the tests ask of a daemon one thing at a time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import aclosing

from tests.faults.driver.daemon import PATIENCE_S, Daemon
from tests.faults.driver.record import Json
from tests.faults.driver.wire import Http

LOOK_EVERY_S = 0.01


async def create(http: Http, name: str, options: Json | None = None, **arguments: Json | int | str) -> str:
    """Create a task of one of our capabilities; gives its id."""
    asked: Json = {
        "capability_id": f"test.faults.{name}",
        "arguments": {"op": 0, **arguments},
        "options": {"async": True, **(options or {})},
    }
    return (await http.call("aios/task.create", asked))["task_id"]


async def get(http: Http, task_id: str) -> Json:
    """Look at a task."""
    return await http.call("aios/task.get", {"task_id": task_id, "include_history": True})


async def ended(http: Http, task_id: str) -> Json:
    """Follow a task to its end, and look at it."""
    async with asyncio.timeout(PATIENCE_S), aclosing(http.events(f"/aios/tasks/{task_id}/events")) as frames:
        async for _ in frames:
            pass
    return await get(http, task_id)


async def comes_to(http: Http, task_id: str, status: str, *, reason: str | None = None) -> Json:
    """Follow a task until it has a status, for some reason."""
    async with asyncio.timeout(PATIENCE_S), aclosing(http.events(f"/aios/tasks/{task_id}/events")) as frames:
        async for frame in frames:
            data = json.loads(frame.data)
            if frame.event == "task.status" and data["status"] == status and reason in {None, data.get("reason")}:
                return await get(http, task_id)
    raise AssertionError(f"{task_id} never came to be {status}")


def deeds(daemon: Daemon, task_id: str, deed: str) -> list[Json]:
    """What a task's code has done."""
    return [line for line in daemon.ledger if line["task_id"] == task_id and line["deed"] == deed]


async def until(is_so: Callable[[], bool]) -> None:
    """Wait until something can be seen from outside that nobody tells of."""
    for _ in range(round(PATIENCE_S / LOOK_EVERY_S)):
        if is_so():
            return
        await asyncio.sleep(LOOK_EVERY_S)
    raise AssertionError("it never came to be so")
