"""Following tasks: a subscription is a cursor into a task's log, never a queue (protocol.md §5)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import datetime, timedelta
from typing import cast

import msgspec
import structlog

from aios.engine.engine import Engine
from aios.engine.ids import new_id
from aios.errors import ResourceBusy, StoreUnavailable, SubscriptionNotFound
from aios.model import Event, EventKind, EventPage, Status, Task, TaskId
from aios.protocol.events import Snapshot
from aios.service import access, views
from aios.service.call import Principal

IDLE_LIFE = timedelta(minutes=10)
"""How long a subscription without a reader is kept."""
SWEEP_EVERY = timedelta(minutes=1)
LOOK_BACK = 16
"""So many events before the last are searched for the current status at first; sixteen times as many at each next try."""
PAGE_EVENTS = 500
NAP = timedelta(seconds=1)
"""How long a reader waits when the log cannot be read, before it tries again."""

_log = structlog.get_logger()

STATUS_AND_COMPANIONS = frozenset(
    {
        EventKind.STATUS,
        EventKind.INPUT_REQUIRED,
        EventKind.AUTH_REQUIRED,
        EventKind.RESULT,
        EventKind.ERROR,
    }
)


class Subscription:
    """A reader's place in a task's log."""

    def __init__(
        self,
        *,
        subscription_id: str,
        task_id: TaskId,
        user: str,
        kinds: frozenset[EventKind],
        cursor: int,
        opening_until: int,
        idle_since: datetime,
    ) -> None:
        self.subscription_id = subscription_id
        self.task_id = task_id
        self.user = user
        self.kinds = kinds
        self.cursor = cursor
        """Number of the last event that was read."""
        self.opening_until = opening_until
        """Up to this number only the current status and what belongs to it is told."""
        self.idle_since = idle_since
        self.readers = 0
        self.is_ended = False
        self.waiting: set[asyncio.Task[object]] = set()
        """Readers that wait for the next event; ending the subscription wakes them."""

    def tells(self, event: Event) -> bool:
        """Whether the reader is to see the event: those of its kinds, and the terminal status whatever they are."""
        return event.kind in self.kinds or (event.kind is EventKind.STATUS and _is_terminal(event))


class Subscriptions:
    """All subscriptions of this process; they live in memory, their tasks' logs do not."""

    def __init__(self, *, engine: Engine) -> None:
        self._engine = engine
        self._of: dict[str, dict[str, Subscription]] = {}
        self._swept_at = engine.clock.now()

    async def open(
        self, principal: Principal, task: Task, *, kinds: frozenset[EventKind], after: int | None, is_kept: bool = True
    ) -> Subscription:
        """Begin to follow a task after an event; `after` None: from its current status.

        One that is not kept cannot be found again and lives as long as its reader.

        Raises:
            ResourceBusy: The principal has as many as are allowed, and all are being read.
        """
        cursor, opening_until = (await self._before_status(task), task.version) if after is None else (after, 0)
        if not access.sees_sign_ins(principal, owner=task.spec.principal):
            kinds -= {EventKind.AUTH_REQUIRED}
        now = self._engine.clock.now()
        subscription = Subscription(
            subscription_id=new_id("sub", now),
            task_id=task.task_id,
            user=principal.user,
            kinds=kinds,
            cursor=cursor,
            opening_until=opening_until,
            idle_since=now,
        )
        if is_kept:
            self._keep(subscription, now)
        return subscription

    def find(self, principal: Principal, subscription_id: str) -> Subscription:
        """Give one of the principal's own.

        Raises:
            SubscriptionNotFound: There is none, it was ended, or nobody has read it for too long.
        """
        subscription = self._of.get(principal.user, {}).get(subscription_id)
        if subscription is None or self._is_stale(subscription, self._engine.clock.now()):
            raise SubscriptionNotFound(f"there is no subscription {subscription_id}", subscription_id=subscription_id)
        return subscription

    def end(self, subscription: Subscription) -> None:
        """End it, and the streams that read it."""
        self._of.get(subscription.user, {}).pop(subscription.subscription_id, None)
        subscription.is_ended = True
        for reader in subscription.waiting:
            reader.cancel()

    async def follow(self, subscription: Subscription) -> AsyncGenerator[list[Event | Snapshot], None]:
        """Give what the reader has not read yet, then what comes; ends with the task's last event, or the subscription.

        The cursor moves when the next page is asked for: a page that could not be written is given again to the next reader.
        """
        subscription.readers += 1
        position = subscription.cursor
        try:
            while True:
                try:
                    async with aclosing(self._pages(subscription, position)) as pages:
                        async for page, position in pages:
                            if page:
                                yield page
                            subscription.cursor = max(subscription.cursor, position)
                    return
                except StoreUnavailable as error:
                    _log.warning("a task's log cannot be read", task_id=subscription.task_id, reason=str(error))
                    await self._nap()
        finally:
            subscription.readers -= 1
            subscription.idle_since = self._engine.clock.now()

    async def _pages(
        self, subscription: Subscription, position: int
    ) -> AsyncGenerator[tuple[list[Event | Snapshot], int], None]:
        """Read from a position, each page with the position after it."""
        while position < subscription.opening_until:
            events = await self._opening(subscription, position)
            position = events[-1].number if events else subscription.opening_until
            yield [event for event in events if subscription.tells(event)], position
        kinds = None if len(subscription.kinds) == len(EventKind) else subscription.kinds
        async with aclosing(self._engine.feed.follow(subscription.task_id, position, kinds=kinds)) as pages:
            while (page := await _next(subscription, pages)) is not None:
                told: list[Event | Snapshot] = []
                if page.is_cut:
                    snapshot = await self.snapshot(subscription)
                    told.append(snapshot)
                    position = snapshot.number
                told += [event for event in page.events if event.number > position and subscription.tells(event)]
                position = told[-1].number if told else position
                yield told, position

    async def _opening(self, subscription: Subscription, position: int) -> list[Event]:
        """Read what belongs to the status in which the subscription found the task."""
        kinds = subscription.kinds & STATUS_AND_COMPANIONS | {EventKind.STATUS}
        page = await self._engine.events(subscription.task_id, position, limit=PAGE_EVENTS, kinds=kinds)
        return [event for event in page.events if event.number <= subscription.opening_until]

    async def _nap(self) -> None:
        """Wait a moment before the log is tried again."""
        awake = asyncio.get_running_loop().create_future()
        timer = self._engine.clock.call_at(
            self._engine.clock.now() + NAP, lambda: None if awake.done() else awake.set_result(None)
        )
        try:
            await awake
        finally:
            timer.cancel()

    async def snapshot(self, subscription: Subscription) -> Snapshot:
        """Say how the task stands, in place of events that were cut."""
        task = await self._engine.task(subscription.task_id)
        shows_sign_ins = subscription.user == task.spec.principal
        view = await views.whole(self._engine, task, shows_sign_ins=shows_sign_ins)
        data = {"task_id": task.task_id, "events_lost": True, "task": view}
        return Snapshot(number=task.version, data=msgspec.json.encode(data))

    async def missed(self, subscription: Subscription, task: Task, *, limit: int, max_bytes: int) -> EventPage:
        """Read what the task has stored after the cursor, as far as it fits, and move the cursor past it."""
        page = await self._engine.events(
            task.task_id,
            subscription.cursor,
            limit=limit,
            kinds=subscription.kinds | {EventKind.STATUS},
            max_bytes=max_bytes,
        )
        if page.events:
            subscription.cursor = page.events[-1].number
        elif page.is_cut:
            subscription.cursor = task.version
        return EventPage(events=[each for each in page.events if subscription.tells(each)], is_cut=page.is_cut)

    async def _before_status(self, task: Task) -> int:
        """Number of the event before the task's current status event; that one is usually among the last."""
        span = LOOK_BACK
        while task.version > 0:
            start = max(0, task.version - span)
            page = await self._engine.events(task.task_id, start, limit=span, kinds=frozenset({EventKind.STATUS}))
            found = [event.number for event in page.events if event.number <= task.version]
            if found:
                return found[-1] - 1
            if start == 0:
                break
            span *= LOOK_BACK
        return task.version

    def _keep(self, subscription: Subscription, now: datetime) -> None:
        if now - self._swept_at >= SWEEP_EVERY:
            self._sweep(now)
        own = self._of.setdefault(subscription.user, {})
        if len(own) >= self._engine.limits.max_subscriptions:
            idle = next((each for each in own.values() if not each.readers), None)
            if idle is None:
                most = self._engine.limits.max_subscriptions
                raise ResourceBusy(f"all of your {most} subscriptions are being read; end one", max_subscriptions=most)
            self.end(idle)
        own[subscription.subscription_id] = subscription

    def _sweep(self, now: datetime) -> None:
        self._swept_at = now
        for user, own in list(self._of.items()):
            for subscription in [each for each in own.values() if self._is_stale(each, now)]:
                self.end(subscription)
            if not own:
                del self._of[user]

    def _is_stale(self, subscription: Subscription, now: datetime) -> bool:
        return not subscription.readers and now - subscription.idle_since > IDLE_LIFE


class _StatusOf(msgspec.Struct):
    status: Status


_status_of = msgspec.json.Decoder(_StatusOf).decode


def _is_terminal(event: Event) -> bool:
    return _status_of(event.data).status.is_terminal


async def _next(subscription: Subscription, pages: AsyncGenerator[EventPage, None]) -> EventPage | None:
    """Wait for the next page; None when there will be none, because the task or the subscription has ended."""
    if subscription.is_ended:
        return None
    reader = cast("asyncio.Task[object]", asyncio.current_task())
    subscription.waiting.add(reader)
    try:
        return await anext(pages, None)
    except asyncio.CancelledError:
        # Our own call to wake up is taken back; any other is obeyed.
        if subscription.is_ended and not reader.uncancel():
            return None
        raise
    finally:
        subscription.waiting.discard(reader)
