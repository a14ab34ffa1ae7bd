"""Threads that read, each on a connection of its own, and threads that work on files."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, Final, TypeVar

import apsw

from aios.errors import StoreUnavailable
from aios.stores.sqlite.answers import Call, answer
from aios.stores.sqlite.connections import DISK_ERRORS, Database, unavailable

R = TypeVar("R")

READERS: Final = 2
LIST_READERS: Final = 2
"""Lists have connections of their own, so that one that must look at very many tasks delays no other read."""
FILE_THREADS: Final = 2
WAITING_MAX: Final = 20_000
"""Pieces of work that wait for the threads of one kind."""


class Work(Call):
    """Something to be done in a thread, and who waits for it."""

    __slots__ = ("work",)

    def __init__(self, work: Callable[[], Any]) -> None:
        super().__init__()
        self.work = work


class Threads:
    """A few threads that do what they are given, in the order in which it came."""

    def __init__(self, *, name: str, threads: int) -> None:
        self._inbox: SimpleQueue[Work | None] = SimpleQueue()
        self._gate = Lock()
        """Held to ask and to close, so that nothing is asked of threads that have ended."""
        self._is_closed = False
        self._threads = [Thread(target=self._run, name=f"aios-{name}-{n}", daemon=True) for n in range(threads)]
        for thread in self._threads:
            thread.start()

    async def run(self, work: Callable[[], R]) -> R:
        """Do it in one of the threads, and give what came of it.

        Raises:
            StoreUnavailable: The disk refused, too much waits already, or the store is closed.
        """
        call = Work(work)
        with self._gate:
            if self._is_closed:
                raise StoreUnavailable("The store is closed.")
            if self._inbox.qsize() >= WAITING_MAX:
                raise StoreUnavailable(f"{WAITING_MAX} reads wait for the store; try again later.")
            self._inbox.put(call)
        return await call.future

    def close(self) -> None:
        """End the threads when they have done what waits."""
        with self._gate:
            self._is_closed = True
            for _ in self._threads:
                self._inbox.put(None)
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while (call := self._inbox.get()) is not None:
            try:
                call.value = call.work()
            except (*DISK_ERRORS, OSError) as error:
                call.error = unavailable(error)
            except Exception as error:
                call.error = error
            answer((call,))


class Readers:
    """Read-only connections, lent to one thread at a time: a read begins and ends inside one call, so that none of them
    keeps the write-ahead log from being cut back.
    """

    def __init__(self, open_connection: Callable[[], Database], *, name: str, threads: int) -> None:
        self._open = open_connection
        self._threads = Threads(name=name, threads=threads)
        self._idle: SimpleQueue[Database] = SimpleQueue()
        for _ in range(threads):
            self._idle.put(open_connection())

    async def run(self, work: Callable[[Database], R]) -> R:
        """Read in one of the threads, and give what came of it."""
        return await self._threads.run(lambda: self._lend(work))

    def _lend(self, work: Callable[[Database], R]) -> R:
        database = self._idle.get()
        try:
            return work(database)
        except apsw.IOError:
            # What it has in its cache is not to be trusted. The new one is opened first, so that the log's index has a
            # holder at every moment.
            fresh = self._open()
            database.close(force=True)
            database = fresh
            raise
        finally:
            self._idle.put(database)

    def close(self) -> None:
        """End the threads and let go of the connections."""
        self._threads.close()
        while not self._idle.empty():
            self._idle.get().close()
