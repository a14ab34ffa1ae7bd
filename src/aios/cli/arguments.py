"""`key=value` words as JSON: text becomes what the schema asks for (pure).

- `key=text`: the text is read as the property's type: integer, number, boolean, one of an enum, else it stays text.
- `key=a key=b`: for an array, one word for each item. A comma is part of the text, not a separator.
- `key:=json`: the value is JSON, whatever the schema says.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from aios.model import JsonObject

_WORD = re.compile(r"(?P<key>[^=]+?)(?P<mark>:?=)(?P<text>.*)", re.DOTALL)
_YES = {"true", "yes", "y", "on", "1"}
_NO = {"false", "no", "n", "off", "0"}
CHOICES_SHOWN_MAX = 12
_MEMBERS = ("anyOf", "oneOf", "allOf")


class Unfit(ValueError):
    """A text that cannot be what is asked for; its words are for the person who typed it."""


def parse_arguments(words: Iterable[str], schema: JsonObject) -> JsonObject:
    """Make arguments of `key=value` words, typed by the capability's input schema.

    Raises:
        Unfit: A word is no `key=value`, or its value cannot be what the schema asks for.
    """
    given: dict[str, list[tuple[str, str]]] = {}
    for word in words:
        found = _WORD.fullmatch(word)
        if found is None:
            raise Unfit(f"{word!r} is not key=value (or key:=JSON)")
        given.setdefault(found["key"], []).append((found["mark"], found["text"]))
    _known(given, schema)
    return {key: _value(key, values, schema) for key, values in given.items()}


def _known(given: Iterable[str], schema: JsonObject) -> None:
    """Refuse a name that no property has, with the one that was probably meant; where a schema takes any, so do we."""
    if resolve(schema, schema).get("additionalProperties") is not False:
        return
    names = list(properties_of(resolve(schema, schema), schema))
    for key in given:
        if key not in names:
            near = difflib.get_close_matches(key, names, n=1)
            meant = f"; did you mean {near[0]}?" if near else f"; there is: {_listed(names) or 'nothing'}"
            raise Unfit(f"there is no argument {key!r}{meant}")


def _listed(choices: Iterable[Any]) -> str:
    """Some of what there is, no more than a person reads."""
    words = list(map(str, choices))
    more = f" … and {len(words) - CHOICES_SHOWN_MAX} more" if len(words) > CHOICES_SHOWN_MAX else ""
    return f"{', '.join(words[:CHOICES_SHOWN_MAX])}{more}"


def _value(key: str, values: list[tuple[str, str]], schema: JsonObject) -> Any:
    wanted = resolve(properties_of(schema, schema).get(key, {}), schema)
    if any(mark == ":=" for mark, _ in values):
        if len(values) > 1:
            raise Unfit(f"{key}:= is given beside another {key}")
        return parse_json(values[0][1], key)
    texts = [text for _, text in values]
    if "array" in types_of(wanted, schema) and not (len(texts) == 1 and texts[0].startswith("[")):
        items = resolve(items_of(wanted, schema), schema)
        return [_named(key, text, items, schema) for text in texts]
    if len(texts) > 1:
        raise Unfit(f"{key} is given {len(texts)} times, but takes one value")
    return _named(key, texts[0], wanted, schema)


def _named(key: str, text: str, wanted: JsonObject, root: JsonObject) -> Any:
    try:
        return coerce(text, wanted, root)
    except Unfit as error:
        raise Unfit(f"{key}: {error}") from None


def coerce(text: str, schema: JsonObject, root: JsonObject) -> Any:
    """Read a text as what a schema asks for.

    Raises:
        Unfit: It cannot be that.
    """
    schema = resolve(schema, root)
    choices = enum_of(schema, root)
    if choices:
        for choice in choices:
            if text == (choice if isinstance(choice, str) else json.dumps(choice, ensure_ascii=False)):
                return choice
        raise Unfit(f"{text!r} is none of {_listed(choices)}")
    wanted = types_of(schema, root)
    failures: list[str] = []
    for kind in wanted:
        try:
            return _READERS[kind](text)
        except Unfit as error:
            failures.append(str(error))
    if failures:
        raise Unfit(failures[0])
    return text


def _integer(text: str) -> int:
    if re.fullmatch(r"[+-]?\d+", text.strip(), re.ASCII):
        return int(text)
    raise Unfit(f"{text!r} is not a whole number")


def _number(text: str) -> float | int:
    try:
        return _integer(text)
    except Unfit:
        pass
    try:
        number = float(text)
    except ValueError:
        raise Unfit(f"{text!r} is not a number") from None
    if not math.isfinite(number):
        raise Unfit(f"{text!r} is not a number that JSON has")
    return number


def _boolean(text: str) -> bool:
    word = text.strip().lower()
    if word in _YES | _NO:
        return word in _YES
    raise Unfit(f"{text!r} is neither yes nor no")


def _null(text: str) -> None:
    if text.strip() not in {"", "null"}:
        raise Unfit(f"{text!r} is not null")


def _json_of(kind: type, name: str) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        value = parse_json(text, "")
        if not isinstance(value, kind):
            raise Unfit(f"{text!r} is not a JSON {name}")
        return value

    return read


_READERS: dict[str, Callable[[str], Any]] = {
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "string": str,
    "null": _null,
    "array": _json_of(list, "array"),
    "object": _json_of(dict, "object"),
}


def parse_json(text: str, what: str) -> Any:
    """Read JSON that a person typed. Raises: Unfit."""

    def refuse(constant: str) -> Any:
        raise Unfit(f"{constant} is not JSON")

    try:
        return json.loads(text, parse_constant=refuse)
    except (json.JSONDecodeError, RecursionError) as error:
        raise Unfit(f"{what + ': ' if what else ''}not JSON: {error}") from None


def parse_object(text: str, what: str) -> JsonObject:
    """Read a JSON object that a person typed. Raises: Unfit."""
    value = parse_json(text, what)
    if not isinstance(value, dict):
        raise Unfit(f"{what}: a JSON object is wanted, as '{{\"key\": 1}}'")
    return cast("JsonObject", value)


def as_object(value: Any) -> JsonObject:
    """The value if it is a JSON object, else an empty one."""
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """The value if it is a JSON array, else an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def resolve(schema: Any, root: JsonObject) -> JsonObject:
    """Follow `$ref` inside the schema; one that leads nowhere asks for nothing."""
    for _ in range(16):
        if not isinstance(schema, dict):
            return {}
        reference: Any = cast("JsonObject", schema).get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#"):
            return cast("JsonObject", schema)
        schema = root
        for name in filter(None, reference.removeprefix("#").split("/")):
            schema = cast("JsonObject", schema).get(name.replace("~1", "/").replace("~0", "~"), {})
            if not isinstance(schema, dict):
                return {}
    return {}


def _alternatives(schema: JsonObject, root: JsonObject) -> list[JsonObject]:
    return [resolve(each, root) for name in _MEMBERS for each in as_list(schema.get(name))]


def types_of(schema: JsonObject, root: JsonObject) -> list[str]:
    """The types that a value may have, in the schema's order; none where it does not say."""
    kind: Any = schema.get("type", [])
    kinds = [kind] if isinstance(kind, str) else list(kind)
    for each in _alternatives(schema, root):
        kinds += [kind for kind in types_of(each, root) if kind not in kinds]
    # Whoever types `5` where a number or a text will do means the number; `null` is typed where nothing else fits.
    return sorted((kind for kind in kinds if kind in _READERS), key=_rank)


def _rank(kind: str) -> int:
    return {"string": 1, "null": 2}.get(kind, 0)


def enum_of(schema: JsonObject, root: JsonObject) -> list[Any]:
    """The only values there may be; none where the schema lists none."""
    if "const" in schema:
        return [schema["const"]]
    if own := as_list(schema.get("enum")):
        return own
    alternatives = _alternatives(schema, root)
    listed = [enum_of(each, root) for each in alternatives]
    return [value for values in listed for value in values] if alternatives and all(listed) else []


def properties_of(schema: JsonObject, root: JsonObject) -> dict[str, JsonObject]:
    """The members that an object may have."""
    found: dict[str, JsonObject] = {name: as_object(each) for name, each in as_object(schema.get("properties")).items()}
    for each in _alternatives(schema, root):
        found |= {name: value for name, value in properties_of(each, root).items() if name not in found}
    return found


def items_of(schema: JsonObject, root: JsonObject) -> JsonObject:
    """What an array's items must be."""
    if own := as_object(schema.get("items")):
        return own
    for each in _alternatives(schema, root):
        if found := items_of(each, root):
            return found
    return {}
