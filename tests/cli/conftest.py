"""One daemon for all tests of the program that do not harm it."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.program import Serving, Shell


@pytest.fixture(scope="session")
def shell() -> Iterator[Shell]:
    """A shell with a running daemon."""
    # A short path: a Unix socket is to lie in it.
    with tempfile.TemporaryDirectory(prefix="aios-") as folder:
        made = Shell(Path(folder))
        serving = Serving(made)
        yield made
        assert serving.end() == 0


@pytest.fixture
def lonely() -> Iterator[Shell]:
    """A shell whose daemon is not running."""
    with tempfile.TemporaryDirectory(prefix="aios-") as folder:
        yield Shell(Path(folder))
