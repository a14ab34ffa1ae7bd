"""Staying with a task from the terminal: seeing it, answering it, leaving it, and saying how it ended."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from aios.cli.arguments import as_list, as_object
from aios.cli.artifacts import show_artifacts
from aios.cli.asking import Asker
from aios.cli.display import Display, drawing
from aios.cli.face import CANCELED, COMPLETED, FAILED, LEFT, WAITING, Face, clean
from aios.cli.questions import offered
from aios.cli.terminal import Terminal, is_interactive
from aios.errors import AiosError, AnswerLost, DaemonUnreachable, InputRequired, TaskNotFound, UserCanceled

if TYPE_CHECKING:
    from aios.client import Client, Question
    from aios.model import JsonObject


class Attention:
    """One person's (or nobody's) attention to one task.

    Ctrl-C never cancels anything: the first one says how to cancel and goes on, the second leaves the task running.

    Args:
        asks: Whether questions may be put to the terminal.
        waits: Whether to go on waiting when a question comes and nobody can be asked.
    """

    def __init__(self, face: Face, client: Client, task_id: str, *, title: str, asks: bool, waits: bool) -> None:
        self._face = face
        self._client = client
        self._task_id = task_id
        self._display = Display(drawing(title, is_silent=face.is_json))
        self._terminal = Terminal() if asks and is_interactive() else None
        self._asker = Asker(self._terminal, self._display) if self._terminal else None
        self._waits = waits
        self._interrupts = 0

    async def stay(self) -> int:
        """Stay until the task ends, and show what it made; gives the exit code."""
        with self._heeding() as me:
            try:
                await self._wait()
                code = COMPLETED
            except asyncio.CancelledError:
                if not self._interrupts:
                    raise
                me.uncancel()
                self._leave()
                return LEFT
            except InputRequired as error:
                return await self._unanswered(error)
            except UserCanceled:
                code = CANCELED
            except DaemonUnreachable:
                self._face.say(f"The daemon stays away. When it is back: aios task watch {self._task_id}")
                raise
            except (AnswerLost, TaskNotFound):
                raise
            except AiosError:
                code = FAILED
            finally:
                self._display.hide()
        await self._conclude()
        return code

    async def _wait(self) -> Any:
        nobody: Any = self._tell if self._waits else None
        on_input: Any = nobody if self._asker is None else self._answer(self._asker)
        self._client.on_away = self._away
        on_auth: Any = nobody if self._asker is None else self._asker.sign_in
        return await self._client.wait(self._task_id, on_input=on_input, on_auth=on_auth, on_event=self._display.see)

    def _away(self, _: DaemonUnreachable) -> None:
        """Say it on a line of its own, also while somebody is asked."""
        prompt = self._terminal.prompt if self._terminal is not None else ""
        if self._display.away("\n" if prompt else "") and self._terminal is not None:
            self._terminal.show(prompt)

    def _answer(self, asker: Asker) -> Callable[[Question], Awaitable[Any]]:
        async def answer(question: Question) -> Any:
            try:
                return await asker.answer(question)
            except EOFError:
                # Ctrl-D: whoever sits here does not want to answer now.
                raise InputRequired(f"{self._task_id} asks: {question.prompt}") from None

        return answer

    async def _tell(self, asked: Any) -> None:
        """Say that the task waits for somebody, and wait too, until it goes on (which cancels this)."""
        self._display.note(clean(f"waits for {_what(asked)}; answer with: aios task input {self._task_id}"))
        await asyncio.Event().wait()

    async def _unanswered(self, error: InputRequired) -> int:
        await self._conclude(is_over=False)
        self._face.say(clean(f"{error}".partition("; answer with")[0]))
        options = as_list(error.data.get("options"))
        for text in offered(options):
            self._face.say("  " + clean(text, is_one_line=True))
        self._face.say(f"The task waits. Answer it with: aios task input {self._task_id} ANSWER")
        return WAITING

    def _leave(self) -> None:
        self._face.say(f"\nLeft; the task goes on. See it again with: aios task watch {self._task_id}")
        if self._face.is_json:
            self._face.show({"task_id": self._task_id, "left": True})

    async def _conclude(self, *, is_over: bool = True) -> None:
        task = await self._client.call("aios/task.get", {"task_id": self._task_id, "include_history": True})
        if self._face.is_json:
            self._face.show(task)
            return
        show_artifacts(self._face, task.get("artifacts") or [])
        if is_over:
            self._result(task)

    def _result(self, task: JsonObject) -> None:
        match task["status"]:
            case "completed":
                whole: Any = task.get("result")
                # A bare value travels in an object; a person is shown what was meant.
                result: Any = whole["value"] if as_object(whole).keys() == {"value"} else whole
                if isinstance(result, str):
                    self._face.write(clean(result))
                elif result is not None:
                    self._face.show(result)
            case "failed":
                from aios.errors.wire import from_wire

                self._face.say(f"{self._task_id} failed")
                self._face.fail(from_wire(task.get("error") or {}))
            case status:
                history = map(as_object, as_list(task.get("state_history")))
                reasons = [str(each["reason"]) for each in history if each.get("reason")]
                self._face.say(clean(f"{self._task_id} was {status}" + (f": {reasons[-1]}" if reasons else "")))

    @contextmanager
    def _heeding(self) -> Generator[asyncio.Task[Any]]:
        """Hear Ctrl-C; gives the task that the second one cancels."""
        me = asyncio.current_task()
        if me is None:
            raise RuntimeError("whoever stays with a task does so in a task of the event loop")

        def interrupted() -> None:
            self._interrupts += 1
            if self._interrupts > 1:
                me.cancel()
                return
            self._display.note(
                f"\nThe task goes on. Ctrl-C again leaves it running; to cancel it: aios task cancel {self._task_id}"
            )
            if self._terminal is not None:
                self._terminal.show(self._terminal.prompt)

        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, interrupted)
        try:
            yield me
        finally:
            loop.remove_signal_handler(signal.SIGINT)


def _what(asked: Any) -> str:
    prompt = getattr(asked, "prompt", None)
    return f"an answer to: {prompt}" if prompt else f"a sign-in ({asked.type})"
