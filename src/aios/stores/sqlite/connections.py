"""Connections to the database: how they are set up, and what the disk's errors mean."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol, Self, cast

import apsw

from aios.errors import StoreUnavailable


class Rows(Protocol):
    """What a statement gives."""

    def __iter__(self) -> Iterator[tuple[Any, ...]]: ...

    def fetchone(self) -> tuple[Any, ...] | None:
        """Give the next row."""
        ...

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Give all rows that are left."""
        ...


class Database(Protocol):
    """What the house uses of `apsw.Connection`, with types. As a context it is a transaction, or a part of one."""

    def execute(self, statements: str, bindings: Sequence[Any] | None = None) -> Rows:
        """Run statements."""
        ...

    def pragma(self, name: str, value: Any = None) -> Any:
        """Ask for a setting, or change it."""
        ...

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        ...

    def interrupt(self) -> None:
        """Break off what runs in another thread."""
        ...

    def close(self, force: bool = False) -> None:
        """Let go of the file."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None: ...


DATABASE: Final = "aios.db"
APPLICATION_ID: Final = 0x61696F73
"""`aios` in ASCII, by which the file tells what it is."""

BUSY_TIMEOUT_MS: Final = 5_000
CACHED_STATEMENTS: Final = 400
JOURNAL_SIZE_LIMIT: Final = 64 * 1024 * 1024
CHECKPOINT_PAGES: Final = 2_000
WRITER_CACHE_KIB: Final = 65_536
READER_CACHE_KIB: Final = 8_192

_SETTINGS: Final = (
    ("foreign_keys", 1),
    ("trusted_schema", 0),
    ("cell_size_check", 1),
    ("temp_store", 2),  # In memory.
    ("mmap_size", 0),
)
_WRITER_SETTINGS: Final = (
    ("synchronous", 2),  # Full: a commit is on the disk when it returns.
    ("journal_size_limit", JOURNAL_SIZE_LIMIT),
    ("wal_autocheckpoint", CHECKPOINT_PAGES),
    ("secure_delete", "FAST"),
)

DISK_ERRORS: Final = (
    apsw.BusyError,
    apsw.CantOpenError,
    apsw.CorruptError,
    apsw.FullError,
    apsw.IOError,
    apsw.LockedError,
    apsw.NotADBError,
    apsw.PermissionsError,
    apsw.ReadOnlyError,
    apsw.TooBigError,
)

_ADVICE: Final[dict[type[Exception], str]] = {
    apsw.FullError: "the disk is full; free some space, writing goes on by itself",
    apsw.ReadOnlyError: "the database or its folder cannot be written; check owner, rights and mount",
    apsw.CantOpenError: "the database cannot be opened; check that its folder exists and can be written",
    apsw.PermissionsError: "access to the database was denied; check owner and rights",
    apsw.BusyError: "another process holds the database locked; end it or wait",
    apsw.CorruptError: "the database is damaged; stop the daemon and restore a backup",
    apsw.NotADBError: "the file is no database, or it is damaged; stop the daemon and restore a backup",
    apsw.IOError: "the disk reports an error; check it, and the system's log",
    apsw.TooBigError: "a value is too big for the database",
}


def explain(error: Exception) -> str:
    """Say in a sentence what a disk error means and what to do."""
    for kind, advice in _ADVICE.items():
        if isinstance(error, kind):
            return f"The store is unavailable: {advice} ({error})."
    return f"The store is unavailable ({error})."


def unavailable(error: Exception) -> StoreUnavailable:
    """Make the error that callers get for a disk error."""
    return StoreUnavailable(explain(error))


def _connect(name: str, flags: int, *, cache_kib: int) -> Database:
    connection = apsw.Connection(name, flags=flags, statementcachesize=CACHED_STATEMENTS)
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    database = cast(Database, connection)
    for name, value in (*_SETTINGS, ("cache_size", -cache_kib)):
        database.pragma(name, value)
    return database


_WRITE: Final = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE


def open_memory() -> Database:
    """Open a database that lives as long as its connection."""
    return _connect(":memory:", _WRITE, cache_kib=WRITER_CACHE_KIB)


def open_writer(folder: Path) -> Database:
    """Open the one connection that writes.

    Raises:
        StoreUnavailable: The file system does not support the write-ahead log.
        apsw.Error: The file cannot be opened.
    """
    database = _connect(str(folder / DATABASE), _WRITE, cache_kib=WRITER_CACHE_KIB)
    try:
        mode = database.pragma("journal_mode", "wal")
        if mode != "wal":
            raise StoreUnavailable(
                f"The file system of {folder} does not support SQLite's write-ahead log (it offers {mode!r}); "
                "put the data folder on a local disk."
            )
        for name, value in _WRITER_SETTINGS:
            database.pragma(name, value)
    except BaseException:
        database.close()
        raise
    return database


def open_reader(folder: Path) -> Database:
    """Open a connection that only reads."""
    database = _connect(str(folder / DATABASE), apsw.SQLITE_OPEN_READONLY, cache_kib=READER_CACHE_KIB)
    database.pragma("query_only", 1)
    return database
