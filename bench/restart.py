"""How soon a daemon answers that was killed with 100 000 unfinished tasks: `python -m bench.restart` for this alone.

Of these 20 000 wait for an answer, 10 000 for their time, 100 were running, and the rest wait for a slot.
"""

from __future__ import annotations

import http.client
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from bench.figures import Sheet, table
from bench.processes import ROOT, running, scratch

if TYPE_CHECKING:
    import subprocess

TASKS = 100_000
ASKING = 20_000
DELAYED = 10_000
DELAY_MS = 86_400_000
BATCH = 100
CONNECTIONS = 8
SETTLE_S_MAX = 120
RUNS = 3
READY = r"ready at (http://[\d.]+:\d+)"
TOOLS = ROOT / "bench" / "unfinished.py"

Json = dict[str, Any]


class Caller:
    """A connection to the daemon of a folder."""

    def __init__(self, url: str, folder: Path) -> None:
        self._connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=SETTLE_S_MAX)
        token = (folder / "data" / "token").read_text().strip()
        self._fields = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def post(self, message: Any) -> Any:
        """Post a message and give what comes back."""
        self._connection.request("POST", "/aios/rpc", msgspec.json.encode(message), self._fields)
        return msgspec.json.decode(self._connection.getresponse().read())

    def call(self, method: str, params: Json) -> Json:
        """Call a method and give its result."""
        answer = self.post({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        if "result" not in answer:
            raise SystemExit(f"{method} was refused: {answer['error']}")
        return answer["result"]


def _orders() -> Iterator[Json]:
    for number in range(TASKS):
        is_asking, is_delayed = number < ASKING, number >= TASKS - DELAYED
        options: Json = {"async": True, "delay_ms": DELAY_MS} if is_delayed else {"async": True}
        yield {
            "capability_id": "bench.ask" if is_asking else "bench.hold",
            "arguments": {"number": number},
            "options": options,
        }


def _create(caller: Caller, orders: list[Json]) -> None:
    messages = [
        {"jsonrpc": "2.0", "id": number, "method": "aios/task.create", "params": order}
        for number, order in enumerate(orders)
    ]
    refused = [answer["error"] for answer in caller.post(messages) if "error" in answer]
    if refused:
        raise SystemExit(f"a task was refused: {refused[0]}")


def _fill(url: str, folder: Path) -> None:
    """Have all tasks made, and wait until those that ask have asked."""
    orders, callers = _orders(), [Caller(url, folder) for _ in range(CONNECTIONS)]
    with ThreadPoolExecutor(CONNECTIONS) as threads:
        while batches := [batch for _ in callers if (batch := list(islice(orders, BATCH)))]:
            list(threads.map(_create, callers, batches))
    asked = {"filter": {"status": ["input_required"]}, "pagination": {"limit": 1}}
    for _ in range(SETTLE_S_MAX * 10):
        # Beyond ten thousand a list estimates.
        if callers[0].call("aios/task.list", asked)["total"] >= min(ASKING, 10_000) and _slots_full(callers[0]):
            return
        time.sleep(0.1)
    raise SystemExit("the tasks were not ready in time")


def _slots_full(caller: Caller) -> bool:
    asked = {"filter": {"status": ["working"], "capability_id": "bench.hold"}, "pagination": {"limit": 1}}
    return caller.call("aios/task.list", asked)["total"] >= 100


def _command(folder: Path) -> list[str]:
    aios = str(Path(sys.executable).with_name("aios"))
    return [aios, "serve", "--data", str(folder / "data"), "--port", "0", "--adapter", str(TOOLS)]


LIMITS = {"AIOS_LIMITS__MAX_QUEUE_SIZE": str(2 * TASKS), "AIOS_LIMITS__MAX_CRASHES": "1000"}


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()


def measure(runs: int, sheet: Sheet) -> None:
    """Fill a folder, kill its daemon, and see how soon the next one answers; and again."""
    with scratch() as folder:
        with running(_command(folder), folder, ready=READY, environment=LIMITS) as (process, url):
            _fill(url, folder)
            _kill(process)
        for _ in range(runs):
            begun = time.perf_counter()
            with running(_command(folder), folder, ready=READY, environment=LIMITS) as (process, url):
                page = Caller(url, folder).call("aios/task.list", {"pagination": {"limit": 50}})
                seconds = time.perf_counter() - begun
                _kill(process)
            if len(page["tasks"]) != 50:
                raise SystemExit(f"tasks are missing: {page}")
            sheet.add("restart", "100 000 unfinished tasks, first call", "aiosd", seconds, "s", ours=True)


def main() -> int:
    """Measure this alone."""
    sheet = Sheet()
    measure(RUNS, sheet)
    sys.stdout.write(table(sheet.figures()) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
