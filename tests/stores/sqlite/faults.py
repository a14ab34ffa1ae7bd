"""A disk that fails when a test says so: between SQLite and the real file system."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, cast

import apsw
import pytest

from aios.stores.sqlite import connections


def raw_database(folder: Path) -> connections.Database:
    """Open the database as any other program would."""
    return cast(connections.Database, apsw.Connection(str(folder / connections.DATABASE)))


class Disk:
    """Counts writes and syncs, and fails the ones it was told to."""

    def __init__(self) -> None:
        self.operations = 0
        self.synced = threading.Event()
        self._from: int | None = None
        self._error: type[Exception] = apsw.FullError
        self._is_lasting = False
        self.failed = 0

    def fail(self, error: type[Exception], *, at: int = 1, is_lasting: bool = True) -> None:
        """Fail the `at`th operation from now on, and all that follow if it is lasting."""
        self._error = error
        self._is_lasting = is_lasting
        self._from = self.operations + at
        self.failed = 0

    def heal(self) -> None:
        """Fail no more."""
        self.synced.clear()
        self._from = None

    def count(self) -> None:
        """Let an operation pass, or fail it."""
        self.operations += 1
        if self._from is not None and (
            self.operations >= self._from if self._is_lasting else self.operations == self._from
        ):
            self.failed += 1
            raise self._error("injected")


def faulty_disk(monkeypatch: pytest.MonkeyPatch, name: str) -> Disk:
    """Put a failing disk under every connection that is opened from now on."""
    disk = Disk()

    class FaultyFile(apsw.VFSFile):
        def xWrite(self, data: Any, offset: int) -> None:  # noqa: N802
            disk.count()
            cast(Any, super()).xWrite(data, offset)

        def xSync(self, flags: int) -> None:  # noqa: N802
            disk.count()
            super().xSync(flags)
            disk.synced.set()

    class FaultySystem(apsw.VFS):
        def __init__(self) -> None:
            super().__init__(name, base="")

        def xOpen(self, name: Any, flags: Any) -> apsw.VFSFile:  # noqa: N802
            return FaultyFile("", name, flags)

    system = FaultySystem()
    real = apsw.Connection

    def connect(filename: str, **options: Any) -> apsw.Connection:
        # The reference keeps the file system registered for as long as somebody may open a file on it.
        return real(filename, vfs=name if system else "", **options)

    monkeypatch.setattr(connections.apsw, "Connection", connect)
    return disk
