from typing import Any

import pytest

from aios.cli.arguments import Unfit, coerce, parse_arguments, parse_object

SCHEMA: dict[str, Any] = {
    "type": "object",
    "$defs": {"Mode": {"enum": ["fast", "safe", 3]}},
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "ratio": {"type": "number"},
        "loud": {"type": "boolean"},
        "mode": {"$ref": "#/$defs/Mode"},
        "names": {"type": "array", "items": {"type": "string"}},
        "numbers": {"type": "array", "items": {"type": "integer"}},
        "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "maybe": {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]},
        "options": {"type": "object"},
        "anything": {},
        "loop": {"$ref": "#/properties/loop"},
    },
}


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        ([], {}),
        (["text=5"], {"text": "5"}),
        (["text="], {"text": ""}),
        (["text=a=b:=c"], {"text": "a=b:=c"}),
        (["text=两 行\n二"], {"text": "两 行\n二"}),
        (["count=5", "ratio=2"], {"count": 5, "ratio": 2}),
        (["count=-5", "ratio=2.5e3"], {"count": -5, "ratio": 2500.0}),
        (["count=9007199254740993"], {"count": 9007199254740993}),
        (["loud=yes"], {"loud": True}),
        (["loud=False"], {"loud": False}),
        (["mode=fast"], {"mode": "fast"}),
        (["mode=3"], {"mode": 3}),
        (["names=a"], {"names": ["a"]}),
        (["names=a,b", "text=x", "names=c"], {"names": ["a,b", "c"], "text": "x"}),
        (["numbers=1", "numbers=2"], {"numbers": [1, 2]}),
        (["numbers=[1,2]"], {"numbers": [1, 2]}),
        (["numbers:=[1, 2]"], {"numbers": [1, 2]}),
        (["maybe=1", "maybe=2"], {"maybe": [1, 2]}),
        (["limit=7"], {"limit": 7}),
        (["limit=null"], {"limit": None}),
        (["either=7"], {"either": 7}),
        (["either=seven"], {"either": "seven"}),
        (['options={"a": 1}'], {"options": {"a": 1}}),
        (["anything=5", "unknown=6"], {"anything": "5", "unknown": "6"}),
        (["anything:=5", "text:=null"], {"anything": 5, "text": None}),
        (["loop=x"], {"loop": "x"}),
    ],
)
def test_words_become_what_the_schema_asks_for(words: list[str], arguments: dict[str, Any]) -> None:
    found = parse_arguments(words, SCHEMA)
    assert found == arguments
    assert [type(each) for each in found.values()] == [type(each) for each in arguments.values()]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["text"], "'text' is not key=value"),
        (["=5"], "is not key=value"),
        (["count=five"], "count: 'five' is not a whole number"),
        (["count=5.5"], "count: '5.5' is not a whole number"),
        (["count="], "is not a whole number"),
        (["ratio=nan"], "not a number that JSON has"),
        (["ratio=x"], "is not a number"),
        (["loud=maybe"], "neither yes nor no"),
        (["mode=slow"], "'slow' is none of fast, safe, 3"),
        (["text=a", "text=b"], "given 2 times"),
        (["text=a", "text:=1"], "beside another"),
        (["numbers=1", "numbers=x"], "numbers: 'x' is not a whole number"),
        (["limit=x"], "limit: 'x' is not a whole number"),
        (["options=[1]"], "is not a JSON object"),
        (["options={"], "not JSON"),
        (["count:=NaN"], "NaN is not JSON"),
        (["count:={"], "count: not JSON"),
    ],
)
def test_what_cannot_be_meant_is_said_in_words(words: list[str], complaint: str) -> None:
    with pytest.raises(Unfit) as raised:
        parse_arguments(words, SCHEMA)
    assert complaint in str(raised.value)


def test_without_a_schema_everything_is_text() -> None:
    assert parse_arguments(["a=1", "b=true"], {}) == {"a": "1", "b": "true"}
    assert coerce("1", {}, {}) == "1"


@pytest.mark.parametrize("text", ["[]", "1", "{", '"x"', "{'a': 1}"])
def test_an_object_is_wanted_where_an_object_is_wanted(text: str) -> None:
    with pytest.raises(Unfit, match=r"^--json"):
        parse_object(text, "--json")
