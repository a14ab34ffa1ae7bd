"""Lists: filters, orders, pages, cursors, totals, against a plain model of what they promise."""

from __future__ import annotations

import asyncio
import string
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from aios.errors import ValidationFailed
from aios.model import Limits, Priority, Status, Task, TaskQuery
from aios.rules.lifecycle import Cancel, Complete, Pause, Start
from aios.rules.matching import matches
from aios.stores.sqlite import SqliteStore
from aios.testing.clock import START, ManualClock
from tests.stores.conftest import Stores
from tests.stores.making import WORKER, Desk

CAPABILITIES: Final = ("compat.shop.compare", "compat.shop.buy", "compat.shopping", "system.files.read", "sys[a].x?y")


Filled = tuple[asyncio.AbstractEventLoop, Desk, list[Task]]
"""A loop, a store that only it asks, and what the store holds."""


async def fill(desk: Desk) -> list[Task]:
    """Store 60 tasks of every sort."""
    stored: list[Task] = []
    for number in range(60):
        task = await desk.create(
            f"task-{number * 37 % 60:02}",
            principal=("ada", "bob")[number % 7 == 0],
            capability_id=CAPABILITIES[number % len(CAPABILITIES)],
            session_id=(None, "sess-1", "sess-2")[number % 3],
            priority=list(Priority)[number % 4],
            metadata={"tags": [tag for n, tag in enumerate(("red", "green", "%_[]")) if number >> n & 1]},
            arguments={"long": "x" * 100},
        )
        for command in ((), (Start(WORKER),), (Start(WORKER), Complete(number)), (Cancel(),), (Start(WORKER), Pause()))[
            number % 5
        ]:
            desk.clock.advance(number % 4 * 1_000)
            task = (await desk.store.commit(desk.change(task, command))).task
        stored.append(task)
        desk.clock.advance(number % 3 * 1_000)
    return stored


def expected(tasks: list[Task], query: TaskQuery) -> list[Task]:
    """Give all that match, in order, by the plainest means."""

    def in_range(at: datetime | None, after: datetime | None, before: datetime | None) -> bool:
        if after is None and before is None:
            return True
        return at is not None and (after is None or at >= after) and (before is None or at <= before)

    sort: dict[str, Callable[[Task], Any]] = {
        "created_at": lambda task: task.spec.created_at,
        "updated_at": lambda task: task.updated_at,
        "started_at": lambda task: task.started_at or datetime.min.replace(tzinfo=START.tzinfo),
        "priority": lambda task: task.spec.priority.rank,
        "status": lambda task: task.status.value,
    }
    found = [
        task
        for task in tasks
        if (query.principal is None or task.spec.principal == query.principal)
        and (not query.statuses or task.status in query.statuses)
        and (query.capability_glob is None or matches(query.capability_glob, task.spec.capability_id))
        and set(query.tags) <= set(task.spec.metadata["tags"])
        and (query.session_id is None or task.spec.session_id == query.session_id)
        and in_range(task.spec.created_at, query.created_after, query.created_before)
        and in_range(task.ended_at, query.ended_after, query.ended_before)
        and (task.status.is_terminal or not query.only_ended)
    ]
    return sorted(found, key=lambda task: (sort[query.sort](task), task.task_id), reverse=query.is_descending)


def summary(task: Task) -> Task:
    return replace(task, spec=replace(task.spec, arguments={}), result=None)


INSTANTS = st.none() | st.integers(-1, 130).map(lambda seconds: START + timedelta(seconds=seconds))
GLOBS = st.sampled_from(
    [
        "*",
        "compat.*",
        "compat.shop.*",
        "*.read",
        "c*t.s*p*",
        "compat.shop.buy",
        "sys[a].*",
        "sys[a].x?y",
        "sys?a].x?y",
        "",
        "**",
    ]
) | st.text(alphabet="*?[]%_'\\.cs", max_size=6)
QUERIES = st.builds(
    TaskQuery,
    principal=st.sampled_from([None, "ada", "bob", "nobody' OR 1=1 --"]),
    statuses=st.lists(st.sampled_from(list(Status)), max_size=3).map(tuple),
    capability_glob=st.none() | GLOBS,
    tags=st.lists(st.sampled_from(["red", "green", "%_[]", "%"]), max_size=2).map(tuple),
    session_id=st.sampled_from([None, "sess-1", "sess-2", "sess-3"]),
    created_after=INSTANTS,
    created_before=INSTANTS,
    ended_after=INSTANTS,
    ended_before=INSTANTS,
    only_ended=st.booleans(),
    limit=st.integers(1, 70),
    offset=st.integers(0, 12),
    sort=st.sampled_from(["created_at", "updated_at", "started_at", "priority", "status"]),
    is_descending=st.booleans(),
)


@pytest.fixture(scope="module")
def filled() -> Iterator[Filled]:
    """Fill one store, once for all examples; it lives in memory and has a loop of its own."""
    loop = asyncio.new_event_loop()
    clock = ManualClock()

    async def make() -> tuple[Desk, list[Task]]:
        desk = Desk(SqliteStore.open(":memory:", limits=Limits(), now=clock.now), clock, Limits())
        return desk, await fill(desk)

    desk, tasks = loop.run_until_complete(make())
    yield loop, desk, tasks
    loop.run_until_complete(desk.store.close())
    loop.close()


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(query=QUERIES)
def test_a_list_is_what_a_plain_filter_and_sort_give(filled: Filled, query: TaskQuery) -> None:
    loop, desk, tasks = filled
    page = loop.run_until_complete(desk.store.tasks(query))
    wanted = expected(tasks, query)
    assert page.tasks == [summary(task) for task in wanted[query.offset : query.offset + query.limit]]
    assert page.total == len(wanted)
    assert page.has_more == (len(wanted) > query.offset + query.limit)
    assert not page.total_is_estimate


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(query=QUERIES, sizes=st.lists(st.integers(1, 25), min_size=60, max_size=60))
def test_pages_by_cursor_give_everything_once_whatever_their_sizes(
    filled: Filled, query: TaskQuery, sizes: list[int]
) -> None:
    loop, desk, tasks = filled
    query = replace(query, offset=0)
    seen: list[Task] = []
    cursor = None
    for size in sizes:
        page = loop.run_until_complete(desk.store.tasks(replace(query, limit=size, cursor=cursor)))
        seen += page.tasks
        cursor = page.next_cursor
        assert page.has_more == (cursor is not None)
        if cursor is None:
            break
    assert seen == [summary(task) for task in expected(tasks, query)]


async def test_a_list_says_the_same_after_a_restart(durable: Stores) -> None:
    desk = durable.open()
    tasks = await fill(desk)
    desk = await durable.reopen(desk)
    query = TaskQuery(principal="ada", limit=100)
    assert (await desk.store.tasks(query)).tasks == [summary(task) for task in expected(tasks, query)]


@pytest.mark.parametrize(
    "cursor", ["", "AAAA", "%%%", "a", "é", "'; DROP TABLE task; --", "\x00", "=" * 100, "A" * 5_000]
)
async def test_a_cursor_that_is_none_is_refused(desk: Desk, cursor: str) -> None:
    with pytest.raises(ValidationFailed):
        await desk.store.tasks(TaskQuery(principal="ada", cursor=cursor))


async def test_a_cursor_of_another_query_is_refused(desk: Desk) -> None:
    for number in range(3):
        await desk.create(f"task-{number}")
    query = TaskQuery(principal="owner", limit=1)
    cursor = (await desk.store.tasks(query)).next_cursor
    for other in (
        replace(query, principal="ada", cursor=cursor),
        replace(query, principal=None, cursor=cursor),
        replace(query, sort="priority", cursor=cursor),
        replace(query, is_descending=False, cursor=cursor),
        replace(query, tags=("a",), cursor=cursor),
    ):
        with pytest.raises(ValidationFailed):
            await desk.store.tasks(other)
    assert len((await desk.store.tasks(replace(query, cursor=cursor, limit=2))).tasks) == 2


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("sort", "task_id; DROP TABLE task"),
        ("sort", ""),
        ("limit", 0),
        ("limit", -1),
        ("offset", -1),
        ("offset", 2**63),
    ],
)
async def test_what_is_no_order_and_no_page_is_refused(desk: Desk, field: str, value: Any) -> None:
    query = TaskQuery(principal="owner", **{field: value})
    with pytest.raises(ValidationFailed):
        await desk.store.tasks(query)


async def test_a_page_has_a_thousand_tasks_at_most(desk: Desk) -> None:
    await asyncio.gather(*(desk.create(f"task-{number:04}") for number in range(1_005)))
    page = await desk.store.tasks(TaskQuery(principal="owner", limit=5_000))
    assert (len(page.tasks), page.has_more, page.total) == (1_000, True, 1_005)


async def test_a_page_of_big_tasks_ends_early_and_goes_on_by_its_cursor(desk: Desk) -> None:
    for number in range(20):
        await desk.create(f"task-{number:02}", metadata={"note": "x" * 1_000_000})
    query = TaskQuery(principal="owner", limit=20, is_descending=False)
    first = await desk.store.tasks(query)
    assert 0 < len(first.tasks) < 20
    assert first.has_more
    rest = await desk.store.tasks(replace(query, cursor=first.next_cursor))
    ids = [task.task_id for task in first.tasks + rest.tasks]
    assert ids[: len(string.digits)] == [f"task-{number:02}" for number in range(10)]


async def test_a_list_does_not_move_under_a_cursor_when_tasks_come(desk: Desk) -> None:
    for number in range(4):
        await desk.create(f"task-{number}")
        desk.clock.advance(1_000)
    query = TaskQuery(principal="owner", limit=2)
    first = await desk.store.tasks(query)
    await desk.create("task-new")
    second = await desk.store.tasks(replace(query, cursor=first.next_cursor))
    assert [task.task_id for task in first.tasks + second.tasks] == ["task-3", "task-2", "task-1", "task-0"]
