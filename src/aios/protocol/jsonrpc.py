"""JSON-RPC 2.0: bytes to requests, answers to bytes (protocol.md §1).

What is checked, in this order, before anything is believed: size; UTF-8; nesting, by counting brackets outside strings; strict
JSON (no NaN, no number out of range, no lone surrogate); the envelope of each message. Params are read by `params.decode`.
"""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Any, cast

import msgspec

from aios.errors import AiosError, InvalidParams, InvalidRequest, ParseError
from aios.model import JsonObject

DEPTH_MAX = 64
ID_MAX = 2**53
ERROR_BYTES_MAX = 8 * 1024

RequestId = str | int | None


class Request(msgspec.Struct):
    """One call. `is_notification`: it has no id, and must not be answered."""

    id: RequestId
    method: str
    params: JsonObject
    is_notification: bool = False
    may_hold_nul: bool = False
    """The body had an escaped U+0000 somewhere: look for it once the params are read."""


class Broken(msgspec.Struct):
    """A message that is no request, and what to answer."""

    id: RequestId
    error: AiosError


class Parsed(msgspec.Struct):
    """What one body holds; empty only for a batch of nothing but broken notifications."""

    messages: list[Request | Broken]
    is_batch: bool = False


_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_ABSENT: Any = object()


def parse(body: bytes, *, max_bytes: int, max_batch: int) -> Parsed:
    """Read a body: one message or a batch.

    Raises:
        ParseError: It is too long, or not the JSON this protocol accepts.
        InvalidRequest: It is an empty batch or one that is too long.
    """
    value = load(body, max_bytes=max_bytes)
    may_hold_nul = b"\\u0000" in body
    if type(value) is not list:
        one = _read(value, may_hold_nul)
        return Parsed([] if one is None else [one])
    items = cast("list[Any]", value)
    if not items:
        raise InvalidRequest("a batch must hold at least one message")
    if len(items) > max_batch:
        raise InvalidRequest(
            f"a batch may hold {max_batch} messages, this one has {len(items)}", max_batch_size=max_batch
        )
    messages = [read for item in items if (read := _read(item, may_hold_nul)) is not None]
    return Parsed(messages, is_batch=True)


def load(body: bytes, *, max_bytes: int) -> Any:
    """Decode JSON strictly.

    Raises:
        ParseError: It is too long, not UTF-8, nested too deep, or not strict JSON.
    """
    if len(body) > max_bytes:
        raise ParseError(f"a message may have {max_bytes} bytes, this one has {len(body)}", max_message_size=max_bytes)
    try:
        body.decode()
    except UnicodeDecodeError as broken:
        raise ParseError(f"the message is not UTF-8: byte {broken.start}") from None
    if body.count(b"[") + body.count(b"{") > DEPTH_MAX and _depth(body) > DEPTH_MAX:
        raise ParseError(f"the message is nested deeper than {DEPTH_MAX}")
    try:
        return _decode(body)
    except msgspec.DecodeError as broken:
        raise ParseError(str(broken)) from None


def answer(id: RequestId, result: Any) -> bytes:
    """Make the answer to a request that succeeded."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (_encode(id), _encode(result))


def failure(id: RequestId, error: AiosError) -> bytes:
    """Make the answer to a request that failed, at most `ERROR_BYTES_MAX` beside its id."""
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (_encode(id), error_bytes(error))


def batch(answers: list[bytes]) -> bytes:
    """Join the answers to a batch."""
    return b"[%b]" % b",".join(answers)


def request(id: RequestId, method: str, params: Any) -> bytes:
    """Make a request."""
    return b'{"jsonrpc":"2.0","id":%b,"method":%b,"params":%b}' % (_encode(id), _encode(method), _encode(params))


def error_bytes(error: AiosError) -> bytes:
    """Encode the error object; what makes it too long is shortened, and at last left out."""
    wire = error.to_wire()
    encoded = _encode(wire)
    if len(encoded) <= ERROR_BYTES_MAX:
        return encoded
    data: JsonObject = wire["data"]
    if isinstance(errors := data.get("errors"), list):
        data["errors"] = [_short(each, 300) for each in cast("list[Any]", errors)[:10]]
    encoded = _encode(
        {**wire, "message": _short(wire["message"], 500), "data": {k: _short(v, 1_000) for k, v in data.items()}}
    )
    if len(encoded) <= ERROR_BYTES_MAX:
        return encoded
    kept = {k: _short(data[k], 1_000) for k in ("error_id", "detail", "task_id", "trace_id") if k in data}
    return _encode({"code": wire["code"], "message": _short(wire["message"], 500), "data": kept})


def _read(value: Any, may_hold_nul: bool) -> Request | Broken | None:
    """Read one message; None for a notification that is broken and so cannot be answered."""
    if type(value) is not dict:
        return Broken(None, InvalidRequest("a message must be an object"))
    message = cast("JsonObject", value)
    own_id: Any = message.get("id", _ABSENT)
    method: Any = message.get("method")
    params: Any = message.get("params", {})
    if own_id is _ABSENT and type(method) is str:
        is_sound = message.get("jsonrpc") == "2.0" and type(params) is dict
        return Request(None, method, cast("JsonObject", params), True, may_hold_nul) if is_sound else None
    if not _is_id(own_id):
        return Broken(None, InvalidRequest("`id` must be a string, null, or an integer within ±2^53"))
    if message.get("jsonrpc") != "2.0":
        return Broken(own_id, InvalidRequest('`jsonrpc` must be "2.0"'))
    if type(method) is not str:
        return Broken(own_id, InvalidRequest("`method` must be a string"))
    if type(params) is not dict:
        error = "params must be an object; positional params are not supported"
        return Broken(own_id, InvalidParams(error, errors=[{"path": "", "message": error}]))
    return Request(own_id, method, cast("JsonObject", params), False, may_hold_nul)


def _is_id(id: Any) -> bool:
    # An exact type, because True is an int and an absent id is an object of our own.
    return id is None or type(id) is str or (type(id) is int and -ID_MAX <= id <= ID_MAX)


def _depth(body: bytes) -> int:
    """Say how deep brackets nest outside strings, in time that grows with the body's length and no faster."""
    brackets = _STRING.sub(b"", body).translate(_STEPS, _NOT_BRACKETS)
    return max(accumulate(memoryview(brackets).cast("b")), default=0)


def _short(value: Any, most: int) -> Any:
    """Cut text to `most` characters; a larger value of another kind becomes its beginning as text."""
    if isinstance(value, str):
        return value if len(value) <= most else f"{value[:most]}…"
    encoded = _encode(value)
    return value if len(encoded) <= most else f"{encoded[:most].decode('utf-8', 'ignore')}…"
