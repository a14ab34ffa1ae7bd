"""kill -9 at random moments, under load: the daemon's promises hold over all its lives (see `check.py`)."""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

import pytest

from tests.faults.check import check
from tests.faults.conftest import Build
from tests.faults.driver.daemon import Daemon
from tests.faults.driver.evidence import gather
from tests.faults.driver.load import Load

LIVES = 25
"""Kills in one folder, after which all that it has seen is checked."""
HOUSES = 2
"""Folders with a daemon each at the same time: while one starts, the other works."""
EARLY = 0.2
"""How often the daemon is killed while it starts or recovers."""
START_S = 0.35
LIFE_S = 0.5
SEED = os.environ.get("AIOS_SEED", "")
"""Of the failure that is to be seen again."""


async def live_and_die(daemon: Daemon, dice: random.Random) -> None:
    """Start the daemon and kill it: at some moment while it starts, or while it works."""
    if dice.random() < EARLY:
        await daemon.launch()
        await asyncio.sleep(dice.uniform(0, START_S))
    else:
        await daemon.start()
        await asyncio.sleep(dice.uniform(0, LIFE_S))
    await daemon.kill()


async def many_lives(daemon: Daemon, *, seed: str, lives: int) -> list[str]:
    """Kill a daemon under load again and again; then let all come to its end, and say what does not hold."""
    dice, load = random.Random(seed), Load(daemon, seed=seed)
    load.start()
    try:
        for _ in range(lives):
            await live_and_die(daemon, dice)
            load.record.deaths += 1
            load.look()
        await daemon.start()
        await load.stop()
        await load.settle()
    finally:
        await load.abandon()
        load.record.write(daemon.folder / "record.jsonl")
    return check(await gather(daemon, load.record))


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.promise("4.crash.nothing-lost")
async def test_whenever_the_daemon_is_killed_nothing_is_lost_and_nothing_done_twice(
    build: Build, rounds: int, tmp_path: Path
) -> None:
    left = rounds
    while left > 0:
        seeds = [SEED] if SEED else [f"{random.SystemRandom().randrange(1 << 32):08x}" for _ in range(HOUSES)]
        lives = min(LIVES, max(1, left // len(seeds)))
        left -= lives * len(seeds)
        houses = {seed: build(tmp_path / seed) for seed in seeds}
        ends = (many_lives(house, seed=seed, lives=lives) for seed, house in houses.items())
        results = await asyncio.gather(*ends, return_exceptions=True)
        for seed, result in zip(seeds, results, strict=True):
            told = f"AIOS_SEED={seed}, {lives} lives, folder {tmp_path / seed}"
            if isinstance(result, BaseException):
                result.add_note(told)
                raise result
            assert result == [], told
