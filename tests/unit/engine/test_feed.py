"""Following a task's log live: no gap, no repeat, whatever the interleaving."""

from __future__ import annotations

import asyncio
import random
from contextlib import aclosing

import pytest

from aios.engine import feed as feed_module
from aios.engine.feed import Feed
from aios.errors import TaskNotFound
from aios.model import Change, Event, EventKind, EventPage, Status, Task, TaskId
from aios.rules.lifecycle import Chunk, Complete, Fail, Log
from aios.testing.clock import ManualClock
from tests.unit.engine.house import PATIENCE_S, House, open_house, told

NOWHERE = TaskId("task-none")


def numbers(events: list[Event]) -> list[int]:
    return [event.number for event in events]


async def finish(house: House, task: Task, *, logs: int) -> None:
    for number in range(logs):
        await house.engine.record(task, Log("info", f"line {number}"))
    await house.complete(task)


async def test_a_follower_from_the_start_gets_every_event_to_the_end() -> None:
    async with open_house() as house:
        task = await house.started()
        following = asyncio.create_task(house.follow(task.task_id))
        await finish(house, task, logs=5)
        events = await following
        assert numbers(events) == list(range(1, 9))
        assert [told(event) for event in events[-2:]] == ["status completed", "result"]


async def test_a_follower_of_a_terminal_task_gets_what_is_left_and_ends() -> None:
    async with open_house() as house:
        task = await house.started()
        await finish(house, task, logs=3)
        assert numbers(await house.follow(task.task_id, 4)) == [5, 6]
        assert await house.follow(task.task_id, 6) == []
        assert await house.follow(task.task_id, 60) == []


async def test_a_failure_comes_with_its_error_and_a_cancel_alone() -> None:
    async with open_house() as house:
        failing, canceled = await house.started(), await house.started()
        await house.engine.record(failing, Fail({"code": -32603, "message": "no", "data": {}}))
        await house.engine.cancel(canceled.task_id)
        assert [told(e) for e in await house.follow(failing.task_id, 1)] == ["status failed", "error"]
        assert [told(e) for e in await house.follow(canceled.task_id, 1)] == ["status canceled"]


async def test_following_an_unknown_task_finds_none() -> None:
    async with open_house() as house:
        with pytest.raises(TaskNotFound):
            await house.follow(NOWHERE)
        with pytest.raises(TaskNotFound):
            await house.engine.until(NOWHERE, lambda task: True, None)


async def test_a_subscription_races_the_commits_and_never_misses_or_repeats(rounds: int) -> None:
    dice = random.Random(7)
    async with open_house() as house:
        for _ in range(rounds):
            task = await house.started()
            working = asyncio.create_task(finish(house, task, logs=4))
            followers: list[asyncio.Task[list[Event]]] = []
            for _ in range(4):
                for _ in range(dice.randrange(12)):
                    await asyncio.sleep(0)
                followers.append(asyncio.create_task(house.follow(task.task_id)))
            await working
            for each in followers:
                assert numbers(await each) == list(range(1, 8))


async def test_with_kinds_others_are_left_out_but_the_terminal_status_never_is() -> None:
    async with open_house() as house:
        task = await house.started()
        following = asyncio.create_task(house.follow(task.task_id, kinds=frozenset({EventKind.LOG})))
        await house.engine.pause(task.task_id)
        await house.engine.resume(task.task_id)
        await finish(house, task, logs=2)
        live = [told(event) for event in await following]
        later = [told(event) for event in await house.follow(task.task_id, kinds=frozenset({EventKind.LOG}))]
        assert live == later == ["log", "log", "status completed"]
        only_canceled = await house.started()
        await house.engine.pause(only_canceled.task_id)
        await house.engine.cancel(only_canceled.task_id)
        chunks = await house.follow(only_canceled.task_id, kinds=frozenset({EventKind.CHUNK}))
        assert [told(event) for event in chunks] == ["status canceled"]


async def test_what_is_cut_from_a_log_is_told_once_and_first() -> None:
    async with open_house(max_events_per_task=20) as house:
        task = await house.started()
        for number in range(40):
            await house.engine.record(task, Chunk(number, number))
        await house.complete(task)
        async with aclosing(house.engine.feed.follow(task.task_id, 0)) as following:
            pages = [page async for page in following]
        assert [page.is_cut for page in pages] == [True] + [False] * (len(pages) - 1)
        got = [event.number for page in pages for event in page.events]
        assert got == numbers(await house.log(task.task_id))
        assert got[-1] == 43
        assert len(got) <= 20


class CountingStore:
    """A store that holds its reads until the test lets them go, and counts them."""

    def __init__(self, events: list[Event], task: Task) -> None:
        self.events = events
        self.current = task
        self.reads = 0
        self.loads = 0
        self.gate = asyncio.Event()

    async def task(self, task_id: TaskId) -> Task:
        self.loads += 1
        task = self.current
        await self.gate.wait()
        return task

    async def events_after(
        self, task_id: TaskId, number: int, *, limit: int, kinds: object = None, max_bytes: object = None
    ) -> EventPage:
        self.reads += 1
        found = [event for event in self.events if event.number > number][:limit]
        await self.gate.wait()
        return EventPage(events=found)


async def scripted(house: House) -> tuple[CountingStore, Feed, list[Change]]:
    """Make a log of real events, and the changes that tell of them one by one."""
    task = await house.started()
    changes: list[Change] = []
    for number in range(5):
        recorded = await house.engine.record(task, Log("info", str(number)))
        changes.append(Change(task=recorded, before=recorded.version - 1))
    done = await house.engine.record(task, Complete(None))
    changes.append(Change(task=done, before=done.version - 2))
    log = await house.log(task.task_id)
    told_of = 1
    for index, change in enumerate(changes):
        events = tuple(event for event in log if told_of < event.number <= change.task.version)
        told_of = change.task.version
        changes[index] = Change(task=change.task, before=change.before, events=events)
    store = CountingStore(log[:1], task)
    return store, Feed(store=store, clock=ManualClock()), changes  # pyright: ignore[reportArgumentType]


async def collect(feed: Feed, task_id: TaskId) -> list[int]:
    async with asyncio.timeout(PATIENCE_S), aclosing(feed.follow(task_id, 0)) as pages:
        return [event.number async for page in pages for event in page.events]


async def test_many_followers_of_one_task_cost_one_read() -> None:
    async with open_house() as house:
        store, feed, changes = await scripted(house)
        followers = [asyncio.create_task(collect(feed, changes[0].task.task_id)) for _ in range(100)]
        await asyncio.sleep(0)
        store.gate.set()
        for change in changes:
            for _ in range(4):
                await asyncio.sleep(0)
            store.events += change.events
            feed.wake(change)
        assert [await each for each in followers] == [list(range(1, 9))] * 100
        assert (store.loads, store.reads) == (1, 1)


async def test_commits_may_be_told_in_any_order(rounds: int) -> None:
    dice = random.Random(11)
    async with open_house() as house:
        for _ in range(rounds):
            store, feed, changes = await scripted(house)
            store.gate.set()
            follower = asyncio.create_task(collect(feed, changes[0].task.task_id))
            for _ in range(dice.randrange(6)):
                await asyncio.sleep(0)
            told_in_order = changes[:-1]
            dice.shuffle(told_in_order)
            told_in_order.insert(dice.randrange(len(changes)), changes[-1])
            for change in changes:
                store.events += change.events
            store.current = changes[-1].task
            for change in told_in_order:
                feed.wake(change)
                for _ in range(dice.randrange(3)):
                    await asyncio.sleep(0)
            assert await follower == list(range(1, 9))


async def test_a_stalled_follower_costs_a_cursor_and_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "TAIL_EVENTS", 4)
    monkeypatch.setattr(feed_module, "PAGE_EVENTS", 3)
    monkeypatch.setattr(feed_module, "TAILS_BYTES_MAX", 1_000)
    async with open_house() as house:
        task = await house.started()
        got: list[int] = []
        async with aclosing(house.engine.feed.follow(task.task_id, 0)) as pages:
            got += numbers((await anext(pages)).events)
            await finish(house, task, logs=50)
            got += [event.number async for page in pages for event in page.events]
        assert got == list(range(1, 54))


async def test_nothing_is_kept_of_a_task_that_nobody_follows() -> None:
    async with open_house() as house:
        task = await house.started()
        following = asyncio.create_task(house.follow(task.task_id))
        leaving = house.engine.feed.follow(task.task_id, 0)
        await anext(leaving)
        await leaving.aclose()
        await finish(house, task, logs=3)
        await following
        assert vars(house.engine.feed)["_tails"] == {}
        assert vars(house.engine.feed)["_bytes"] == 0


async def test_waiting_for_a_task_is_woken_by_its_commit() -> None:
    async with open_house() as house:
        task = await house.started()
        waiting = asyncio.create_task(house.wait(task.task_id, Status.PAUSED))
        await asyncio.sleep(0)
        await house.engine.pause(task.task_id)
        assert (await waiting).version == 2
