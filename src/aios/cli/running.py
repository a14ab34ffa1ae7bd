"""`aios run`: a capability as a task, from the first word to the result."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from aios.cli.arguments import Unfit, as_object, parse_arguments, parse_object
from aios.cli.capabilities import known
from aios.cli.face import COMPLETED, Face, command

if TYPE_CHECKING:
    from aios.client import Client
    from aios.model import JsonObject


@click.group()
def running() -> None:
    """Hold the command until the root takes it."""


@command(
    running,
    "run",
    example="aios run system.files.find_duplicates root=~/Documents 'include=*.jpg' 'include=*.png'",
    more="""Exit codes:
  0 completed   1 failed   2 wrong usage, or refused   3 canceled
  4 waits for an answer, and nobody is there to ask   130 left by Ctrl-C""",
)
@click.argument("capability")
@click.argument("arguments", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--json", "json_text", metavar="JSON", help="Arguments as a JSON object; KEY=VALUE adds to it.")
@click.option("--detach", is_flag=True, help="Print the task's id and leave it running.")
@click.option("--no-input", is_flag=True, help="Ask nothing: leave the task waiting and exit with 4.")
async def run(
    face: Face, capability: str, arguments: tuple[str, ...], json_text: str | None, detach: bool, no_input: bool
) -> int:
    """Run a capability as a task; see it work, answer what it asks, get its result.

    KEY=VALUE is read as the capability's schema asks: numbers, yes/no, text. Give the key again for each further item of a list.
    KEY:=JSON is taken as JSON.

    Ctrl-C cancels nothing: the first says how to cancel, the second leaves the task running.
    """
    from aios.cli.attending import Attention

    async with face.connect() as client:
        found = await _arguments(client, capability, arguments, json_text)
        task = await client.create(capability, found)
        if detach:
            face.show(await client.call("aios/task.get", {"task_id": task.task_id}), lambda: task.task_id)
            face.say(f"The task runs. See it with: aios task watch {task.task_id}")
            return COMPLETED
        face.say(f"task {task.task_id}")
        staying = Attention(face, client, task.task_id, title=capability, asks=not no_input, waits=False)
        return await staying.stay()


async def _arguments(client: Client, capability: str, words: tuple[str, ...], json_text: str | None) -> JsonObject:
    details = await known(client, capability)
    try:
        given = {} if json_text is None else parse_object(json_text, "--json")
        return {**given, **parse_arguments(words, as_object(details.get("input")))}
    except Unfit as error:
        raise click.UsageError(f"{error}\nSee what it takes with: aios capability info {capability}") from error
