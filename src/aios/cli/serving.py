"""`aios serve`, and what belongs to the daemon's own place: `aios token`, `aios config show`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from aios.cli.face import Face, command, to_json

if TYPE_CHECKING:
    from aios.adapter import Adapter
    from aios.config import Config
    from aios.daemon import Daemon
    from aios.model import JsonObject

FLAGS = {
    "host": "http.host",
    "port": "http.port",
    "socket": "unix.path",
    "tcp": "tcp.address",
    "stdio": "stdio.enabled",
    "role": "stdio.role",
    "tls_cert": "tls.certificate",
    "tls_key": "tls.key",
    "insecure_plaintext": "tls.insecure_plaintext",
}
"""Flags of `aios serve` and the settings they are."""


@click.group()
def serving() -> None:
    """Hold the commands until the root takes them."""


@click.group("config")
def config_group() -> None:
    """See how the daemon is configured."""


CONFIG_FILE = click.option(
    "--config", "file", type=click.Path(path_type=Path), help="The file; else $XDG_CONFIG_HOME/aios/aios.toml."
)


@command(serving, "serve", example="aios serve --port 0 --adapter my_tools.py", is_local=True)
@click.option("--host", help="Where HTTP listens; default 127.0.0.1.")
@click.option("--port", type=click.IntRange(0, 65535), help="The port; default 9527, 0 picks a free one.")
@click.option("--socket", type=click.Path(), help="The Unix socket's path.")
@click.option("--tcp", metavar="HOST:PORT", help="Listen on TCP too, newline-delimited JSON.")
@click.option("--stdio", is_flag=True, help="Speak over standard input and output too, and stop when they close.")
@click.option("--role", help="Of whoever speaks over --stdio; default client.")
@click.option("--tls-cert", type=click.Path(), help="Certificate for HTTP and TCP (PEM).")
@click.option("--tls-key", type=click.Path(), help="Its private key (PEM).")
@click.option("--insecure-plaintext", is_flag=True, help="Allow other hosts in without TLS: a proxy before us has it.")
@click.option("--adapter", multiple=True, metavar="FILE|MODULE", help="Offer these capabilities too; may be repeated.")
@CONFIG_FILE
def serve(face: Face, file: Path | None, adapter: tuple[str, ...], **flags: Any) -> int:
    """Run the daemon, until Ctrl-C or SIGTERM.

    One line on standard error says when it is ready, and where. With --output json that line is JSON.
    """
    from aios.daemon import run

    given = {name: flags[flag] or None for flag, name in FLAGS.items() if flag != "port"}
    given |= {"http.port": flags["port"], "adapters.modules": list(adapter) or None}
    config = _config(face, file, given)
    return run(config, adapters=_adapters(config), ready=lambda daemon: _ready(face, daemon))


def _config(face: Face, file: Path | None, flags: JsonObject) -> Config:
    from aios.config import load

    return load(file, os.environ, {"store.folder": face.data, **flags})


def _adapters(config: Config) -> Iterator[Adapter]:
    """Our own, those that are installed and those named; a broken one that is only installed does not stop the daemon.

    They are loaded when the daemon asks for them: by then standard output is its door's, and a module that prints while it is
    loaded breaks no frame.
    """
    from aios.adapters.loading import load, load_installed
    from aios.builtin import adapters as built_in

    yield from built_in()
    found, failed = load_installed()
    for name, reason in failed.items():
        click.echo(f"warning: the installed adapter {name} is left out: {reason}", err=True)
    yield from found
    for reference in config.adapters.modules:
        yield from load(reference)


def _ready(face: Face, daemon: Daemon) -> None:
    places = {"url": daemon.url, "tcp": daemon.tcp_url, "socket": daemon.socket_path, "data": daemon.config.folder}
    known = {name: str(place) for name, place in places.items() if place}
    if face.is_json:
        click.echo(to_json({**known, "pid": os.getpid()}, is_pretty=False), err=True)
    else:
        others = ", ".join(
            [f"process {os.getpid()}", *(f"{name} {place}" for name, place in known.items() if name != "url")]
        )
        click.echo(f"aios is ready at {daemon.url} ({others})", err=True)


@command(
    serving,
    "token",
    example='curl -H "Authorization: Bearer $(aios token)" http://127.0.0.1:9527/metrics',
    is_local=True,
)
def token(face: Face) -> None:
    """Print the owner's token, which lies in the data folder. Whoever has it may do everything."""
    from aios.client.discovery import read_token
    from aios.errors import StoreUnavailable

    folder = _config(face, None, {}).folder
    found = read_token(folder)
    if found is None:
        raise StoreUnavailable(f"there is no token in {folder}; the daemon makes one when it starts: aios serve")
    face.show({"token": found}, lambda: found)


@command(config_group, "show", example="aios config show --data ./mine", is_local=True)
@CONFIG_FILE
def show(face: Face, file: Path | None) -> None:
    """Show every setting, its value, and where the value comes from."""
    config = _config(face, file, {})
    values = list(config.values())
    face.show(
        {name: {"value": value, "origin": origin} for name, value, origin in values},
        lambda: face.table(
            ["SETTING", "VALUE", "FROM"], [[name, _worded(value), origin] for name, value, origin in values]
        ),
    )


def _worded(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ", ".join(map(str, cast("tuple[Any, ...]", value))) if isinstance(value, tuple) else str(value)
