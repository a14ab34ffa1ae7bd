"""`aios call`: any method of the protocol, raw."""

from __future__ import annotations

import sys

import click

from aios.cli.arguments import Unfit, parse_object
from aios.cli.face import Face, command


@click.group()
def calling() -> None:
    """Hold the command until the root takes it."""


@command(calling, "call", example="""aios call aios/task.get '{"task_id": "task-01jh…"}'""")
@click.argument("method")
@click.argument("params", required=False, metavar="[JSON]")
async def call(face: Face, method: str, params: str | None) -> None:
    """Call a method of the protocol and print its result as JSON.

    With - in place of JSON the params are read from standard input: so no secret stands on the command line.
    """
    try:
        sent = parse_object(sys.stdin.read() if params == "-" else params or "{}", "params")
    except Unfit as error:
        raise click.UsageError(str(error)) from error
    async with face.connect() as client:
        face.show(await client.call(method, sent))
