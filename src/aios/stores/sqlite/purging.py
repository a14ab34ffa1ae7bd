"""Forgetting: tasks past their retention with all that is theirs, keys and sessions past theirs, contents that nobody names."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple, cast

import msgspec

from aios.failpoints import failpoint
from aios.model import to_ms
from aios.stores.sqlite.connections import Database
from aios.stores.sqlite.statements import statement
from aios.stores.sqlite.transaction import Transaction

ROWS_MAX: Final = 1_000
"""Tasks, keys or sessions that one transaction deletes at most."""
EVENTS_MAX: Final = 20_000
"""Events past which a transaction deletes no further task, so that nobody waits long for it."""


class Purged(NamedTuple):
    """What one transaction has deleted."""

    tasks: int
    contents: list[str]
    """Named by artifacts of these tasks, and perhaps of others."""


def purge(transaction: Transaction, ended_before: datetime, limit: int, now: datetime) -> Purged:
    """Delete tasks that ended before, at most `limit` and not more than one transaction should."""
    database = transaction.database
    rows: list[int] = []
    events = 0
    for row, count in database.execute(statement("purgeable"), (to_ms(ended_before), min(limit, ROWS_MAX))):
        if rows and events + count > EVENTS_MAX:
            break
        if row not in transaction.batch.touched:
            rows.append(row)
            events += count
    listed = msgspec.json.encode(rows).decode()
    contents = [str(digest) for (digest,) in database.execute(statement("purge_blobs"), (listed,))]
    for status, count in database.execute(statement("purge_statuses"), (listed,)).fetchall():
        transaction.purged[status] += count
    transaction.purged_rows += rows
    database.execute(statement("purge_tasks"), (listed,))
    failpoint("purge.inside")
    database.execute(statement("purge_keys"), (to_ms(now), ROWS_MAX))
    database.execute(statement("purge_sessions"), (to_ms(ended_before), ROWS_MAX))
    return Purged(len(rows), contents)


def unknown(database: Database, digests: Sequence[str]) -> list[str]:
    """Give those of the contents that no artifact names."""
    listed = msgspec.json.encode(digests).decode()
    known = {cast(str, each) for (each,) in database.execute(statement("known_blobs"), (listed,))}
    return [digest for digest in digests if digest not in known]
