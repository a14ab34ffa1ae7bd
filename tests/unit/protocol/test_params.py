"""How params are read: types, ranges, and where the error says it was."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aios.errors import InvalidParams
from aios.model import Backoff, JsonObject, Priority
from aios.protocol.capability import CapabilityInvoke
from aios.protocol.examples import EXAMPLES
from aios.protocol.handshake import Authentication, Initialize
from aios.protocol.methods import METHODS
from aios.protocol.params import DURATION_MAX_MS, WAIT_MAX_MS, Params, decode, refuse_nul
from aios.protocol.subscriptions import TaskSubscribe
from aios.protocol.task import (
    CreateOptions,
    HistoryFilter,
    TaskAuthenticate,
    TaskCreate,
    TaskHistory,
    TaskInput,
    TaskList,
)

A_CAPABILITY: JsonObject = {"capability_id": "compat.shop.compare"}


def paths(kind: type[Params[Any]], params: JsonObject) -> list[str]:
    """Say where the params are refused."""
    with pytest.raises(InvalidParams) as refused:
        decode(kind, params)
    return [each["path"] for each in refused.value.data["errors"]]


def options(**members: Any) -> JsonObject:
    return {**A_CAPABILITY, "options": members}


def test_defaults_are_those_of_the_protocol() -> None:
    assert decode(TaskCreate, A_CAPABILITY) == TaskCreate(
        capability_id="compat.shop.compare",
        arguments={},
        metadata={},
        options=CreateOptions(
            is_async=False,
            wait_ms=60_000,
            priority=Priority.NORMAL,
            timeout_ms=None,
            retry=None,
        ),
    )
    listed = decode(TaskList, {})
    assert (listed.pagination.limit, listed.pagination.offset) == (50, 0)
    assert (listed.sort.field, listed.sort.order) == ("created_at", "desc")
    assert decode(TaskSubscribe, {"task_id": "t"}).from_ == "now"


def test_retry_is_one_attempt_with_a_fixed_delay_unless_it_says_otherwise() -> None:
    retry = decode(TaskCreate, options(retry={})).options.retry
    assert retry is not None
    assert (retry.max_attempts, retry.delay_ms, retry.backoff, retry.max_delay_ms) == (1, 0, Backoff.FIXED, None)


def test_unknown_members_are_ignored_at_every_level() -> None:
    read = decode(TaskCreate, {**options(new=1, retry={"new": 1}), "new": {"deep": []}})
    assert read.capability_id == "compat.shop.compare"


WRONG_NUMBERS: list[Any] = [True, False, 1.0, 1.5, "1", "", None, [], {}, -1, -(2**63), 2**63, 2**53]


@pytest.mark.parametrize("value", [*(each for each in WRONG_NUMBERS if each is not None), 0, DURATION_MAX_MS + 1])
@pytest.mark.parametrize("name", ["timeout_ms", "expires_in_ms"])
def test_a_duration_is_a_whole_number_from_1_ms_to_a_year(name: str, value: Any) -> None:
    assert paths(TaskCreate, options(**{name: value})) == [f"/options/{name}"]


@pytest.mark.parametrize("value", [1, 120_000, DURATION_MAX_MS])
def test_a_sound_duration_is_read(value: int) -> None:
    assert decode(TaskCreate, options(timeout_ms=value)).options.timeout_ms == value


@pytest.mark.parametrize("value", WRONG_NUMBERS)
def test_a_limit_is_a_whole_number_from_1_to_1000(value: Any) -> None:
    assert paths(TaskList, {"pagination": {"limit": value}}) == ["/pagination/limit"]


@pytest.mark.parametrize(("value", "is_sound"), [(0, False), (1, True), (1_000, True), (1_001, False)])
def test_the_edges_of_a_limit(value: int, is_sound: bool) -> None:
    if is_sound:
        assert decode(TaskList, {"pagination": {"limit": value}}).pagination.limit == value
    else:
        assert paths(TaskList, {"pagination": {"limit": value}}) == ["/pagination/limit"]


@pytest.mark.parametrize(
    ("params", "path"),
    [
        (options(wait_ms=WAIT_MAX_MS + 1), "/options/wait_ms"),
        (options(wait_ms=-1), "/options/wait_ms"),
        (options(delay_ms=-1), "/options/delay_ms"),
        (options(priority="urgently"), "/options/priority"),
        (options(priority=1), "/options/priority"),
        (options(**{"async": 1}), "/options/async"),
        (options(retry={"max_attempts": 0}), "/options/retry/max_attempts"),
        (options(retry={"max_attempts": 101}), "/options/retry/max_attempts"),
        (options(retry={"max_attempts": True}), "/options/retry/max_attempts"),
        (options(retry={"backoff": "random"}), "/options/retry/backoff"),
        (options(retry=3), "/options/retry"),
        (options(idempotency_key=""), "/options/idempotency_key"),
        (options(idempotency_key="k" * 256), "/options/idempotency_key"),
        (options(run_at="2026-01-05T10:00:00"), "/options/run_at"),
        (options(run_at=5), "/options/run_at"),
        ({"capability_id": "a", "options": []}, "/options"),
        ({"capability_id": "a", "options": None}, "/options"),
        ({"capability_id": "a", "arguments": []}, "/arguments"),
        ({"capability_id": "a", "metadata": "x"}, "/metadata"),
        ({}, "/capability_id"),
        ({"capability_id": None}, "/capability_id"),
    ],
)
def test_a_wrong_member_is_refused_with_its_json_pointer(params: JsonObject, path: str) -> None:
    assert paths(TaskCreate, params) == [path]


@pytest.mark.parametrize("status", ["working", ["running"], [1], ["working"] * 65])
def test_a_status_filter_is_a_short_list_of_the_eight_words(status: Any) -> None:
    assert paths(TaskList, {"filter": {"status": status}})[0].startswith("/filter/status")


def test_an_item_of_a_list_is_named_by_its_place() -> None:
    assert paths(TaskList, {"filter": {"status": ["working", "running"]}}) == ["/filter/status/1"]


@pytest.mark.parametrize(
    "sort", [{"field": "task_id"}, {"field": "created_at; drop table tasks"}, {"order": "DESC"}, {"order": "random()"}]
)
def test_only_the_named_fields_and_orders_sort(sort: JsonObject) -> None:
    assert paths(TaskList, {"sort": sort}) == [f"/sort/{next(iter(sort))}"]


@pytest.mark.parametrize("capability_id", ["a", "system.desktop.set_wallpaper", "a.b_1.2", "x" * 128])
def test_a_capability_id_is_lower_case_words_joined_by_dots(capability_id: str) -> None:
    assert decode(TaskCreate, {"capability_id": capability_id}).capability_id == capability_id
    assert decode(CapabilityInvoke, {"capability_id": capability_id}).capability_id == capability_id


@pytest.mark.parametrize(
    "capability_id",
    ["", ".", "a.", ".a", "a..b", "A.b", "a-b", "a b", "a\n", "a/b", "../a", "ａ.b", "а.b", "a\u200b", "é", "x" * 129],
)
def test_anything_else_is_no_capability_id(capability_id: str) -> None:
    assert paths(TaskCreate, {"capability_id": capability_id}) == ["/capability_id"]


@pytest.mark.parametrize(
    "instant", ["2026-01-05T00:00:00Z", "2026-01-05T08:00:00+08:00", "2026-01-04T19:00:00.000-05:00"]
)
def test_an_instant_is_read_in_any_zone(instant: str) -> None:
    asked = decode(TaskHistory, {"filter": {"start_time": instant}}).filter
    assert isinstance(asked, HistoryFilter)
    assert asked.start_time == datetime(2026, 1, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    "instant",
    [
        "2026-01-05T00:00:00",
        "2026-02-30T00:00:00Z",
        "2026-01-05",
        "2026-01-05T23:59:60Z",
        "today",
        "",
        0,
        "10000-01-01T00:00:00Z",
    ],
)
def test_anything_else_is_no_instant(instant: Any) -> None:
    assert paths(TaskHistory, {"filter": {"start_time": instant}}) == ["/filter/start_time"]


def test_events_are_named_by_their_kind() -> None:
    assert paths(TaskSubscribe, {"task_id": "t", "events": ["status", "completed"]}) == ["/events/1"]


@pytest.mark.parametrize("value", [None, 0, "x", [], {"a": 1}])
def test_an_input_is_any_json_but_must_be_there(value: Any) -> None:
    assert decode(TaskInput, {"task_id": "t", "input": value}).input == value
    assert paths(TaskInput, {"task_id": "t"}) == ["/input"]


@pytest.mark.parametrize(
    ("params", "path"),
    [
        ({"capability_id": "a", "arguments": {"q": "x\0"}}, "/arguments/q"),
        ({"capability_id": "a", "arguments": {"q": [{"r/~": "\0"}]}}, "/arguments/q/0/r~1~0"),
        ({"capability_id": "a", "arguments": {"\0": 1}}, "/arguments"),
        ({"capability_id": "a", "metadata": {"tags": ["ok", "\0"]}}, "/metadata/tags/1"),
    ],
)
def test_a_nul_is_refused_where_it_stands(params: JsonObject, path: str) -> None:
    with pytest.raises(InvalidParams) as refused:
        refuse_nul(decode(TaskCreate, params))
    assert [each["path"] for each in refused.value.data["errors"]] == [path]


def test_a_nul_in_a_member_that_is_ignored_is_ignored() -> None:
    refuse_nul(decode(TaskCreate, {"capability_id": "a", "unknown": "\0"}))


def test_secrets_do_not_show_in_what_is_logged() -> None:
    canary = "canary-7f3a"
    asked = decode(Initialize, {"protocol_version": "0.3.0", "authentication": {"type": "bearer", "token": canary}})
    assert canary not in repr(asked)
    assert canary not in repr(Authentication(token=canary))
    assert canary not in repr(TaskAuthenticate(task_id="t", auth_response={"type": "api_key", "api_key": canary}))


@pytest.mark.parametrize("method", [each for each in METHODS if each != "rpc.discover"])
def test_every_method_has_an_example_that_its_types_can_read(method: str) -> None:
    params, result = EXAMPLES[method]
    read = decode(METHODS[method], params)
    assert decode(METHODS[method], msgspec.to_builtins(read)) == read
    msgspec.convert(result, METHODS[method].result)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=8), children, max_size=3),
    max_leaves=10,
)


@given(
    st.sampled_from(sorted(METHODS)),
    st.dictionaries(
        st.sampled_from(
            [
                "capability_id",
                "arguments",
                "options",
                "metadata",
                "task_id",
                "input",
                "filter",
                "pagination",
                "sort",
                "from",
            ]
        ),
        json_values | st.dictionaries(st.sampled_from(["async", "retry", "limit", "status", "run_at"]), json_values),
    ),
)
def test_any_params_are_read_or_refused_with_a_place(method: str, params: JsonObject) -> None:
    try:
        refuse_nul(decode(METHODS[method], params))
    except InvalidParams as refused:
        (error,) = refused.data["errors"]
        assert error["message"]
        assert error["path"] == "" or error["path"].startswith("/")
