"""The log: numbered without a gap, read by number, cut from its beginning when it grows too long."""

from __future__ import annotations

from aios.model import EventKind, TaskId
from aios.rules.lifecycle import Chunk, Complete, Log, Pause, Resume, Start
from tests.stores.conftest import Stores
from tests.stores.making import WORKER, Desk, half_way

TASK = TaskId("task-1")


async def test_events_are_given_in_order_after_a_number(desk: Desk) -> None:
    await desk.create("task-1")
    await desk.carry_out("task-1", Start(WORKER), half_way(), Log("info", "text"), Complete(1))
    page = await desk.store.events_after(TASK, 0, limit=100)
    assert [(event.number, event.kind) for event in page.events] == [
        (1, EventKind.STATUS),
        (2, EventKind.PROGRESS),
        (3, EventKind.LOG),
        (4, EventKind.STATUS),
        (5, EventKind.RESULT),
    ]
    assert await desk.numbers("task-1", after=3) == [4, 5]
    assert await desk.numbers("task-1", after=5) == []
    assert not page.is_cut


async def test_an_event_comes_back_as_it_was_written(durable: Stores) -> None:
    desk = durable.open()
    await desk.create("task-1")
    change = desk.change(await desk.store.task(TASK), Start(WORKER))
    await desk.store.commit(change)
    desk = await durable.reopen(desk)
    assert tuple((await desk.store.events_after(TASK, 0, limit=9)).events) == change.events


async def test_an_unknown_task_has_no_events(desk: Desk) -> None:
    page = await desk.store.events_after(TaskId("task-none"), 0, limit=10)
    assert (page.events, page.is_cut) == ([], False)


async def test_a_page_ends_at_its_limit(desk: Desk) -> None:
    await desk.create("task-1")
    await desk.carry_out("task-1", Start(WORKER), *[Log("info", str(n)) for n in range(5)])
    page = await desk.store.events_after(TASK, 1, limit=3)
    assert [event.number for event in page.events] == [2, 3, 4]


async def test_a_page_ends_at_its_bytes_but_has_one_event_at_least(desk: Desk) -> None:
    await desk.create("task-1")
    await desk.carry_out("task-1", Start(WORKER), *[Log("info", "x" * 1_000) for _ in range(5)])
    page = await desk.store.events_after(
        TASK, 1, limit=100, max_bytes=2 * len((await desk.store.events_after(TASK, 1, limit=1)).events[0].data)
    )
    assert [event.number for event in page.events] == [2, 3]
    assert len((await desk.store.events_after(TASK, 1, limit=100, max_bytes=1)).events) == 1


async def test_only_the_asked_kinds_are_given(desk: Desk) -> None:
    await desk.create("task-1")
    await desk.carry_out("task-1", Start(WORKER), half_way(), Log("info", "text"), half_way(), Complete(1))
    page = await desk.store.events_after(TASK, 0, limit=2, kinds=frozenset({EventKind.PROGRESS, EventKind.RESULT}))
    assert [(event.number, event.kind) for event in page.events] == [(2, EventKind.PROGRESS), (4, EventKind.PROGRESS)]
    assert (await desk.store.events_after(TASK, 0, limit=9, kinds=frozenset())).events == []


async def test_past_its_limit_a_log_loses_progress_logs_and_chunks_from_the_beginning(stores: Stores) -> None:
    desk = stores.open(max_events_per_task=20)
    await desk.create("task-1")
    await desk.carry_out("task-1", Start(WORKER))
    for number in range(30):
        command = (half_way(), Log("info", "x"), Chunk("x", number))[number % 3]
        await desk.carry_out("task-1", command)
        assert len(await desk.numbers("task-1")) <= 20
    await desk.carry_out("task-1", Complete(None))
    numbers = await desk.numbers("task-1")
    assert numbers[0] == 1
    assert numbers[1:] == list(range(numbers[1], 34))
    assert len(numbers) <= 20


async def test_a_reader_is_told_exactly_when_something_after_its_number_was_cut(stores: Stores) -> None:
    desk = stores.open(max_events_per_task=10)
    await desk.create("task-1")
    await desk.carry_out("task-1", Start(WORKER), *[half_way() for _ in range(15)])
    kept = await desk.numbers("task-1")
    last_cut = kept[1] - 1
    for after in range(17):
        page = await desk.store.events_after(TASK, after, limit=100)
        assert page.is_cut == (after < last_cut)


async def test_what_moves_a_task_is_never_cut(stores: Stores) -> None:
    desk = stores.open(max_events_per_task=5)
    await desk.create("task-1")
    await desk.carry_out("task-1", Start(WORKER))
    for _ in range(10):
        await desk.carry_out("task-1", Pause(None), Resume(None))
    page = await desk.store.events_after(TASK, 0, limit=100)
    assert [event.number for event in page.events] == list(range(1, 22))
    assert not page.is_cut


async def test_one_change_with_more_events_than_the_limit_is_cut_too(stores: Stores) -> None:
    desk = stores.open(max_events_per_task=5)
    await desk.create("task-1")
    task = await desk.carry_out("task-1", Start(WORKER))
    await desk.store.commit(desk.change(task, *[Log("info", str(n)) for n in range(50)]))
    assert len(await desk.numbers("task-1")) <= 5
    assert (await desk.numbers("task-1"))[-1] == 51
