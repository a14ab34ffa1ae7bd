"""A question (or sign-in) that an attempt's code waits for: put, and withdrawn where the code gives up. On the main loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aios.engine.recorder import Recorder
from aios.engine.runner.claim import AGAIN_MS, Claim
from aios.engine.runner.run import Run
from aios.errors import AiosError, Conflict, InvalidTaskState
from aios.rules.lifecycle import Ask, RequireAuth, Withdraw


class Question:
    """One question, from when the code asks until it knows the answer or wants it no more.

    Args:
        claim: The attempt's, under which it is put.
        run: Whose code asks.
    """

    def __init__(self, command: Ask | RequireAuth, *, claim: Claim, recorder: Recorder, run: Run) -> None:
        self.step = command.request.step
        """Key of the step that will hold the answer."""
        self.is_given_up = False
        """It is being withdrawn: when the task goes on there may be an answer all the same, or none."""
        self._command = command
        self._claim = claim
        self._recorder = recorder
        self._run = run
        self._is_put = False
        self._is_unwanted = False

    async def put(self, park: Callable[[], None]) -> bool:
        """Put it, and park. False: it could not be put, and the code has been told so."""
        claim = self._claim
        try:
            task = await claim.record(self._command)
        except Conflict:
            return True
        except Exception as error:  # Whatever it is, the code must hear of it: it stands still.
            self._run.tell(self._run.waits.deny, error)
            return False
        # Somebody may have answered, and the store have claimed the task anew, before we get to hear of the question.
        if claim.task.claim == task.claim and not claim.is_over:
            park()
        self._is_put = True
        if self._is_unwanted:
            await self._withdraw()
        return True

    async def withdraw(self) -> None:
        """Withdraw it; if it is just being put, as soon as that is done."""
        self._is_unwanted = True
        if self._is_put:
            await self._withdraw()

    async def _withdraw(self) -> None:
        claim = self._claim
        self.is_given_up = True
        while not claim.is_over:
            try:
                await self._recorder.record(claim.task, Withdraw(self.step))
            except (Conflict, InvalidTaskState):
                # It has been answered, or its time was up; the task goes on in any case.
                return
            except AiosError:
                await asyncio.sleep(AGAIN_MS / 1000)
            else:
                return
