"""Followers that come back after every break, and go on after the last event they saw."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import Any

from tests.faults.driver.daemon import Daemon
from tests.faults.driver.record import Followed
from tests.faults.driver.wire import Http, Lines, Lost, Refused, Unsent

KINDS = ["status", "progress", "artifact", "log", "chunk", "input_required", "auth_required", "result", "error"]
WAYS = ("get", "post", "unix")
PAUSE_S = 0.005
"""Between two tries to reach a daemon that has just died, or is about to."""
TERMINAL = frozenset({"completed", "failed", "canceled"})


class Follower:
    """Follows one task by one of the three ways, until its last event."""

    def __init__(self, daemon: Daemon, task_id: str, way: str) -> None:
        self.followed = Followed(task_id, way, has_chunks=way != "get")
        self._daemon = daemon

    async def run(self) -> None:
        """Follow, over as many connections as it takes."""
        read = {"get": self._get, "post": self._post, "unix": self._unix}[self.followed.way]
        while not (self.followed.is_finished or self.followed.refused):
            await self._daemon.up.wait()
            try:
                await read()
            except (Lost, Unsent):
                await asyncio.sleep(PAUSE_S)
            except Refused as refused:
                self.followed.refused = str(refused)

    @property
    def _last(self) -> str:
        return f"evt-{self.followed.events[-1][0]:03d}" if self.followed.events else ""

    def _saw(self, event_id: str, kind: str, data: dict[str, Any]) -> None:
        self.followed.events.append((int(event_id.removeprefix("evt-")), kind, data))

    def _is_over(self) -> bool:
        """Whether the last event that there can be was seen."""
        statuses = [data["status"] for _, kind, data in self.followed.events if kind == "task.status"]
        last = self.followed.events[-1][1] if self.followed.events else ""
        return last in {"task.result", "task.error"} or (last == "task.status" and statuses[-1] == "canceled")

    async def _get(self) -> None:
        http = Http(self._daemon.port, self._daemon.token)
        path = f"/aios/tasks/{self.followed.task_id}/events"
        async with aclosing(http.events(path, last_event_id=self._last or None)) as frames:
            async for frame in frames:
                self._saw(frame.id, frame.event, json.loads(frame.data))
        # A daemon that stops ends its streams in good order, too.
        self.followed.is_finished = self._is_over()

    async def _post(self) -> None:
        http = Http(self._daemon.port, self._daemon.token)
        method, params = self._asked()
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        async with aclosing(http.events("", message=message)) as frames:
            async for frame in frames:
                data = json.loads(frame.data)
                if frame.event != "message":
                    self._saw(frame.id, frame.event, data)
                elif "error" in data:
                    raise Refused(data["error"])
                else:
                    self._missed(data["result"])
        self.followed.is_finished = self._is_over()

    async def _unix(self) -> None:
        lines = Lines()
        try:
            await lines.open(self._daemon.socket_path)
            self._missed(await lines.call(*self._asked()))
            while not self._is_over():
                note = await lines.notes.get()
                if note is None:
                    raise Lost
                data = dict(note["params"])
                del data["subscription_id"]
                self._saw(data.pop("event_id"), note["method"].removeprefix("aios/"), data)
            self.followed.is_finished = True
        finally:
            await lines.close()

    def _asked(self) -> tuple[str, dict[str, Any]]:
        about = {"task_id": self.followed.task_id, "events": KINDS}
        if self._last:
            return "aios/task.resubscribe", {**about, "last_event_id": self._last}
        return "aios/task.subscribe", {**about, "from": "start"}

    def _missed(self, result: dict[str, Any]) -> None:
        for event in result.get("missed_events", ()):
            self._saw(event["id"], event["event"], event["data"])
