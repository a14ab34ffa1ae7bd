"""`aios task`: looking at tasks and steering them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from aios.cli.arguments import (
    Unfit,
    as_list,
    as_object,
    coerce,
    enum_of,
    items_of,
    parse_arguments,
    parse_json,
    resolve,
    types_of,
)
from aios.cli.face import COMPLETED, REFUSED, Face, clean, command, cut

if TYPE_CHECKING:
    from aios.model import JsonObject
    from aios.protocol.task import InputRequestView

STATUSES = (
    "pending",
    "working",
    "paused",
    "input_required",
    "auth_required",
    "completed",
    "failed",
    "canceled",
)

ANSWER_SHOWN_MAX = 500


@click.group()
def task() -> None:
    """Look at tasks and steer them."""


def _listing(name: str, method: str, about: str, example: str) -> Callable[..., Any]:
    async def listed(face: Face, status: tuple[str, ...], capability: str | None, limit: int) -> None:
        wanted: JsonObject = {"status": list(status)} if status else {}
        if capability:
            wanted["capability_id"] = capability
        async with face.connect() as client:
            found = await client.call(method, {"filter": wanted, "pagination": {"limit": limit}})
        face.show(found, lambda: _table(face, found))
        if found["has_more"]:
            face.say(f"{len(found['tasks'])} of {found['total']}; more with --limit")

    listed.__doc__ = about
    for option in (
        click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="At most so many."),
        click.option("--capability", metavar="GLOB", help="Only of these capabilities; * is any run of characters."),
        click.option("--status", multiple=True, type=click.Choice(STATUSES), help="Only these; may be repeated."),
    ):
        listed = option(listed)
    return command(task, name, example=example)(listed)


_listing("list", "aios/task.list", "List tasks, the newest first.", "aios task list --status working --status paused")
_listing("history", "aios/task.history", "List finished tasks, the newest first.", "aios task history --limit 10")


def _table(face: Face, found: JsonObject) -> str:
    rows = [
        [each["task_id"], each["status"], _percent(each), each.get("capability_id"), each["created_at"], _message(each)]
        for each in found["tasks"]
    ]
    return face.table(["ID", "STATUS", "%", "CAPABILITY", "CREATED", "PROGRESS"], rows)


def _percent(task: JsonObject) -> str:
    percent = as_object(task.get("progress")).get("percent")
    return "" if percent is None else f"{percent:.0f}"


def _message(task: JsonObject) -> str:
    return str(as_object(task.get("progress")).get("message") or "")


@command(task, "get", example="aios task get task-01jh…")
@click.argument("task_id")
async def get(face: Face, task_id: str) -> None:
    """Show a task as it is now, with its history."""
    async with face.connect() as client:
        found = await client.call("aios/task.get", {"task_id": task_id, "include_history": True})
    face.show(found, lambda: _described(found))


def _described(found: JsonObject) -> str:
    lines: list[str] = []
    for name, value in found.items():
        if name == "state_history":
            lines.append("state_history")
            lines += [_entry(each) for each in value]
        elif name == "artifacts":
            lines += [f"{'artifact':<16} {each['id']} {each['name']} ({each['type']})" for each in value]
        elif name == "input_request":
            lines += _question(value)
        elif value not in (None, {}, []):
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            lines.append(f"{name:<16} {text}")
    return clean("\n".join(lines))


def _question(request: JsonObject) -> list[str]:
    """The question and what it offers; its schema is for machines."""
    from aios.cli.questions import offered

    lines = [f"{'asks':<16} {request.get('prompt', '')}"]
    lines += [f"  {text}" for text in offered(as_list(request.get("options")))]
    if schema := as_object(request.get("schema")):
        title = schema.get("title") or json.dumps(schema, ensure_ascii=False)
        lines.append(f"{'answer':<16} {cut(str(title), ANSWER_SHOWN_MAX)}")
    return lines


def _entry(entry: JsonObject) -> str:
    reason = f"  {entry['reason']}" if entry.get("reason") else ""
    return f"  {entry['timestamp']}  {entry['state']}{reason}"


@command(task, "watch", example="aios task watch task-01jh…")
@click.argument("task_id")
@click.option("--no-input", is_flag=True, help="Ask nothing, only watch.")
async def watch(face: Face, task_id: str, no_input: bool) -> int:
    """See a task through to its end, from wherever it is; answer what it asks.

    Where nobody can be asked it waits until somebody else has answered. With --output json it prints each event as a line.
    Exit codes and Ctrl-C are those of `aios run`.
    """
    async with face.connect() as client:
        if face.is_json:
            return await _print_events(face, client.follow(task_id))
        from aios.cli.attending import Attention

        found = await client.get(task_id)
        title = found.capability_id or task_id
        return await Attention(face, client, task_id, title=title, asks=not no_input, waits=True).stay()


async def _print_events(face: Face, events: Any) -> int:
    from aios.cli.face import CANCELED, FAILED, to_json

    ends = {"completed": COMPLETED, "failed": FAILED, "canceled": CANCELED}
    code = COMPLETED
    async for event in events:
        face.write(to_json({"id": event.event_id, "event": event.kind, "data": event.data}, is_pretty=False))
        code = ends.get(event.status or "", code)
    return code


def _steering(name: str, method: str, about: str) -> None:
    async def steered(face: Face, task_id: str, reason: str | None) -> None:
        params: JsonObject = {"task_id": task_id, **({"reason": reason} if reason else {})}
        async with face.connect() as client:
            found = await client.call(method, params)
        face.show(found, lambda: f"{found['task_id']} {found['status']}")

    steered.__doc__ = about
    steered = click.option("--reason", help="Kept in the task's history.")(steered)
    steered = click.argument("task_id")(steered)
    command(task, name, example=f"aios task {name} task-01jh…")(steered)


_steering("cancel", "aios/task.cancel", "Cancel a task; what it runs is stopped.")
_steering("pause", "aios/task.pause", "Pause a working task at its next step.")
_steering("resume", "aios/task.resume", "Let a paused task go on.")


@command(task, "input", example="aios task input task-01jh… copy-3 copy-7")
@click.argument("task_id")
@click.argument("values", nargs=-1, metavar="[VALUE]...")
@click.option("--json", "json_text", metavar="JSON", help="The answer as JSON.")
async def give_input(face: Face, task_id: str, values: tuple[str, ...], json_text: str | None) -> int | None:
    """Answer the question a task waits with; without VALUE it is asked here.

    VALUE is read as the question's schema asks. Several make a list, none an empty one, KEY=VALUE an object.
    """
    from aios.cli.questions import offered
    from aios.errors import InvalidInput

    async with face.connect() as client:
        if json_text is None and not values:
            return await _ask_here(face, client, task_id)
        asked = (await client.get(task_id)).input_request
        try:
            value = _given(values, json_text, asked)
        except Unfit as error:
            raise click.UsageError(str(error)) from error
        try:
            found = await client.call("aios/task.input", {"task_id": task_id, "input": value})
        except InvalidInput as error:
            face.fail(error)
            for text in offered(asked.options or []) if asked is not None else ():
                face.say(f"  {clean(text, is_one_line=True)}")
            return REFUSED
    _show_moved(face, found)
    return None


def _given(values: tuple[str, ...], json_text: str | None, asked: InputRequestView | None) -> Any:
    if json_text is not None:
        return parse_json(json_text, "--json")
    root = (asked.schema if asked is not None else None) or {}
    kinds = types_of(resolve(root, root), root)
    if "object" in kinds:
        return parse_arguments(values, root)
    if "array" in kinds:
        items = items_of(resolve(root, root), root)
        choices = [*((asked.options if asked is not None else None) or []), *enum_of(items, root)]
        if values == ("none",) and "none" not in choices:
            # As at a terminal: there is no other word for an empty list.
            return []
        return [coerce(value, items, root) for value in values]
    if len(values) != 1:
        raise Unfit("the question takes one answer; put it in quotes if it has spaces")
    (value,) = values
    return coerce(value, root, root)


async def _ask_here(face: Face, client: Any, task_id: str) -> int:
    from aios.cli.asking import Asker
    from aios.cli.display import Display, Silence
    from aios.cli.terminal import Terminal, is_interactive
    from aios.client import Question
    from aios.errors import InvalidInput

    asked = (await client.get(task_id)).input_request
    if asked is None:
        face.say(f"{task_id} asks nothing now.")
        return REFUSED
    if not is_interactive():
        raise click.UsageError("there is no terminal to ask at; give the answer as VALUE or --json")
    question = Question(task_id=task_id, prompt=asked.prompt, options=asked.options, schema=asked.schema)
    asker = Asker(Terminal(), Display(Silence()))
    while True:
        try:
            answer = await asker.answer(question)
            found = await client.call("aios/task.input", {"task_id": task_id, "input": answer})
        except EOFError:
            return REFUSED
        except InvalidInput as error:
            face.fail(error)
            continue
        _show_moved(face, found)
        return COMPLETED


def _show_moved(face: Face, found: JsonObject) -> None:
    face.show(found, lambda: f"{found['task_id']} {found['status']}")
