"""What hints, defaults and docstrings say of a function's arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

import jsonschema_rs
import msgspec
import pytest

from aios.adapters.signatures import Signature
from aios.errors import ValidationFailed

if TYPE_CHECKING:
    from aios.adapter import Context


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Options(TypedDict, total=False):
    deep: bool


@dataclass
class Point:
    x: int
    y: int = 0


class Range(msgspec.Struct):
    low: float
    high: float | None = None


def schema_of(function: Callable[..., Any]) -> dict[str, Any]:
    return Signature(function, subject="test.function").schema


def bind(function: Callable[..., Any], **arguments: Any) -> dict[str, Any]:
    signature = Signature(function, subject="test.function")
    jsonschema_rs.validator_for(signature.schema).validate(arguments)
    return signature.bind(arguments)


def test_the_example_of_the_design_gives_its_schema() -> None:
    async def compare(ctx: Context, query: str, sites: list[str], url: str = "https://shop.example/") -> dict[str, Any]:
        """Compare the price of a product on several sites."""
        return {}

    signature = Signature(compare, subject="compat.shop.compare")
    assert signature.context == "ctx"
    assert signature.documentation.description == "Compare the price of a product on several sites."
    assert signature.schema == {
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "sites": {"type": "array", "items": {"type": "string"}},
            "url": {"type": "string", "default": "https://shop.example/"},
        },
        "required": ["query", "sites"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (list, {"type": "array"}),
        (dict, {"type": "object"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Literal["a", "b"], {"enum": ["a", "b"]}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (Annotated[int, msgspec.Meta(ge=1, description="How many.")], {
            "type": "integer", "minimum": 1, "description": "How many.",
        }),
        (Any, {}),
    ],
)  # fmt: skip
def test_each_plain_hint_has_its_schema(hint: Any, schema: dict[str, Any]) -> None:
    def function(value: Any) -> None: ...

    function.__annotations__["value"] = hint
    assert schema_of(function)["properties"]["value"] == schema


def test_json_becomes_what_the_hints_say() -> None:
    def function(
        color: Color, at: Point, within: Range, options: Options, limits: list[Range], scale: float
    ) -> None: ...

    bound = bind(
        function, color="red", at={"x": 1}, within={"low": 1}, options={"deep": True}, limits=[{"low": 0.5}], scale=2
    )
    assert bound == {
        "color": Color.RED,
        "at": Point(1),
        "within": Range(1.0),
        "options": {"deep": True},
        "limits": [Range(0.5)],
        "scale": 2.0,
    }
    assert isinstance(bound["scale"], float)


def test_a_whole_number_is_an_integer_however_it_was_written() -> None:
    def function(count: int, sizes: list[int]) -> None: ...

    assert bind(function, count=2.0, sizes=[1.0, 3]) == {"count": 2, "sizes": [1, 3]}


def test_what_is_not_given_is_left_to_the_function() -> None:
    def function(a: int, b: list[int] = [1, 2], c: Color = Color.BLUE, d: Any = object) -> None: ...  # noqa: B006

    assert bind(function, a=1) == {"a": 1}
    properties = schema_of(function)["properties"]
    assert properties["b"]["default"] == [1, 2]
    assert properties["c"]["default"] == "blue"
    assert "default" not in properties["d"]
    assert schema_of(function)["required"] == ["a"]


def test_what_a_function_is_given_is_its_own() -> None:
    def function(anything: Any) -> None: ...

    given = {"list": [1]}
    bound = bind(function, anything=given)
    bound["anything"]["list"].append(2)
    assert given == {"list": [1]}


def test_unknown_arguments_are_refused_unless_the_function_takes_any() -> None:
    def strict(a: int) -> None: ...
    def loose(a: int, **more: Any) -> None: ...
    def typed(a: int, **more: int) -> None: ...

    assert schema_of(strict)["additionalProperties"] is False
    assert schema_of(loose)["additionalProperties"] is True
    assert schema_of(typed)["additionalProperties"] == {"type": "integer"}
    assert bind(loose, a=1, b="x") == {"a": 1, "b": "x"}
    assert bind(typed, a=1, b=2) == {"a": 1, "b": 2}


def test_arguments_that_do_not_fit_say_where() -> None:
    def function(sites: list[str]) -> None: ...

    with pytest.raises(ValidationFailed) as raised:
        Signature(function, subject="test.function").bind({"sites": ["a", 1]})
    assert raised.value.data["errors"] == [{"path": "/sites/1", "message": "Expected `str`, got `int`"}]


def test_the_docstring_describes_the_function_and_its_arguments() -> None:
    def function(query: str, sites: list[str], limit: int = 3) -> None:
        """Look for a product
        on several sites.

        Slowly.

        Args:
            query: What to look for,
                in any language.
            sites (list[str]): Where.
            limit: How many.

        Returns:
            Nothing.
        """

    signature = Signature(function, subject="test.function")
    assert signature.documentation.description == "Look for a product on several sites.\nSlowly."
    described = {name: member["description"] for name, member in signature.schema["properties"].items()}
    assert described == {"query": "What to look for, in any language.", "sites": "Where.", "limit": "How many."}


def test_a_parameter_called_ctx_without_a_hint_is_the_context() -> None:
    def function(ctx: Any, a: int) -> None: ...

    del function.__annotations__["ctx"]
    signature = Signature(function, subject="test.function")
    assert signature.context == "ctx"
    assert list(signature.schema["properties"]) == ["a"]


def bad_star(*values: int) -> None: ...
def bad_position(value: int, /) -> None: ...
def bad_hint(value: complex) -> None: ...
def bad_union(value: Point | Range) -> None: ...
def bad_name(value: int) -> None: ...


bad_name.__annotations__["value"] = "Nowhere"


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (bad_star, r"`\*values: 'int'` cannot be given by name"),
        (bad_position, r"cannot be given by name"),
        (bad_hint, r"parameter `value` has a hint that JSON cannot express: .*complex"),
        (bad_union, r"parameter `value` has a hint that JSON cannot express"),
        (bad_name, r"its hints cannot be read: name 'Nowhere'"),
    ],
)
def test_what_cannot_be_offered_is_refused_with_a_sentence(function: Callable[..., Any], sentence: str) -> None:
    with pytest.raises(ValidationFailed, match=f"test.function: .*{sentence}"):
        Signature(function, subject="test.function")
