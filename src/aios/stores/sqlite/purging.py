"""Forgetting: tasks past their retention with all that is theirs, keys and sessions past theirs, contents that nobody names."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, cast

import msgspec

from aios.model import to_ms
from aios.stores.failpoints import failpoint
from aios.stores.sqlite.connections import Database
from aios.stores.sqlite.statements import statement
from aios.stores.sqlite.transaction import Transaction

ROWS_MAX: Final = 1_000
"""Tasks, keys or sessions that one transaction deletes."""


def purge(transaction: Transaction, ended_before: datetime, limit: int, now: datetime) -> tuple[int, list[str]]:
    """Delete tasks that ended before, at most `limit`; give how many, and the contents that they named."""
    database = transaction.database
    limit = min(limit, ROWS_MAX)
    found = database.execute(statement("purgeable"), (to_ms(ended_before), limit))
    rows = [row for (row,) in cast("list[tuple[int]]", found.fetchall()) if row not in transaction.batch.touched]
    listed = msgspec.json.encode(rows).decode()
    contents = [cast(str, each) for (each,) in database.execute(statement("purge_blobs"), (listed,))]
    for status, count in cast(
        "list[tuple[str, int]]", database.execute(statement("purge_statuses"), (listed,)).fetchall()
    ):
        transaction.purged[status] += count
    transaction.purged_rows += rows
    database.execute(statement("purge_tasks"), (listed,))
    failpoint("purge.inside")
    database.execute(statement("purge_keys"), (to_ms(now), ROWS_MAX))
    database.execute(statement("purge_sessions"), (to_ms(ended_before), ROWS_MAX))
    return len(rows), contents


def unknown(database: Database, digests: Sequence[str]) -> list[str]:
    """Give those of the contents that no artifact names."""
    listed = msgspec.json.encode(digests).decode()
    known = {cast(str, each) for (each,) in database.execute(statement("known_blobs"), (listed,))}
    return [digest for digest in digests if digest not in known]
