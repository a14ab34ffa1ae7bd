"""Adapters, their capabilities, and schemas that lead nowhere."""

from __future__ import annotations

import time
from typing import Any

import pytest

from aios.adapter import Capability
from aios.engine.registry import ERRORS_MAX, Registry
from aios.errors import CapabilityNotFound, NotFound, ValidationFailed
from tests.unit.engine.house import ECHO, SLOW, DemoAdapter


def capability(id: str, schema: Any = None, *, adapter_id: str = "other", category: str = "") -> Capability:
    return Capability(id=id, name=id, adapter_id=adapter_id, category=category, input=schema or {})


def other(*capabilities: Capability) -> DemoAdapter:
    return DemoAdapter(*capabilities, adapter_id="other")


@pytest.fixture
def registry() -> Registry:
    made = Registry()
    made.add(DemoAdapter())
    return made


def test_what_was_added_is_found_by_id_alias_namespace_and_category(registry: Registry) -> None:
    registry.add(other(capability("system.time", category="clock")))
    assert registry.capability("compat.demo.echo") == registry.capability("app.demo.echo") == ECHO
    assert [each.id for each in registry.capabilities()] == [ECHO.id, SLOW.id, "system.time"]
    assert registry.capabilities(namespace="app") == registry.capabilities(namespace="compat") == [ECHO, SLOW]
    assert registry.capabilities(namespace="compat", category="demo") == [ECHO]
    assert [each.adapter_id for each in registry.adapters()] == ["demo", "other"]


def test_what_was_removed_is_offered_no_longer(registry: Registry) -> None:
    registry.remove("demo")
    with pytest.raises(CapabilityNotFound):
        registry.capability(ECHO.id)
    with pytest.raises(NotFound):
        registry.adapter("demo")
    registry.add(DemoAdapter())


@pytest.mark.parametrize(
    "wrong",
    [
        DemoAdapter(),
        DemoAdapter(adapter_id="de mo"),
        other(capability(ECHO.id)),
        other(capability("app.demo.echo")),
        other(capability("a.b"), capability("a.b")),
        other(capability("a b")),
        other(capability("")),
        other(capability("a.b", adapter_id="else")),
        other(capability("a.b", {"type": "bogus"})),
        other(capability("a.b", {"$ref": "http://127.0.0.1:1/schema"})),
        other(capability("a.b", {"$ref": "file:///etc/passwd"})),
        other(capability("a.b", {"pattern": "("})),
    ],
)
def test_an_adapter_that_does_not_fit_is_refused_whole(registry: Registry, wrong: DemoAdapter) -> None:
    with pytest.raises(ValidationFailed):
        registry.add(wrong)
    assert registry.capabilities() == [ECHO, SLOW]
    assert len(registry.adapters()) == 1


def test_errors_name_their_place_and_are_not_too_many(registry: Registry) -> None:
    schema = {"properties": {"a/b": {"items": {"type": "integer"}}}}
    found = registry.check(schema, {"a/b": ["x"] * 100}, root="/input")
    assert len(found) == ERRORS_MAX
    assert found[0] == {"path": "/input/a~1b/0", "message": '"x" is not of type "integer"'}
    assert registry.check(schema, {"a/b": [1]}) == []


def test_a_pattern_cannot_be_made_to_run_for_long(registry: Registry) -> None:
    started = time.monotonic()
    for pattern in ("^(a+)+$", "^(?=(a+)+$)(a+)+$", r"^(a|a)*\1$"):
        assert registry.check({"pattern": pattern}, "a" * 20_000 + "b")
    assert time.monotonic() - started < 5


def test_a_huge_value_is_not_repeated_in_its_error(registry: Registry) -> None:
    (error,) = registry.check({"type": "integer"}, "x" * 100_000)
    assert len(error["message"]) <= 300
