from typing import Any

import pytest

from aios.errors import AlreadyInitialized, NotInitialized, VersionMismatch
from aios.model import Limits
from aios.rules.handshake import (
    OPEN_METHODS,
    VERSIONS,
    check_order,
    choose_capabilities,
    choose_extensions,
    choose_version,
)

OURS = {"streaming": True, "batch": True, "notifications": False}
URN = "urn:aios:ext:priority:1.0"


@pytest.mark.parametrize(
    ("requested", "supported", "chosen"),
    [
        ("0.3.0", [], "0.3.0"),
        ("0.2.0", [], "0.2.0"),
        ("0.2.0", ["0.3.0"], "0.3.0"),
        ("0.3.0", ["0.2.0"], "0.3.0"),
        ("9.0.0", ["0.2.0"], "0.2.0"),
        ("9.0.0", ["8.0.0", "0.2.0", "0.3.0"], "0.3.0"),
    ],
)
def test_the_newest_version_that_both_speak_is_chosen(requested: str, supported: list[str], chosen: str) -> None:
    assert choose_version(requested, supported) == chosen


@pytest.mark.parametrize("requested", ["9.0.0", "0.3", "", "0.3.0 "])
def test_without_a_common_version_the_client_is_told_which_there_are(requested: str) -> None:
    with pytest.raises(VersionMismatch) as refused:
        choose_version(requested, ["0.1.0"])
    wire = refused.value.to_wire()
    assert wire["code"] == -32009
    assert wire["data"]["requested_version"] == requested
    assert wire["data"]["supported_versions"] == ["0.3.0", "0.2.0"]
    assert wire["data"]["latest_version"] == VERSIONS[0]


def test_extensions_are_those_that_both_sides_have() -> None:
    assert choose_extensions(supported=["urn:b", "urn:x"], required=[URN], ours=[URN, "urn:b", "urn:c"]) == [
        URN,
        "urn:b",
    ]
    assert choose_extensions(supported=[], required=[], ours=[URN]) == []


def test_an_extension_that_the_client_requires_and_we_lack_is_refused() -> None:
    with pytest.raises(VersionMismatch) as refused:
        choose_extensions(supported=[], required=[URN, "urn:x"], ours=[URN])
    data = refused.value.to_wire()["data"]
    assert (data["required_extension"], data["supported_extensions"]) == ("urn:x", [URN])


@pytest.mark.parametrize(
    ("theirs", "agreed"),
    [
        (
            {"streaming": True, "batch": True, "notifications": True},
            {"streaming": True, "batch": True, "notifications": False},
        ),
        ({"streaming": False, "teleport": True}, {"streaming": False}),
        ({"streaming": "yes"}, {}),
        ({}, {}),
    ],
)
def test_capabilities_are_what_both_sides_can_do(theirs: dict[str, Any], agreed: dict[str, bool]) -> None:
    found = choose_capabilities(theirs, ours=OURS, limits=Limits())
    assert {name: value for name, value in found.items() if name != "limits"} == agreed


def test_a_limit_is_the_smaller_one_of_both_sides() -> None:
    limits = Limits(
        max_concurrent_tasks=10, max_tasks_per_tool=3, max_queue_size=100, max_batch_size=7, max_message_size=99
    )
    asked = {
        "max_concurrent_tasks": 4,
        "max_tasks_per_tool": 30,
        "max_message_size": 1,
        "max_batch_size": 2.5,
        "max_speed": 1,
    }
    assert choose_capabilities({"limits": asked}, ours=OURS, limits=limits)["limits"] == {
        "max_concurrent_tasks": 4,
        "max_tasks_per_tool": 3,
        "max_queue_size": 100,
        "max_batch_size": 2,
        "max_message_size": 1,
    }


@pytest.mark.parametrize("nonsense", [0, -1, True, "5", None, 1e400, [1]])
def test_a_limit_that_is_not_a_positive_number_limits_nothing(nonsense: Any) -> None:
    agreed = choose_capabilities({"limits": {"max_batch_size": nonsense}}, ours=OURS, limits=Limits())
    assert agreed["limits"]["max_batch_size"] == Limits().max_batch_size
    assert choose_capabilities({"limits": nonsense}, ours=OURS, limits=Limits())["limits"] == agreed["limits"]


@pytest.mark.parametrize("method", sorted(OPEN_METHODS))
def test_some_methods_need_no_handshake(method: str) -> None:
    check_order(method, is_initialized=False)


def test_everything_else_waits_for_the_handshake_and_that_comes_once() -> None:
    with pytest.raises(NotInitialized):
        check_order("aios/task.create", is_initialized=False)
    with pytest.raises(AlreadyInitialized):
        check_order("aios/initialize", is_initialized=True)
    check_order("aios/task.create", is_initialized=True)
    check_order("aios/ping", is_initialized=True)
