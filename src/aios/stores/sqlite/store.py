"""`SqliteStore`: the seam `aios.store.Store` filled with SQLite, for one process on one machine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Literal, TypeVar

from aios.errors import StoreUnavailable
from aios.model import (
    Artifact,
    ArtifactId,
    Change,
    EventKind,
    EventPage,
    Limits,
    Session,
    SessionId,
    Status,
    Step,
    Task,
    TaskId,
    TaskPage,
    TaskQuery,
)
from aios.store import Committed, Health, Seat
from aios.stores.sqlite import listing, purging, reads
from aios.stores.sqlite.blobs import ORPHAN_AGE, Blobs, FolderBlobs, MemoryBlobs
from aios.stores.sqlite.checking import BackgroundCheck
from aios.stores.sqlite.connections import DISK_ERRORS, Database, open_reader, open_writer, unavailable
from aios.stores.sqlite.folder import FolderLock
from aios.stores.sqlite.opening import open_folder, open_in_memory
from aios.stores.sqlite.readers import FILE_THREADS, LIST_READERS, READERS, Readers, Threads
from aios.stores.sqlite.writer import Writer

R = TypeVar("R")


class SqliteStore:
    """Tasks in an SQLite database. One thread writes, in groups; a few read; no event loop ever waits for the disk."""

    def __init__(
        self,
        *,
        writer: Writer,
        readers: Readers | None,
        lists: Readers | None,
        blobs: Blobs,
        now: Callable[[], datetime],
        lock: FolderLock | None = None,
        check: BackgroundCheck | None = None,
    ) -> None:
        self._writer = writer
        self._readers = readers
        self._lists = lists
        self._files = Threads(name="files", threads=FILE_THREADS)
        self._blobs = blobs
        self._now = now
        self._lock = lock
        self._check = check
        self._is_closed = False

    @classmethod
    def open(cls, path: Path | Literal[":memory:"], *, limits: Limits, now: Callable[[], datetime]) -> SqliteStore:
        """Open the store in a data folder, or one that lives in memory. Blocks until it is ready.

        Args:
            path: The folder, which is made if it is missing; database and artifacts' contents lie in it.
            limits: The caps that the store keeps: slots, queue, length of logs.
            now: Gives the time, cut to milliseconds; called in the writing thread.

        Raises:
            StoreUnavailable: Another daemon works in the folder; the database is damaged, another program's or of a newer
                version; the disk or the file system is no use for it.
        """
        if not isinstance(path, Path):
            database = open_in_memory()
            writer = Writer(open_connection=lambda: database, limits=limits, now=now)
            writer.start(database)
            return cls(writer=writer, readers=None, lists=None, blobs=MemoryBlobs(), now=now)
        opened = open_folder(path)
        try:
            blobs = FolderBlobs(path / "blobs")
            writer = Writer(open_connection=partial(open_writer, path), limits=limits, now=now)
            writer.start(opened.database)
            readers = Readers(partial(open_reader, path), name="reader", threads=READERS)
            lists = Readers(partial(open_reader, path), name="lists", threads=LIST_READERS)
            check = BackgroundCheck(partial(open_reader, path)) if opened.must_check else None
        except OSError as error:
            opened.close()
            raise StoreUnavailable(f"The data folder {path} cannot be used: {error.strerror}.") from error
        except DISK_ERRORS as error:
            opened.close()
            raise unavailable(error) from error
        return cls(writer=writer, readers=readers, lists=lists, blobs=blobs, now=now, lock=opened.lock, check=check)

    # Writing

    async def commit(self, change: Change) -> Committed:
        return await self._writer.write(lambda transaction: transaction.commit(change))

    async def release(self, task_id: TaskId, *, claim: int) -> None:
        await self._writer.write(lambda transaction: transaction.release(task_id, claim))

    async def put_step(self, task_id: TaskId, step: Step, *, claim: int) -> None:
        await self._writer.write(lambda transaction: transaction.put_step(task_id, step, claim))

    async def put_session(self, session: Session) -> None:
        await self._writer.write(lambda transaction: transaction.put_session(session))

    async def purge(self, ended_before: datetime, *, limit: int) -> int:
        now = self._now()
        total = 0
        contents: list[str] = []
        while total < limit:
            purged = await self._writer.write(
                partial(purging.purge, ended_before=ended_before, limit=limit - total, now=now)
            )
            total += purged.tasks
            contents += purged.contents
            if not purged.tasks:
                break
        candidates = contents + await self._files.run(self._blobs.candidates)
        orphans = await self._read(lambda database: purging.unknown(database, candidates))
        await self._files.run(lambda: self._blobs.remove(orphans, now - ORPHAN_AGE))
        return total

    # The seat

    def seat(self, seat: Seat) -> None:
        self._writer.seat(seat)

    def wake(self) -> None:
        self._writer.wake()

    def unseat(self) -> None:
        self._writer.seat(None)

    # Reading

    async def _read(self, work: Callable[[Database], R]) -> R:
        return await (self._writer.read(work) if self._readers is None else self._readers.run(work))

    async def task(self, task_id: TaskId) -> Task:
        known = self._writer.cache.by_id(task_id)
        return known.task if known is not None else await self._read(lambda database: reads.task(database, task_id))

    async def tasks(self, query: TaskQuery) -> TaskPage:
        work = partial(listing.tasks, query=query)
        return await (self._writer.read(work) if self._lists is None else self._lists.run(work))

    async def children(self, parent: TaskId) -> list[Task]:
        return await self._read(lambda database: reads.tasks_at(database, "children", parent))

    async def parents(self) -> list[tuple[TaskId, bool]]:
        return await self._read(reads.parents)

    async def foreground(self, session_id: SessionId) -> list[Task]:
        return await self._read(lambda database: reads.tasks_at(database, "foreground", session_id))

    async def events_after(
        self,
        task_id: TaskId,
        number: int,
        *,
        limit: int,
        kinds: frozenset[EventKind] | None = None,
        max_bytes: int | None = None,
    ) -> EventPage:
        return await self._read(
            lambda database: reads.events_after(
                database, task_id, number, limit=limit, kinds=kinds, max_bytes=max_bytes
            )
        )

    async def steps(self, task_id: TaskId) -> list[Step]:
        return await self._read(lambda database: reads.steps(database, task_id))

    async def artifact(self, artifact_id: ArtifactId) -> Artifact:
        return await self._read(lambda database: reads.artifact(database, artifact_id))

    async def artifacts(self, task_id: TaskId) -> list[Artifact]:
        return await self._read(lambda database: reads.artifacts(database, task_id))

    async def session(self, session_id: SessionId) -> Session:
        return await self._read(lambda database: reads.session(database, session_id))

    async def lost(self) -> list[Task]:
        worker = self._writer.seated_worker
        return await self._read(lambda database: reads.tasks_at(database, "lost", worker))

    async def overdue(self, now: datetime, *, limit: int) -> list[Task]:
        return await self._read(lambda database: reads.overdue(database, now, limit))

    async def next_overdue(self) -> datetime | None:
        return await self._read(reads.next_overdue)

    async def recent_durations(self, capability_id: str, *, limit: int) -> list[int]:
        return await self._read(lambda database: reads.recent_durations(database, capability_id, limit))

    async def counts(self) -> dict[Status | str, int]:
        return self._writer.counts()

    def health(self) -> Health:
        if self._check is not None and self._check.damage:
            return Health(is_writable=False, reason=self._check.damage)
        return self._writer.health

    # Contents

    async def put_blob(self, content: bytes) -> str:
        return await self._files.run(lambda: self._blobs.put(content, self._now()))

    async def blob(self, sha256: str) -> bytes:
        return await self._files.run(lambda: self._blobs.get(sha256))

    async def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            await asyncio.get_running_loop().run_in_executor(None, self._close)

    def _close(self) -> None:
        self._files.close()
        if self._check is not None:
            self._check.close()
        for readers in (self._readers, self._lists):
            if readers is not None:
                readers.close()
        # Last, so that closing it empties the write-ahead log.
        self._writer.close()
        if self._lock is not None:
            self._lock.release()
