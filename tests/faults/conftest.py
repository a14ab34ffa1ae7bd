"""What the fault tests get: daemons in folders of their own, which are cleared away."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.faults.driver.daemon import Daemon

Build = Callable[..., Daemon]


@pytest.fixture
async def build(tmp_path: Path) -> AsyncIterator[Build]:
    """Make daemons, each in a folder of its own unless it is said; those that still run at the end are killed."""
    made: list[Daemon] = []

    def make(folder: Path | None = None, **options: object) -> Daemon:
        folder = folder or tmp_path / f"house-{len(made)}"
        folder.mkdir(exist_ok=True)
        made.append(Daemon(folder, **options))  # pyright: ignore[reportArgumentType]
        return made[-1]

    yield make
    for daemon in made:
        if daemon.starts:
            await daemon.kill()
