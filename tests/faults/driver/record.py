"""What clients asked, what they were told, and what followers saw: the history that is held against what was stored.

After Jepsen: an operation whose reply was lost is *unknown*. It may have happened or not, and neither is held against anybody.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Json = dict[str, Any]
Outcome = Literal["open", "ok", "fail", "unknown"]


@dataclass
class Operation:
    """One call of one client."""

    number: int
    client: str
    kind: str
    facts: Json
    invoked_at: int
    """Of the machine's monotonic clock, in nanoseconds, as in the ledger."""
    life: int
    """Which start of the daemon it was."""
    outcome: Outcome = "open"
    ended_at: int = 0
    value: Any = None

    def end(self, outcome: Outcome, value: Any = None) -> None:
        self.outcome, self.value, self.ended_at = outcome, value, time.monotonic_ns()


@dataclass
class Sighting:
    """Somebody was told how a task stands."""

    task_id: str
    status: str
    at: int


@dataclass
class Followed:
    """What one follower saw of one task, over all its connections."""

    task_id: str
    way: str
    has_chunks: bool
    """Whether it asked for events of all kinds."""
    events: list[tuple[int, str, Json]] = field(default_factory=list[tuple[int, str, Json]])
    """Number, kind, data."""
    is_finished: bool = False
    """Whether the daemon ended the stream because nothing will follow."""
    refused: str = ""
    """Why the daemon would not let it follow."""


@dataclass
class Record:
    """A history in the making."""

    operations: list[Operation] = field(default_factory=list[Operation])
    sightings: list[Sighting] = field(default_factory=list[Sighting])
    followed: list[Followed] = field(default_factory=list[Followed])
    pids: dict[int, int] = field(default_factory=dict[int, int])
    """The daemon's process in each of its lives."""
    deaths: int = 0
    """How often the daemon was killed."""
    stops: int = 0
    """How often it was asked to stop."""

    def begin(self, client: str, kind: str, *, life: int, **facts: Any) -> Operation:
        """Note that something is asked."""
        made = Operation(len(self.operations), client, kind, facts, time.monotonic_ns(), life)
        self.operations.append(made)
        return made

    def drop(self, operation: Operation) -> None:
        """Forget what never left the client."""
        operation.end("fail", "unsent")

    def see(self, task: Json) -> None:
        """Note what an answer says of a task."""
        self.sightings.append(Sighting(task["task_id"], task["status"], time.monotonic_ns()))

    def write(self, path: Path) -> None:
        """Write it down, a line each, for whoever looks for the reason of a failure."""
        lists = (self.operations, self.sightings, self.followed)
        lines = [
            json.dumps({"what": type(each).__name__, **vars(each)}) for each in (e for many in lists for e in many)
        ]
        path.write_text("\n".join(lines) + "\n")
