"""Write the generated parts of `docs/`, or with `--check` say which are stale.

A part stands between two lines of a Markdown file, the first of which names it:

    <!-- generated: lifecycle -->
    <!-- end -->

`GENERATORS` says what makes each part.
"""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aios.errors import AiosError
from aios.model import Status
from aios.protocol.discovery import document
from aios.protocol.methods import METHODS
from aios.rules.lifecycle import STANDING, TRANSITIONS, Command

DOCS = Path(__file__).resolve().parent.parent / "docs"
PART = re.compile(r"(?P<open><!-- generated: (?P<name>[\w-]+) -->\n)(?P<body>.*?)(?P<close><!-- end -->)", re.DOTALL)


def lifecycle_diagram() -> str:
    """Draw the statuses and what leads from one to the other."""
    lines = ["stateDiagram-v2", "    direction LR", "    [*] --> pending"]
    for status, moves in TRANSITIONS.items():
        for target in dict.fromkeys(moves.values()):
            kinds = " / ".join(command.kind for command, to in moves.items() if to is target)
            lines.append(f"    {status} --> {target}: {kinds}")
        if status is Status.WORKING:
            lines.append(f"    {status} --> {status}: retry")
        if status.is_terminal:
            lines.append(f"    {status} --> [*]")
    return "\n".join(["```mermaid", *lines, "```"])


def lifecycle_commands() -> str:
    """Say for every command and status where the first step leads; a dot where the task stays as it is."""
    commands: dict[type[Command], None] = dict.fromkeys(
        each
        for status in Status
        for each in (*TRANSITIONS[status], *sorted(STANDING[status], key=lambda one: one.kind))
    )
    ongoing = [status for status in Status if not status.is_terminal]

    def cell(command: type[Command], status: Status) -> str:
        target = TRANSITIONS[status].get(command)
        return str(target) if target else "·" if command in STANDING[status] else ""

    rows = [[f"`{each.kind}`", *(cell(each, status) for status in ongoing)] for each in commands]
    return _table(["command", *(str(status) for status in ongoing)], rows)


def methods() -> str:
    """Show each method with its params, its result, its own errors and an example."""
    described = {each["name"]: each for each in document(METHODS.values(), version="")["methods"]}
    return "\n\n".join(_method(described[name], METHODS[name].errors) for name in METHODS)


def overview() -> str:
    """List the methods with the names of their params and their result."""
    rows = [
        [
            f"[`{each['name']}`](#{re.sub('[^a-z_]', '', each['name'])})",
            ", ".join(f"`{param['name']}`" + ("" if param["required"] else "?") for param in each["params"]),
            _kind(each["result"]["schema"]),
        ]
        for each in document(METHODS.values(), version="")["methods"]
    ]
    return _table(["method", "params", "result"], rows)


def types() -> str:
    """Show the objects that params and results are made of."""
    schemas: dict[str, Any] = document(METHODS.values(), version="")["components"]["schemas"]
    return "\n\n".join(_type(name, schemas[name]) for name in sorted(schemas))


def _method(described: dict[str, Any], errors: tuple[type[AiosError], ...]) -> str:
    params = [_member(each["name"], each["schema"], each["required"]) for each in described["params"]]
    parts = [f"### `{described['name']}`", described["summary"]]
    if params:
        parts.append(_table(["param", "type", "", "about"], params))
    parts.append(f"Result: {_kind(described['result']['schema'])}")
    if errors:
        parts.append("Errors: " + ", ".join(f"{each.code} {each.title}" for each in errors))
    for example in described.get("examples", ()):
        asked = {each["name"]: each["value"] for each in example["params"]}
        for word, value in (("Asked", asked), ("Answered", example["result"]["value"])):
            parts.append(f"{word}:\n\n```json\n{json.dumps(value, ensure_ascii=False, indent=2)}\n```")
    return "\n\n".join(parts)


def _type(name: str, schema: dict[str, Any]) -> str:
    parts = [f"### {name}", schema.get("description", "")]
    if "properties" in schema:
        required = set(schema.get("required", ()))
        members = [_member(key, each, key in required) for key, each in schema["properties"].items()]
        parts.append(_table(["member", "type", "", "about"], members))
    else:
        parts.append(_kind(schema))
    return "\n\n".join(part for part in parts if part)


def _member(name: str, schema: dict[str, Any], is_required: bool) -> list[str]:
    default = schema.get("default")
    usual = "required" if is_required else f"`{json.dumps(default)}`" if default not in (None, {}, []) else ""
    return [f"`{name}`", _kind(schema), usual, schema.get("description", "")]


def _kind(schema: dict[str, Any]) -> str:
    """Say in a few words what a schema lets through."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_kind(each) for each in schema["anyOf"] if each != {"type": "null"})
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema['items'])}" if schema.get("items") else "list"
    kind = schema.get("type", "any JSON")
    if "minimum" in schema or "maximum" in schema:
        return f"{kind} {schema.get('minimum', '')}–{schema.get('maximum', '')}"
    return f"{kind} up to {schema['maxLength']} characters" if "maxLength" in schema else kind


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("\n", " ").replace("|", "\\|") for cell in row) + " |" for row in lines
    )


GENERATORS: dict[str, Callable[[], str]] = {
    "lifecycle-diagram": lifecycle_diagram,
    "lifecycle-commands": lifecycle_commands,
    "methods": methods,
    "methods-overview": overview,
    "types": types,
}


def fill(text: str) -> str:
    """Make every generated part of `text` anew.

    Raises:
        KeyError: The text names a part that nothing generates.
    """
    return PART.sub(lambda part: f"{part['open']}{GENERATORS[part['name']]().strip()}\n{part['close']}", text)


def main(arguments: list[str]) -> int:
    """Fill all files; with `--check` change none and fail if one would change."""
    stale = {path: filled for path in sorted(DOCS.rglob("*.md")) if (filled := fill(text := path.read_text())) != text}
    for path, filled in stale.items():
        print(path.relative_to(DOCS.parent))
        if "--check" not in arguments:
            path.write_text(filled)
    return int(bool(stale) and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
