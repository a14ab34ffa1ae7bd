"""Places where a test may make the process die, to see what is on disk then.

`AIOS_FAILPOINTS="commit.inside=kill@3"` kills the process (SIGKILL: nothing is flushed, nobody is told) when the point is
passed for the third time; several are joined by commas. Without the variable a point costs one look at an empty table.
"""

from __future__ import annotations

import os
import signal
from typing import Final

VARIABLE: Final = "AIOS_FAILPOINTS"

STORE_POINTS: Final = frozenset(
    {
        "commit.before",
        "commit.inside",
        "commit.after",
        "blob.written",
        "blob.renamed",
        "migration.inside",
        "purge.inside",
    }
)
"""Around what the disk is told."""

POINTS: Final = STORE_POINTS | {
    "create.decided",
    "change.decided",
    "change.committed",
    "claim.told",
    "code.ended",
    "step.done",
    "spawn.recorded",
    "release.asked",
    "lost.marked",
    "reply.ready",
    "reply.written",
    "events.written",
    "stop.doors_closed",
    "stop.runner_ended",
}
"""Those, and where the daemon knows something that the disk does not, or has told somebody."""


def _read(setting: str) -> dict[str, int]:
    armed: dict[str, int] = {}
    for part in filter(None, setting.split(",")):
        name, _, action = part.partition("=")
        kind, _, count = action.partition("@")
        if name not in POINTS or kind != "kill":
            raise ValueError(f"{VARIABLE}: {part!r} is not name=kill@n with one of {', '.join(sorted(POINTS))}")
        armed[name] = int(count or 1)
    return armed


_armed = _read(os.environ.get(VARIABLE, ""))


def arm(setting: str) -> None:
    """Set the points anew, in the form of the variable: for a test that forks instead of starting a process."""
    _armed.clear()
    _armed.update(_read(setting))


def failpoint(name: str) -> None:
    """Die here if a test asked for it."""
    if _armed:
        _pass(name)


def _pass(name: str) -> None:
    if name in _armed:
        _armed[name] -= 1
        if _armed[name] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
