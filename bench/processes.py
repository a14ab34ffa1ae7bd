"""What is measured runs in processes of its own: started in an empty home, waited for, weighed, stopped with all it started."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import msgspec
import psutil

from bench.load import Done, Order

ROOT = Path(__file__).resolve().parent.parent
PEERS = ROOT / ".venv-bench" / "bin" / "python"
READY_S_MAX = 60
STOP_S_MAX = 15


class NotThere(Exception):
    """A system cannot be measured here; the sentence says why."""


@contextmanager
def scratch() -> Generator[Path]:
    """Give an empty folder for as long as a block lasts."""
    with tempfile.TemporaryDirectory(prefix="aiosd-bench-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _environment(folder: Path, more: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AIOS_", "XDG_"))}
    return kept | {"HOME": str(folder), "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"} | more


@contextmanager
def running(
    command: Sequence[str], folder: Path, *, ready: str, environment: Mapping[str, str] = {}
) -> Generator[tuple[subprocess.Popen[bytes], str]]:
    """Run a server while a block lasts; gives it, and what the pattern `ready` found in what it said.

    Raises:
        NotThere: It ended before it was ready; the sentence has its last words.
    """
    said = (folder / f"{len(list(folder.iterdir()))}.said").open("w+b")
    process = subprocess.Popen(
        command, cwd=folder, env=_environment(folder, environment), stdout=said, stderr=said, start_new_session=True
    )
    try:
        yield process, _wait(process, said, ready)
    finally:
        _stop(process)
        said.close()


def _wait(process: subprocess.Popen[bytes], said: IO[bytes], ready: str) -> str:
    for _ in range(READY_S_MAX * 50):
        text = os.pread(said.fileno(), 1 << 20, 0).decode(errors="replace")
        if found := re.search(ready, text):
            return found[1] if found.groups() else found[0]
        try:
            process.wait(0.02)
        except subprocess.TimeoutExpired:
            continue
        raise NotThere(f"{Path(process.args[0]).name} did not start: {text[-400:]}")  # type: ignore[index]
    raise NotThere(f"not ready after {READY_S_MAX} s")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_S_MAX)
    except subprocess.TimeoutExpired:
        # Its session is its own: nothing else is hit.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def rss_mib(pid: int) -> float:
    """Say how much memory a process and its children take."""
    whole = psutil.Process(pid)
    return sum(each.memory_info().rss for each in [whole, *whole.children(recursive=True)]) / 2**20


def load(order: Order) -> Done:
    """Have the load generator do its work."""
    answer = subprocess.run(
        [sys.executable, "-m", "bench.load"],
        input=msgspec.json.encode(order),
        stdout=subprocess.PIPE,
        cwd=ROOT,
        check=True,
    )
    return msgspec.json.decode(answer.stdout, type=Done)


def peer_load(module: str, order: Mapping[str, object], environment: Mapping[str, str]) -> Done:
    """Have a peer's own client do the same."""
    answer = subprocess.run(
        [str(PEERS), "-m", module],
        input=msgspec.json.encode(order),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        check=True,
    )
    return msgspec.json.decode(answer.stdout, type=Done)
