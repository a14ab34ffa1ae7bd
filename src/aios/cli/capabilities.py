"""`aios capability`: what can be asked for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from aios.cli.arguments import as_list, as_object, enum_of, items_of, properties_of, resolve, types_of
from aios.cli.face import Face, clean, command

if TYPE_CHECKING:
    from aios.client import Client
    from aios.model import JsonObject


@click.group()
def capability() -> None:
    """See what can be asked for."""


@command(capability, "list", example="aios capability list --namespace system")
@click.option("--namespace", help="Only ids that begin with this word.")
@click.option("--category", help="Only of this category.")
async def list_capabilities(face: Face, namespace: str | None, category: str | None) -> None:
    """List capabilities."""
    params = {name: value for name, value in {"namespace": namespace, "category": category}.items() if value}
    async with face.connect() as client:
        found = await client.call("aios/capability.list", params)
    rows = [[each["id"], each["permission_level"], each["name"]] for each in found["capabilities"]]
    face.show(found, lambda: face.table(["ID", "PERMISSION", "NAME"], rows))


@command(capability, "info", example="aios capability info system.files.find_duplicates")
@click.argument("capability_id")
async def info(face: Face, capability_id: str) -> None:
    """Tell all about a capability: what it does, what it takes, how to run it."""
    async with face.connect() as client:
        found = await known(client, capability_id)
    face.show(found, lambda: clean(_described(found)))


async def known(client: Client, capability_id: str) -> JsonObject:
    """All about a capability. Raises: CapabilityNotFound, which says what may have been meant."""
    from aios.errors import CapabilityNotFound

    try:
        return await client.call("aios/capability.info", {"capability_id": capability_id})
    except CapabilityNotFound as error:
        import difflib

        ids = [each.id for each in await client.capabilities()]
        last = {each.rpartition(".")[2]: each for each in ids}
        near = difflib.get_close_matches(capability_id, ids, n=2) or [
            last[name] for name in difflib.get_close_matches(capability_id.rpartition(".")[2], last, n=2, cutoff=0.75)
        ]
        error.data["did_you_mean"] = near
        raise


def _described(found: JsonObject) -> str:
    schema: JsonObject = found.get("input") or {}
    required: list[str] = schema.get("required", [])
    members = properties_of(resolve(schema, schema), schema)
    lines = [f"{found['id']}  {found['name']}", ""]
    if found.get("description"):
        lines += [found["description"], ""]
    permission = as_object(found.get("permission"))
    lines.append(f"Permission: {permission.get('level', '')} {permission.get('scope', '')}".rstrip())
    if members:
        lines += ["", "Arguments:"]
        lines += [_argument(name, resolve(each, schema), name in required, schema) for name, each in members.items()]
    lines += ["", "Run it:", f"  {_example(found, members, required, schema)}"]
    return "\n".join(lines)


def _argument(name: str, schema: JsonObject, is_required: bool, root: JsonObject) -> str:
    kinds = types_of(schema, root)
    kind = "|".join(map(str, enum_of(schema, root))) or " or ".join(kinds) or "any"
    if kinds == ["array"]:
        kind = f"list of {' or '.join(types_of(resolve(items_of(schema, root), root), root)) or 'any'}"
    default = f", default {json.dumps(schema['default'], ensure_ascii=False)}" if "default" in schema else ""
    words = f"  {name} ({kind}{', required' if is_required else default})"
    description = " ".join(str(schema.get("description", "")).split())
    return f"{words}\n      {description}" if description else words


def _example(found: JsonObject, members: dict[str, JsonObject], required: list[str], root: JsonObject) -> str:
    examples = as_list(found.get("examples"))
    if examples:
        words = [_word(name, value) for name, value in as_object(examples[0]).items()]
    else:
        words = [f"{name}={_placeholder(members.get(name, {}), root)}" for name in required]
    return " ".join(["aios run", found["id"], *words])


def _placeholder(schema: JsonObject, root: JsonObject) -> str:
    """What stands for a value that its reader is to choose; capitals, so that it is not taken for one."""
    wanted = resolve(schema, root)
    return next(map(str, enum_of(wanted, root)), next(map(str.upper, types_of(wanted, root)), "VALUE"))


def _word(name: str, value: Any) -> str:
    texts = [each for each in as_list(value) if isinstance(each, str)]
    if texts and texts == value:
        return " ".join(f"{name}={_quoted(each)}" for each in texts)
    if isinstance(value, str):
        return f"{name}={_quoted(value)}"
    return f"{name}:={_quoted(json.dumps(value, ensure_ascii=False))}"


def _quoted(text: str) -> str:
    import shlex

    # The tilde is the shell's to expand.
    return text if text.startswith("~/") and shlex.quote(text[2:]) == text[2:] else shlex.quote(text)
