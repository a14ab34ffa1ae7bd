"""Following a task: every event once, in order, whatever breaks between (protocol.md §5).

The follower keeps one number, that of the last event it handed out. Whenever a stream ends before the task has, it opens another
after that number; what comes twice is passed over, what is missing is asked for again, what the daemon has cut away is told by
a snapshot.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import suppress
from typing import Any, Protocol

from aios.client.connections import Backoff, RawEvent, Refused, Stream
from aios.errors import AiosError, AnswerLost, DaemonUnreachable, InternalError
from aios.model import EventKind, JsonObject, Record, Status
from aios.protocol.events import SNAPSHOT
from aios.protocol.subscriptions import Resubscribed, TaskResubscribe, TaskUnsubscribe
from aios.protocol.task import TaskGet, TaskView

KINDS = ("status", "progress", "artifact", "log", "chunk", "input_required", "auth_required", "result", "error")
LIVED_MS_MIN = 20_000
"""A stream that lasted longer than the daemon's keep-alive shows that the daemon is there, events or not."""
GAPS_MAX = 5
UNSUBSCRIBE_TIMEOUT_MS = 1_000

_EVENT_ID = re.compile(r"evt-(\d{3,})", re.ASCII)
_COMPANIONS = {Status.COMPLETED: EventKind.RESULT, Status.FAILED: EventKind.ERROR}


class TaskEvent(Record, frozen=True, kw_only=True):
    """An event of a task, as `Client.follow` hands it out."""

    number: int
    """Its place in the task's log, from 1."""
    kind: str
    """`task.status`, `task.progress` … (`EventKind`), or `task.snapshot` in place of events that the daemon has cut away."""
    data: JsonObject

    @property
    def event_id(self) -> str:
        """The public id, `evt-007` for number 7."""
        return f"evt-{self.number:03d}"

    @property
    def is_snapshot(self) -> bool:
        """Whether earlier events were lost; `data["task"]` is the task as it stands at this number."""
        return self.kind == SNAPSHOT

    @property
    def status(self) -> Status | None:
        """The new status, if this is a `task.status`."""
        return Status(self.data["status"]) if self.kind == EventKind.STATUS else None


class _Gap(Exception):
    """An event number is missing."""


class Source(Protocol):
    """What the follower asks of the client."""

    async def subscribe(self, params: JsonObject) -> Stream:
        """Open a subscription, once; raises as `Connection.subscribe`."""
        ...

    async def call_once(self, params: Any) -> Any:
        """Call a method, once; raises as `Connection.ask`."""
        ...


class Follower:
    """Reads one task's events to their end.

    Args:
        source: Where to ask.
        task_id: Whose events.
        after: The number of the last event that is known already.
        events: The kinds wanted; None: all of them, and then their numbers are checked to have no gap.
        patience_ms: How long to go on trying while the daemon cannot be reached.
    """

    def __init__(
        self, source: Source, task_id: str, *, after: int, events: Iterable[str] | None, patience_ms: int
    ) -> None:
        self._source = source
        self._task_id = task_id
        self._last = after
        self._kinds = list(KINDS) if events is None else [kind.removeprefix("task.") for kind in events]
        self._is_whole = events is None
        self._patience_ms = patience_ms
        self._gaps = 0
        self._is_over = False
        self._is_signing_in = False
        self.on_away: Callable[[DaemonUnreachable], None] | None = None
        """Is told when nobody was found, before the next try."""

    async def events(self) -> AsyncGenerator[TaskEvent]:
        """Hand out the events until the task has no more.

        Raises:
            DaemonUnreachable: Patience ran out.
            TaskNotFound: There is no such task, or it was deleted meanwhile.
            InternalError: The daemon's log has a gap that it does not speak of.
        """
        backoff = Backoff(self._patience_ms)
        clock = asyncio.get_running_loop().time
        while not self._is_over:
            stream, opened_at = None, clock()
            try:
                stream = await self._open()
                if stream is None:
                    return
                async for raw in stream:
                    event = self._accept(raw)
                    if event is not None:
                        backoff.reset()
                        yield event
                    if self._is_over or (self._may_be_stuck(event, stream) and await self._has_ended()):
                        return
                if await self._has_ended():
                    return
                cause: Exception = AnswerLost(f"the daemon closed the events of {self._task_id} before their end")
            except (AnswerLost, DaemonUnreachable, Refused) as error:
                cause = error
            except _Gap as error:
                cause = self._count_gap(error)
            finally:
                await self._leave(stream)
            if (clock() - opened_at) * 1000 > LIVED_MS_MIN:
                backoff.reset()
            self._tell(cause)
            await backoff.pause(cause)

    def _tell(self, cause: Exception) -> None:
        if self.on_away is not None and isinstance(cause, DaemonUnreachable):
            self.on_away(cause)

    async def _open(self) -> Stream | None:
        """Subscribe after the last number; None if the task has ended and nothing is left."""
        place = f"evt-{self._last:03d}" if self._last else "start"
        stream = await self._source.subscribe({"task_id": self._task_id, "events": self._kinds, "from": place})
        if self._last and not stream.closes_by_itself and await self._has_ended():
            await self._leave(stream)
            return None
        return stream

    @staticmethod
    def _may_be_stuck(event: TaskEvent | None, stream: Stream) -> bool:
        """Whether nothing may ever come: a snapshot can stand for the last event, and this stream is never closed."""
        return event is not None and event.is_snapshot and not stream.closes_by_itself

    def _accept(self, raw: RawEvent) -> TaskEvent | None:
        """Check the event's number and see whether it is the last; None for one that was handed out before."""
        number = _number(raw.event_id)
        if raw.kind == SNAPSHOT:
            self._last = max(self._last, number)
        elif number <= self._last:
            return None
        elif self._is_whole and number != self._last + 1 and not self._may_be_hidden(number):
            raise _Gap(f"{self._task_id}: event {number} came after {self._last}")
        else:
            self._last, self._gaps = number, 0
        self._is_signing_in = raw.kind == EventKind.STATUS and raw.data.get("status") == Status.AUTH_REQUIRED
        event = TaskEvent(number=number, kind=raw.kind, data=raw.data)
        self._is_over = raw.kind in {EventKind.RESULT, EventKind.ERROR} or self._ends_with(event.status)
        return event

    def _may_be_hidden(self, number: int) -> bool:
        """Whether the number left out is that of a sign-in, which only the task's own principal is shown."""
        return self._is_signing_in and number == self._last + 2

    def _ends_with(self, status: Status | None) -> bool:
        if status is None or not status.is_terminal:
            return False
        companion = _COMPANIONS.get(status)
        return companion is None or not {companion.removeprefix("task."), "status"}.intersection(self._kinds)

    async def _has_ended(self) -> bool:
        """Ask whether the task is terminal and nothing comes after the last number.

        That a stream closed is no proof: a daemon that stops closes it too.
        """
        if self._last == 0:
            return False
        task: TaskView = await self._source.call_once(TaskGet(task_id=self._task_id))
        if not task.status.is_terminal:
            return False
        place = f"evt-{self._last:03d}"
        answer: Resubscribed = await self._source.call_once(
            TaskResubscribe(task_id=self._task_id, last_event_id=place, events=self._kinds)  # pyright: ignore[reportArgumentType]
        )
        await self._unsubscribe(answer.subscription_id)
        return not answer.missed_events and not answer.events_lost

    def _count_gap(self, gap: _Gap) -> Exception:
        self._gaps += 1
        if self._gaps > GAPS_MAX:
            raise InternalError(f"the daemon keeps leaving out events: {gap}", task_id=self._task_id) from gap
        return AnswerLost(str(gap))

    async def _leave(self, stream: Stream | None) -> None:
        """Close the stream; a subscription that nobody will read again need not be kept."""
        if stream is None:
            return
        await stream.close(is_at_end=self._is_over)
        if not self._is_over:
            await self._unsubscribe(str(stream.answer.get("subscription_id", "")))

    async def _unsubscribe(self, subscription_id: str) -> None:
        # The daemon forgets it by itself ten minutes later, so that a failure here matters to nobody.
        with suppress(AiosError, Refused, TimeoutError):
            async with asyncio.timeout(UNSUBSCRIBE_TIMEOUT_MS / 1000):
                await self._source.call_once(TaskUnsubscribe(subscription_id=subscription_id))


def _number(event_id: str) -> int:
    found = _EVENT_ID.fullmatch(event_id)
    if found is None:
        raise AnswerLost(f"{event_id!r} is no event id")
    return int(found[1])
