"""Who is parked, and who has to leave when there are too many: so that waiting costs a bounded amount of memory."""

from __future__ import annotations

from typing import Protocol


class Parkable(Protocol):
    """An attempt that holds no slot, and whose code stands still in memory."""

    @property
    def may_run_again(self) -> bool:
        """Whether unwinding it is harmless: it goes on from its recorded steps."""
        ...

    def evict(self) -> None:
        """Unwind its code; when its turn comes it runs again."""
        ...


class Parking:
    """The parked attempts, the longest waiter first.

    Args:
        most: How many there may be.
        most_threads: How many of them may keep a thread waiting.
    """

    def __init__(self, *, most: int, most_threads: int) -> None:
        self._most = most
        self._most_threads = most_threads
        self._parked: dict[Parkable, bool] = {}
        self._threads = 0

    def __len__(self) -> int:
        return len(self._parked)

    def enter(self, attempt: Parkable, *, has_thread: bool) -> None:
        """Let an attempt park; the longest waiter leaves where there is no room."""
        self._parked[attempt] = has_thread
        self._threads += has_thread
        if self._threads > self._most_threads:
            self._evict(threads_only=True)
        if len(self._parked) > self._most:
            self._evict(threads_only=False)

    def leave(self, attempt: Parkable) -> None:
        """Know that it goes on, or has ended; of no effect if it is not parked."""
        self._threads -= self._parked.pop(attempt, False)

    def _evict(self, *, threads_only: bool) -> None:
        eligible = [attempt for attempt, has_thread in self._parked.items() if has_thread or not threads_only]
        # One that must not run twice stays, while there is any other: it is the pause of a command, say.
        longest = next((attempt for attempt in eligible if attempt.may_run_again), eligible[0])
        self.leave(longest)
        longest.evict()
