"""kill -9 at each failpoint in turn: at the first pass, the second, the third, … (SQLite's own method).

One task of each kind is made, followed, answered and steered; wherever the daemon dies, the next one takes over.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from aios.failpoints import POINTS, VARIABLE
from tests.faults.check import check
from tests.faults.conftest import Build
from tests.faults.driver.daemon import Daemon
from tests.faults.driver.evidence import gather
from tests.faults.driver.load import Load

HOUSE = Path(__file__).parents[2]
FROM_ROUNDS = 33
"""One more pass of each point for so many rounds: three with a hundred."""
PASSES_MIN = 3
AT_ONCE = 3
"""So many daemons live and die side by side."""
ELSEWHERE = {"purge.inside"}
"""Tasks are kept for a day at least: `tests/stores` kills there, on a clock of its own."""
AT_START = {"lost.marked"}
AT_STOP = {"stop.doors_closed", "stop.runner_ended"}


async def lives(daemon: Daemon, load: Load, points: str) -> bool:
    """Let the daemon live until it dies at the point, then again without; say whether it died."""
    await daemon.launch(**{VARIABLE: points})
    work = asyncio.create_task(run(load))
    end = asyncio.create_task(daemon.ended())
    await asyncio.wait({work, end}, return_when=asyncio.FIRST_COMPLETED)
    if has_died := end.done():
        assert end.result() == -9
        load.record.deaths += 1
        await daemon.start()
    end.cancel()
    await work
    return has_died


async def run(load: Load) -> None:
    await load.parade()
    await load.settle()


async def until_death(daemon: Daemon, load: Load, point: str, hit: int) -> bool:
    """Bring the daemon to the point in the way that leads there."""
    points = f"{point}=kill@{hit}"
    if point in AT_START:
        await daemon.start()
        await load.parade()
        await daemon.kill()
        load.record.deaths += 1
    if point not in AT_STOP:
        return await lives(daemon, load, points)
    await daemon.start(**{VARIABLE: points})
    await load.parade()
    has_died = await daemon.stop() == -9
    load.record.deaths += has_died
    await daemon.start()
    await load.settle()
    return has_died


async def one_death(daemon: Daemon, point: str, hit: int) -> bool:
    """See a daemon through its death at a pass of a point; say whether it ever came to that pass."""
    load = Load(daemon, seed=f"{point}-{hit}")
    try:
        has_died = await until_death(daemon, load, point, hit)
    finally:
        await load.abandon()
        load.record.write(daemon.folder / "record.jsonl")
    assert check(await gather(daemon, load.record)) == [], f"{point}=kill@{hit}, folder {daemon.folder}"
    return has_died


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("point", sorted(POINTS - ELSEWHERE))
async def test_whichever_failpoint_kills_the_daemon_the_next_one_takes_over(
    build: Build, rounds: int, point: str
) -> None:
    for first in range(1, max(PASSES_MIN, rounds // FROM_ROUNDS) + 1, AT_ONCE):
        hits = range(first, first + AT_ONCE)
        have_died = await asyncio.gather(*(one_death(build(), point, hit) for hit in hits))
        assert have_died[0] or first > 1, "nobody ever comes to this point"
        if not all(have_died):
            return


def test_every_failpoint_is_somewhere_and_every_somewhere_is_a_failpoint() -> None:
    sources = "\n".join(path.read_text("utf-8") for path in (HOUSE / "src").rglob("*.py"))
    assert set(re.findall(r'failpoint\("([\w.]+)"\)', sources)) == POINTS
