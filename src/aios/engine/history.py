"""A task's `state_history`, told from its log (protocol.md §4)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from aios.model import Event, EventKind, EventPage, JsonObject, Status, Task, wire_time

ENTRIES_MAX = 10_000
"""How many entries are told; of a longer history the beginning and the latest."""
PAGE_EVENTS = 1_000
KINDS = frozenset({EventKind.STATUS, EventKind.INPUT_REQUIRED})

Read = Callable[[int], Awaitable[EventPage]]


async def transitions(task: Task, read: Read) -> list[JsonObject]:
    """Tell through which statuses a task has gone, up to the version of `task`.

    `read` gives the next events of `KINDS` after a number, at most `PAGE_EVENTS`.
    """
    entries: list[JsonObject] = [{"state": Status.PENDING.value, "timestamp": wire_time(task.spec.created_at)}]
    after = 0
    while after < task.version:
        page = await read(after)
        for event in page.events:
            if event.number <= task.version:
                _tell(entries, event)
        if len(page.events) < PAGE_EVENTS:
            break
        after = page.events[-1].number
        if len(entries) > ENTRIES_MAX:
            del entries[1 : len(entries) - ENTRIES_MAX + 1]
    return entries


def _tell(entries: list[JsonObject], event: Event) -> None:
    data: JsonObject = msgspec.json.decode(event.data)
    if event.kind is EventKind.INPUT_REQUIRED:
        # It comes directly behind its status, in the same commit.
        entries[-1]["metadata"] = {"prompt": data.get("prompt"), "options_count": len(data.get("options") or [])}
        return
    entry: JsonObject = {"state": data["status"], "timestamp": wire_time(event.at)}
    if data.get("reason"):
        entry["reason"] = data["reason"]
    entries.append(entry)
