"""What every test gets: one event loop, hypothesis without a stopwatch, and the size of heavy tests."""

import os

import pytest
from hypothesis import settings

settings.register_profile("aios", deadline=None, print_blob=True)
settings.load_profile("aios")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Run every `async def` test on asyncio."""
    return "asyncio"


@pytest.fixture(scope="session")
def rounds() -> int:
    """Say how often a heavy test repeats itself: 100 times, or as `AIOS_ROUNDS` says."""
    return int(os.environ.get("AIOS_ROUNDS", "100"))
