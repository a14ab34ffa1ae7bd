"""Many tasks: opening, claiming and listing stay quick.

The bounds are far above what it takes, and far below what looking at every task each time would take.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from aios.model import Limits, Priority, Status, Task, TaskId, TaskQuery
from aios.rules.lifecycle import Complete
from aios.stores.sqlite import SqliteStore, listing
from aios.testing.clock import ManualClock
from tests.stores.making import Desk
from tests.stores.sqlite.faults import raw_database


async def many(folder: Path, *, unfinished: int = 0, finished: int = 0) -> None:
    """Store one task by the store and copy its rows, which is quicker than asking for each."""
    clock = ManualClock()
    store = SqliteStore.open(folder, limits=Limits(max_concurrent_tasks=1), now=clock.now)
    desk = Desk(store, clock, Limits())
    await desk.create("task-0", priority=Priority.LOW)
    await desk.finish("task-1", "result")
    await store.close()
    database = raw_database(folder)
    numbers = "WITH RECURSIVE n (i) AS (VALUES (3) UNION ALL SELECT i + 1 FROM n WHERE i < ?3)"
    copies = (("unfinished", 1, 2 + unfinished, 0), ("finished", 2, 2 + unfinished + finished, unfinished))
    for table, model, last, skipped in copies:
        columns = [str(row[1]) for row in database.execute(f"PRAGMA table_info({table})")]
        given = {
            "row": "i",
            "task_id": "printf('task-%08d', i)",
            "created_at": "created_at + i",
            "updated_at": "updated_at + i",
            "started_at": "started_at + i",
            "capability_id": "printf('compat.shop%d.buy', i % 7)",
        }
        picked = ", ".join(given.get(column, column) for column in columns)
        database.execute("BEGIN")
        database.execute(
            f"{numbers} INSERT INTO task SELECT i, printf('task-%08d', i), spec, arguments "
            f"FROM n, task WHERE row = ?1 AND i > ?2 AND i <= ?3",
            (model, 2 + skipped, last),
        )
        database.execute(
            f"{numbers} INSERT INTO {table} SELECT {picked} FROM n, {table} WHERE row = ?1 AND i > ?2 AND i <= ?3",
            (model, 2 + skipped, last),
        )
        database.execute("UPDATE counter SET value = (SELECT count(*) FROM finished) WHERE name = 'completed'")
        database.execute("COMMIT")
    database.close()


async def timed(work: Callable[[], Coroutine[Any, Any, Any]]) -> float:
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began


async def test_a_store_with_a_hundred_thousand_unfinished_tasks_opens_and_claims_quickly(tmp_path: Path) -> None:
    await many(tmp_path, unfinished=100_000)
    clock = ManualClock()
    began = time.perf_counter()
    limits = Limits(max_concurrent_tasks=2, max_queue_size=200_000)
    store = SqliteStore.open(tmp_path, limits=limits, now=clock.now)
    assert time.perf_counter() - began < 10
    desk = Desk(store, clock, limits)
    worker = desk.seated()
    clock.advance(1_000_000)
    store.wake()
    await worker.until(2)

    async def lives() -> None:
        for number in range(200):
            task: Task = (await worker.until(number + 1))[number]
            await store.commit(desk.change(task, Complete(None)))
            await desk.create(f"task-x{number}", priority=Priority.LOW)

    assert await timed(lives) < 15
    assert (await store.counts())[Status.PENDING] == 100_001 - 2
    assert await timed(lambda: store.tasks(TaskQuery(principal="owner"))) < 5
    assert await timed(store.next_overdue) < 1
    await store.close()


@pytest.mark.parametrize("sort", sorted(listing.SORTS))
async def test_lists_of_very_many_finished_tasks_stay_quick(tmp_path: Path, rounds: int, sort: str) -> None:
    count = rounds * 300
    await many(tmp_path, finished=count)
    clock = ManualClock()
    store = SqliteStore.open(tmp_path, limits=Limits(), now=clock.now)
    query = TaskQuery(principal="owner", sort=sort)
    assert await timed(lambda: store.tasks(query)) < 2
    page = await store.tasks(query)
    assert await timed(lambda: store.tasks(replace(query, cursor=page.next_cursor))) < 2
    assert await timed(lambda: store.tasks(replace(query, principal="nobody"))) < 2
    assert await timed(lambda: store.tasks(replace(query, capability_glob="compat.shop3.*"))) < 2
    assert await timed(lambda: store.tasks(replace(query, tags=("none",)))) < 2
    assert page.total == count + 2 if count < listing.EXACT_TOTAL_MAX else page.total_is_estimate
    assert await timed(lambda: store.task(TaskId("task-00000007"))) < 1
    await store.close()
