"""Where the daemon is: from what the caller says, the environment, or the files a running daemon leaves in its data folder.

Precedence: an address given in code, then a data folder given in code, then `AIOS_URL` with `AIOS_TOKEN`, then the data folder
(`AIOS_DATA`, else `$XDG_DATA_HOME/aios`, else `~/.local/share/aios`) with its `daemon.json` and `token` (protocol.md §2).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

import msgspec

from aios.errors import DaemonUnreachable, InvalidParams
from aios.model import Record

PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443, "tcp": 9528, "tcps": 9528, "unix": 0}
DAEMON_FILE_SIZE_MAX = 64 * 1024
START_IT = "if it runs elsewhere, say where with AIOS_URL and AIOS_TOKEN"


class Endpoint(Record, frozen=True, kw_only=True):
    """A URL taken apart: how and where to knock."""

    scheme: str
    host: str = ""
    port: int = 0
    path: str = ""
    """Of the socket for `unix:`, otherwise what a proxy puts before our paths."""


class Target(Record, frozen=True, kw_only=True):
    """An address and the credential that goes with it."""

    url: str
    token: str | None = None
    origin: str = "the caller"
    """Who named it, for messages."""

    @property
    def endpoint(self) -> Endpoint:
        """The address taken apart. Raises: InvalidParams."""
        return parse(self.url)


class DaemonFile(Record, frozen=True, kw_only=True):
    """What a running daemon writes about itself into its data folder."""

    url: str | None = None
    socket: str | None = None
    pid: int | None = None
    version: str | None = None


def parse(url: str) -> Endpoint:
    """Take an address apart: `http(s)://`, `ws(s)://`, `tcp(s)://host:port`, `unix:/path`.

    Raises:
        InvalidParams: The scheme is another, the host is missing, or the URL holds a credential.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InvalidParams(f"{url!r} is no URL: {error}") from error
    scheme = parts.scheme.lower()
    if scheme not in PORTS:
        raise InvalidParams(f"{url!r} must begin with http://, https://, ws://, wss://, tcp://, tcps:// or unix:")
    if parts.username is not None or parts.password is not None:
        raise InvalidParams("a URL must not hold a credential; give the token by itself (AIOS_TOKEN)")
    if scheme == "unix":
        return _unix(parts, url)
    if not parts.hostname:
        raise InvalidParams(f"{url!r} names no host")
    return Endpoint(
        scheme=scheme,
        host=parts.hostname,
        port=PORTS[scheme] if port is None else port,
        path=parts.path.rstrip("/"),
    )


def _unix(parts: SplitResult, url: str) -> Endpoint:
    path = parts.netloc + parts.path
    if not path:
        raise InvalidParams(f"{url!r} names no socket; write unix:/path/to/aios.sock")
    return Endpoint(scheme="unix", path=path)


def data_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """The folder in which the daemon of this user keeps its data, unless it was told another."""
    if given := environ.get("AIOS_DATA"):
        return Path(given).expanduser()
    share = environ.get("XDG_DATA_HOME", "")
    # A relative path there is to be ignored, says the XDG specification.
    return (Path(share) if share.startswith("/") else Path.home() / ".local" / "share") / "aios"


def read_daemon_file(folder: Path) -> DaemonFile | None:
    """Read `daemon.json`; None where no daemon has written one.

    Raises:
        DaemonUnreachable: The file is there and cannot be read.
    """
    path = folder / "daemon.json"
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(DAEMON_FILE_SIZE_MAX), type=DaemonFile)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise DaemonUnreachable(f"{path} cannot be read: {error}; {START_IT}") from error


def read_token(folder: Path) -> str | None:
    """Read the owner's token; None where the folder has none.

    Raises:
        DaemonUnreachable: The file is there and may not be read by this user.
    """
    path = folder / "token"
    try:
        return path.read_text(encoding="ascii").strip() or None
    except FileNotFoundError:
        return None
    except (OSError, UnicodeError) as error:
        raise DaemonUnreachable(f"the token in {path} cannot be read: {error}") from error


def locate(
    url: str | None = None,
    token: str | None = None,
    *,
    data: Path | str | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Target:
    """Say where the daemon is and with which token to go there; asked anew after every lost connection.

    The data folder's token goes only to the address that the data folder names: a token is never sent to a stranger.

    Raises:
        DaemonUnreachable: Nobody said where, and the data folder knows of no daemon.
        InvalidParams: The address is none.
    """
    origin = "the caller"
    if url is None and data is None and environ.get("AIOS_URL"):
        url, origin = environ["AIOS_URL"], "AIOS_URL"
    token = token or (environ.get("AIOS_TOKEN") if data is None else None)
    folder = data_folder(environ) if data is None else Path(data)
    if url is not None:
        parse(url)
        return Target(url=url, token=token or _token_of_ours(url, folder), origin=origin)
    daemon = read_daemon_file(folder)
    address = None if daemon is None else daemon.url or (daemon.socket and f"unix:{daemon.socket}")
    if not address:
        raise DaemonUnreachable(f"no daemon runs on the data folder {folder}; {START_IT}")
    return Target(url=address, token=token or read_token(folder), origin=str(folder / "daemon.json"))


def _token_of_ours(url: str, folder: Path) -> str | None:
    """The data folder's token, if the daemon on that folder is the one at `url`."""
    daemon = read_daemon_file(folder)
    if daemon is None:
        return None
    wanted, known = parse(url), parse(daemon.url) if daemon.url else None
    if known and (wanted.host, wanted.port) == (known.host, known.port) and _is_tls(wanted) == _is_tls(known):
        return read_token(folder)
    return None


def _is_tls(endpoint: Endpoint) -> bool:
    return endpoint.scheme in {"https", "wss", "tcps"}


def describe(value: Any) -> str:
    """Put an exception into words, for those that have none."""
    return str(value) or type(value).__name__
