"""The schema's version: which migrations a database has seen, and those it still needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from aios.errors import StoreUnavailable
from aios.failpoints import failpoint
from aios.stores.sqlite.connections import APPLICATION_ID, Database
from aios.stores.sqlite.statements import migrations


def schema_version(database: Database) -> int:
    """Give the number of the last migration that was carried out; 0 for an empty database."""
    return cast(int, database.pragma("user_version"))


def migrate(database: Database, scripts: Sequence[str] | None = None) -> None:
    """Bring the schema up to date, each migration in a transaction of its own: half of one is never seen.

    Raises:
        StoreUnavailable: The database was written by a newer version, or by another program.
    """
    scripts = migrations() if scripts is None else scripts
    version = schema_version(database)
    if version > len(scripts):
        raise StoreUnavailable(
            f"The database has schema {version}, and this version of aiosd knows {len(scripts)} at most; "
            "it was written by a newer version: install that one."
        )
    (tables,) = cast(tuple[int], database.execute("SELECT count(*) FROM sqlite_schema").fetchone())
    if tables and cast(int, database.pragma("application_id")) != APPLICATION_ID:
        raise StoreUnavailable("The database belongs to another program; choose another data folder.")
    for number, script in enumerate(scripts[version:], version + 1):
        database.execute("BEGIN EXCLUSIVE")
        try:
            database.execute(script)
            database.execute(f"PRAGMA user_version = {number}; PRAGMA application_id = {APPLICATION_ID}")
            failpoint("migration.inside")
            database.execute("COMMIT")
        except BaseException:
            database.execute("ROLLBACK")
            raise
