"""`aios artifact`: what tasks made."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aios.cli.arguments import as_object
from aios.cli.face import REFUSED, Face, clean, command

if TYPE_CHECKING:
    from aios.client import Client
    from aios.model import JsonObject

TEXT_SHOWN_MAX = 20_000
"""Characters of a text part that are shown; the rest is a command away."""


@click.group()
def artifact() -> None:
    """What tasks made: reports, files, pictures."""


@command(artifact, "list", example="aios artifact list task-01jh…")
@click.argument("task_id")
async def list_artifacts(face: Face, task_id: str) -> None:
    """List the artifacts of a task."""
    async with face.connect() as client:
        found = await client.call("aios/artifact.list", {"task_id": task_id})
    rows = [[each["id"], each["name"], each["type"], _kinds(each)] for each in found["artifacts"]]
    face.show(found, lambda: face.table(["ID", "NAME", "TYPE", "PARTS"], rows))


@command(artifact, "get", example="aios artifact get art-01jh… --part 2 --to chart.svg")
@click.argument("artifact_id")
@click.option("--part", type=click.IntRange(min=0), help="Only this part, from 0: its content as it is.")
@click.option("--to", type=click.Path(dir_okay=False, path_type=Path), help="Write the part into this file.")
async def get_artifact(face: Face, artifact_id: str, part: int | None, to: Path | None) -> int | None:
    """Show an artifact, or take out the content of one part."""
    if to is not None and part is None:
        raise click.UsageError("--to needs --part: which part is to be written?")
    async with face.connect() as client:
        found = await client.call("aios/artifact.get", {"artifact_id": artifact_id})
        if part is None:
            face.show(found, lambda: show_artifacts(face, [found["artifact"]]))
            return None
        parts: list[JsonObject] = found["artifact"]["parts"]
        if part >= len(parts):
            raise click.UsageError(f"{artifact_id} has parts 0 to {len(parts) - 1}")
        content = await _content(client, artifact_id, part, parts[part])
    if face.is_json and to is None:
        face.show({"artifact_id": artifact_id, "part": part, **_encoded(content)})
        return None
    return _put(face, content, to)


def _encoded(content: bytes) -> JsonObject:
    try:
        return {"content": content.decode()}
    except UnicodeDecodeError:
        return {"content": base64.b64encode(content).decode(), "encoding": "base64"}


async def _content(client: Client, artifact_id: str, number: int, part: JsonObject) -> bytes:
    if part["type"] == "text" and isinstance(part.get("text"), str):
        return str(part["text"]).encode()
    if part["type"] == "data" and "data" in part:
        return json.dumps(part["data"], ensure_ascii=False, indent=2).encode() + b"\n"
    return await client.artifact_content(artifact_id, number)


def _put(face: Face, content: bytes, to: Path | None) -> int | None:
    if to is not None:
        try:
            to.write_bytes(content)
        except OSError as error:
            raise click.ClickException(f"{to} cannot be written: {error.strerror or error}") from error
        face.say(f"{len(content)} bytes written to {to}")
        if face.is_json:
            face.show({"file": str(to), "size": len(content)})
        return None
    if sys.stdout.isatty() and b"\0" in content[:8_192]:
        face.say("The content is not text; write it into a file with --to FILE.")
        return REFUSED
    sys.stdout.buffer.write(content)
    return None


def show_artifacts(face: Face, artifacts: Iterable[JsonObject]) -> None:
    """Show artifacts to a person: their texts, and how to get at the rest."""
    for each in artifacts:
        face.write(click.style(clean(f"── {each['name']} ({each['type']}) {each['id']}", is_one_line=True), bold=True))
        for number, part in enumerate(each.get("parts") or []):
            _show_part(face, each["id"], number, part)


def _show_part(face: Face, artifact_id: str, number: int, part: JsonObject) -> None:
    get = f"aios artifact get {artifact_id} --part {number}"
    text: Any = part.get("text") if part["type"] == "text" else None
    if isinstance(text, str):
        _show_text(face, text[:TEXT_SHOWN_MAX])
        if len(text) > TEXT_SHOWN_MAX:
            face.write(f"… {len(text) - TEXT_SHOWN_MAX} characters more: {get}")
        return
    facts = as_object(part.get(part["type"])) if part["type"] != "data" else {}
    size, mime = facts.get("size"), facts.get("mime_type")
    words = ", ".join(filter(None, [str(mime or ""), f"{size} bytes" if size else ""]))
    face.write(clean(f"[{part['type']}{': ' + words if words else ''}] {get}", is_one_line=True))


def _show_text(face: Face, text: str) -> None:
    if not sys.stdout.isatty():
        face.write(clean(text))
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(clean(text)))


def _kinds(artifact: JsonObject) -> str:
    return ", ".join(f"{number}:{part['type']}" for number, part in enumerate(artifact.get("parts") or []))
