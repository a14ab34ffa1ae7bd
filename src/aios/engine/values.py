"""What running code hands out must be JSON that anybody can read, and not too much of it (protocol.md §1).

The usual value costs one encoding and one decoding in C; only one that holds `null`, or has many brackets, is looked at node by
node, because only there could something hide that has been written as null, or a nesting that is too deep.
"""

from __future__ import annotations

import math
from typing import Any, TypeVar

import msgspec

from aios.errors import InternalError, ValidationFailed
from aios.model import JsonObject

DEPTH_MAX = 64
ERROR_BYTES_MAX = 64 * 1024
MESSAGE_CHARACTERS_MAX = 2_000

Struct = TypeVar("Struct", bound=msgspec.Struct)
_encode = msgspec.json.Encoder(decimal_format="string").encode


def plain(value: Any, *, what: str, bytes_max: int) -> Any:
    """Give the value as JSON would bring it back: a copy that no code still holds.

    Raises:
        ValidationFailed: It is not JSON, too deep or too large; the sentence names `what` and where in it.
    """
    try:
        encoded = _encode(value)
    except RecursionError:
        raise _too_deep(what) from None
    except UnicodeEncodeError:
        raise ValidationFailed(f"{what} holds half of a surrogate pair, which is not text{_where(value)}.") from None
    except Exception as error:  # What the code's own classes raise when they are looked into, too.
        raise ValidationFailed(f"{what} is not JSON: {told(error)}.") from None
    if len(encoded) > bytes_max:
        raise ValidationFailed(f"{what} has {len(encoded)} bytes as JSON; at most {bytes_max} are allowed.")
    if b"null" in encoded or encoded.count(b"[") + encoded.count(b"{") > DEPTH_MAX:
        _look_into(msgspec.to_builtins(value, str_keys=True), what)
    return msgspec.json.decode(encoded)


def sound(record: Struct, *, what: str, bytes_max: int) -> Struct:
    """Give a record whose values are as `plain` makes them, and of the types that it declares. Raises: ValidationFailed."""
    made = plain(record, what=what, bytes_max=bytes_max)
    try:
        return msgspec.convert(made, type(record))
    except msgspec.ValidationError as error:
        raise ValidationFailed(f"{what} has a value of another type than it should: {error}.") from None


def sound_error(error: JsonObject) -> JsonObject:
    """Give an error object that can be stored: what of it is not JSON, or is too much, is left out and said to be.

    A failing attempt must be able to fail, whatever its code has put into its error.
    """
    try:
        return plain(error, what="The error", bytes_max=ERROR_BYTES_MAX)
    except ValidationFailed as refused:
        message = str(error.get("message", "")).encode("utf-8", "replace").decode()
        code, data = error.get("code"), error.get("data")
        error_id = data.get("error_id") if isinstance(data, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        return {
            "code": code if isinstance(code, int) else InternalError.code,
            "message": message[:MESSAGE_CHARACTERS_MAX],
            "data": {
                "error_id": error_id if isinstance(error_id, str) and error_id.isascii() else InternalError.error_id,
                "detail": f"The error's data was left out: {refused}",
            },
        }


def told(error: BaseException) -> str:
    """Give an error's own text, or its type's name where it has none: the text is made by code that may raise itself."""
    try:
        return str(error) or type(error).__name__
    except BaseException:
        return type(error).__name__


def _too_deep(what: str) -> ValidationFailed:
    return ValidationFailed(f"{what} is nested deeper than {DEPTH_MAX}.")


def _look_into(value: Any, what: str) -> None:
    """Refuse numbers that are not finite, and nesting that is too deep. Level by level, so that no depth can hurt."""
    level: list[tuple[str, Any]] = [("", value)]
    for _ in range(DEPTH_MAX + 1):
        for path, each in level:
            if isinstance(each, float) and not math.isfinite(each):
                raise ValidationFailed(f"{what} holds {each}, which JSON has no word for{_at(path)}.")
        level = [child for path, each in level for child in _children(path, each)]
        if not level:
            return
    raise _too_deep(what)


def _children(path: str, value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [(f"{path}/{key}", each) for key, each in value.items()]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list | tuple):
        return [(f"{path}/{index}", each) for index, each in enumerate(value)]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return []


def _where(value: Any) -> str:
    """Find the text that cannot be encoded."""
    level: list[tuple[str, Any]] = [("", value)]
    for _ in range(DEPTH_MAX + 1):
        for path, each in level:
            if isinstance(each, str) and not _is_text(each):
                return _at(path)
        level = [child for path, each in level for child in _children(path, each)]
    return ""


def _at(path: str) -> str:
    return f", at {path}" if path and _is_text(path) else ""


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
