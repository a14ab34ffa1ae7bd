"""Lists over so many tasks that no filter is narrow: the same pages, walked in order; totals that say when they are estimates.

Millions of rows are played by narrow bounds.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from msgspec.structs import replace

from aios.model import TaskQuery
from aios.stores.sqlite import listing
from tests.stores.conftest import Stores
from tests.stores.sqlite.faults import raw_database
from tests.stores.test_lists import QUERIES, Filled, expected, fill, filled, summary

__all__ = ["filled"]


@pytest.fixture(params=[0, 10], autouse=True)
def narrow_max(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "NARROW_MAX", request.param)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(query=QUERIES)
def test_a_list_that_is_walked_is_the_same_list(filled: Filled, query: TaskQuery) -> None:
    loop, desk, tasks = filled
    page = loop.run_until_complete(desk.store.tasks(query))
    wanted = expected(tasks, query)
    assert page.tasks == [summary(task) for task in wanted[query.offset : query.offset + query.limit]]
    assert (page.total, page.total_is_estimate) == (len(wanted), False)


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(query=QUERIES)
def test_walked_pages_by_cursor_give_everything_once(filled: Filled, query: TaskQuery) -> None:
    loop, desk, tasks = filled
    query = replace(query, offset=0, limit=7)
    page = loop.run_until_complete(desk.store.tasks(query))
    seen = list(page.tasks)
    while page.next_cursor is not None:
        page = loop.run_until_complete(desk.store.tasks(replace(query, cursor=page.next_cursor)))
        seen += page.tasks
    assert seen == [summary(task) for task in expected(tasks, query)]


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(query=QUERIES)
def test_a_total_that_was_not_counted_to_its_end_says_so(filled: Filled, query: TaskQuery) -> None:
    loop, desk, tasks = filled
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(listing, "COUNTED_ROWS_MAX", 12)
        patch.setattr(listing, "EXACT_TOTAL_MAX", 5)
        patch.setattr(listing, "SAMPLED_BLOCKS", 3)
        patch.setattr(listing, "BLOCK_ROWS", 5)
        page = loop.run_until_complete(desk.store.tasks(query))
    wanted = len(expected(tasks, query))
    assert page.total_is_estimate or page.total == wanted
    assert 0 <= page.total <= len(tasks)
    assert page.total_is_estimate or wanted <= len(tasks)


@pytest.mark.parametrize("sort", sorted(listing.SORTS))
async def test_every_order_is_walked_along_its_index(durable: Stores, sort: str) -> None:
    desk = durable.open()
    await fill(desk)
    database = raw_database(durable.folder / "data")
    plans: list[str] = []
    for is_descending in (True, False):
        query = TaskQuery(principal="ada", sort=sort, is_descending=is_descending, limit=5)
        part = listing.finished_part(database, query)
        plans += explain(database, query, part)
    # Ties may be sorted, where few tasks can be tied; never the whole.
    wanted = "USE TEMP B-TREE FOR LAST TERM OF ORDER BY" if sort.endswith("_at") else None
    assert {plan for plan in plans if "TEMP B-TREE" in plan} <= {wanted}
    database.close()


def explain(database: listing.Database, query: TaskQuery, part: listing.Part) -> list[str]:
    """Say how SQLite would find the first page and one after a cursor."""
    plans: list[str] = []
    for cursor in (None, listing.Cursor(query=b"", value=1, task_id="task-1")):
        sql, values = listing.part_page(query, part, cursor, limit=6)
        plans += [row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {sql}", values)]
    return plans
