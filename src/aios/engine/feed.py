"""Reading the log live: a follower is a cursor, woken when the log has grown.

Four rules keep a follower from missing or repeating an event, in whatever order commits are told:
1. What is known of a task (`_Tail.task`) only grows, and is looked at before the log is.
2. A follower moves its cursor to the last event it was given, or, where a read gave nothing, to what was the log's end before
   that read.
3. Of what a read brings, only events up to that end are used; later ones will be told, and are then read again.
4. Before it waits, it enters its name; so nothing can be told between looking and waiting.

Events that were just committed lie in a bounded tail, so that a thousand followers of a task that keep up cost no read at all,
and those who start together share one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractContextManager
from itertools import islice

from aios.engine.clock import MILLISECOND, Clock
from aios.model import Change, Event, EventKind, EventPage, Status, Task, TaskId
from aios.store import Store

PAGE_EVENTS = 256
PAGE_BYTES = 1024 * 1024
TAIL_EVENTS = 64
TAILS_BYTES_MAX = 32 * 1024 * 1024
"""What the tails of all followed tasks may hold together; past it the oldest are emptied, and read from the store."""
EVENT_BYTES = 256
"""What an event takes besides its data, about."""

Kinds = frozenset[EventKind] | None


class _Tail:
    """What the followers of one task have in common."""

    def __init__(self, task_id: TaskId) -> None:
        self.task_id = task_id
        self.joined = 0
        self.readers = 0
        """Those who joined for the events; for nobody else are they kept."""
        self.task: Task | None = None
        self.events: deque[Event] = deque()
        """The newest events, without a hole."""
        self.bytes = 0
        self.waiting: set[asyncio.Future[None]] = set()
        self.asking: dict[asyncio.Future[Task], Callable[[Task], bool]] = {}
        """Who waits for a certain state only, and is left asleep until then."""
        self.reads: dict[tuple[int, Kinds], asyncio.Future[tuple[int, EventPage] | None]] = {}
        self.loading: asyncio.Future[None] | None = None

    def know(self, task: Task) -> None:
        """Take the task as it was told or read, unless it is older than what is known."""
        if self.task is None or task.stamp >= self.task.stamp:
            self.task = task

    def append(self, events: Sequence[Event]) -> None:
        """Keep events that were told or read, where they go on from those kept or begin after a hole."""
        last = self.events[-1].number if self.events else None
        if not events or (last is not None and events[-1].number <= last):
            return
        if last is not None and events[0].number != last + 1:
            self.clear()
        self.events.extend(events)
        self.bytes += sum(map(_size, events))
        while len(self.events) > TAIL_EVENTS:
            self.bytes -= _size(self.events.popleft())

    def clear(self) -> None:
        """Keep nothing; it is read from the store."""
        self.events.clear()
        self.bytes = 0

    def page(self, after: int, end: int) -> EventPage | None:
        """Give what follows `after`, if it is here."""
        if not self.events or not self.events[0].number <= after + 1 <= self.events[-1].number:
            return None
        skipped = after + 1 - self.events[0].number
        return EventPage(events=[each for each in islice(self.events, skipped, None) if each.number <= end])

    def wake(self) -> None:
        if self.waiting:
            waiting, self.waiting = self.waiting, set()
            for each in waiting:
                if not each.done():
                    each.set_result(None)
        if self.asking and self.task is not None:
            self._answer(self.task)

    def _answer(self, task: Task) -> None:
        for answer, done in list(self.asking.items()):
            try:
                if not answer.done() and done(task):
                    answer.set_result(task)
            except Exception as error:  # It is the asker's own, and nobody else's commit fails by it.
                answer.set_exception(error)


class _Joined:
    """Somebody's being interested in a task, for as long as a block lasts."""

    __slots__ = ("_feed", "_is_reader", "_task_id")

    def __init__(self, feed: Feed, task_id: TaskId, *, is_reader: bool) -> None:
        self._feed = feed
        self._task_id = task_id
        self._is_reader = is_reader

    def __enter__(self) -> _Tail:
        return self._feed.enter(self._task_id, is_reader=self._is_reader)

    def __exit__(self, *_: object) -> None:
        self._feed.leave(self._task_id, is_reader=self._is_reader)


class Feed:
    """Wakes those who wait for a task, after each commit."""

    def __init__(self, *, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._tails: dict[TaskId, _Tail] = {}
        self._bytes = 0

    def wake(self, change: Change) -> None:
        """Tell the followers of a task what has been committed; in whatever order commits are told."""
        tail = self._tails.get(change.task.task_id)
        if tail is None:
            return
        tail.know(change.task)
        if tail.readers:
            self._keep(tail, change.events)
        tail.wake()

    def _keep(self, tail: _Tail, events: Sequence[Event]) -> None:
        before = tail.bytes
        tail.append(events)
        self._bytes += tail.bytes - before
        if self._bytes > TAILS_BYTES_MAX:
            self._empty_tails()

    async def follow(self, task_id: TaskId, after: int, *, kinds: Kinds = None) -> AsyncGenerator[EventPage]:
        """Give the task's events with a greater number, those stored and then those to come, each once and in order.

        A page that says `is_cut` tells that events before its first were cut away; it may hold none. With `kinds`, others are
        left out, but the terminal status never is. Ends after the terminal status and its companions. A follower that reads
        slowly costs a cursor. Close it (`contextlib.aclosing`) where it is left early.

        Raises:
            TaskNotFound: There is no such task; at the first step.
            StoreUnavailable: The log cannot be read now; follow again from the last event that came.
        """
        read = None if kinds is None else kinds | {EventKind.STATUS}
        with _Joined(self, task_id, is_reader=True) as tail:
            cursor, is_told = after, False
            task = tail.task or await self._known(tail)
            while True:
                if cursor >= task.version:
                    if task.status.is_terminal:
                        return
                    is_told = False
                    await self._grown(tail, lambda known=task: known is not tail.task)
                    task = tail.task or await self._known(tail)
                    continue
                end, page = task.version, tail.page(cursor, task.version)
                if page is None:
                    end, page = await self._read(tail, cursor, read)
                    task = tail.task or await self._known(tail)
                cursor = page.events[-1].number if page.events else end
                wanted = [each for each in page.events if _is_wanted(each, kinds, task)]
                if wanted or (page.is_cut and not is_told):
                    yield EventPage(events=wanted, is_cut=page.is_cut and not is_told)
                    task = tail.task or await self._known(tail)
                is_told = is_told or page.is_cut

    async def until(self, task_id: TaskId, done: Callable[[Task], bool], timeout_ms: int | None) -> Task:
        """Wait until `done` says so of the task, without polling; give it as it is then, or when the time is up.

        Raises:
            TaskNotFound: There is no such task.
        """
        with _Joined(self, task_id, is_reader=False) as tail:
            task = tail.task or await self._known(tail)
            if done(task):
                return task
            answer: asyncio.Future[Task] = asyncio.get_running_loop().create_future()
            tail.asking[answer] = done
            timer = None
            if timeout_ms is not None:
                timer = self._clock.call_at(
                    self._clock.now() + timeout_ms * MILLISECOND,
                    lambda: None if answer.done() else answer.set_result(tail.task or task),
                )
            try:
                return await answer
            finally:
                del tail.asking[answer]
                if timer is not None:
                    timer.cancel()

    def expecting(self, task_id: TaskId, *, is_reader: bool = False) -> AbstractContextManager[object]:
        """Take note of what is told of a task from now on, for one who will ask in a moment: it is spared a read.

        With `is_reader` of its events too, for one who will follow.
        """
        return _Joined(self, task_id, is_reader=is_reader)

    def enter(self, task_id: TaskId, *, is_reader: bool) -> _Tail:
        """Begin to take note of a task; see `_Joined`."""
        tail = self._tails.get(task_id)
        if tail is None:
            tail = self._tails[task_id] = _Tail(task_id)
        tail.joined += 1
        tail.readers += is_reader
        return tail

    def leave(self, task_id: TaskId, *, is_reader: bool) -> None:
        """End what `enter` began."""
        tail = self._tails[task_id]
        tail.joined -= 1
        tail.readers -= is_reader
        if not tail.readers:
            self._bytes -= tail.bytes
            tail.clear()
        if not tail.joined:
            del self._tails[task_id]

    async def _grown(self, tail: _Tail, has_news: Callable[[], bool]) -> None:
        """Wait for news, unless there are some since the follower last looked."""
        if has_news():
            return
        told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        tail.waiting.add(told)
        try:
            await told
        finally:
            tail.waiting.discard(told)

    async def _known(self, tail: _Tail) -> Task:
        """Give the task as it is known; the first who asks reads it, for all who ask meanwhile."""
        while tail.task is None:
            if tail.loading is not None:
                await asyncio.shield(tail.loading)
                continue
            loading = tail.loading = asyncio.get_running_loop().create_future()
            try:
                tail.know(await self._store.task(tail.task_id))
            finally:
                tail.loading = None
                loading.set_result(None)
        return tail.task

    async def _read(self, tail: _Tail, after: int, kinds: Kinds) -> tuple[int, EventPage]:
        """Read a page, for all who want the same one now; give the log's end as it was known before."""
        key = (after, kinds)
        while (reading := tail.reads.get(key)) is not None:
            read = await asyncio.shield(reading)
            if read is not None:
                return read
        reading = tail.reads[key] = asyncio.get_running_loop().create_future()
        read = None
        try:
            read = await self._read_page(tail, after, kinds)
            if kinds is None and not (tail.events or read[1].is_cut):
                self._keep(tail, read[1].events)
            return read
        finally:
            # Where it failed, or the one who read has left, the next reads for himself.
            del tail.reads[key]
            reading.set_result(read)

    async def _read_page(self, tail: _Tail, after: int, kinds: Kinds) -> tuple[int, EventPage]:
        end = (tail.task or await self._known(tail)).version
        page = await self._store.events_after(tail.task_id, after, limit=PAGE_EVENTS, kinds=kinds, max_bytes=PAGE_BYTES)
        if page.events and page.events[-1].number > end:
            page = EventPage(events=[each for each in page.events if each.number <= end], is_cut=page.is_cut)
        return end, page

    def _empty_tails(self) -> None:
        for tail in self._tails.values():
            self._bytes -= tail.bytes
            tail.clear()
            if self._bytes <= TAILS_BYTES_MAX // 2:
                return


def _size(event: Event) -> int:
    return len(event.data) + EVENT_BYTES


def _is_wanted(event: Event, kinds: Kinds, task: Task) -> bool:
    if kinds is None or event.kind in kinds:
        return True
    return event.kind is EventKind.STATUS and event.number == _terminal_number(task)


def _terminal_number(task: Task) -> int | None:
    """The number of the terminal `task.status`: the last event of a canceled task, else the one before it."""
    if not task.status.is_terminal:
        return None
    return task.version if task.status is Status.CANCELED else task.version - 1
