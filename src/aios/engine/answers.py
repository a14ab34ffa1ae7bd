"""Whether what a person gives fits what was asked for: input and sign-ins (protocol.md §4)."""

from __future__ import annotations

import hmac
import re
from typing import Any, cast

from aios.engine.registry import Registry
from aios.errors import InvalidInput
from aios.model import AuthRequest, InputRequest, JsonObject

FIELDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "api_key": (("api_key",), ()),
    "password": (("username", "password"), ()),
    "certificate": (("certificate",), ("private_key",)),
    "oauth2": (("authorization_code",), ("state",)),
}
"""What a sign-in of each type must and may bring."""

_PEM = {
    "certificate": re.compile(r"\s*-----BEGIN CERTIFICATE-----\s.*\s-----END CERTIFICATE-----\s*", re.DOTALL),
    "private_key": re.compile(
        r"\s*-----BEGIN [A-Z ]*PRIVATE KEY-----\s.*\s-----END [A-Z ]*PRIVATE KEY-----\s*", re.DOTALL
    ),
}


def check_input(request: InputRequest, value: Any, *, registry: Registry) -> None:
    """Hold an answer against its question.

    An answer must be one of the options: equal to it, or to its `id` or `value` where options are objects. Where the schema
    asks for an array, each of its items must be; where it asks for an object, the schema alone decides, and the options are
    for the eye.

    Raises:
        InvalidInput: It does not fit; `data.errors` says where.
    """
    errors = registry.check(request.schema, value, root="/input") if request.schema is not None else []
    if not errors and request.options is not None:
        errors = _check_options(request.options, value, wanted=(request.schema or {}).get("type"))
    if errors:
        raise InvalidInput(f"The answer does not fit the question: {errors[0]['message']}.", errors=errors)


def _check_options(options: list[Any], value: Any, *, wanted: Any) -> list[JsonObject]:
    if wanted == "object":
        return []
    if wanted == "array" and isinstance(value, list):
        items = [(f"/input/{index}", item) for index, item in enumerate(cast("list[Any]", value))]
    else:
        items = [("/input", value)]
    return [
        {"path": path, "message": "not one of the options"}
        for path, item in items
        if not any(_is_option(item, option) for option in options)
    ]


def _is_option(item: Any, option: Any) -> bool:
    if _is_same(item, option):
        return True
    if not isinstance(option, dict):
        return False
    named = cast("JsonObject", option)
    return any(name in named and _is_same(item, named[name]) for name in ("id", "value"))


def _is_same(one: Any, other: Any) -> bool:
    """Compare as JSON does: `true` is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        ones, others = cast("list[Any]", one), cast("list[Any]", other)
        return len(ones) == len(others) and all(map(_is_same, ones, others))
    if isinstance(one, dict) and isinstance(other, dict):
        left, right = cast("JsonObject", one), cast("JsonObject", other)
        return left.keys() == right.keys() and all(_is_same(each, right[key]) for key, each in left.items())
    return one == other


def checked_sign_in(request: AuthRequest, response: JsonObject) -> JsonObject:
    """Give what a sign-in brings, without what nobody asked for.

    No message repeats a value: they are secrets.

    Raises:
        InvalidInput: Another type than was asked for, a field missing or malformed, or another `state`.
    """
    if response.get("type") != request.type or request.type not in FIELDS:
        raise _refused(
            "/auth_response/type",
            f"must be {request.type!r}, as the request says"
            if request.type in FIELDS
            else f"a request of type {request.type!r} is not answered by a sign-in",
        )
    required, optional = FIELDS[request.type]
    given: JsonObject = {"type": request.type}
    for name in (*required, *optional):
        value = response.get(name)
        if value is None and name in optional:
            continue
        if not isinstance(value, str) or not value:
            raise _refused(f"/auth_response/{name}", "must be a text that is not empty")
        if name in _PEM and not _PEM[name].fullmatch(value):
            raise _refused(f"/auth_response/{name}", "must be in PEM form")
        given[name] = value
    if request.type == "oauth2" and request.state is not None:
        state = str(given.get("state", ""))
        if not hmac.compare_digest(state.encode(), request.state.encode()):
            raise _refused("/auth_response/state", "is not the one that the request carried")
    return given


def _refused(path: str, message: str) -> InvalidInput:
    return InvalidInput(
        f"The sign-in does not fit the request: {path} {message}.", errors=[{"path": path, "message": message}]
    )
