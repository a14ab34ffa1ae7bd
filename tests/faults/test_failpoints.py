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
ELSEWHERE = {"purge.inside"}
"""Tasks are kept for a day at least: `tests/stores` kills there, on a clock of its own."""
AT_START = {"lost.marked"}
AT_STOP = {"stop.doors_closed", "stop.runner_ended"}
KILLED = -9


class Lives:
    """The lives of a daemon, each of which but the last may end at a failpoint."""

    def __init__(self, daemon: Daemon, point: str) -> None:
        self.load = Load(daemon, seed=point)
        self._daemon = daemon
        self._point = point
        self._work: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Bring the daemon where the point lies before it."""
        if self._point in AT_START:
            await self._daemon.start()
            await self.load.parade()
            await self._daemon.kill()
            self.load.record.deaths += 1

    async def live(self, hit: int) -> bool:
        """Live until the point is passed for the `hit`th time, or there is nothing left to do; say whether it died."""
        await self._daemon.launch(**{VARIABLE: f"{self._point}=kill@{hit}"})
        work = self._at_work()
        end = asyncio.create_task(self._daemon.ended())
        await asyncio.wait({work, end}, return_when=asyncio.FIRST_COMPLETED)
        if not end.done():
            end.cancel()
            return await self._stop() == KILLED
        assert end.result() == KILLED
        self.load.record.deaths += 1
        return True

    async def _stop(self) -> int:
        code = await self._daemon.stop()
        self.load.record.stops += code == 0
        self.load.record.deaths += code == KILLED
        return code

    def _at_work(self) -> asyncio.Task[None]:
        if self._work is None or self._work.done():
            self._work = asyncio.create_task(self._some_work())
        return self._work

    async def _some_work(self) -> None:
        await self.load.parade()
        if self._point not in AT_STOP:
            await self.load.settle()

    async def abandon(self) -> None:
        """Leave nothing running, whatever has failed."""
        if self._work is not None:
            self._work.cancel()
            await asyncio.wait({self._work})
        await self.load.abandon()
        self.load.record.write(self._daemon.folder / "record.jsonl")

    async def end(self) -> list[str]:
        """Live once more, undisturbed, and say what does not hold."""
        await self._daemon.start()
        await self._at_work()
        await self.load.settle()
        return check(await gather(self._daemon, self.load.record))


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("point", sorted(POINTS - ELSEWHERE))
@pytest.mark.promise("4.crash.nothing-lost")
async def test_whichever_failpoint_kills_the_daemon_the_next_one_takes_over(
    build: Build, rounds: int, point: str
) -> None:
    lives = Lives(build(), point)
    try:
        await lives.begin()
        for hit in range(1, max(PASSES_MIN, rounds // FROM_ROUNDS) + 1):
            has_died = await lives.live(hit)
            assert has_died or hit > 1, "nobody ever comes to this point"
        assert await lives.end() == []
    finally:
        await lives.abandon()


def test_every_failpoint_is_somewhere_and_every_somewhere_is_a_failpoint() -> None:
    sources = "\n".join(path.read_text("utf-8") for path in (HOUSE / "src").rglob("*.py"))
    assert set(re.findall(r'failpoint\("([\w.]+)"\)', sources)) == POINTS
