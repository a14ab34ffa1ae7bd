"""The command `aios` and what is below it."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from aios.cli.artifacts import artifact
from aios.cli.calling import calling
from aios.cli.capabilities import capability
from aios.cli.doctor import doctoring
from aios.cli.face import LEFT, shared_options
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
    """The group that hears Ctrl-C and tells it by the exit code shells use for it."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("", err=True)
            sys.exit(LEFT)


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
    main.add_command(group)
for holder in (calling, doctoring, running, serving):
    for name, held in holder.commands.items():
        main.add_command(held, name)
