"""Runs attempts: their code on lanes apart from the main loop, what they say to the engine on it.

```
 main loop   Runner ── Attempt (slot, claim, waits) ──► Recorder (the engine)
                          │ ▲  mailboxes, one hop for all that waits
 a lane                   ▼ │
                        Run (the code behind its Gate) ── AttemptContext ── threads
```
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from aios.engine.clock import Clock
from aios.engine.errands import Errands
from aios.engine.recorder import Recorder
from aios.engine.registry import Registry
from aios.engine.runner.attempt import Attempt
from aios.engine.runner.lanes import Lanes
from aios.engine.runner.mailbox import Mailbox
from aios.engine.runner.parking import Parking
from aios.engine.runner.surroundings import Surroundings
from aios.engine.runner.threads import Threads
from aios.engine.vault import Vault
from aios.errors import InternalError
from aios.model import Limits, Status, Task, TaskId

UNWIND_MS = 1_000
"""How long `stop` waits, after its grace, for code that it cancels."""
RECORD_MS = 1_000
"""How long it waits then for what has to be recorded."""
LANES_MS = 500
"""How long it waits at last for the lanes to end."""

__all__ = ["Runner"]


class Runner:
    """Runs the attempts of one process; all of it is called on the main loop.

    Args:
        engine: What attempts are recorded by.
    """

    def __init__(self, *, engine: Recorder, registry: Registry, clock: Clock, limits: Limits, vault: Vault) -> None:
        self._engine = engine
        self._registry = registry
        self._clock = clock
        self._limits = limits
        self._vault = vault
        self._parking = Parking(most=limits.max_parked, most_threads=limits.max_parked_threads)
        self._errands = Errands()
        self._attempts: dict[TaskId, Attempt] = {}
        self._settling: set[Attempt] = set()
        self._is_stopping = False
        self._all_ended: asyncio.Event | None = None
        self._around: Surroundings | None = None

    def __len__(self) -> int:
        """How many attempts there are: running, parked, or being unwound."""
        return len(self._attempts)

    def start(self) -> None:
        """Open the first lane; called once, on the main loop."""
        # Here, because the context is made of parts of this package.
        from aios.engine.context import AttemptContext

        limits = self._limits
        threads = Threads(limits.max_threads + limits.max_parked_threads)
        self._all_ended = asyncio.Event()
        self._around = Surroundings(
            recorder=self._engine,
            registry=self._registry,
            clock=self._clock,
            limits=limits,
            vault=self._vault,
            lanes=Lanes(threads=threads),
            mailbox=Mailbox(asyncio.get_running_loop()),
            parking=self._parking,
            errands=self._errands,
            make_context=AttemptContext,
            ended=self._ended,
            settled=self._settled,
            is_stopping=lambda: self._is_stopping,
        )
        self._around.lanes.start()

    def take(self, task: Task) -> None:
        """Run a task that was claimed for us, or go on where its code is parked here."""
        held = self._attempts.get(task.task_id)
        if held is None:
            attempt = self._attempts[task.task_id] = Attempt(task, around=self._shared)
            attempt.begin()
            if self._is_stopping:
                attempt.evict()
        elif held.accepts(task):
            held.go_on(task)
        else:
            held.next = task

    def changed(self, task: Task) -> None:
        """Take note that somebody committed something about a task; maybe one that is not run here."""
        held = self._attempts.get(task.task_id)
        if held is None:
            return
        if held.next is not None and held.next.claim == task.claim:
            held.next = task
        held.changed(task)

    async def stop(self, grace_ms: int) -> None:
        """Let running attempts reach a step boundary within the time; unwind those left, and hand their tasks back.

        It takes at most `UNWIND_MS + RECORD_MS + LANES_MS` longer than the grace, whatever the code does.
        """
        self._is_stopping = True
        for attempt in self._held():
            attempt.drain()
        await self._ending(grace_ms)
        for attempt in self._held():
            attempt.evict()
        await self._ending(UNWIND_MS)
        # What still runs is stuck in code that nothing can stop but the end of the process, which is near.
        left = [asyncio.ensure_future(attempt.abandon()) for attempt in self._attempts.values()]
        if left:
            await asyncio.wait(left, timeout=RECORD_MS / 1000)
        lanes = self._shared.lanes
        await asyncio.to_thread(lanes.stop, LANES_MS)
        lanes.threads.stop()

    def _held(self) -> Iterable[Attempt]:
        return list(self._attempts.values())

    @property
    def _shared(self) -> Surroundings:
        if self._around is None:
            raise InternalError("the runner has not been started")
        return self._around

    async def _ending(self, timeout_ms: int) -> None:
        """Wait until no attempt is left, or the time is up."""
        if self._all_ended is None or not (self._attempts or self._settling):
            return
        self._all_ended.clear()
        try:
            await asyncio.wait_for(self._all_ended.wait(), timeout_ms / 1000)
        except TimeoutError:
            return

    def _ended(self, attempt: Attempt) -> None:
        task_id = attempt.claim.task.task_id
        if self._attempts.get(task_id) is attempt:
            del self._attempts[task_id]
        self._settling.add(attempt)
        task = attempt.next
        if task is None:
            return
        if task.status is Status.WORKING and task.run_at is None:
            self.take(task)
        else:
            # It was paused, or has ended or run out of time, while it waited for this code to end.
            self._errands.start(self._engine.release(task), name="release")

    def _settled(self, attempt: Attempt) -> None:
        self._settling.discard(attempt)
        if self._all_ended is not None and not (self._attempts or self._settling):
            self._all_ended.set()
