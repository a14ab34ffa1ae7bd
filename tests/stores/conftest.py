"""The stores that keep the contract. Another one joins by another name in `KINDS` and a way to open it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest

from aios.model import Limits
from aios.store import Store
from aios.stores.sqlite import SqliteStore
from aios.testing.clock import ManualClock
from tests.stores.making import Desk

KINDS: Final = ("sqlite", "sqlite-memory")
DURABLE_KINDS: Final = ("sqlite",)


class Stores:
    """Opens stores of one kind on one place, and closes them when the test is over."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self.folder = folder
        self.clock = ManualClock()
        self._open: list[Store] = []

    def open(self, **limits: Any) -> Desk:
        """Open the store with these limits."""
        caps = Limits(**limits)
        where = self.folder / "data" if self.kind == "sqlite" else ":memory:"
        store = SqliteStore.open(where, limits=caps, now=self.clock.now)
        self._open.append(store)
        return Desk(store, self.clock, caps)

    async def reopen(self, desk: Desk, **limits: Any) -> Desk:
        """Close the store and open it again."""
        await desk.store.close()
        self._open.remove(desk.store)
        return self.open(**limits)

    async def close(self) -> None:
        """Close all that are open."""
        for store in self._open:
            await store.close()


@pytest.fixture(params=KINDS)
async def stores(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stores]:
    opener = Stores(request.param, tmp_path)
    yield opener
    await opener.close()


@pytest.fixture(params=DURABLE_KINDS)
async def durable(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stores]:
    opener = Stores(request.param, tmp_path)
    yield opener
    await opener.close()


@pytest.fixture
async def desk(stores: Stores) -> Desk:
    return stores.open()
