"""What the fault tests get: a folder on a real disk, bytecode that is made once, and houses that are cleared away."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.driver.daemon import Daemon


@pytest.fixture(autouse=True, scope="session")
def bytecode(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the daemon's bytecode apart from the house's folders; without it every start would compile everything."""
    with pytest.MonkeyPatch.context() as patch:
        if "PYTHONPYCACHEPREFIX" not in os.environ:
            patch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path_factory.mktemp("bytecode")))
        yield


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
