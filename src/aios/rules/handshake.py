"""What client and server agree on when a connection is opened, and what may be asked before (protocol.md §3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from aios.errors import AlreadyInitialized, NotInitialized, VersionMismatch
from aios.model import JsonObject, Limits

VERSIONS: Final = ("0.3.0", "0.2.0")
"""The protocol versions this server speaks, newest first."""

INITIALIZE: Final = "aios/initialize"

OPEN_METHODS: Final = frozenset({INITIALIZE, "aios/ping", "rpc.discover"})
"""What may be asked on a duplex transport before the connection is initialized."""


def choose_version(requested: str, supported: Iterable[str] = ()) -> str:
    """Pick the newest version that both sides speak.

    Raises:
        VersionMismatch: There is none.
    """
    theirs = {requested, *supported}
    for version in VERSIONS:
        if version in theirs:
            return version
    raise VersionMismatch(
        f"This server does not speak version {requested} of the protocol; ask for one of {', '.join(VERSIONS)}.",
        requested_version=requested,
        supported_versions=list(VERSIONS),
        latest_version=VERSIONS[0],
    )


def choose_extensions(*, supported: Iterable[str], required: Iterable[str], ours: Sequence[str]) -> list[str]:
    """Pick the extensions that both sides have, in our order. What a client requires it also supports.

    Raises:
        VersionMismatch: An extension that the client cannot do without is not ours.
    """
    wanted = list(required)
    for extension in wanted:
        if extension not in ours:
            raise VersionMismatch(
                f"The required extension {extension} is not known here.",
                required_extension=extension,
                supported_extensions=list(ours),
            )
    theirs = {*wanted, *supported}
    return [extension for extension in ours if extension in theirs]


def choose_capabilities(theirs: JsonObject, *, ours: Mapping[str, bool], limits: Limits) -> JsonObject:
    """Give what both sides can do, and the limits, of which each is the smaller one of both sides.

    What only one side names is left out. Limits are always told, whether or not the client named any; of a client's own, one
    that is not a positive number limits nothing.
    """
    agreed: JsonObject = {
        name: can and theirs[name] for name, can in ours.items() if isinstance(theirs.get(name), bool)
    }
    asked: JsonObject = theirs["limits"] if isinstance(theirs.get("limits"), dict) else {}
    agreed["limits"] = {name: _smaller(asked.get(name), limit) for name, limit in limits_to_wire(limits).items()}
    return agreed


def limits_to_wire(limits: Limits) -> dict[str, int]:
    """Give the limits that a server tells its clients."""
    return {
        "max_concurrent_tasks": limits.max_concurrent_tasks,
        "max_tasks_per_tool": limits.max_tasks_per_tool,
        "max_queue_size": limits.max_queue_size,
        "max_batch_size": limits.max_batch_size,
        "max_message_size": limits.max_message_size,
    }


def check_order(method: str, *, is_initialized: bool) -> None:
    """Refuse what comes too early, or a second time, on a connection that must be initialized.

    Raises:
        NotInitialized: The method is none of `OPEN_METHODS` and the connection is not open.
        AlreadyInitialized: The connection is open and is to be opened again.
    """
    if is_initialized and method == INITIALIZE:
        raise AlreadyInitialized("This connection was initialized before; open another one to begin anew.")
    if not is_initialized and method not in OPEN_METHODS:
        raise NotInitialized(f"Call {INITIALIZE} first; {method} has to wait for its answer.")


def _smaller(their: Any, our: int) -> int:
    is_limit = isinstance(their, int | float) and not isinstance(their, bool) and their >= 1
    return int(min(their, our)) if is_limit else our
