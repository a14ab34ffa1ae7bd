"""The one configuration of a daemon: defaults, then the file, then the environment, then flags; frozen, checked, traceable.

Keys are named as the protocol names them (`limits.max_queue_size`). In the file they are tables of TOML, in the environment
`AIOS_LIMITS__MAX_QUEUE_SIZE`. A key nobody knows and a value of the wrong type are errors that name their place: a typing
mistake must not silently leave a default in force.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec

from aios.errors import ValidationFailed
from aios.model import Limits

Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]
Milliseconds = Annotated[int, msgspec.Meta(ge=1, le=86_400_000)]
Count = Annotated[int, msgspec.Meta(ge=1)]


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the file: frozen, built by keyword."""


class StoreSection(Section, frozen=True, kw_only=True):
    """Where the data is."""

    folder: str = ""
    """Also holds `token`, `master.key` and `daemon.json`. Empty: `$XDG_DATA_HOME/aios`."""


class HttpSection(Section, frozen=True, kw_only=True):
    """The HTTP door (protocol.md §2)."""

    host: str = "127.0.0.1"
    port: Port = 9527
    """0 picks a free one."""
    allowed_hosts: tuple[str, ...] = ()
    """Names besides the loopback ones that a request's `Host` may have; one with a port is allowed with that port only."""
    allowed_origins: tuple[str, ...] = ()
    """Origins of web pages that may speak to the door, as `https://console.example`; the door's own are always allowed."""
    max_connections: Count = 12_000
    max_streams: Count = 10_000
    max_header_size: Count = 64 * 1024
    max_headers: Count = 100
    header_timeout_ms: Milliseconds = 10_000
    """From the first byte of a request, or from the connection, to the end of its header."""
    body_timeout_ms: Milliseconds = 60_000
    keep_alive_ms: Milliseconds = 60_000
    """How long a connection may stay idle between requests."""
    sse_keep_alive_ms: Milliseconds = 15_000


class TlsSection(Section, frozen=True, kw_only=True):
    """Encryption of the HTTP and TCP doors."""

    certificate: str = ""
    key: str = ""
    insecure_plaintext: bool = False
    """Listen beyond loopback without TLS, because a proxy before the daemon encrypts."""


class TcpSection(Section, frozen=True, kw_only=True):
    """The TCP door; off unless it has an address."""

    address: str = ""
    """`HOST:PORT`; port 0 picks a free one."""


class UnixSection(Section, frozen=True, kw_only=True):
    """The Unix socket."""

    path: str = ""
    """Empty: `$XDG_RUNTIME_DIR/aios/aios.sock`, or in the data folder where that is given or the variable is not set."""
    enabled: bool = True


class StdioSection(Section, frozen=True, kw_only=True):
    """Standard input and output as a door, for a program that starts the daemon as its child."""

    enabled: bool = False
    role: str = "client"
    """The role of whoever started the daemon: client, operator, approver, admin or owner."""


class DuplexSection(Section, frozen=True, kw_only=True):
    """Bounds of every connection on which both sides speak: WebSocket, Unix socket, TCP, stdio."""

    max_connections: Count = 1_000
    """Per door."""
    max_in_flight: Count = 200
    """Requests of one connection that are worked on at once; what comes after waits in the peer."""
    max_output_size: Count = 8 * 1024 * 1024
    """Bytes of one connection that wait to be written; a peer that lets more pile up is cut off."""
    handshake_timeout_ms: Milliseconds = 10_000
    write_timeout_ms: Milliseconds = 30_000
    """How long a peer may take nothing of what is written to it, on any door."""


class AuthSection(Section, frozen=True, kw_only=True):
    """Secrets of the daemon."""

    key_file: str = ""
    """The master key, 32 bytes. Empty: `master.key` in the data folder."""


class RetentionSection(Section, frozen=True, kw_only=True):
    """How long finished tasks are kept."""

    days: Annotated[int, msgspec.Meta(ge=1, le=36_500)] = 30


class AdaptersSection(Section, frozen=True, kw_only=True):
    """Adapters of one's own."""

    modules: tuple[str, ...] = ()
    """Files, modules or names of entry points, as `--adapter` takes them."""


class Config(Section, frozen=True, kw_only=True):
    """Everything that can be set."""

    limits: Limits = Limits()
    store: StoreSection = StoreSection()
    http: HttpSection = HttpSection()
    tls: TlsSection = TlsSection()
    tcp: TcpSection = TcpSection()
    unix: UnixSection = UnixSection()
    stdio: StdioSection = StdioSection()
    duplex: DuplexSection = DuplexSection()
    auth: AuthSection = AuthSection()
    retention: RetentionSection = RetentionSection()
    adapters: AdaptersSection = AdaptersSection()
    origins: dict[str, str] = {}
    """Where each value that is not a default came from, by its dotted name; for `aios config show`."""

    @property
    def folder(self) -> Path:
        """The data folder."""
        return Path(self.store.folder)

    @property
    def key_file(self) -> Path:
        """Where the master key is."""
        return Path(self.auth.key_file) if self.auth.key_file else self.folder / "master.key"

    def values(self) -> Iterator[tuple[str, Any, str]]:
        """Give each key as `(dotted name, value, where it came from)`, in the order of the sections."""
        for section in _SECTIONS:
            table = getattr(self, section)
            for key in table.__struct_fields__:
                name = f"{section}.{key}"
                yield name, getattr(table, key), self.origins.get(name, "default")


_SECTIONS = [name for name in Config.__struct_fields__ if name != "origins"]


def _sections() -> dict[str, dict[str, Any]]:
    """The type of every key, by section."""
    return {
        section.name: {field.name: field.type for field in msgspec.structs.fields(section.type)}
        for section in msgspec.structs.fields(Config)
        if section.name != "origins"
    }


_TYPES = _sections()
_PATHS = {"store.folder", "unix.path", "tls.certificate", "tls.key", "auth.key_file"}


def load(
    file: Path | None = None,
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, Any] | None = None,
) -> Config:
    """Make the configuration from its four sources, each stronger than the one before it.

    Args:
        file: A file that must exist; None: `$XDG_CONFIG_HOME/aios/aios.toml`, if it does.
        environ: The process's environment.
        flags: Values by their dotted names (`http.port`); those that are None were not given.

    Raises:
        ValidationFailed: An unknown key or a wrong value; the sentence names the place.
    """
    environ = environ or {}
    tables: dict[str, dict[str, Any]] = {}
    origins: dict[str, str] = {}
    for source in (_from_file(file, environ), _from_environment(environ), _from_flags(flags or {})):
        for name, value, origin in source:
            section, _, key = name.partition(".")
            tables.setdefault(section, {})[key] = value
            origins[name] = origin
    _fill_places(tables, origins, environ)
    config = msgspec.convert({**tables, "origins": origins}, Config)
    _check(config)
    return config


def _from_file(file: Path | None, environ: Mapping[str, str]) -> Iterator[tuple[str, Any, str]]:
    if file is None:
        file = _folder(environ, "XDG_CONFIG_HOME", ".config") / "aios.toml"
        if not file.exists():
            return
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValidationFailed(f"{file}: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValidationFailed(f"{file}: not TOML: {error}") from error
    for section, table in content.items():
        if section not in _TYPES:
            raise ValidationFailed(f"{file}: unknown section [{section}]; there are {', '.join(_TYPES)}")
        if not isinstance(table, dict):
            raise ValidationFailed(f"{file}: {section} must be a table: [{section}]")
        for key, value in msgspec.convert(table, dict[str, Any]).items():
            name = f"{section}.{key}"
            checked = _checked(name, value, place=f"{file}: {name}")
            yield name, _placed(name, checked, file.absolute().parent), f"file {file}"


def _placed(name: str, value: Any, folder: Path) -> Any:
    """Read relative paths of a file from the file's own folder: they mean the same wherever the daemon is started."""
    if name in _PATHS and value:
        return str(folder / Path(value).expanduser())
    if name == "adapters.modules":
        return tuple(str(folder / Path(each).expanduser()) if each.endswith(".py") else each for each in value)
    return value


def _from_environment(environ: Mapping[str, str]) -> Iterator[tuple[str, Any, str]]:
    if environ.get("AIOS_DATA"):
        yield "store.folder", environ["AIOS_DATA"], "environment AIOS_DATA"
    for variable, text in sorted(environ.items()):
        section, separator, key = variable.removeprefix("AIOS_").lower().partition("__")
        if variable.startswith("AIOS_") and separator:
            name = f"{section}.{key}"
            yield name, _checked(name, text, place=variable, is_text=True), f"environment {variable}"


def _from_flags(flags: Mapping[str, Any]) -> Iterator[tuple[str, Any, str]]:
    for name, value in flags.items():
        if value is not None:
            yield name, _checked(name, value, place=f"flag for {name}"), "flag"


def _checked(name: str, value: Any, *, place: str, is_text: bool = False) -> Any:
    """Hold a value to its key's type; text from the environment is read as the type wants it, lists by commas."""
    section, _, key = name.partition(".")
    if key not in _TYPES.get(section, {}):
        near = difflib.get_close_matches(key, _TYPES.get(section, {}), n=1)
        known = ", ".join(_TYPES[section]) if section in _TYPES else f"sections {', '.join(_TYPES)}"
        meant = f"did you mean {section}.{near[0]}?" if near else f"there are {known}"
        raise ValidationFailed(f"{place}: unknown key; {meant}", errors=[{"path": name, "message": "unknown"}])
    kind = _TYPES[section][key]
    if is_text and kind == tuple[str, ...]:
        value = [part.strip() for part in value.split(",") if part.strip()]
    try:
        converted = msgspec.convert(value, kind, strict=not is_text)
    except msgspec.ValidationError as error:
        raise ValidationFailed(f"{place}: {error}", errors=[{"path": name, "message": str(error)}]) from error
    if section == "limits" and converted < 1:
        raise ValidationFailed(f"{place}: must be at least 1", errors=[{"path": name, "message": "less than 1"}])
    return converted


def _fill_places(tables: dict[str, dict[str, Any]], origins: dict[str, str], environ: Mapping[str, str]) -> None:
    """Settle the paths that depend on each other and on the XDG folders (protocol.md §2, default binding)."""
    store, unix = tables.setdefault("store", {}), tables.setdefault("unix", {})
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    has_own_folder = bool(store.get("folder"))
    if not has_own_folder:
        store["folder"] = str(_folder(environ, "XDG_DATA_HOME", ".local/share"))
    store["folder"] = str(Path(store["folder"]).expanduser().absolute())
    if not unix.get("path"):
        folder = store["folder"] if has_own_folder or not runtime else f"{runtime}/aios"
        unix["path"] = f"{folder}/aios.sock"
        origins.pop("unix.path", None)


def _folder(environ: Mapping[str, str], variable: str, below_home: str) -> Path:
    """The folder `aios` of an XDG base folder."""
    base = environ.get(variable, "")
    return (Path(base) if base.startswith("/") else Path(environ.get("HOME") or "/") / below_home) / "aios"


def _check(config: Config) -> None:
    """Refuse values that are each in order and not together."""
    if bool(config.tls.certificate) != bool(config.tls.key):
        raise ValidationFailed("tls.certificate and tls.key go together: give both (--tls-cert and --tls-key)")
    if config.tcp.address:
        split_address(config.tcp.address)
    if config.stdio.role not in {"client", "operator", "approver", "admin", "owner"}:
        raise ValidationFailed(
            f"stdio.role: no role {config.stdio.role!r}; there are client, operator, approver, admin, owner"
        )


def split_address(address: str) -> tuple[str, int]:
    """Take `HOST:PORT` apart; an IPv6 host is written `[::1]:9528`.

    Raises:
        ValidationFailed: It is not that.
    """
    host, separator, port = address.rpartition(":")
    if not separator or not host or not port.isdecimal() or int(port) > 65535:
        raise ValidationFailed(f"tcp.address: {address!r} is not HOST:PORT, as 127.0.0.1:9528 or [::1]:9528")
    return host.removeprefix("[").removesuffix("]"), int(port)
