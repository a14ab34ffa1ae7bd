"""How bodies are read and answers written."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aios.errors import (
    AiosError,
    InvalidParams,
    InvalidRequest,
    ParseError,
    TaskNotFound,
    ValidationFailed,
)
from aios.protocol import jsonrpc
from aios.protocol.jsonrpc import Broken, Parsed, Request

MAX_BYTES = 200_000
MAX_BATCH = 3


def parse(body: bytes | str) -> Parsed:
    return jsonrpc.parse(body.encode() if isinstance(body, str) else body, max_bytes=MAX_BYTES, max_batch=MAX_BATCH)


def single(body: bytes | str) -> Request | Broken:
    parsed = parse(body)
    assert not parsed.is_batch
    return parsed.messages[0]


def call(**members: Any) -> str:
    return msgspec.json.encode({"jsonrpc": "2.0", "method": "m", **members}).decode()


@pytest.mark.parametrize("id", ["", "1", "中", 0, 1, -1, 2**53, -(2**53), None])
def test_an_id_is_echoed_as_it_came(id: str | int | None) -> None:
    request = single(call(id=id))
    assert isinstance(request, Request)
    assert (request.id, type(request.id), request.is_notification) == (id, type(id), False)
    assert msgspec.json.decode(jsonrpc.answer(request.id, {}))["id"] == id


@pytest.mark.parametrize("id", ["true", "false", "1.0", "1.5", "1e3", "{}", "[]", str(2**53 + 1), str(-(2**64))])
def test_an_id_of_another_type_is_refused_with_id_null(id: str) -> None:
    broken = single('{"jsonrpc":"2.0","method":"m","id":' + id + "}")
    assert isinstance(broken, Broken)
    assert broken.id is None
    assert isinstance(broken.error, InvalidRequest)


@pytest.mark.parametrize("jsonrpc", ["", '"jsonrpc":"1.0",', '"jsonrpc":2.0,', '"jsonrpc":null,'])
def test_another_jsonrpc_version_is_refused_with_the_id(jsonrpc: str) -> None:
    broken = single("{" + jsonrpc + '"method":"m","id":7}')
    assert isinstance(broken, Broken)
    assert broken.id == 7
    assert isinstance(broken.error, InvalidRequest)


@pytest.mark.parametrize("params", ["[]", "[1]", '"x"', "1", "null", "true"])
def test_params_that_are_no_object_are_invalid_params(params: str) -> None:
    broken = single('{"jsonrpc":"2.0","method":"m","id":7,"params":' + params + "}")
    assert isinstance(broken, Broken)
    assert isinstance(broken.error, InvalidParams)
    assert broken.id == 7


@pytest.mark.parametrize(
    "body", ['{"jsonrpc":"2.0","method":"m","params":[]}', '{"method":"m"}', '{"jsonrpc":"1.0","method":"m"}']
)
def test_a_broken_notification_is_not_answered(body: str) -> None:
    assert parse(body).messages == []


def test_a_message_without_an_id_is_a_notification() -> None:
    request = single(call())
    assert isinstance(request, Request)
    assert request.is_notification


@pytest.mark.parametrize("body", ["1", "true", "null", '"x"', "{}", '{"foo":"boo"}', '{"id":1,"jsonrpc":"2.0"}'])
def test_what_is_no_request_is_an_invalid_request(body: str) -> None:
    broken = single(body)
    assert isinstance(broken, Broken)
    assert isinstance(broken.error, InvalidRequest)


def test_an_empty_batch_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        parse("[]")


def test_a_batch_may_have_so_many_messages_and_no_more() -> None:
    assert len(parse("[" + ",".join([call(id=1)] * MAX_BATCH) + "]").messages) == MAX_BATCH
    with pytest.raises(InvalidRequest) as refused:
        parse("[" + ",".join([call(id=1)] * (MAX_BATCH + 1)) + "]")
    assert refused.value.data == {"max_batch_size": MAX_BATCH}


def test_one_broken_message_leaves_the_rest_of_the_batch_alone() -> None:
    parsed = parse(f"[1, {call(id='a')}, [[]]]")
    assert parsed.is_batch
    assert [type(each) for each in parsed.messages] == [Broken, Request, Broken]


def test_of_a_repeated_key_the_last_one_counts() -> None:
    request = single('{"jsonrpc":"2.0","id":1,"id":2,"method":"a","method":"b","params":{"x":1,"x":2}}')
    assert isinstance(request, Request)
    assert (request.id, request.method, request.params) == (2, "b", {"x": 2})


@pytest.mark.parametrize(("size", "is_read"), [(MAX_BYTES, True), (MAX_BYTES + 1, False)])
def test_a_body_may_have_so_many_bytes_and_no_more(size: int, is_read: bool) -> None:
    body = call(id=1) + " " * (size - len(call(id=1)))
    if is_read:
        assert isinstance(single(body), Request)
    else:
        with pytest.raises(ParseError):
            parse(body)


def nested(depth: int, opening: str, closing: str) -> str:
    return opening * (depth - 2) + "1" + closing * (depth - 2)


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_nesting_goes_to_64_and_no_deeper(opening: str, closing: str) -> None:
    head = '{"jsonrpc":"2.0","id":1,"method":"m","params":{"x":'
    assert isinstance(single(head + nested(64, opening, closing) + "}}"), Request)
    for depth in (65, 1_000, 5_000, 30_000):
        with pytest.raises(ParseError, match="nested"):
            parse(head + nested(depth, opening, closing) + "}}")


@pytest.mark.parametrize("text", ["[" * 500, '\\"' + "[{" * 500, "\\\\" * 500 + "[" * 500])
def test_brackets_inside_strings_do_not_count(text: str) -> None:
    request = single('{"jsonrpc":"2.0","id":1,"method":"m","params":{"x":"' + text + '"}}')
    assert isinstance(request, Request)


def test_many_brackets_side_by_side_are_not_deep() -> None:
    assert isinstance(
        single('{"jsonrpc":"2.0","id":1,"method":"m","params":{"x":[' + "[],{}," * 1_000 + "[]]}}"), Request
    )


def test_counting_brackets_takes_no_longer_than_the_body_is_long() -> None:
    """An unterminated string of escaped quotes would cost its square, were it looked at again from every quote."""
    for body in (b'{"a":"' + b"[" * 100 + b'\\"' * 90_000, b'"' * 100_001 + b"[" * 90_000, b"[" * 100 + b'"\\'):
        with pytest.raises(ParseError):
            parse(body)


def test_an_escaped_nul_is_noticed_wherever_it_stands() -> None:
    found, clean = single(call(id=1, params={"x": "\0"})), single(call(id=1, params={"x": "0"}))
    assert isinstance(found, Request)
    assert isinstance(clean, Request)
    assert (found.may_hold_nul, clean.may_hold_nul) == (True, False)


def error_of(body: bytes) -> dict[str, Any]:
    return msgspec.json.decode(body)["error"]


def test_a_failure_has_code_message_and_error_id() -> None:
    error = error_of(jsonrpc.failure("x", TaskNotFound("no task t", task_id="t")))
    assert error == {
        "code": -32106,
        "message": "Task not found",
        "data": {"task_id": "t", "error_id": "AIOS-TASK-NOT-FOUND", "detail": "no task t"},
    }


@pytest.mark.parametrize(
    "error",
    [
        ValidationFailed("x" * 50_000, errors=[{"path": "/a", "message": "m" * 5_000}] * 50),
        ValidationFailed("无" * 50_000, **{f"fact{number}": "中" * 900 for number in range(50)}),
        ValidationFailed("short", blob={"deep": ["x" * 1_000] * 1_000}),
    ],
)
def test_an_error_has_at_most_8_kb_and_keeps_its_id(error: AiosError) -> None:
    body = jsonrpc.error_bytes(error)
    assert len(body) <= 8 * 1024
    assert msgspec.json.decode(body)["data"]["error_id"] == "AIOS-VALIDATION-FAILED"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(), children, max_size=4),
    max_leaves=20,
)


@given(st.binary(max_size=300))
def test_any_bytes_give_messages_or_one_of_two_errors(body: bytes) -> None:
    try:
        parsed = parse(body)
    except (ParseError, InvalidRequest):
        return
    assert all(isinstance(each, Request | Broken) for each in parsed.messages)


@given(json_values)
def test_any_json_gives_messages_or_one_of_two_errors(value: Any) -> None:
    try:
        parsed = parse(msgspec.json.encode(value))
    except (ParseError, InvalidRequest):
        return
    assert all(isinstance(each, Request | Broken) for each in parsed.messages)


@given(
    st.fixed_dictionaries({}, optional=dict.fromkeys(("jsonrpc", "id", "method", "params", "extra"), json_values)),
    st.sampled_from(["2.0", "1.0"]),
)
def test_anything_shaped_like_a_message_is_read_or_refused(message: dict[str, Any], version: str) -> None:
    for read in parse(msgspec.json.encode({"jsonrpc": version, **message})).messages:
        if isinstance(read, Broken):
            assert error_of(jsonrpc.failure(read.id, read.error))["code"] in {-32600, -32602}


@given(json_values)
def test_what_is_sent_in_params_arrives(value: Any) -> None:
    request = single(jsonrpc.request(1, "m", {"x": value}))
    assert isinstance(request, Request)
    assert request.params == {"x": value}
