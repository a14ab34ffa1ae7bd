"""Opening a database: ours, whole, of a schema we know, and nobody else's at the moment."""

from __future__ import annotations

from pathlib import Path
from typing import Final, cast

import apsw

from aios.errors import StoreUnavailable
from aios.stores.sqlite.connections import DATABASE, DISK_ERRORS, open_memory, open_writer, unavailable
from aios.stores.sqlite.folder import FolderLock, make_database_file, make_folder
from aios.stores.sqlite.schema import migrate
from aios.stores.sqlite.statements import statement

CHECKED_BYTES_MAX: Final = 256 * 1024 * 1024
"""Size up to which a database that was not closed is checked before it is used; a bigger one is checked beside the work."""


class Opened:
    """An open database, and the lock on its folder."""

    def __init__(self, connection: apsw.Connection, lock: FolderLock | None, *, must_check: bool) -> None:
        self.connection = connection
        self.lock = lock
        self.must_check = must_check
        """It was not closed in good order and is too big to be checked at once."""


def check(connection: apsw.Connection) -> str:
    """Give the first thing that is wrong with the database, or nothing."""
    first = cast(tuple[str], connection.execute("PRAGMA quick_check(1)").fetchone())[0]
    return "" if first == "ok" else first


def damaged(what: str) -> StoreUnavailable:
    """Make the error for a database that is not whole."""
    return StoreUnavailable(
        f"The database is damaged ({what}). Stop the daemon, keep a copy of the data folder, and restore a backup."
    )


def mark_clean(connection: apsw.Connection, *, is_clean: bool) -> None:
    """Write down whether the database was closed in good order."""
    connection.execute(statement("set_clean"), (int(is_clean),))


def open_in_memory() -> Opened:
    """Open an empty database that is gone with the process."""
    connection = open_memory()
    migrate(connection)
    return Opened(connection, None, must_check=False)


def open_folder(folder: Path) -> Opened:
    """Open the database in a folder, or make both.

    Raises:
        StoreUnavailable: Another daemon owns the folder; the database is newer than this version, damaged or another
            program's; the disk refuses.
    """
    try:
        make_folder(folder)
        lock = FolderLock(folder)
    except OSError as error:
        raise StoreUnavailable(f"The data folder {folder} cannot be used: {error.strerror}.") from error
    try:
        make_database_file(folder)
        connection = open_writer(folder)
        try:
            return Opened(connection, lock, must_check=_prepare(connection, folder))
        except BaseException:
            connection.close()
            raise
    except OSError as error:
        lock.release()
        raise StoreUnavailable(f"The data folder {folder} cannot be used: {error.strerror}.") from error
    except DISK_ERRORS as error:
        lock.release()
        raise unavailable(error) from error
    except BaseException:
        lock.release()
        raise


def _prepare(connection: apsw.Connection, folder: Path) -> bool:
    migrate(connection)
    (is_clean,) = cast(tuple[int], connection.execute(statement("is_clean")).fetchone())
    must_check = False
    if not is_clean:
        if (folder / DATABASE).stat().st_size <= CHECKED_BYTES_MAX:
            wrong = check(connection)
            if wrong:
                raise damaged(wrong)
        else:
            must_check = True
    mark_clean(connection, is_clean=False)
    return must_check
