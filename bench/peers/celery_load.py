"""Clients of Celery: each puts one task after the other, and is told of its progress and its end by Redis."""

from __future__ import annotations

import json
import sys
import time
from threading import Barrier, Thread
from typing import Any

from bench.peers.celery_app import PROGRESS, make_app


def client(order: dict[str, Any], start: Barrier, latencies: list[float], failures: list[str]) -> None:
    """Be one client, with connections of its own: a shared one takes the answers of others."""
    app = make_app()
    start.wait()
    begins = time.perf_counter() + order["warm_up_s"]
    ends = begins + order["seconds"]
    while True:
        asked = time.perf_counter()
        if asked >= ends:
            return
        seen: list[str] = []
        sent = app.send_task("bench.once", kwargs=order["arguments"])
        given = sent.get(timeout=30, on_message=lambda message, seen=seen: seen.append(message["status"]))
        now = time.perf_counter()
        if given["found"] != 3:
            failures.append(f"a wrong result: {given}")
        if PROGRESS not in seen:
            order["unseen"] += 1
        if asked >= begins and now <= ends:
            latencies.append((now - asked) * 1000)


def main() -> None:
    """Do what standard input says."""
    order = json.load(sys.stdin) | {"unseen": 0}
    latencies: list[float] = []
    failures: list[str] = []
    start = Barrier(order["clients"])
    threads = [
        Thread(target=client, args=(order, start, latencies, failures), daemon=True) for _ in range(order["clients"])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        sys.exit(failures[0])
    done = {"tasks": len(latencies), "seconds": order["seconds"], "latencies_ms": latencies, "unseen": order["unseen"]}
    json.dump(done, sys.stdout)


if __name__ == "__main__":
    main()
