"""One group of writes: each is checked against the tasks as they stand, then noted in the batch; nothing touches the disk here.

A write that is refused has changed nothing. What was noted becomes true when the batch has been committed; if that fails the
whole transaction is thrown away, and slots and queue are rebuilt from the rows.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Any, Final, cast

from msgspec.structs import replace

from aios.errors import Conflict, QueueFull, ValidationFailed
from aios.model import Artifact, Change, IdempotencyKey, Limits, Session, Status, Step, Task, TaskId, from_ms
from aios.store import Committed, Seat
from aios.stores.sqlite.batch import Batch
from aios.stores.sqlite.cache import Cache
from aios.stores.sqlite.connections import Database
from aios.stores.sqlite.records import Known, TaskRow, decode_known
from aios.stores.sqlite.slots import CLAIMABLE, Slots
from aios.stores.sqlite.statements import statement

KEYS_KEPT: Final = timedelta(hours=24)
"""For which an idempotency key outlives its task (protocol.md §4)."""


class Transaction:
    """The writes of one group, against what was committed before and what they themselves have changed."""

    def __init__(
        self,
        *,
        database: Database,
        cache: Cache,
        slots: Slots,
        limits: Limits,
        seat: Seat | None,
        now: datetime,
        next_row: int,
        may_claim: bool = True,
    ) -> None:
        self.database = database
        self._cache = cache
        self._slots = slots
        self._limits = limits
        self._seat = seat
        self._worker = "" if seat is None else seat.worker
        self._capacity = 0 if seat is None else seat.capacity
        self._may_claim = may_claim
        self._now = now
        self._by_id: dict[TaskId, Known] = {}
        self.next_row = next_row
        self.batch = Batch()
        self.claimed: list[Change] = []
        self.unclaimable: list[tuple[Task, Exception]] = []
        self.ended: list[Status] = []
        self.purged: Counter[str] = Counter()
        self.purged_rows: list[int] = []
        self.grown: dict[int, int] = {}
        """Versions of the tasks whose log is longer than it may be."""

    # What is there

    def known(self, row: int) -> Known | None:
        """Give the task as it stands inside this transaction."""
        found = self.batch.touched.get(row) or self._cache.by_row(row)
        return found if found is not None else self._read("task_by_row", row)

    def find(self, task_id: TaskId) -> Known | None:
        """Give the task as it stands inside this transaction."""
        found = self._by_id.get(task_id) or self._cache.by_id(task_id)
        if found is not None:
            return found
        read = self._read("task_by_id", task_id)
        # A task read by its id may have been changed here under its row.
        return read if read is None else self.batch.touched.get(read.task.row, read)

    def _read(self, name: str, key: int | str) -> Known | None:
        row = self.database.execute(statement(name), (key,)).fetchone()
        return None if row is None else decode_known(cast(TaskRow, row))

    def _fenced(self, task_id: TaskId, claim: int) -> Known | None:
        known = self.find(task_id)
        return known if known is not None and known.task.claim == claim else None

    # What is asked

    def commit(self, change: Change) -> Committed:
        """Check and note a change."""
        if change.before is None:
            return self._create(change)
        known = self.known(change.task.row) if change.task.row else self.find(change.task.task_id)
        if known is None or known.task.task_id != change.task.task_id:
            raise Conflict(f"There is no task {change.task.task_id} to change.", task_id=change.task.task_id)
        now = known.task
        if (
            now.version != change.before
            or now.stamp != change.task.stamp
            or (change.claim is not None and now.claim != change.claim)
        ):
            raise Conflict(
                f"Task {now.task_id} has moved on to version {now.version} and claim {now.claim}.", task_id=now.task_id
            )
        self._check_artifacts(now.row, change.artifacts)
        return Committed(task=self._write(known, change, change.task).task)

    def release(self, task_id: TaskId, claim: int) -> None:
        """Note that a slot is given back."""
        known = self._fenced(task_id, claim)
        if known is None or known.task.worker is None:
            return
        task = known.task
        if task.status.is_terminal:
            self._give_back(known)
            return
        freed = replace(task, worker=None, stamp=task.stamp + 1)
        if task.deadline_at is not None:
            rest = round((task.deadline_at - self._now).total_seconds() * 1000)
            freed = replace(
                freed, deadline_at=None, used_ms=min(max(task.spec.timeout_ms - rest, 0), task.spec.timeout_ms)
            )
        if task.status in CLAIMABLE and task.run_at is None and known.awaits is None:
            # It was to go on in the slot that is now given back: nothing else would ever wake it.
            freed = replace(freed, run_at=self._now)
        self._note(known, freed, awaits=known.awaits, has_secret=known.has_secret)

    def put_step(self, task_id: TaskId, step: Step, claim: int) -> None:
        """Note a step of running code."""
        known = self._fenced(task_id, claim)
        if known is None or known.task.status.is_terminal:
            raise Conflict(f"Claim {claim} of task {task_id} no longer holds.", task_id=task_id)
        self.batch.add_steps(known.task.row, (step,))
        if known.task.crashes or (step.is_secret and not known.has_secret):
            task = replace(known.task, crashes=0, stamp=known.task.stamp + 1)
            has_secret = known.has_secret or step.is_secret
            self._note(known, task, awaits=known.awaits, has_secret=has_secret)

    def put_session(self, session: Session) -> None:
        """Note a session."""
        self.batch.sessions[session.session_id] = session

    def settle(self) -> None:
        """Claim for the seat while slots are free."""
        seat = self._seat
        if seat is None or not self._may_claim:
            return
        while (row := self._slots.next(self._now, capacity=self._capacity, worker=self._worker)) is not None:
            known = cast(Known, self.known(row))
            try:
                change = seat.start(known.task, self._now)
            except Exception as error:
                self._slots.bar((known.task.task_id,))
                self.unclaimable.append((known.task, error))
                continue
            written = self._write(known, change, change.task)
            if written.task.worker is None:
                self._slots.bar((written.task.task_id,))
            self.claimed.append(replace(change, task=written.task))

    # What is noted

    def _create(self, change: Change) -> Committed:
        given = change.task
        if change.idempotency is not None:
            before = self._made_before(given.spec.principal, change.idempotency)
            if before is not None:
                return Committed(task=before, is_new=False)
        if self._by_id.get(given.task_id) is not None or self._cache.by_id(given.task_id) is not None:
            raise Conflict(f"There is a task {given.task_id} already.", task_id=given.task_id)
        if not self._slots.may_enter(given, self._now, capacity=self._capacity, worker=self._worker):
            limit = self._limits.max_queue_size
            raise QueueFull(f"{limit} tasks are pending and no slot is free; try again later.", max_queue_size=limit)
        row = self.next_row
        self._check_artifacts(row, change.artifacts)
        self.next_row += 1
        known = Known(given, is_keyed=change.idempotency is not None)
        task = replace(given, row=row, stamp=1)
        self.batch.created[row] = task
        if change.idempotency is not None:
            self.batch.keys[given.spec.principal, change.idempotency.key] = (change.idempotency.digest, row)
        tags = given.spec.metadata.get("tags")
        if isinstance(tags, list):
            self.batch.tags += [(tag, row) for tag in cast(list[Any], tags) if isinstance(tag, str)]
        return Committed(task=self._write(known, change, task, is_new=True).task)

    def _made_before(self, principal: str, asked: IdempotencyKey) -> Task | None:
        noted = self.batch.keys.get((principal, asked.key))
        if noted is None:
            found = self.database.execute(statement("key"), (principal, asked.key)).fetchone()
            if found is None:
                return None
            digest, row, expires_at = cast(tuple[bytes, int, int | None], found)
            if expires_at is not None and from_ms(expires_at) <= self._now:
                return None
        else:
            digest, row = noted
        known = self.known(row)
        if known is None:
            return None
        if digest != asked.digest:
            raise ValidationFailed(
                f"The idempotency key {asked.key!r} was used with another request; use a new key for a new request.",
                errors=[{"path": "/options/idempotency_key", "message": "used with another request"}],
            )
        return known.task

    def _check_artifacts(self, row: int, artifacts: tuple[Artifact, ...]) -> None:
        for artifact in artifacts:
            noted = self.batch.artifacts.get(artifact.id)
            if noted is not None:
                owner = noted[0]
            else:
                found = self.database.execute(statement("artifact_owner"), (artifact.id,)).fetchone()
                owner = row if found is None else cast(int, found[0])
            if owner != row:
                raise ValidationFailed(
                    f"The artifact id {artifact.id} belongs to another task; choose another.",
                    errors=[{"path": "/artifact/id", "message": "belongs to another task"}],
                )

    def _write(self, known: Known, change: Change, task: Task, *, is_new: bool = False) -> Known:
        """Note all of a change that was found good, and that gives this task."""
        row = task.row
        awaits = known.awaits if task.worker is None else None
        if change.awaits is not None:
            child = self.find(change.awaits)
            awaits = None if child is None or child.task.status.is_terminal else change.awaits
            if awaits is None:
                task = replace(task, run_at=self._now)
        if change.events:
            self.batch.add_events(row, change.events)
            if task.version > self._limits.max_events_per_task:
                self.grown[row] = task.version
        has_secret = known.has_secret
        if change.steps:
            self.batch.add_steps(row, change.steps)
            has_secret = has_secret or any(step.is_secret for step in change.steps)
        for artifact in change.artifacts:
            self.batch.artifacts[artifact.id] = (row, artifact)
        written = self._note(known, task, is_new=is_new, awaits=awaits, has_secret=has_secret)
        if task.status.is_terminal and (is_new or not known.task.status.is_terminal):
            self._end(written)
        return written

    def _note(
        self,
        known: Known,
        task: Task,
        *,
        awaits: TaskId | None,
        has_secret: bool,
        is_new: bool = False,
    ) -> Known:
        """Note a task's moving part, and count it where it stands now."""
        before = known.task
        if is_new:
            self._slots.enter(task)
        else:
            task = replace(task, row=before.row, stamp=before.stamp + 1)
            self._slots.move(before, task)
        noted = Known(task, awaits, known.is_keyed, has_secret, known.size, known.fixed)
        self.batch.touched[task.row] = noted
        self._by_id[task.task_id] = noted
        if task.status.is_terminal:
            self.batch.finished[task.row] = noted
            if task.worker is not None:
                self.batch.held[task.row] = task
            elif before.status.is_terminal and before.worker is not None:
                self.batch.held.pop(task.row, None)
                self.batch.released.add(task.row)
        return noted

    def _end(self, known: Known) -> None:
        """Do what a task's end brings with it: its secrets go, its key begins to age, who awaits it is woken."""
        task = known.task
        self.ended.append(task.status)
        if task.row not in self.batch.created:
            self.batch.ended.add(task.row)
        if known.has_secret:
            self.batch.secrets.add(task.row)
        if known.is_keyed:
            self.batch.expired_keys[task.row] = (task.ended_at or task.updated_at) + KEYS_KEPT
        if task.spec.parent_task_id is not None:
            parent = self.find(task.spec.parent_task_id)
            if parent is not None and parent.awaits == task.task_id and not parent.task.status.is_terminal:
                self._note(parent, replace(parent.task, run_at=self._now), awaits=None, has_secret=parent.has_secret)

    def _give_back(self, known: Known) -> None:
        """Take back the slot of a finished task, whose row stays as it was written."""
        task = replace(known.task, worker=None)
        self._slots.move(known.task, task)
        noted = Known(task, is_keyed=known.is_keyed, size=known.size)
        self.batch.touched[task.row] = noted
        self._by_id[task.task_id] = noted
        self.batch.held.pop(task.row, None)
        self.batch.released.add(task.row)
