"""Seeing a task through to its end: its questions are put to callbacks, its error is raised, its result returned."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable
from typing import Any, Protocol, TypeVar

import msgspec

from aios.client.streams import TaskEvent
from aios.errors import (
    AiosError,
    InputRequired,
    InvalidInput,
    InvalidTaskState,
    TaskFinal,
    UserCanceled,
    ValidationFailed,
)
from aios.errors.wire import from_wire
from aios.model import EventKind, JsonObject, Record, Status
from aios.protocol.params import Params, View
from aios.protocol.task import TaskAuthenticate, TaskGet, TaskInput, TaskView

ANSWERS_MAX = 100
"""How often one question is asked again because the answer did not fit."""


class Question(Record, frozen=True, kw_only=True):
    """What a task wants to know."""

    task_id: str
    prompt: str
    options: list[Any] | None = None
    """Where there are some, the answer must be one of them."""
    schema: JsonObject | None = None
    """Where there is one, the answer must fit it."""
    timeout_ms: int | None = None
    errors: list[JsonObject] = []
    """Why the answer before this one was not taken: `{path, message}`."""


class SignIn(Record, frozen=True, kw_only=True):
    """What a task needs somebody to authenticate for; `request` is the wire's `auth_request`."""

    task_id: str
    type: str
    request: JsonObject
    errors: list[JsonObject] = []


Asked = TypeVar("Asked", Question, SignIn)

Answer = Callable[[Question], Any]
"""Gives the answer, or an awaitable of it."""
Authenticate = Callable[[SignIn], Any]
"""Gives the `auth_response` without its `type`, or None to wait until somebody else has signed in; or an awaitable of these."""
Watch = Callable[[TaskEvent], Any]
"""Is told of every event; what it returns is awaited if it can be."""


class Tasks(Protocol):
    """What is asked of the client here."""

    async def call(self, params: Params[Any], /) -> Any:
        """Call a method."""
        ...


class Attendant:
    """Sees one task through.

    While a callback thinks, the events are read on: if the question is answered by somebody else, times out, or the task is
    canceled, the callback is canceled (a plain function cannot be: it is to be quick, or to be given as `async def`).
    """

    def __init__(
        self,
        tasks: Tasks,
        task_id: str,
        *,
        on_input: Answer | None,
        on_auth: Authenticate | None,
        on_event: Watch | None,
    ) -> None:
        self._tasks = tasks
        self._task_id = task_id
        self._on_input = on_input
        self._on_auth = on_auth
        self._on_event = on_event
        self._answering: asyncio.Task[None] | None = None

    async def result(self, events: AsyncGenerator[TaskEvent]) -> Any:
        """Read the events to their end and give the task's result.

        Raises:
            InputRequired: The task waits for an answer or a sign-in, and there is no callback for it; it goes on waiting.
            UserCanceled: The task was canceled.
            AiosError: The task's own error, as the class that it failed with.
        """
        last: TaskEvent | None = None
        reading = asyncio.ensure_future(anext(events, None))
        try:
            while True:
                await asyncio.wait({reading, *filter(None, [self._answering])}, return_when=asyncio.FIRST_COMPLETED)
                self._settle()
                if not reading.done():
                    continue
                event = reading.result()
                if event is None:
                    break
                last = event
                await self._see(event)
                reading = asyncio.ensure_future(anext(events, None))
        finally:
            await _dismiss(reading)
            await self._hush()
            await events.aclose()
        return await self._outcome(last)

    async def _see(self, event: TaskEvent) -> None:
        if self._on_event is not None:
            await _awaited(self._on_event(event))
        if event.kind in {EventKind.STATUS, EventKind.RESULT, EventKind.ERROR} or event.is_snapshot:
            await self._hush()
        if event.kind == EventKind.INPUT_REQUIRED or event.kind == EventKind.AUTH_REQUIRED or event.is_snapshot:
            self._answering = asyncio.create_task(self._answer())

    def _settle(self) -> None:
        """Let out what a callback raised."""
        if self._answering is not None and self._answering.done():
            answering, self._answering = self._answering, None
            answering.result()

    async def _hush(self) -> None:
        """Stop asking: the task has moved on."""
        if self._answering is not None:
            answering, self._answering = self._answering, None
            await _dismiss(answering)

    async def _answer(self) -> None:
        """Put to the callback what the task waits for now, which a replayed event cannot say."""
        task: TaskView = await self._tasks.call(TaskGet(task_id=self._task_id))
        try:
            if task.input_request is not None:
                await self._ask(task)
            elif task.auth_request is not None:
                await self._sign_in(task)
        except (InvalidTaskState, TaskFinal):
            # Somebody else was quicker, and its events say so.
            return

    async def _ask(self, task: TaskView) -> None:
        request = task.input_request
        if request is None:
            return
        if self._on_input is None:
            raise InputRequired(
                f"{self._task_id} asks: {request.prompt}; answer with aios/task.input, or give on_input",
                task_id=self._task_id,
                prompt=request.prompt,
                **({} if request.options is None else {"options": request.options}),
            )
        question = Question(
            task_id=self._task_id,
            prompt=request.prompt,
            options=request.options,
            schema=request.schema,
            timeout_ms=request.timeout_ms,
        )
        for _ in range(ANSWERS_MAX):
            answer = await _awaited(self._on_input(question))
            try:
                await self._tasks.call(TaskInput(task_id=self._task_id, input=answer))
                return
            except InvalidInput as error:
                question = _replaced(question, error)
        raise InvalidInput(f"{ANSWERS_MAX} answers to one question, and none fits", errors=question.errors)

    async def _sign_in(self, task: TaskView) -> None:
        request = task.auth_request
        if request is None:
            return
        if self._on_auth is None:
            raise InputRequired(
                f"{self._task_id} needs a sign-in ({request.type}): {request.reason}; "
                "answer with aios/task.authenticate, or give on_auth",
                task_id=self._task_id,
                auth_request=_wire(request),
            )
        need = SignIn(task_id=self._task_id, type=request.type, request=_wire(request))
        for _ in range(ANSWERS_MAX):
            response: JsonObject | None = await _awaited(self._on_auth(need))
            if response is None:
                return
            try:
                await self._tasks.call(
                    TaskAuthenticate(task_id=self._task_id, auth_response={"type": request.type, **response})
                )
                return
            except ValidationFailed as error:
                need = _replaced(need, error)
        raise InvalidInput(f"{ANSWERS_MAX} sign-ins to one request, and none fits", errors=need.errors)

    async def _outcome(self, last: TaskEvent | None) -> Any:
        if last is not None and last.kind == EventKind.RESULT:
            return last.data.get("result")
        if last is not None and last.kind == EventKind.ERROR:
            raise _failure(last.data["error"], self._task_id)
        return outcome_of(await self._tasks.call(TaskGet(task_id=self._task_id, include_history=True)))


def outcome_of(task: TaskView) -> Any:
    """Give the result of a terminal task, or raise what it ended with. Raises: AiosError."""
    if task.status == Status.COMPLETED:
        return _wire(task).get("result")
    if task.status == Status.CANCELED:
        reason = next((each.reason for each in reversed(task.state_history or []) if each.reason), None)
        raise UserCanceled(
            f"{task.task_id} was canceled" + (f": {reason}" if reason else ""),
            task_id=task.task_id,
            **({"reason": reason} if reason else {}),
        )
    if task.error is not None:
        raise _failure(_wire(task.error), task.task_id)
    raise InvalidTaskState(f"{task.task_id} is {task.status}, its events have ended", status=task.status)


def _failure(error: JsonObject, task_id: str) -> AiosError:
    made = from_wire(error)
    made.data.setdefault("task_id", task_id)
    return made


def _replaced(asked: Asked, error: ValidationFailed) -> Asked:
    """The same once more, with what was wrong about the answer."""
    errors = error.data.get("errors") or [{"path": "", "message": error.detail or error.title}]
    return msgspec.structs.replace(asked, errors=errors)


def _wire(view: View) -> JsonObject:
    return msgspec.to_builtins(view)


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


async def _dismiss(task: asyncio.Task[Any] | asyncio.Future[Any]) -> None:
    """Cancel and wait for the end; what it still raises is of the past."""
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.exception()
