"""A question's options and schema as prompts, and what was typed as an answer (pure)."""

from __future__ import annotations

import json
import re
from typing import Any

from aios.cli.arguments import (
    Unfit,
    as_object,
    coerce,
    enum_of,
    items_of,
    properties_of,
    resolve,
    types_of,
)
from aios.model import JsonObject, Record

LABEL_NAMES = ("label", "title", "name", "id", "value")
VALUE_NAMES = ("id", "value")
OFFERED_SHOWN_MAX = 20


class Choose(Record, frozen=True, kw_only=True, tag="choose"):
    """One of a list, or with `many` any of it."""

    labels: list[str]
    values: list[Any]
    many: bool = False
    least: int = 0
    default: Any = None


class Confirm(Record, frozen=True, kw_only=True, tag="confirm"):
    """Yes or no."""

    default: bool | None = None


class Line(Record, frozen=True, kw_only=True, tag="line"):
    """A line of text that is read as the schema says; `many`: several values with commas between."""

    schema: JsonObject = {}
    root: JsonObject = {}
    hint: str = ""
    many: bool = False
    is_secret: bool = False
    default: Any = None


class Member(Record, frozen=True, kw_only=True):
    """One member of an object that is asked for."""

    name: str
    prompt: Choose | Confirm | Line
    title: str
    is_required: bool


class Form(Record, frozen=True, kw_only=True, tag="form"):
    """An object, asked for member by member."""

    members: list[Member]


Prompt = Choose | Confirm | Line
SKIPPED: Any = object()
"""What an empty line means where nothing is required."""


def prompt_of(options: list[Any] | None, schema: JsonObject | None) -> Prompt | Form:
    """Say how to ask for an answer that is one of the options, or fits the schema."""
    root = schema or {}
    wanted = resolve(root, root)
    kinds = types_of(wanted, root)
    if options is not None and "object" not in kinds:
        return _choose(options, many="array" in kinds, least=wanted.get("minItems", 0))
    if "object" in kinds and (members := properties_of(wanted, root)):
        required: list[str] = wanted.get("required", [])
        return Form(members=[_member(name, each, name in required, root) for name, each in members.items()])
    return _simple(wanted, root)


def _member(name: str, schema: JsonObject, is_required: bool, root: JsonObject) -> Member:
    wanted = resolve(schema, root)
    title = str(wanted.get("title") or name)
    description = str(wanted.get("description") or "")
    return Member(
        name=name,
        prompt=_simple(wanted, root),
        title=f"{title} ({description})" if description else title,
        is_required=is_required,
    )


def _simple(schema: JsonObject, root: JsonObject) -> Prompt:
    kinds = [kind for kind in types_of(schema, root) if kind != "null"]
    items = resolve(items_of(schema, root), root)
    if enum := enum_of(schema, root):
        return _choose(enum, default=schema.get("default"))
    if kinds == ["boolean"]:
        default: Any = schema.get("default")
        return Confirm(default=default if isinstance(default, bool) else None)
    if kinds == ["array"] and (enum := enum_of(items, root)):
        return _choose(enum, many=True, least=schema.get("minItems", 0))
    if kinds == ["array"] and not {"array", "object"}.intersection(types_of(items, root)):
        return Line(schema=items, root=root, hint="with commas between", many=True, default=schema.get("default"))
    is_secret = bool(schema.get("writeOnly")) or schema.get("format") == "password"
    hint = "as JSON" if {"array", "object"}.intersection(kinds) else _bounds(schema, kinds)
    return Line(schema=schema, root=root, hint=hint, is_secret=is_secret, default=schema.get("default"))


def _bounds(schema: JsonObject, kinds: list[str]) -> str:
    words = {"integer": "a whole number", "number": "a number", "string": "", "boolean": "yes or no"}
    hint = " or ".join(filter(None, (words.get(kind, kind) for kind in kinds)))
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None or high is not None:
        hint += f" from {low}" if low is not None else ""
        hint += f" up to {high}" if high is not None else ""
    return hint.strip()


def _choose(options: list[Any], *, many: bool = False, least: int = 0, default: Any = None) -> Choose:
    return Choose(
        labels=[label_of(option) for option in options],
        values=[value_of(option) for option in options],
        many=many,
        least=least,
        default=default,
    )


def label_of(option: Any) -> str:
    """What an option is called, for people."""
    found = _named(option, LABEL_NAMES)
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)


def value_of(option: Any) -> Any:
    """What an option is as an answer."""
    return _named(option, VALUE_NAMES)


def offered(options: list[Any]) -> list[str]:
    """The options of a question as lines: what to answer, and what it is called where that is something else."""
    lines: list[str] = []
    for option in options[:OFFERED_SHOWN_MAX]:
        value, label = value_of(option), label_of(option)
        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        lines.append(shown if shown == label else f"{shown}  {label}")
    if (more := len(options) - OFFERED_SHOWN_MAX) > 0:
        lines.append(f"… and {more} more (--output json shows all)")
    return lines


def _named(option: Any, names: tuple[str, ...]) -> Any:
    members = as_object(option)
    return next((members[name] for name in names if members.get(name) is not None), option)


def instruction(prompt: Prompt) -> str:
    """What to type, in brackets after the question."""
    match prompt:
        case Choose(many=True):
            return "numbers, as 1,3-5; all; none"
        case Choose():
            return f"1-{len(prompt.labels)}"
        case Confirm():
            return {None: "y/n", True: "Y/n", False: "y/N"}[prompt.default]
        case Line():
            shown = "" if prompt.default is None else f"Enter for {json.dumps(prompt.default, ensure_ascii=False)}"
            return "; ".join(filter(None, [prompt.hint, shown]))


def answer_of(prompt: Prompt, text: str, *, is_required: bool = True) -> Any:
    """Read what was typed.

    Raises:
        Unfit: It is no answer to this prompt.
    """
    typed = text if isinstance(prompt, Line) else text.strip()
    if not typed:
        return _empty(prompt, is_required)
    match prompt:
        case Choose(many=True):
            return _chosen(prompt, typed)
        case Choose():
            return _one(prompt, typed)
        case Confirm():
            return coerce(typed, {"type": "boolean"}, {})
        case Line(many=True):
            return [coerce(each.strip(), prompt.schema, prompt.root) for each in typed.split(",")]
        case Line():
            return coerce(typed, prompt.schema, prompt.root)


def _empty(prompt: Prompt, is_required: bool) -> Any:
    if prompt.default is not None:
        return prompt.default
    if isinstance(prompt, Choose) and prompt.many and prompt.least == 0:
        return []
    if not is_required:
        return SKIPPED
    if isinstance(prompt, Line) and _may_be_empty(prompt):
        return ""
    raise Unfit("an answer is needed")


def _may_be_empty(prompt: Line) -> bool:
    """Whether an empty text is an answer: where any text is."""
    is_text = types_of(prompt.schema, prompt.root) in ([], ["string"])
    return is_text and not prompt.many and prompt.schema.get("minLength", 0) == 0


def _one(prompt: Choose, typed: str) -> Any:
    if typed.isdecimal() and 1 <= int(typed) <= len(prompt.values):
        return prompt.values[int(typed) - 1]
    for label, value in zip(prompt.labels, prompt.values, strict=True):
        if typed in {label, value if isinstance(value, str) else json.dumps(value)}:
            return value
    raise Unfit(f"type a number from 1 to {len(prompt.values)}")


def _chosen(prompt: Choose, typed: str) -> list[Any]:
    if typed.lower() == "all":
        return list(prompt.values)
    if typed.lower() == "none":
        return _enough(prompt, [])
    chosen: dict[int, Any] = {}
    for part in filter(None, re.split(r"[,\s]+", typed)):
        found = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", part, re.ASCII)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
        if not 1 <= first <= last <= len(prompt.values):
            raise Unfit(f"{part!r}: type numbers from 1 to {len(prompt.values)}, as 1,3-5; or all; or none")
        chosen |= {number: prompt.values[number - 1] for number in range(first, last + 1)}
    return _enough(prompt, [chosen[number] for number in sorted(chosen)])


def _enough(prompt: Choose, chosen: list[Any]) -> list[Any]:
    if len(chosen) < prompt.least:
        raise Unfit(f"choose at least {prompt.least}")
    return chosen
