"""What running code says, checked before it is decided: JSON that anybody can read, within the caps (protocol.md §1, §5)."""

from __future__ import annotations

from typing import TypeVar

from msgspec.structs import replace

from aios.engine.orders import DURATION_MS_MAX
from aios.engine.registry import Registry
from aios.engine.values import plain, sound, sound_error
from aios.errors import ValidationFailed
from aios.model import AuthRequest, Change, EventKind, InputRequest, Limits, Progress, Step
from aios.rules.lifecycle import Ask, Chunk, Command, Complete, Fail, Log, Report, RequireAuth

LEVELS = frozenset({"debug", "info", "warning", "error"})
KEY_CHARACTERS_MAX = 512
FRAME_BYTES = 4096
"""What an event has around the value that it carries, at most."""
USUAL_CHARACTERS_MAX = 256
USUAL_STEP_MAX = 2**31
_NUMBERS = (int, float)
Request = TypeVar("Request", InputRequest, AuthRequest)


def checked(command: Command, *, limits: Limits, registry: Registry) -> Command:
    """Give the command with its values as JSON brings them back. A failure is never refused: what cannot be told is left out.

    Raises:
        ValidationFailed: The sentence says which value, and where in it.
    """
    bytes_max = limits.max_event_size
    match command:
        case Complete():
            result = plain(command.result, what="The result", bytes_max=limits.max_result_size)
            return replace(command, result=result)
        case Fail():
            return replace(command, error=sound_error(command.error))
        case Report():
            return Report(checked_progress(command.progress, limits=limits))
        case Log():
            return _checked_log(command, bytes_max)
        case Chunk():
            return replace(command, data=plain(command.data, what="The chunk", bytes_max=bytes_max))
        case Ask():
            reason = plain(command.reason, what="The reason", bytes_max=bytes_max)
            return Ask(_checked_question(command.request, registry, bytes_max), reason)
        case RequireAuth():
            return RequireAuth(_checked_request(command.request, "The sign-in request", bytes_max))
        case _:
            return command


def checked_progress(progress: Progress, *, limits: Limits) -> Progress:
    """Give progress that can be told; a percentage that rounding has carried past an end is put back there."""
    if _is_usual(progress):
        return progress
    progress = sound(progress, what="The progress", bytes_max=limits.max_event_size)
    if progress.percent is None or 0 <= progress.percent <= 100:
        return progress
    return replace(progress, percent=min(100, max(0, progress.percent)))


def _is_usual(progress: Progress) -> bool:
    """Whether it is plainly in order, as nearly every report is; what is not is looked at closely."""
    percent, message = progress.percent, progress.message
    return (
        (percent is None or (type(percent) in _NUMBERS and 0 <= percent <= 100))
        and (message is None or (type(message) is str and len(message) <= USUAL_CHARACTERS_MAX and message.isascii()))
        and _is_usual_step(progress.current_step)
        and _is_usual_step(progress.total_steps)
    )


def _is_usual_step(step: int | None) -> bool:
    return step is None or (type(step) is int and -USUAL_STEP_MAX <= step <= USUAL_STEP_MAX)


def _checked_log(command: Log, bytes_max: int) -> Log:
    if command.level not in LEVELS:
        raise ValidationFailed(f"A log line's level is one of {', '.join(sorted(LEVELS))}; not {command.level!r}.")
    fields = plain(command.fields, what="The log line's fields", bytes_max=bytes_max)
    message = plain(str(command.message), what="The log line", bytes_max=bytes_max)
    return Log(level=command.level, message=message, fields=fields)


def _checked_question(request: InputRequest, registry: Registry, bytes_max: int) -> InputRequest:
    request = _checked_request(request, "The question", bytes_max)
    if request.schema is not None:
        registry.check(request.schema, None)
    return request


def _checked_request(request: Request, what: str, bytes_max: int) -> Request:
    check_key(request.step)
    request = sound(request, what=what, bytes_max=bytes_max)
    if request.timeout_ms is not None and not 0 <= request.timeout_ms <= DURATION_MS_MAX:
        raise ValidationFailed(f"{what}'s timeout_ms must be from 0 to {DURATION_MS_MAX}, not {request.timeout_ms}.")
    return request


def check_key(key: str) -> None:
    """Refuse what cannot name a step. Raises: ValidationFailed."""
    if not key or len(key) > KEY_CHARACTERS_MAX or "\0" in key:
        raise ValidationFailed(f"A step's name must have 1 to {KEY_CHARACTERS_MAX} characters, none of them NUL.")
    plain(key, what="The step's name", bytes_max=6 * KEY_CHARACTERS_MAX + 2)


def check_step(step: Step, *, limits: Limits) -> None:
    """Refuse a step that is too large to be kept. Raises: ValidationFailed."""
    check_key(step.key)
    if len(step.value) > limits.max_step_size:
        raise ValidationFailed(
            f"The value of step {step.key!r} has {len(step.value)} bytes; at most {limits.max_step_size} are kept "
            "(max_step_size). Emit an artifact, and keep its id."
        )


def check_events(change: Change, *, limits: Limits) -> None:
    """Refuse a change with an event that is too large to be told. Raises: ValidationFailed."""
    for event in change.events:
        size_max = limits.max_event_size + FRAME_BYTES
        if event.kind is EventKind.RESULT:
            size_max += limits.max_result_size
        if len(event.data) > size_max:
            raise ValidationFailed(
                f"An event {event.kind} of task {change.task.task_id} would have {len(event.data)} bytes; "
                f"at most {limits.max_event_size} are told (max_event_size). Emit an artifact with its parts as content."
            )
