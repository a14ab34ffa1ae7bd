"""`SqliteStore`: the seam `aios.store.Store` filled with SQLite, for one process on one machine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Literal, TypeVar

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
from aios.stores.sqlite.blobs import Blobs, FolderBlobs, MemoryBlobs
from aios.stores.sqlite.connections import Database, open_reader, open_writer
from aios.stores.sqlite.opening import Opened, open_folder, open_in_memory
from aios.stores.sqlite.readers import FILE_THREADS, Readers, Threads
from aios.stores.sqlite.writer import Writer

R = TypeVar("R")


class SqliteStore:
    """Tasks in an SQLite database. One thread writes, in groups; a few read; no event loop ever waits for the disk."""

    def __init__(
        self, *, opened: Opened, writer: Writer, readers: Readers | None, blobs: Blobs, now: Callable[[], datetime]
    ) -> None:
        self._opened = opened
        self._writer = writer
        self._readers = readers
        self._blobs = blobs
        self._files = Threads(name="files", threads=FILE_THREADS)
        self._now = now

    @classmethod
    def open(cls, path: Path | Literal[":memory:"], *, limits: Limits, now: Callable[[], datetime]) -> SqliteStore:
        """Open the store in a data folder, or one that lives in memory. Blocks until it is ready.

        Raises:
            StoreUnavailable: Another daemon works in the folder; the database is damaged, another program's or of a newer
                version; the file system is no use for it.
        """
        if isinstance(path, Path):
            opened = open_folder(path)
            writer = Writer(open_connection=partial(open_writer, path), limits=limits, now=now)
            readers = Readers(partial(open_reader, path))
            blobs: Blobs = FolderBlobs(path / "blobs")
        else:
            opened = open_in_memory()
            writer = Writer(open_connection=lambda: opened.database, limits=limits, now=now)
            readers = None
            blobs = MemoryBlobs()
        writer.start(opened.database)
        return cls(opened=opened, writer=writer, readers=readers, blobs=blobs, now=now)

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
        count, _ = await self._writer.write(
            lambda transaction: purging.purge(transaction, ended_before, limit, self._now())
        )
        return count

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
        return await self._read(lambda database: listing.tasks(database, query))

    async def children(self, parent: TaskId) -> list[Task]:
        return await self._read(lambda database: reads.tasks_at(database, "children", parent))

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
        return self._writer.health

    # Contents

    async def put_blob(self, content: bytes) -> str:
        return await self._files.run(lambda: self._blobs.put(content))

    async def blob(self, sha256: str) -> bytes:
        return await self._files.run(lambda: self._blobs.get(sha256))

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self._close)

    def _close(self) -> None:
        self._files.close()
        if self._readers is not None:
            self._readers.close()
        self._writer.close()
        if self._opened.lock is not None:
            self._opened.lock.release()
