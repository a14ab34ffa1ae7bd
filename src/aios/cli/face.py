"""What all commands share: options, output for people or machines, errors in words, exit codes.

Exit codes: 0 completed · 1 failed · 2 wrong usage, or refused and nothing done · 3 canceled · 4 the task waits and nobody is
there to answer · 130 left by Ctrl-C (a task goes on).
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import shutil
import sys
import unicodedata
from collections.abc import Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from aios.cli.arguments import as_list, as_object

if TYPE_CHECKING:
    from aios.client.client import Connecting
    from aios.errors import AiosError
    from aios.model import JsonObject

COMPLETED, FAILED, REFUSED, CANCELED, WAITING, LEFT = 0, 1, 2, 3, 4, 130

STEERING = {"Cc", "Cf", "Cs"}
"""Categories of characters that are not shown but obeyed: escape sequences, a change of the direction of writing."""
HARMLESS = "\n\t\u200c\u200d"

Command = Callable[..., Any]


class Face:
    """One command's way to speak: results to standard output, everything else to standard error.

    Args:
        output: text for people, json for machines: then standard output carries JSON and nothing else.
        url: The daemon's address, before the environment.
        data: The data folder to find it by, before the environment.
    """

    def __init__(self, *, output: str, url: str | None, data: str | None) -> None:
        self.is_json = output == "json"
        self.url = url
        self.data = data

    def connect(self) -> Connecting:
        """Find the daemon; to be used in `async with`."""
        from aios.client import Client

        token = os.environ.get("AIOS_TOKEN") if self.data is None else None
        return Client.connect(self.url, token, data=self.data_folder())

    def data_folder(self) -> Path | None:
        """The folder to look into, unless the environment names the daemon: as the daemon's own configuration says."""
        if self.data is None and (self.url or os.environ.get("AIOS_URL")):
            return None
        from aios.config import load

        return load(environ=os.environ, flags={"store.folder": self.data}).folder

    def show(self, value: Any, text: Callable[[], str | None] | None = None) -> None:
        """Print a result: as JSON, or as `text` says it."""
        if self.is_json or text is None:
            self.write(to_json(value, is_pretty=not self.is_json or sys.stdout.isatty()))
        elif (words := text()) is not None:
            self.write(words)

    def write(self, text: str) -> None:
        """Put a line on standard output."""
        click.echo(text)

    def say(self, text: str = "") -> None:
        """Tell a person something, on standard error; a machine is told nothing."""
        if not self.is_json:
            click.echo(text, err=True)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
        """Lay out a table: in columns on a terminal, else with tabs between, uncut, for other programs."""
        rows = list(rows)
        if not rows:
            self.say("(none)")
        cells = [[clean(str("" if cell is None else cell), is_one_line=True) for cell in row] for row in rows]
        if not sys.stdout.isatty():
            return "\n".join("\t".join(row) for row in [list(columns), *cells])
        widths = [max(map(width_of, column)) for column in zip(columns, *cells, strict=True)]
        room = max(20, shutil.get_terminal_size().columns)
        lines = [_laid_out(row, widths, room) for row in [list(columns), *cells]]
        return "\n".join([click.style(lines[0], bold=True), *lines[1:]])

    def fail(self, error: AiosError) -> int:
        """Say what went wrong and what can be done, and give the exit code."""
        if self.is_json:
            self.write(to_json({"error": error.to_wire()}, is_pretty=sys.stdout.isatty()))
        click.echo(f"{click.style('error:', fg='red', bold=True)} {clean(str(error))}", err=True)
        for line in _details(error, str(error)):
            click.echo(f"  {clean(line)}", err=True)
        for line in hints(error):
            click.echo(f"{click.style('hint:', fg='cyan')} {line}", err=True)
        return code_of(error)


def _laid_out(row: Sequence[str], widths: Sequence[int], room: int) -> str:
    line = "  ".join(cell + " " * (width - width_of(cell)) for cell, width in zip(row, widths, strict=True)).rstrip()
    return line if width_of(line) <= room else cut(line, room)


def _details(error: AiosError, said: str) -> Iterable[str]:
    """What is wrong, place by place; what the sentence has said is not said again where it is all."""
    found = [each for each in map(as_object, as_list(error.data.get("errors"))) if each.get("message")]
    if len(found) == 1 and str(found[0]["message"]) in said:
        return
    for each in found:
        yield f"{each.get('path') or '/'}: {each['message']}"


def hints(error: AiosError) -> list[str]:
    """What the person could do about it."""
    import aios.errors as known

    table: list[tuple[type[AiosError], str]] = [
        (known.ValidationFailed, _schema_of(error)),
        (known.DaemonUnreachable, "start it with `aios serve`; what else may be wrong tells `aios doctor`"),
        (known.AuthenticationRequired, "give the daemon's token in AIOS_TOKEN, or its data folder with --data"),
        (known.CapabilityNotFound, _meant(error) + "see what there is with `aios capability list`"),
        (known.TaskNotFound, "see your tasks with `aios task list`"),
        (known.ArtifactNotFound, "see a task's artifacts with `aios artifact list TASK_ID`"),
        (known.MethodNotFound, "see all methods with `aios call rpc.discover`"),
        (known.AnswerLost, "it may have been carried out: look with `aios task list` before doing it again"),
    ]
    suggested = [clean(str(error.data["suggestion"]))] if error.data.get("suggestion") else []
    return [*(text for kind, text in table if text and isinstance(error, kind)), *suggested][:1]


def _meant(error: AiosError) -> str:
    names = [str(each) for each in as_list(error.data.get("did_you_mean"))]
    return f"did you mean {' or '.join(names)}? " if names else ""


def _schema_of(error: AiosError) -> str:
    capability = error.data.get("capability_id")
    return clean(f"see what it takes with `aios capability info {capability}`") if capability else ""


def code_of(error: AiosError) -> int:
    """The exit code for what the daemon answered: refused, unless something is broken."""
    import aios.errors as known

    if isinstance(error, known.DaemonUnreachable):
        return REFUSED
    return FAILED if error.wire_code == known.InternalError.code else REFUSED


def to_json(value: Any, *, is_pretty: bool) -> str:
    """Encode for standard output."""
    return json.dumps(value, ensure_ascii=False, indent=2 if is_pretty else None, default=str)


def clean(text: str, *, is_one_line: bool = False) -> str:
    """Take out what would steer the terminal: texts come from tasks, files and other machines."""
    kept = "".join(
        each if each in HARMLESS or unicodedata.category(each) not in STEERING else "\ufffd" for each in text
    )
    return " ".join(kept.split()) if is_one_line else kept


def width_of(text: str) -> int:
    """How many columns a text takes."""
    return sum(2 if unicodedata.east_asian_width(each) in "WF" else not unicodedata.combining(each) for each in text)


def cut(text: str, room: int) -> str:
    """Shorten a text to so many columns."""
    if width_of(text) <= room:
        return text
    kept, used = "", 0
    for each in text:
        used += width_of(each)
        if used > room - 1:
            break
        kept += each
    return f"{kept}…"


def command(
    group: click.Group, name: str, *, example: str, more: str = "", is_local: bool = False
) -> Callable[[Command], click.Command]:
    """Register a function as a command with the options all have; it is given a `Face` first and gives the exit code.

    Args:
        group: Where it belongs.
        name: What is typed.
        example: A line that shows its use.
        more: Further lines of its help, shown as they are.
        is_local: It speaks to no daemon, so that it needs no address.
    """

    def registered(function: Command) -> click.Command:
        @functools.wraps(function)
        def called(*, output: str | None, data: str | None, url: str | None = None, **values: Any) -> None:
            inherited: JsonObject = click.get_current_context().obj or {}
            face = Face(
                output=output or inherited.get("output") or "text",
                url=url or inherited.get("url"),
                data=data or inherited.get("data"),
            )
            sys.exit(_run(face, function, values))

        epilog = "\n\n".join(f"\b\n{text}" for text in (f"Example:\n  {example}", more) if text)
        # Said here, or click cuts it: the first sentence tells what the command is for.
        about = " ".join((function.__doc__ or "").partition("\n\n")[0].split())
        made = group.command(name, epilog=epilog, short_help=about)(called)
        made.params += [each for each in shared_options() if not (is_local and each.name == "url")]
        return made

    return registered


def inherit(group: click.Group) -> None:
    """Let a group between the root and its commands take the shared options, too."""

    def heard(**values: str | None) -> None:
        ctx = click.get_current_context()
        ctx.obj = {**(ctx.obj or {}), **{name: value for name, value in values.items() if value}}

    group.callback = heard
    group.params += shared_options()


def shared_options() -> list[click.Parameter]:
    """The options that stand everywhere, before or after the command."""
    return [
        click.Option(["--output", "-o"], type=click.Choice(["text", "json"]), help="For people, or JSON for machines."),
        click.Option(
            ["--url"], metavar="URL", help="The daemon's address; else AIOS_URL, else found by its data folder."
        ),
        click.Option(["--data"], metavar="DIR", type=click.Path(), help="The daemon's data folder; else AIOS_DATA."),
    ]


def _run(face: Face, function: Command, values: JsonObject) -> int:
    from aios.errors import AiosError

    try:
        found: Any = function(face, **values)
        if inspect.iscoroutine(found):
            import asyncio

            return asyncio.run(cast("Coroutine[Any, Any, int | None]", found)) or COMPLETED
    except AiosError as error:
        return face.fail(error)
    return found or COMPLETED
