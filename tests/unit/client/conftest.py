"""What the client's tests share."""

from collections.abc import Iterator

import pytest

from aios.client import connections


@pytest.fixture(autouse=True, scope="package")
def impatience() -> Iterator[None]:
    """Let retries follow each other at once: how long they wait is tested by itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connections, "DELAY_MS_FIRST", 1)
        patch.setattr(connections, "DELAY_MS_MAX", 4)
        yield
