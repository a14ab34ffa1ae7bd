"""Opening a database: ours, whole, of a schema we know, and nobody else's at the moment."""

from __future__ import annotations

from pathlib import Path
from typing import Final, cast

from aios.errors import StoreUnavailable
from aios.stores.sqlite.connections import DATABASE, DISK_ERRORS, Database, open_memory, open_writer, unavailable
from aios.stores.sqlite.folder import FolderLock, make_database_file, make_folder
from aios.stores.sqlite.schema import migrate
from aios.stores.sqlite.statements import statement

CHECKED_BYTES_MAX: Final = 256 * 1024 * 1024
"""Size up to which a database that was not closed is checked before it is used; a bigger one is checked beside the work."""


class Opened:
    """An open database, and the lock on its folder."""

    def __init__(self, database: Database, lock: FolderLock, *, must_check: bool) -> None:
        self.database = database
        self.lock = lock
        self.must_check = must_check
        """It was not closed in good order and is too big to be checked at once."""

    def close(self) -> None:
        """Let go of both."""
        self.database.close()
        self.lock.release()


def check(database: Database) -> str:
    """Give the first thing that is wrong with the database, or nothing."""
    first = cast(tuple[str], database.execute("PRAGMA quick_check(1)").fetchone())[0]
    return "" if first == "ok" else first


def damaged(what: str) -> StoreUnavailable:
    """Make the error for a database that is not whole."""
    return StoreUnavailable(
        f"The database is damaged ({what}). Stop the daemon, keep a copy of the data folder, and restore a backup."
    )


def mark_clean(database: Database, *, is_clean: bool) -> None:
    """Write down whether the database was closed in good order."""
    database.execute(statement("set_clean"), (int(is_clean),))


def open_in_memory() -> Database:
    """Open an empty database that is gone with the process."""
    database = open_memory()
    migrate(database)
    return database


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
        database = open_writer(folder)
        try:
            return Opened(database, lock, must_check=_prepare(database, folder))
        except BaseException:
            database.close()
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


def _prepare(database: Database, folder: Path) -> bool:
    migrate(database)
    (is_clean,) = cast(tuple[int], database.execute(statement("is_clean")).fetchone())
    must_check = False
    if not is_clean:
        if (folder / DATABASE).stat().st_size <= CHECKED_BYTES_MAX:
            wrong = check(database)
            if wrong:
                raise damaged(wrong)
        else:
            must_check = True
    mark_clean(database, is_clean=False)
    return must_check
