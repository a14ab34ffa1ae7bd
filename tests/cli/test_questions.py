from typing import Any

import pytest

from aios.cli.arguments import Unfit
from aios.cli.questions import SKIPPED, Choose, Confirm, Form, Line, Member, answer_of, instruction, prompt_of

COLORS = ["red", "green", {"id": "b", "label": "Blue (dark)", "value": "blue"}, {"value": 4}, None]
MANY = {"type": "array", "items": {"type": "string"}}


def test_options_are_numbered_and_answered_by_number_label_or_value() -> None:
    prompt = prompt_of(COLORS, None)
    assert isinstance(prompt, Choose)
    assert prompt.labels == ["red", "green", "Blue (dark)", "4", "null"]
    assert instruction(prompt) == "1-5"
    answers = {"1": "red", " 3 ": "b", "green": "green", "Blue (dark)": "b", "b": "b", "4": 4, "5": None}
    assert {typed: answer_of(prompt, typed) for typed in answers} == answers


@pytest.mark.parametrize("typed", ["", "0", "6", "-1", "purple", "1,2", "99999999999"])
def test_what_is_no_option_is_asked_again(typed: str) -> None:
    with pytest.raises(Unfit):
        answer_of(prompt_of(COLORS[:3], None), typed)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("1", ["x"]),
        ("3,1", ["x", "z"]),
        ("1-3", ["x", "y", "z"]),
        ("1 2-2, 3", ["x", "y", "z"]),
        ("2,2", ["y"]),
        ("all", ["x", "y", "z"]),
        ("none", []),
        ("", []),
    ],
)
def test_a_list_is_chosen_by_numbers_and_ranges(typed: str, answer: list[str]) -> None:
    prompt = prompt_of(["x", "y", "z"], MANY)
    assert isinstance(prompt, Choose)
    assert answer_of(prompt, typed) == answer


@pytest.mark.parametrize("typed", ["4", "0-2", "3-1", "x", "1-", "1-9999999999"])
def test_a_choice_out_of_range_is_asked_again(typed: str) -> None:
    with pytest.raises(Unfit, match="1 to 3"):
        answer_of(prompt_of(["x", "y", "z"], MANY), typed)  # type: ignore[arg-type]


def test_fewer_than_the_schema_wants_is_too_few() -> None:
    prompt = prompt_of(["x", "y"], {**MANY, "minItems": 1})
    assert isinstance(prompt, Choose)
    for typed in ("", "none"):
        with pytest.raises(Unfit):
            answer_of(prompt, typed)


@pytest.mark.parametrize(
    ("schema", "typed", "answer"),
    [
        ({"type": "boolean"}, "y", True),
        ({"type": "boolean", "default": False}, "", False),
        ({"type": "integer"}, "7", 7),
        ({"type": "integer", "default": 3}, "", 3),
        ({"type": "number"}, "7.5", 7.5),
        ({"type": "string"}, "  kept  ", "  kept  "),
        ({"type": "string"}, "", ""),
        (None, "plain", "plain"),
        ({}, "5", "5"),
        ({"enum": ["a", "b"]}, "2", "b"),
        ({"type": "array", "items": {"type": "integer"}}, "1, 2", [1, 2]),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, "1,2", ["a", "b"]),
        ({"type": "array", "items": {"type": "object"}}, '[{"a": 1}]', [{"a": 1}]),
        ({"type": "object"}, '{"a": 1}', {"a": 1}),
        ({"$ref": "#/$defs/N", "$defs": {"N": {"type": "integer"}}}, "5", 5),
    ],
)
def test_an_answer_has_the_type_the_schema_asks_for(schema: dict[str, Any] | None, typed: str, answer: Any) -> None:
    prompt = prompt_of(None, schema)
    assert not isinstance(prompt, Form)
    found = answer_of(prompt, typed)
    assert (found, type(found)) == (answer, type(answer))


@pytest.mark.parametrize(
    ("schema", "typed"),
    [
        ({"type": "boolean"}, "maybe"),
        ({"type": "boolean"}, ""),
        ({"type": "integer"}, "x"),
        ({"type": "integer"}, ""),
        ({"type": "string", "minLength": 1}, ""),
        ({"type": "array", "items": {"type": "integer"}}, "1,x"),
        ({"type": "object"}, "[]"),
        ({"type": "object"}, "{"),
    ],
)
def test_what_does_not_fit_is_asked_again(schema: dict[str, Any], typed: str) -> None:
    prompt = prompt_of(None, schema)
    assert not isinstance(prompt, Form)
    with pytest.raises(Unfit):
        answer_of(prompt, typed)


def test_an_object_is_asked_for_member_by_member() -> None:
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "title": "Name", "description": "as in the passport"},
            "age": {"type": "integer", "minimum": 0, "maximum": 150},
            "pin": {"type": "string", "writeOnly": True},
            "sure": {"type": "boolean"},
        },
        "required": ["name"],
    }
    prompt = prompt_of(None, schema)
    assert isinstance(prompt, Form)
    name, age, pin, sure = prompt.members
    assert name == Member(name="name", prompt=name.prompt, title="Name (as in the passport)", is_required=True)
    assert isinstance(age.prompt, Line)
    assert instruction(age.prompt) == "a whole number from 0 up to 150"
    assert isinstance(pin.prompt, Line)
    assert pin.prompt.is_secret
    assert isinstance(sure.prompt, Confirm)
    assert answer_of(age.prompt, "", is_required=False) is SKIPPED


def test_options_beside_an_object_are_for_the_eye_only() -> None:
    assert isinstance(prompt_of(["a"], {"type": "object", "properties": {"x": {"type": "string"}}}), Form)
