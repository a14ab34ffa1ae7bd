"""What is measured: each part starts what it needs, in an empty folder, and writes its figures on the sheet."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from bench import fanout
from bench import restart as restarting
from bench.figures import Sheet, percentile
from bench.load import Done, Order
from bench.processes import ROOT, NotThere, load, rss_mib, running, scratch
from bench.systems import OURS, PEER_SYSTEMS, System
from bench.talks import Where

MANY_CLIENTS = 32
FOLLOWERS = 100
EVENTS = 500
EVERY_MS = 10
MEMORY_TASKS = 20_000
SYNC_BYTES = 4_096
OUR_TALKS = ("sync", "stream", "follow")


class Plan(msgspec.Struct, kw_only=True):
    """How it is measured."""

    runs: int
    seconds: float
    has_peers: bool
    say: Callable[[str], None]

    def systems(self) -> list[System]:
        """Give those that are to be measured, ours first."""
        return [OURS, *(PEER_SYSTEMS if self.has_peers else [])]


def tasks(plan: Plan, sheet: Sheet) -> None:
    """Tasks a second with many clients, and how long one alone takes; system by system, then all again."""
    for run in range(1, plan.runs + 1):
        for system in plan.systems():
            plan.say(f"tasks: {system.name}, run {run} of {plan.runs}")
            _attempt("tasks", system, sheet, lambda folder, system=system: _tasks(plan, sheet, system, folder))


def _tasks(plan: Plan, sheet: Sheet, system: System, folder: Path) -> None:
    ours = system is OURS
    with system.start(folder) as started:
        for way, work in started.works.items():
            name = f"{system.name}, {way}" if way and ours else system.name
            name += " (durable)" if system.is_durable else ""
            many = work(MANY_CLIENTS, plan.seconds)
            sheet.add(
                "tasks", "throughput, 32 clients", name, many.tasks / many.seconds, "tasks/s", ours=ours, more=True
            )
            _latencies(sheet, "32 clients", name, many, ours=ours)
            _latencies(sheet, "alone", name, work(1, plan.seconds), ours=ours)


def _latencies(sheet: Sheet, what: str, name: str, done: Done, *, ours: bool) -> None:
    for percent in (50, 99):
        value = percentile(done.latencies_ms, percent)
        sheet.add("tasks", f"latency, {what}, p{percent}", name, value, "ms", ours=ours)


def followers(plan: Plan, sheet: Sheet) -> None:
    """One task that says 500 lines, 100 followers: how late each line is at each of them, none missing."""
    talks = {OURS.name: "aios", "a2a-sdk, memory": "a2a"}
    for run in range(1, plan.runs + 1):
        for system in plan.systems():
            if system.name in talks:
                plan.say(f"followers: {system.name}, run {run} of {plan.runs}")
                _attempt(
                    "followers", system, sheet, lambda folder, system=system: _followers(sheet, system, folder, talks)
                )


def _followers(sheet: Sheet, system: System, folder: Path, talks: dict[str, str]) -> None:
    with system.start(folder) as started:
        order = fanout.Order(
            talk=talks[system.name], where=started.where, followers=FOLLOWERS, events=EVENTS, every_ms=EVERY_MS
        )
        answer = subprocess.run(
            [sys.executable, "-m", "bench.fanout"],
            input=msgspec.json.encode(order),
            stdout=subprocess.PIPE,
            cwd=ROOT,
            check=True,
        )
    done = msgspec.json.decode(answer.stdout, type=fanout.Done)
    for percent in (50, 99):
        value = percentile(done.latencies_ms, percent)
        sheet.add("followers", f"100 × 500 events, p{percent}", system.name, value, "ms", ours=system is OURS)


def memory(plan: Plan, sheet: Sheet) -> None:
    """Resident memory at the start, and after 20 000 tasks."""
    for system in plan.systems():
        if system.name in {OURS.name, "a2a-sdk, memory"}:
            plan.say(f"memory: {system.name}")
            _attempt("memory", system, sheet, lambda folder, system=system: _memory(sheet, system, folder))


def _memory(sheet: Sheet, system: System, folder: Path) -> None:
    talk = "sync" if system is OURS else "a2a"
    with system.start(folder) as started:
        before = rss_mib(started.pid)
        load(Order(talk=talk, where=started.where, clients=MANY_CLIENTS, tasks=MEMORY_TASKS))
        after = rss_mib(started.pid)
    sheet.add("memory", "at the start", system.name, before, "MiB", ours=system is OURS)
    sheet.add("memory", "after 20 000 tasks", system.name, after, "MiB", ours=system is OURS)
    sheet.add("memory", "a task", system.name, (after - before) * 1024 / MEMORY_TASKS, "KiB", ours=system is OURS)


def restart(plan: Plan, sheet: Sheet) -> None:
    """How soon a daemon answers that was killed with 100 000 unfinished tasks."""
    plan.say("restart: making 100 000 tasks")
    restarting.measure(plan.runs, sheet)


def machine(plan: Plan, sheet: Sheet) -> None:
    """What this machine can do at most: synced appends, and requests to a server that does nothing."""
    for run in range(1, plan.runs + 1):
        plan.say(f"machine: run {run} of {plan.runs}")
        with scratch() as folder:
            sheet.add(
                "machine", "synced appends of 4 KiB", "disk", _synced_appends(folder, plan.seconds), "1/s", more=True
            )
            command = [sys.executable, "-m", "bench.bare"]
            with running(command, folder, ready=r"ready (http://[\d.]+:\d+)") as (_, url):
                where = Where("127.0.0.1", int(url.rpartition(":")[2]))
                done = load(Order(talk="bare", where=where, clients=MANY_CLIENTS, seconds=plan.seconds))
            sheet.add("machine", "requests, 32 clients", "uvicorn", done.tasks / done.seconds, "1/s", more=True)


def _synced_appends(folder: Path, seconds: float) -> float:
    descriptor = os.open(folder / "appends", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    block, count, begun = os.urandom(SYNC_BYTES), 0, time.perf_counter()
    try:
        while time.perf_counter() - begun < seconds:
            os.write(descriptor, block)
            os.fdatasync(descriptor)
            count += 1
    finally:
        os.close(descriptor)
    return count / (time.perf_counter() - begun)


def _attempt(part: str, system: System, sheet: Sheet, measure: Callable[[Path], None]) -> None:
    """Measure a system in an empty folder; what is not there is written down, what fails of ours is not forgiven."""
    try:
        with scratch() as folder:
            measure(folder)
    except NotThere as missing:
        sheet.miss(part, system.name, str(missing))
    except subprocess.CalledProcessError as failed:
        if system is OURS:
            raise
        sheet.miss(part, system.name, f"its clients failed ({failed.returncode})")


PARTS: dict[str, Callable[[Plan, Sheet], None]] = {
    "machine": machine,
    "tasks": tasks,
    "followers": followers,
    "memory": memory,
    "restart": restart,
}


def measure(parts: Sequence[str], plan: Plan) -> Sheet:
    """Measure these parts."""
    sheet = Sheet()
    for name in parts:
        PARTS[name](plan, sheet)
    return sheet
