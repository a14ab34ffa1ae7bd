"""The command `aios` and what is below it."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import click
from click.exceptions import NoArgsIsHelpError

from aios.cli.artifacts import artifact
from aios.cli.calling import calling
from aios.cli.capabilities import capability
from aios.cli.doctor import doctoring
from aios.cli.face import LEFT, inherit, shared_options, to_json
from aios.cli.running import running
from aios.cli.serving import config_group, serving
from aios.cli.tasks import task

EPILOG = """\b
Example:
  aios serve &
  aios run system.info.read

\b
Exit codes:
  0 completed   1 failed   2 wrong usage, or refused   3 canceled
  4 the task waits and nobody is there to answer   130 left by Ctrl-C

\b
Environment:
  AIOS_URL, AIOS_TOKEN   the daemon and its token; else found by the data folder
  AIOS_DATA              the data folder
  NO_COLOR               no colours
"""


class Root(click.Group):
    """The group that hears Ctrl-C and tells it by the exit code shells use for it; wrong usage is told to machines too."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Read the words before the command."""
        words = list(args)
        with _told(words):
            made = super().make_context(info_name, args, parent, **extra)
        made.meta[_WORDS] = words
        return made

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            with _told(ctx.meta[_WORDS]):
                return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("", err=True)
            sys.exit(LEFT)


_WORDS = "aios.words"


@contextmanager
def _told(words: list[str]) -> Generator[None]:
    """Put wrong usage on standard output as well, where JSON is wanted there."""
    try:
        yield
    except click.ClickException as error:
        if _wants_json(words):
            from aios.errors import InvalidParams

            said = "a command is missing" if isinstance(error, NoArgsIsHelpError) else error.format_message()
            click.echo(to_json({"error": InvalidParams(said).to_wire()}, is_pretty=sys.stdout.isatty()))
        raise


def _wants_json(words: list[str]) -> bool:
    """Whether JSON was asked for, in words that could not be read as a whole."""
    asked = [after for word, after in pairwise(words) if word in {"-o", "--output"}]
    asked += [word.partition("=")[2] for word in words if word.startswith("--output=")]
    return asked[-1:] == ["json"] or "-ojson" in words


def _version(ctx: click.Context, _: click.Parameter, is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version

        click.echo(f"aios {version('aiosd')}")
        ctx.exit()


@click.group(
    cls=Root, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Print the version."
)
@click.pass_context
def main(ctx: click.Context, **values: str | None) -> None:
    """Durable tasks for AI agents: a daemon that runs them, and the commands to ask for them."""
    ctx.obj = values
    if os.environ.get("NO_COLOR"):
        ctx.color = False


main.params += shared_options()
for group in (artifact, capability, config_group, task):
    inherit(group)
    main.add_command(group)
for holder in (calling, doctoring, running, serving):
    for name, held in holder.commands.items():
        main.add_command(held, name)
