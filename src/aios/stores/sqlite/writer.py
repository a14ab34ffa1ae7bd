"""The one thread that writes: it gathers all that waits, writes it in one transaction, answers when the disk has it.

There is no timer. While one group is being synced the next one gathers, so a lone write waits for nobody and many writes share
one sync. If one write of a group fails in a way nobody foresaw, the group is undone and its writes are made one by one, so that
only the culprit fails; if the disk fails, all of them do, and the next write simply tries again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from traceback import format_exception
from typing import Any, Final, TypeVar, cast

import apsw
import structlog

from aios.errors import AiosError, Conflict, InternalError, StoreUnavailable
from aios.failpoints import failpoint
from aios.model import Change, Limits, Priority, Status, TaskId, from_ms
from aios.store import Health, Seat
from aios.stores.sqlite.answers import Call, answer
from aios.stores.sqlite.cache import Cache
from aios.stores.sqlite.connections import DISK_ERRORS, Database, explain, unavailable
from aios.stores.sqlite.cutting import cut_log
from aios.stores.sqlite.opening import mark_clean
from aios.stores.sqlite.slots import Entry, Slots, Standing
from aios.stores.sqlite.statements import statement
from aios.stores.sqlite.transaction import Transaction

R = TypeVar("R")

WRITER_THREAD: Final = "aios-writer"
GROUP_MAX: Final = 256
"""Writes that share one transaction at most."""
WAITING_WRITES_MAX: Final = 20_000
PROBE_S: Final = 1.0
"""Time after which a failed disk is tried again, if nobody writes before."""

_HEALTHY: Final = Health(is_writable=True)
_log = structlog.get_logger("aios.stores.sqlite")


class _Write(Call):
    __slots__ = ("work",)

    def __init__(self, work: Callable[[Transaction], Any]) -> None:
        super().__init__()
        self.work = work


class _Read(Call):
    __slots__ = ("work",)

    def __init__(self, work: Callable[[Database], Any]) -> None:
        super().__init__()
        self.work = work


class _Wake:
    """A look at the queue, asked for by nobody who waits."""


class _Stop:
    """The end of the thread, after all that was asked before."""


_Item = _Write | _Read | _Wake | _Stop


class Writer:
    """The writing thread and what it keeps in memory: slots and queue, and the tasks it wrote lately."""

    def __init__(self, *, open_connection: Callable[[], Database], limits: Limits, now: Callable[[], datetime]) -> None:
        self._open = open_connection
        self._limits = limits
        self._now = now
        self._database: Database | None = None
        self.slots = Slots(limits=limits)
        """Of the writing thread alone."""
        self._is_stale = True
        """Slots and counters no longer agree with the rows, and must be read again before the next write."""
        self._finished: dict[str, int] = {}
        self._next_row = 1
        self._seat: Seat | None = None
        self._claiming: Seat | None = None
        """For whom the last group claimed: it is told, even if it has left its seat meanwhile."""
        self._told_due: datetime | None = None
        self._claimed: list[Change] = []
        """What the transaction that runs, or ran last, has claimed."""
        self._inbox: SimpleQueue[_Item] = SimpleQueue()
        self._gate = Lock()
        """Held to ask and to close, so that nothing is asked of a thread that has ended."""
        self._is_closed = False
        self._thread = Thread(target=self._run, name=WRITER_THREAD, daemon=True)
        self.cache = Cache()
        self.health = _HEALTHY
        self._counted: tuple[dict[Status, int], dict[str, int], int] = ({}, {}, 0)

    def start(self, database: Database) -> None:
        """Take over the connection that opening used, read what must be known, and begin."""
        self._database = database
        self._refresh(database)
        self._thread.start()

    # Asked from other threads

    async def write(self, work: Callable[[Transaction], R]) -> R:
        """Make a write with others in one transaction, and give its answer when the disk has it."""
        return await self._ask(_Write(work))

    async def read(self, work: Callable[[Database], R]) -> R:
        """Read on the writer's own database, after all writes that were asked for before."""
        return await self._ask(_Read(work))

    async def _ask(self, call: _Write | _Read) -> Any:
        with self._gate:
            if self._is_closed:
                raise StoreUnavailable("The store is closed.")
            if self._inbox.qsize() >= WAITING_WRITES_MAX:
                raise StoreUnavailable(f"{WAITING_WRITES_MAX} writes wait for the store; try again later.")
            self._inbox.put(call)
        return await call.future

    def seat(self, seat: Seat | None) -> None:
        """Claim for this seat from now on, or for none."""
        self._seat = seat
        self._told_due = None
        self.wake()

    def wake(self) -> None:
        """Look at the queue soon."""
        self._inbox.put(_Wake())

    @property
    def seated_worker(self) -> str:
        """The worker that is alive, if any."""
        return "" if self._seat is None else self._seat.worker

    def counts(self) -> dict[Status | str, int]:
        """Give the tasks by status and the slots taken, as of the last commit."""
        unfinished, finished, running = self._counted
        by_status = {status: unfinished.get(status, 0) + finished.get(status, 0) for status in Status}
        return {**by_status, "slots": running}

    def close(self) -> None:
        """Write what waits, then end the thread and let go of the connection."""
        with self._gate:
            self._is_closed = True
            self._inbox.put(_Stop())
        self._thread.join()

    # In the thread

    def _run(self) -> None:
        is_open = True
        while is_open:
            items = list(self._gather())
            reads = [item for item in items if isinstance(item, _Read)]
            if len(reads) < len(items) or not items:
                self._write_group([item for item in items if isinstance(item, _Write)])
            for read in reads:
                self._read_one(read)
            is_open = not any(isinstance(item, _Stop) for item in items)
        self._let_go()

    def _let_go(self) -> None:
        database = self._database
        if database is not None:
            try:
                mark_clean(database, is_clean=True)
            except apsw.Error as error:
                _log.warning("database not marked as closed", reason=str(error))
            database.close()
            self._database = None

    def _gather(self) -> Iterator[_Item]:
        if self.health.is_writable:
            yield self._inbox.get()
        else:
            # Nobody may ask a store that says it is out of order, so it looks by itself whether the disk is well again.
            with suppress(Empty):
                yield self._inbox.get(timeout=PROBE_S)
        for _ in range(GROUP_MAX - 1):
            try:
                yield self._inbox.get_nowait()
            except Empty:
                return

    def _write_group(self, calls: list[_Write]) -> None:
        failure = self._try(calls)
        if failure is None:
            return
        if isinstance(failure, DISK_ERRORS):
            self.health = Health(is_writable=False, reason=explain(failure))
            for call in calls:
                call.value, call.error = None, unavailable(failure)
            answer(calls)
        elif len(calls) > 1:
            for call in calls:
                self._write_group([call])
        else:
            self._find_culprit(calls, failure)

    def _try(self, calls: list[_Write], *, may_claim: bool = True) -> Exception | None:
        """Write and answer; give the reason where it could not be written."""
        try:
            transaction = self._commit(calls, may_claim=may_claim)
        except Exception as error:
            self._undo(error)
            return error
        self.health = _HEALTHY
        failpoint("commit.after")
        answer(calls)
        self._deliver(transaction)
        return None

    def _find_culprit(self, calls: list[_Write], failure: Exception) -> None:
        """Find out whether it was the write that failed or a claim made beside it, which would make every write fail."""
        suspects = [change.task for change in self._claimed]
        if suspects and self._try(calls, may_claim=False) is None:
            ids = [task.task_id for task in suspects]
            _log.error("tasks are not claimed any more before the next start", task_ids=ids, trace=_trace(failure))
            self.slots.bar(ids)
            self.wake()
        else:
            self._blame(calls, failure)
            if suspects and calls:
                # What was claimed beside it was undone, and nobody else would look again.
                self.wake()

    def _commit(self, calls: list[_Write], *, may_claim: bool = True) -> Transaction:
        database = self._ready()
        failpoint("commit.before")
        database.execute("BEGIN IMMEDIATE")
        self._claiming = self._seat
        transaction = Transaction(
            database=database,
            cache=self.cache,
            slots=self.slots,
            limits=self._limits,
            seat=self._claiming,
            now=self._now(),
            next_row=self._next_row,
            may_claim=may_claim,
        )
        self._is_stale = True  # Until the disk has it, memory runs ahead of the rows.
        self._claimed = transaction.claimed
        if not self.health.is_writable:
            database.execute(statement("probe"))  # So that there is something to write, and to fail.
        transaction.settle()
        for call in calls:
            call.value, call.error = None, None
            try:
                call.value = call.work(transaction)
            except AiosError as error:
                call.error = error
            else:
                transaction.settle()
        finished = self._finished
        if transaction.ended or transaction.purged:
            finished = transaction.batch.counted = _recounted(finished, transaction)
        transaction.batch.flush(database)
        for row, version in transaction.grown.items():
            cut_log(database, row, version, limit=self._limits.max_events_per_task)
        failpoint("commit.inside")
        database.execute("COMMIT")
        self._is_stale = False
        self._finished = finished
        self._next_row = transaction.next_row
        self._publish()
        for row in transaction.purged_rows:
            self.cache.drop(row)
        for known in transaction.batch.touched.values():
            self.cache.put(known)
        return transaction

    def _deliver(self, transaction: Transaction) -> None:
        for task, error in transaction.unclaimable:
            _log.error("task cannot be claimed", task_id=task.task_id, trace=_trace(error))
        seat = self._claiming
        if seat is None:
            return
        due = self.slots.next_due()
        if transaction.claimed or due != self._told_due:
            self._told_due = due
            try:
                seat.deliver(transaction.claimed, due)
            except Exception as error:
                # The thread must live on: what was claimed is found by `lost` at the next start.
                _log.error("claimed tasks could not be delivered", trace=_trace(error))

    def _undo(self, error: Exception) -> None:
        database = self._database
        if database is None:
            return
        try:
            if database.in_transaction:
                database.execute("ROLLBACK")
        except apsw.Error as failure:
            _log.error("rollback failed", reason=str(failure))
            error = failure
        if isinstance(error, apsw.IOError):
            # What the page cache holds after a failed write or sync is not to be trusted. The readers' connections stay open,
            # so that the log's index stays as it was before the failed commit.
            database.close(force=True)
            self._database = None

    def _blame(self, calls: list[_Write], error: Exception) -> None:
        """Answer the one write that failed, or nobody, if it was a look at the queue that failed."""
        if isinstance(error, apsw.ConstraintError):
            blamed: Exception = Conflict(f"The rows contradict the change ({error}).")
        else:
            blamed = InternalError(f"The store could not write this: {type(error).__name__}.")
            blamed.__cause__ = error
        _log.error("write failed", trace=_trace(error))
        for call in calls:
            call.value, call.error = None, blamed
        answer(calls)

    def _read_one(self, read: _Read) -> None:
        try:
            read.value = read.work(self._ready())
        except Exception as error:
            read.error = unavailable(error) if isinstance(error, DISK_ERRORS) else error
        answer((read,))

    def _ready(self) -> Database:
        if self._database is None:
            self._database = self._open()
        if self._is_stale:
            self._refresh(self._database)
        return self._database

    def _refresh(self, database: Database) -> None:
        self.slots.rebuild(standings(database))
        self._finished = dict(cast(Iterator[tuple[str, int]], database.execute(statement("counters"))))
        (last_row,) = cast(tuple[int], database.execute(statement("last_row")).fetchone())
        self._next_row = max(self._next_row, last_row + 1)
        self._is_stale = False
        self._publish()

    def _publish(self) -> None:
        """Let other threads see what is counted, as it is between two writes."""
        self._counted = (dict(self.slots.unfinished), self._finished, self.slots.running)


def _recounted(finished: dict[str, int], transaction: Transaction) -> dict[str, int]:
    """Count finished tasks with what the transaction ended and purged. A `Counter` would take ten times as long."""
    counted = dict(finished)
    for status in transaction.ended:
        counted[status.value] = counted.get(status.value, 0) + 1
    for name, count in transaction.purged.items():
        counted[name] = counted.get(name, 0) - count
    return counted


def _trace(error: Exception) -> str:
    """Give where an error came from, without the values of variables: these may hold secrets."""
    return "".join(format_exception(error))


def standings(database: Database) -> Iterator[Standing]:
    """Read what slots and queue must know of each unfinished task, and of each slot held by a finished one."""
    ranks = [-priority.rank for priority in sorted(Priority, key=lambda each: each.rank)]
    for row in database.execute(statement("queue")):
        number, task_id, adapter_id, priority, created_at, status, worker, run_at = cast(
            tuple[int, str, str, int, int, str, str | None, int | None], row
        )
        entry = Entry(ranks[priority], from_ms(created_at), task_id, number, adapter_id)
        yield Standing(entry, Status(status), worker, None if run_at is None else from_ms(run_at))
    for row in database.execute(statement("held")):
        number, adapter_id, worker = cast(tuple[int, str, str], row)
        entry = Entry(0, from_ms(0), TaskId(""), number, adapter_id)
        yield Standing(entry, Status.COMPLETED, worker, None)
