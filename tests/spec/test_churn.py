"""Peers that come and go at any step leave nothing behind (faults F-04, F-08, J-10)."""

from __future__ import annotations

import asyncio
import os

import pytest

from aios.testing.connected import Connected
from tests.spec.doors import Caller, call, caller, initialize, open_door

STEPS = ("connected", "half a message", "introduced", "called", "following")


async def go_to(step: str, door: str, daemon: Connected, task_id: str) -> None:
    """Do as a caller does, up to a step, then go without a word."""
    opened = await open_door(door, daemon, token=daemon.token)
    client = Caller(opened)
    try:
        if step == "half a message":
            await opened.half()
        elif step != "connected":
            await _speak(step, door, client, daemon, task_id)
    finally:
        await opened.close()


async def _speak(step: str, door: str, client: Caller, daemon: Connected, task_id: str) -> None:
    if door != "http":
        await client.ask(initialize(door, daemon.token))
    if step == "called":
        await client.door.send(
            b'{"jsonrpc":"2.0","id":1,"method":"aios/capability.invoke","params":{"capability_id":"spec.echo"}}'
        )
    elif step == "following":
        await client.ask(call("s", "aios/task.subscribe", {"task_id": task_id, "from": "start"}))


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("door", ["http", "websocket", "unix", "tcp"])
@pytest.mark.promise("2.lost-connection")
async def test_who_goes_without_a_word_leaves_nothing_behind(door: str, daemon: Connected, rounds: int) -> None:
    async with caller("unix", daemon) as other:
        task = await other.result("aios/task.create", {"capability_id": "spec.ask"})
        await go_to("following", door, daemon, task["task_id"])
        while sum((before := daemon.daemon.open_connections()).values()) > 1:
            await other.result("aios/ping")
        files = open_files()
        for number in range(rounds):
            await go_to(STEPS[number % len(STEPS)], door, daemon, task["task_id"])
        async with asyncio.timeout(20):
            while daemon.daemon.open_connections() != before or open_files() > files:
                await other.result("aios/ping")
        names = [each.get_name() for each in asyncio.all_tasks()]
        assert [name for name in names if name.startswith("pump") or name == f"{door} connection"] == (
            ["unix connection"] if door == "unix" else []
        )
        given = await other.result("aios/task.input", {"task_id": task["task_id"], "input": "yes"})
        assert given["status"] == "working"
