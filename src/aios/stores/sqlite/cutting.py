"""Keeping a task's log within its limit: progress, log and chunk events go first, the oldest before the newer.

What moves the task, and what it made, is never cut: a log that is long of these alone stays long.
"""

from __future__ import annotations

from typing import cast

from aios.stores.sqlite.connections import Database
from aios.stores.sqlite.statements import statement


def cut_log(database: Database, row: int, version: int, *, limit: int) -> None:
    """Cut a task's log if it holds more than `limit` events, a tenth of it at once so that it happens seldom."""
    found = database.execute(statement("cut_of"), (row,)).fetchone()
    gone, last_number, retry_at = cast(tuple[int, int, int], (0, 0, 0) if found is None else found)
    excess = version - gone - limit
    if excess <= 0 or version < retry_at:
        return
    at_once = max(1, limit // 10)
    wanted = excess + at_once
    numbers = [cast(int, number) for (number,) in database.execute(statement("cut_numbers"), (row, wanted))]
    if numbers:
        last_number = numbers[-1]
        database.execute(statement("cut_events"), (row, last_number))
    retry_at = 0 if len(numbers) == wanted else version + at_once
    database.execute(statement("put_cut"), (row, gone + len(numbers), last_number, retry_at))
