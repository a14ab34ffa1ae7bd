"""What all requests and results have in common, and how a request's params are read (protocol.md §1).

A request is a value that knows its method and its result:

    created = await client.call(TaskCreate(capability_id="demo.echo"))
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, ClassVar, Generic, TypeVar, cast

import msgspec

from aios.errors import AiosError, InvalidParams
from aios.model import JsonObject

DURATION_MAX_MS = 366 * 24 * 3_600_000
"""A year: the longest delay or timeout that may be asked for, far from where instants overflow."""
WAIT_MAX_MS = 24 * 3_600_000
"""The longest that a caller may let an answer wait."""

Result = TypeVar("Result")
AnyParams = TypeVar("AnyParams", bound="Params[Any]")

Duration = Annotated[int, msgspec.Meta(ge=1, le=DURATION_MAX_MS, description="milliseconds")]
Delay = Annotated[int, msgspec.Meta(ge=0, le=DURATION_MAX_MS, description="milliseconds")]
Wait = Annotated[int, msgspec.Meta(ge=0, le=WAIT_MAX_MS, description="milliseconds")]
Instant = Annotated[datetime, msgspec.Meta(tz=True, description="RFC 3339 with a zone")]
Timestamp = Annotated[
    str, msgspec.Meta(description="RFC 3339 in UTC, to the millisecond", extra_json_schema={"format": "date-time"})
]
Identifier = Annotated[str, msgspec.Meta(min_length=1, max_length=256, description="an opaque id")]
Reason = Annotated[str, msgspec.Meta(max_length=1_000)]
CapabilityId = Annotated[
    str,
    # `$` alone would let a trailing newline through.
    msgspec.Meta(pattern=r"^[a-z0-9_]+(\.[a-z0-9_]+)*$(?!\n)", max_length=128, examples=["compat.shop.compare"]),
]


class Params(msgspec.Struct, Generic[Result], frozen=True, kw_only=True, omit_defaults=True):
    """Params of one method; unknown members are ignored, known ones are held to their type and range."""

    method: ClassVar[str]
    result: ClassVar[Any]
    """The type of the answer's result."""
    errors: ClassVar[tuple[type[AiosError], ...]] = ()
    """What it may be refused with, besides the errors of JSON-RPC."""


class View(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that is shown to callers: a result or a part of one. What is not known is left out."""


class Done(View, frozen=True, kw_only=True):
    """It is done; there is nothing else to say."""

    success: bool


class Nothing(View, frozen=True, kw_only=True):
    """An empty object."""


def decode(kind: type[AnyParams], params: JsonObject) -> AnyParams:
    """Read params as what the method takes.

    Raises:
        InvalidParams: A member is missing, or has a wrong type or range; `data.errors` has its JSON pointer.
    """
    try:
        return msgspec.convert(params, kind)
    except msgspec.ValidationError as broken:
        raise _invalid(str(broken)) from None


def refuse(path: str, message: str) -> InvalidParams:
    """Make the error for one wrong member."""
    return InvalidParams(f"{path or 'params'}: {message}", errors=[{"path": path, "message": message}])


def refuse_nul(params: Params[Any]) -> None:
    """Refuse U+0000 in any string, which no store can be trusted to keep (protocol.md §1).

    Raises:
        InvalidParams: There is one; `data.errors` says where.
    """
    for path in _nul(msgspec.to_builtins(params), ""):
        raise refuse(path, "holds the character U+0000, which cannot be stored")


def _nul(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, str):
        if "\0" in value:
            yield path
    elif isinstance(value, dict):
        for name, member in cast("JsonObject", value).items():
            if "\0" in name:
                yield path
            yield from _nul(member, f"{path}/{name.replace('~', '~0').replace('/', '~1')}")
    elif isinstance(value, list):
        for index, item in enumerate(cast("list[Any]", value)):
            yield from _nul(item, f"{path}/{index}")


_PLACE = re.compile(r"^(?P<message>.*?)(?: - at `(?P<key>key in )?\$(?P<path>.*)`)?$", re.DOTALL)
_MISSING = re.compile(r"^Object missing required field `(?P<name>[^`]+)`")


def _invalid(broken: str) -> InvalidParams:
    """Turn a decoder's sentence into one with a JSON pointer."""
    found = _PLACE.match(broken)
    message, path = (found["message"], found["path"] or "") if found else (broken, "")
    pointer = re.sub(r"[.\[]+", "/", path.replace("[...]", "").replace("]", ""))
    if missing := _MISSING.match(message):
        pointer, message = f"{pointer}/{missing['name']}", "is required"
    return refuse(pointer, message)
