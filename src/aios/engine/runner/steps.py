"""One call of a durable step: looked up, and recorded once it has a value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import msgspec

from aios.engine.runner.book import digest_of
from aios.engine.runner.run import Run
from aios.engine.values import plain
from aios.failpoints import failpoint
from aios.model import Step


class StepCall:
    """One call of a durable step, open until it is left.

    Raises:
        StepNameRepeated: On entering: a step of this name is open.
        CapabilityChanged: On entering: the record is another's.
    """

    def __init__(
        self,
        run: Run,
        name: str,
        fn: Callable[..., Any],
        args: Sequence[Any],
        *,
        key: str | None,
        is_secret: bool,
    ) -> None:
        self._run = run
        self._name = name
        self._fn = fn
        self._args = args
        self._own_key = key
        self._is_secret = is_secret
        self._stack = ExitStack()
        self._key = ""
        self._digest = b""
        self.recorded: Step | None = None

    def __enter__(self) -> None:
        run = self._run
        run.check()
        self._digest = digest_of(self._fn, self._args)
        with ExitStack() as stack:
            self._key = stack.enter_context(run.book.opened("step", self._name, self._own_key))
            self.recorded = run.book.recall(self._key, self._digest)
            self._stack = stack.pop_all()

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def recall(self) -> Any:
        """Give the recorded value."""
        return None if self.recorded is None else self._run.book.value_of(self.recorded)

    async def keep(self, value: Any) -> Any:
        """Record a value, and give it as a re-run will get it."""
        run = self._run
        made = plain(value, what=f"The value of step {self._name!r}", bytes_max=self._run.limits.max_step_size)
        encoded = msgspec.json.encode(made)
        failpoint("step.done")
        step = run.book.make(self._key, encoded, digest=self._digest, is_secret=self._is_secret)
        await run.hop(run.attempt.claim.put_step, step)
        run.book.note(step)
        # A boundary: what was done is recorded, so this is where code that is to leave loses nothing.
        run.check()
        return run.book.value_of(step) if self._is_secret else made
