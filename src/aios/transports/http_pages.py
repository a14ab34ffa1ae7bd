"""What is read from the HTTP door by GET: a task's events, artifacts, health and metrics (protocol.md §2, §7)."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

import msgspec

from aios.errors import (
    AiosError,
    AuthenticationRequired,
    InvalidParams,
    InvalidRequest,
    NotFound,
    PermissionDenied,
    ResourceBusy,
    SessionNotFound,
    ValidationFailed,
)
from aios.service.call import Principal
from aios.service.dispatcher import Service
from aios.transports.admission import Refused
from aios.transports.http_guard import RETRY_AFTER

if TYPE_CHECKING:
    from aios.service.subscriptions import Subscription
    from aios.transports.http import HttpDoor, Visit

PART_DIGITS_MAX = 6
QUERY_FIELDS_MAX = 16
SANDBOX = [
    (b"content-disposition", b"attachment"),
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"sandbox; default-src 'none'"),
    (b"cache-control", b"no-store"),
    (b"accept-ranges", b"bytes"),
]
"""An artifact's HTML or SVG must never run on the daemon's own origin."""
NO_STORE = (b"cache-control", b"no-store")
JSON = (b"content-type", b"application/json")

_RANGE = re.compile(rb"bytes=(\d{0,15})-(\d{0,15})")
_MIME_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+(; ?[\w-]+=[\w.-]+)?", re.ASCII)


class Pages:
    """The pages of one door.

    Args:
        metrics: Makes the text that Prometheus reads.
    """

    def __init__(self, *, door: HttpDoor, service: Service, metrics: Callable[[], Awaitable[bytes]]) -> None:
        self._door = door
        self._service = service
        self._metrics = metrics
        door.add_page("/aios/tasks/*/events", self._task_events)
        door.add_page("/aios/subscriptions/*/events", self._subscription_events)
        door.add_page("/aios/artifacts/*", self._artifact)
        door.add_page("/aios/artifacts/*/*", self._artifact)
        door.add_page("/metrics", self._show_metrics)
        door.add_page("/healthz", self._healthz, is_open=True)
        door.add_page("/readyz", self._readyz, is_open=True)

    async def _task_events(self, visit: Visit, principal: Principal) -> None:
        query = _query(visit)
        after = _last_event_id(visit, query) or query.get("from", "start")
        with told():
            found = await self._service.open_task(principal, visit.path[0], after)
        await self._stream(visit, found)

    async def _subscription_events(self, visit: Visit, principal: Principal) -> None:
        after = _last_event_id(visit, _query(visit))
        with told():
            found = await self._service.open_subscription(principal, visit.path[0], after)
        await self._stream(visit, found)

    async def _stream(self, visit: Visit, found: Subscription | None) -> None:
        """Stream what was found; nothing is left to read: 204, at which a browser's `EventSource` stops asking."""
        if visit.scope["method"] != "GET":
            raise Refused(405, InvalidRequest("a stream has no header of its own to look at"), (b"allow", b"GET"))
        if found is None:
            await visit.answer(204, [], b"")
            return
        stream = self._door.stream(visit)
        await self._door.run(stream, lambda: stream.follow(self._service.subscriptions.follow(found)))

    async def _artifact(self, visit: Visit, principal: Principal) -> None:
        artifact_id, *rest = visit.path
        if rest and not (rest[0].isdecimal() and len(rest[0]) <= PART_DIGITS_MAX):
            raise Refused(404, NotFound("a part is named by its number, from 0"))
        with told():
            content = await self._service.artifact_content(principal, artifact_id, int(rest[0]) if rest else None)
        kind = content.mime_type if _MIME_TYPE.fullmatch(content.mime_type) else "application/octet-stream"
        status, headers, body = ranged(content.body, visit.fields.get(b"range"))
        await visit.answer(status, [(b"content-type", kind.encode()), *headers, *SANDBOX], body)

    async def _show_metrics(self, visit: Visit, principal: Principal) -> None:
        body = await self._metrics()
        await visit.answer(200, [(b"content-type", b"text/plain; version=0.0.4; charset=utf-8"), NO_STORE], body)

    async def _healthz(self, visit: Visit, principal: None) -> None:
        await visit.answer(200, [JSON, NO_STORE], b'{"status":"up"}')

    async def _readyz(self, visit: Visit, principal: None) -> None:
        reason = self._door.unready()
        if reason is None:
            await visit.answer(200, [JSON, NO_STORE], b'{"status":"ready"}')
        else:
            body = msgspec.json.encode({"status": "not ready", "reason": reason})
            await visit.answer(503, [JSON, NO_STORE, RETRY_AFTER], body)


def ranged(body: bytes, wanted: bytes | None) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Cut out the one range that was asked for; several, or what is no range, give the whole (RFC 9110 allows it).

    Raises:
        Refused: 416 for a range beyond the end.
    """
    matched = _RANGE.fullmatch(wanted.strip()) if wanted is not None else None
    if matched is None or not (matched[1] or matched[2]):
        return 200, [], body
    size = len(body)
    if matched[1]:
        first = int(matched[1])
        last = min(int(matched[2]), size - 1) if matched[2] else size - 1
        if matched[2] and int(matched[2]) < first:
            return 200, [], body
    else:
        first, last = max(0, size - int(matched[2])), size - 1
    if first > last:
        raise Refused(416, InvalidParams(f"there are {size} bytes"), (b"content-range", b"bytes */%d" % size))
    return 206, [(b"content-range", b"bytes %d-%d/%d" % (first, last, size))], body[first : last + 1]


_STATUS_OF: tuple[tuple[type[AiosError], int], ...] = (
    (AuthenticationRequired, 401),
    (PermissionDenied, 403),
    (NotFound, 404),
    (SessionNotFound, 404),
    (ValidationFailed, 400),
    (InvalidParams, 400),
    (ResourceBusy, 503),
)


@contextmanager
def told() -> Generator[None]:
    """Tell the service's error by HTTP's own status, because nobody sent JSON-RPC here.

    Raises:
        Refused: In its place.
    """
    try:
        yield
    except AiosError as error:
        status = next((status for kind, status in _STATUS_OF if isinstance(error, kind)), 500)
        headers = [RETRY_AFTER] if status == 503 else []
        raise Refused(status, error, *headers) from error


def _query(visit: Visit) -> dict[str, str]:
    """The query's fields; of a repeated one the last. Raises: Refused, 400."""
    try:
        fields = parse_qs(
            visit.scope["query_string"].decode("ascii"), keep_blank_values=True, max_num_fields=QUERY_FIELDS_MAX
        )
    except ValueError as error:
        raise Refused(400, InvalidParams("the query cannot be read")) from error
    return {name: values[-1] for name, values in fields.items()}


def _last_event_id(visit: Visit, query: dict[str, str]) -> str | None:
    """What the reader has seen: the header comes from a browser that reconnects, and knows better than the URL."""
    header = visit.fields.get(b"last-event-id")
    return header.decode("utf-8", "replace") if header else query.get("last_event_id")
