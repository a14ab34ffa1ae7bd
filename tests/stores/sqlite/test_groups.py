"""Group commit: many writes share a transaction, and each is answered for itself."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from aios.errors import AiosError, Conflict, InternalError
from aios.model import Change, Limits, Status, TaskId
from aios.rules.lifecycle import Complete, Start
from aios.store import Committed
from aios.stores.sqlite import SqliteStore, writer
from aios.stores.sqlite.transaction import Transaction
from aios.testing.clock import ManualClock
from tests.stores.conftest import Stores
from tests.stores.making import WORKER, Desk, half_way, new_task
from tests.stores.sqlite.faults import raw_database


class Held:
    """Holds the writing thread in a write of its own, so that what is asked meanwhile makes one group."""

    def __init__(self, desk: Desk) -> None:
        assert isinstance(desk.store, SqliteStore)
        self._is_held = threading.Event()
        self._go = threading.Event()
        self._writing = asyncio.create_task(desk.store._writer.write(self._wait))

    def _wait(self, transaction: Transaction) -> None:
        self._is_held.set()
        self._go.wait(20)

    async def begin(self) -> Held:
        """Wait until the thread is held."""
        await asyncio.to_thread(self._is_held.wait, 20)
        return self

    async def let_go(self, *asked: asyncio.Task[Any]) -> None:
        """Let the group be written, once everything was asked."""
        for _ in range(3):
            await asyncio.sleep(0)
        self._go.set()
        await self._writing
        await asyncio.gather(*asked, return_exceptions=True)


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of the groups that were tried."""
    sizes: list[int] = []
    real = writer.Writer._commit

    def counted(self: writer.Writer, calls: list[Any], **how: Any) -> Transaction:
        sizes.append(len(calls))
        return real(self, calls, **how)

    monkeypatch.setattr(writer.Writer, "_commit", counted)
    return sizes


async def asked_together(desk: Desk, changes: list[Change]) -> list[asyncio.Task[Committed]]:
    held = await Held(desk).begin()
    tasks = [asyncio.create_task(desk.store.commit(change)) for change in changes]
    await held.let_go(*tasks)
    return tasks


async def test_what_waits_is_written_in_one_transaction(stores: Stores, commits: list[int]) -> None:
    desk = stores.open()
    changes = [Change(task=new_task(f"task-{n:02}", desk.clock), before=None) for n in range(50)]
    answers = await asked_together(desk, changes)
    assert {answer.result().task.status for answer in answers} == {Status.PENDING}
    assert commits == [1, 50]


async def test_a_group_has_an_upper_bound(stores: Stores, commits: list[int]) -> None:
    desk = stores.open()
    changes = [Change(task=new_task(f"task-{n:03}", desk.clock), before=None) for n in range(600)]
    await asked_together(desk, changes)
    assert sum(commits) == 601
    assert max(commits) == writer.GROUP_MAX


async def test_one_refused_write_does_not_undo_the_others(stores: Stores, commits: list[int]) -> None:
    desk = stores.open(max_queue_size=3)
    changes = [Change(task=new_task(f"task-{n}", desk.clock), before=None) for n in range(6)]
    answers = await asked_together(desk, changes)
    assert [answer.exception() is None for answer in answers] == [True] * 3 + [False] * 3
    assert commits == [1, 6]


async def test_a_write_that_fails_unforeseen_fails_alone(stores: Stores, commits: list[int]) -> None:
    desk = stores.open()
    changes = [Change(task=new_task(f"task-{n}", desk.clock), before=None) for n in range(5)]
    bad = replace(changes[2].task, spec=replace(changes[2].task.spec, arguments={"not json": object()}))
    changes[2] = replace(changes[2], task=bad)
    answers = await asked_together(desk, changes)
    assert isinstance(answers[2].exception(), InternalError)
    assert [answer.exception() is None for answer in answers] == [True, True, False, True, True]
    assert commits == [1, 5, 1, 1, 1, 1, 1]
    counts = await desk.store.counts()
    assert counts[Status.PENDING] == 4
    assert desk.store.health().is_writable


async def test_events_that_contradict_the_log_conflict_and_nothing_is_written(stores: Stores) -> None:
    desk = stores.open()
    await desk.create("task-1")
    task = await desk.carry_out("task-1", Start(WORKER))
    change = desk.change(task, half_way())
    again = replace(change.events[0], number=1)
    with pytest.raises(Conflict):
        await desk.store.commit(replace(change, events=(again,)))
    assert await desk.store.task(TaskId("task-1")) == task
    await desk.store.commit(change)


async def test_slots_and_queue_are_right_after_a_group_was_undone(stores: Stores) -> None:
    desk = stores.open(max_concurrent_tasks=2)
    worker = desk.seated()
    changes = [Change(task=new_task(f"task-{n}", desk.clock), before=None) for n in range(6)]
    bad = replace(changes[0].task, spec=replace(changes[0].task.spec, arguments={"not json": object()}))
    changes[0] = replace(changes[0], task=bad)
    await asked_together(desk, changes)
    tasks = await worker.until(2)
    assert worker.ids == ["task-1", "task-2"]
    counts = await desk.store.counts()
    assert (counts[Status.PENDING], counts[Status.WORKING], counts["slots"]) == (3, 2, 2)
    for number in range(3):
        await desk.store.commit(desk.change((await worker.until(number + 1))[number], Complete(None)))
    assert (await worker.until(5))[-1].task_id == "task-5"
    assert tasks[0].claim == 1


async def test_a_whole_life_in_one_group_is_written_whole(stores: Stores) -> None:
    desk = stores.open()
    held = await Held(desk).begin()
    created = new_task("task-1", desk.clock)
    known = replace(created, row=1, stamp=1)
    started = desk.change(known, Start(WORKER))
    ended = desk.change(replace(started.task, stamp=2), Complete("done"))
    asked = [
        asyncio.create_task(desk.store.commit(change)) for change in (Change(task=created, before=None), started, ended)
    ]
    await held.let_go(*asked)
    assert asked[2].result().task == await desk.store.task(created.task_id)
    desk = await stores.reopen(desk) if stores.kind == "sqlite" else desk
    assert (await desk.store.task(created.task_id)).result == "done"
    assert await desk.numbers("task-1") == [1, 2, 3]


async def test_a_caller_that_was_canceled_does_not_disturb_the_group(stores: Stores) -> None:
    desk = stores.open()
    held = await Held(desk).begin()
    tasks = [
        asyncio.create_task(desk.store.commit(Change(task=new_task(f"task-{n}", desk.clock), before=None)))
        for n in range(3)
    ]
    await asyncio.sleep(0)
    tasks[1].cancel()
    await held.let_go(*tasks)
    assert tasks[1].cancelled()
    assert (tasks[0].result().task.task_id, tasks[2].result().task.task_id) == ("task-0", "task-2")


async def test_a_store_may_be_used_from_several_loops(durable: Stores) -> None:
    desk = durable.open()
    failures: list[BaseException] = []

    async def some(name: str) -> None:
        for number in range(20):
            await desk.finish(f"task-{name}-{number:02}")
            assert await desk.numbers(f"task-{name}-{number:02}") == [1, 2, 3]

    def in_a_loop_of_its_own(name: str) -> None:
        try:
            asyncio.run(some(name))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=in_a_loop_of_its_own, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    await some("here")
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert failures == []
    assert (await desk.store.counts())[Status.COMPLETED] == 80


async def test_a_loop_that_is_gone_does_not_stop_the_writer(durable: Stores) -> None:
    desk = durable.open()
    held = await Held(desk).begin()
    loop = asyncio.new_event_loop()

    async def ask_and_leave() -> None:
        asked = asyncio.ensure_future(desk.store.commit(Change(task=new_task("task-1", desk.clock), before=None)))
        await asyncio.sleep(0)
        asked.cancel()

    await asyncio.to_thread(_run_and_close, loop, ask_and_leave)
    await held.let_go()
    await desk.create("task-2")
    assert (await desk.store.task(TaskId("task-1"))).status is Status.PENDING


def _run_and_close(loop: asyncio.AbstractEventLoop, work: Any) -> None:
    loop.run_until_complete(work())
    loop.close()


async def test_a_read_sees_all_that_was_answered_before(durable: Stores) -> None:
    """Read past the writer's memory, on the readers' own connections."""
    desk = durable.open()
    assert isinstance(desk.store, SqliteStore)
    await desk.create("task-1")
    task = await desk.carry_out("task-1", Start(WORKER))
    for number in range(200):
        task = (await desk.store.commit(desk.change(task, half_way()))).task
        page = await desk.store.events_after(task.task_id, number + 1, limit=10)
        assert [event.number for event in page.events] == [number + 2]
        desk.store._writer.cache.drop(task.row)
        assert await desk.store.task(task.task_id) == task


async def test_closing_writes_what_waits(durable: Stores) -> None:
    desk = durable.open()
    tasks = [asyncio.create_task(desk.create(f"task-{n}")) for n in range(20)]
    await asyncio.sleep(0)
    desk = await durable.reopen(desk)
    assert all(isinstance(answer, AiosError) or answer for answer in await asyncio.gather(*tasks))
    assert (await desk.store.counts())[Status.PENDING] == 20


async def test_the_log_beside_the_database_stays_bounded_while_readers_read(tmp_path: Path) -> None:
    clock = ManualClock()
    store = SqliteStore.open(tmp_path, limits=Limits(), now=clock.now)
    desk = Desk(store, clock, Limits())
    await desk.create("task-1")
    task = await desk.carry_out("task-1", Start(WORKER))
    for _ in range(3_000):
        task, _page = (
            (await store.commit(desk.change(task, half_way()))).task,
            await store.events_after(task.task_id, task.version - 1, limit=10),
        )
    assert (tmp_path / "aios.db-wal").stat().st_size < 32 * 1024 * 1024
    await store.close()
    assert raw_database(tmp_path).pragma("quick_check") == "ok"
