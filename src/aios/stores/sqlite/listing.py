"""Lists of tasks: filters, orders, pages that go on by a cursor (protocol.md §4, `task.list` and `task.history`).

A list is made of two parts that never overlap, the unfinished tasks and the finished ones. The first part is small and is
scanned. The second may hold millions, and is entered the narrowest way: where a filter has few rows behind it, these are taken
and sorted; else the index of the asked order is walked until the page is full.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Any, Final, NamedTuple, cast

import msgspec
from msgspec.structs import replace

from aios.errors import ValidationFailed
from aios.model import TERMINAL, Record, Task, TaskPage, TaskQuery, to_ms
from aios.stores.sqlite.connections import Database
from aios.stores.sqlite.records import TaskRow, decode_task
from aios.stores.sqlite.statements import statement

PAGE_MAX: Final = 1_000
PAGE_BYTES_MAX: Final = 8 * 1024 * 1024
EXACT_TOTAL_MAX: Final = 10_000
NARROW_MAX: Final = 10_000
"""Rows behind a filter up to which they are taken and sorted."""
COUNTED_ROWS_MAX: Final = 200_000
"""Rows that are looked at to find the total; past them it is an estimate."""
SAMPLED_BLOCKS: Final = 100
"""Places, spread evenly over all rows, from which the estimate is drawn."""
BLOCK_ROWS: Final = 200
"""Rows that are looked at in each."""
OFFSET_MAX: Final = 10_000_000
SORTS: Final = frozenset({"created_at", "updated_at", "started_at", "priority", "status"})


class Cursor(Record, frozen=True, kw_only=True, array_like=True):
    """Where a page ended."""

    query: bytes
    """Digest of the query it belongs to."""
    value: int | str
    """Of the last task, in the sorted column."""
    task_id: str


class _Way(NamedTuple):
    """One way into the finished tasks."""

    hint: str
    where: str
    values: tuple[Any, ...]


_encode_query = msgspec.json.Encoder().encode
_decode_cursor = msgspec.msgpack.Decoder(Cursor).decode


def _digest(query: TaskQuery) -> bytes:
    """Say which query a cursor is of; how long the pages are is no part of it."""
    return blake2b(_encode_query(replace(query, cursor=None, limit=0, offset=0)), digest_size=8).digest()


def _read_cursor(query: TaskQuery) -> Cursor | None:
    if query.cursor is None:
        return None
    text = query.cursor
    try:
        cursor = _decode_cursor(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except ValueError:
        cursor = None
    if cursor is None or cursor.query != _digest(query):
        raise ValidationFailed(
            "The cursor is not of this query; repeat the query that gave it, or leave the cursor out.",
            errors=[{"path": "/pagination/cursor", "message": "not of this query"}],
        )
    return cursor


def glob_pattern(glob: str) -> str:
    """Give SQLite's form of a glob in which only `*` is special."""
    return "".join(f"[{each}]" if each in "?[" else each for each in glob)


def _conditions(query: TaskQuery) -> tuple[list[str], list[Any]]:
    """Give the conditions that hold for either part, and their values."""
    found: list[tuple[str, tuple[Any, ...]]] = []
    if query.principal is not None:
        found.append(("principal = ?", (query.principal,)))
    if query.session_id is not None:
        found.append(("session_id = ?", (query.session_id,)))
    if query.capability_glob is not None:
        found.append(("capability_id GLOB ?", (glob_pattern(query.capability_glob),)))
    terms, created = _created(query)
    found += [(term, (value,)) for term, value in zip(terms, created, strict=True)]
    found += [
        ("EXISTS (SELECT 1 FROM tag WHERE tag.tag = ? AND tag.row = part.row)", (tag,))
        for tag in dict.fromkeys(query.tags)
    ]
    if query.statuses:
        names = sorted({status.value for status in query.statuses})
        found.append((f"status IN ({_marks(len(names))})", tuple(names)))
    return [term for term, _ in found], [value for _, values in found for value in values]


def _range(column: str, after: datetime | None, before: datetime | None) -> tuple[list[str], list[Any]]:
    """Give the conditions of a time between two others, these included."""
    bounds = [(">=", after), ("<=", before)]
    given = [(sign, to_ms(at)) for sign, at in bounds if at is not None]
    return [f"{column} {sign} ?" for sign, _ in given], [at for _, at in given]


def _created(query: TaskQuery) -> tuple[list[str], list[Any]]:
    return _range("created_at", query.created_after, query.created_before)


def _ended(query: TaskQuery) -> tuple[list[str], list[Any]]:
    """Give the conditions that hold for finished tasks alone, which were updated last when they ended."""
    return _range("updated_at", query.ended_after, query.ended_before)


def _where(terms: Sequence[str]) -> str:
    return f"WHERE {' AND '.join(terms)}" if terms else ""


def _marks(count: int) -> str:
    return ", ".join("?" * count)


def _narrow_ways(query: TaskQuery) -> list[_Way]:
    """Give the ways into the finished tasks that the query's filters open."""
    ways: list[_Way] = []
    if query.principal is not None:
        ways.append(_Way("INDEXED BY finished_by_principal", "principal = ?", (query.principal,)))
    if query.session_id is not None:
        ways.append(_Way("INDEXED BY finished_by_session", "session_id = ?", (query.session_id,)))
    if query.tags:
        ways.append(_Way("NOT INDEXED", "row IN (SELECT row FROM tag WHERE tag = ?)", (query.tags[0],)))
    if query.capability_glob is not None and (prefix := query.capability_glob.partition("*")[0]):
        # The glob itself is a condition already; the range below it only makes the way short.
        values = (prefix, prefix + chr(0x10FFFF))
        ways.append(_Way("INDEXED BY finished_by_capability", "capability_id >= ? AND capability_id <= ?", values))
    terms, created = _created(query)
    if terms:
        ways.append(_Way("INDEXED BY finished_by_created_at", " AND ".join(terms), tuple(created)))
    terms, ended = _ended(query)
    if terms:
        ways.append(_Way("INDEXED BY finished_by_updated_at", " AND ".join(terms), tuple(ended)))
    if query.statuses:
        names = sorted({status.value for status in query.statuses})
        ways.append(_Way("INDEXED BY finished_by_status", f"status IN ({_marks(len(names))})", tuple(names)))
    return ways


class Part(NamedTuple):
    """One of the two parts of a list: from where, under which conditions, and whether few rows lie there."""

    source: str
    terms: list[str]
    values: list[Any]
    is_narrow: bool

    @property
    def where(self) -> str:
        return _where(self.terms)


def finished_part(database: Database, query: TaskQuery) -> Part:
    """Choose the way into the finished tasks: the narrowest filter, if one is narrow, else the index of the order."""
    terms, values = _conditions(query)
    only, bounds = _ended(query)
    best: tuple[int, _Way] | None = None
    for way in _narrow_ways(query):
        sql = statement("narrowness").format(index=way.hint, where=way.where, limit=NARROW_MAX + 1)
        count = _one(database, sql, way.values)
        if count <= NARROW_MAX and (best is None or count < best[0]):
            best = (count, way)
    if best is None:
        index = f"INDEXED BY finished_by_{query.sort}"
        return Part(f"finished AS part {index}", [*terms, *only], [*values, *bounds], is_narrow=False)
    way = best[1]
    terms = [way.where, *terms, *only]
    return Part(f"finished AS part {way.hint}", terms, [*way.values, *values, *bounds], is_narrow=True)


def _parts(database: Database, query: TaskQuery) -> list[Part]:
    asked = set(query.statuses)
    parts: list[Part] = []
    if not asked or asked & TERMINAL:
        parts.append(finished_part(database, query))
    is_ended = query.only_ended or query.ended_after is not None or query.ended_before is not None
    if not is_ended and (not asked or asked - TERMINAL):
        parts.append(Part("unfinished AS part", *_conditions(query), is_narrow=True))
    return parts


def _one(database: Database, sql: str, values: Sequence[Any]) -> int:
    return cast(tuple[int], database.execute(sql, values).fetchone())[0]


def _count(database: Database, part: Part) -> tuple[int, bool]:
    """Count what matches in a part; True beside an estimate."""
    if part.is_narrow:
        sql = statement("count").format(source=part.source, where=part.where)
        return _one(database, sql, part.values), False
    everything = _one(database, statement("count_finished"), ())
    if not part.terms:
        return everything, False
    sql = statement("count_up_to").format(where=part.where, rows=COUNTED_ROWS_MAX, limit=EXACT_TOTAL_MAX + 1)
    found = _one(database, sql, part.values)
    if found <= EXACT_TOTAL_MAX and everything <= COUNTED_ROWS_MAX:
        return found, False
    sql = statement("count_in_sample").format(where=part.where, blocks=SAMPLED_BLOCKS, rows=BLOCK_ROWS)
    sampled, matching = cast("tuple[int, int]", database.execute(sql, part.values).fetchone())
    return max(found, everything * matching // max(sampled, 1)), True


def part_page(query: TaskQuery, part: Part, cursor: Cursor | None, *, limit: int) -> tuple[str, list[Any]]:
    """Give the statement for the first tasks of a part after a cursor, and its values."""
    way, beyond = ("DESC", "<") if query.is_descending else ("ASC", ">")
    terms, values = part.terms, part.values
    if cursor is not None:
        terms = [*terms, f"({query.sort}, task_id) {beyond} (?, ?)"]
        values = [*values, cursor.value, cursor.task_id]
    sql = statement("page_of_part").format(
        sort=query.sort, source=part.source, where=_where(terms), way=way, limit=limit
    )
    return sql, values


def _page_rows(
    database: Database, query: TaskQuery, parts: Sequence[Part], cursor: Cursor | None
) -> list[tuple[int, int | str, str]]:
    """Give row, sorted value and id of the tasks on the page, and of one more."""
    offset = query.offset if cursor is None else 0
    wanted = min(query.limit, PAGE_MAX) + 1
    pieces = [part_page(query, part, cursor, limit=offset + wanted) for part in parts]
    sql = statement("page").format(
        parts=" UNION ALL ".join(sql for sql, _ in pieces),
        way="DESC" if query.is_descending else "ASC",
        limit=wanted,
        offset=offset,
    )
    values = [value for _, values in pieces for value in values]
    return cast("list[tuple[int, int | str, str]]", database.execute(sql, values).fetchall())


def _check(query: TaskQuery) -> None:
    if query.sort not in SORTS:
        raise ValidationFailed(
            f"Tasks cannot be sorted by {query.sort!r}; choose one of {', '.join(sorted(SORTS))}.",
            errors=[{"path": "/sort/field", "message": "unknown"}],
        )
    if query.limit < 1 or not 0 <= query.offset <= OFFSET_MAX:
        raise ValidationFailed(
            f"A page has at least one task and begins at an offset from 0 to {OFFSET_MAX}.",
            errors=[{"path": "/pagination", "message": "out of range"}],
        )


def tasks(database: Database, query: TaskQuery) -> TaskPage:
    """Give a page of tasks.

    Raises:
        ValidationFailed: The cursor is not of this query, or sort, limit or offset are none.
    """
    _check(query)
    cursor = _read_cursor(query)
    with database:
        parts = _parts(database, query)
        if not parts:
            return TaskPage(tasks=[], total=0)
        counts = [_count(database, part) for part in parts]
        rows = _page_rows(database, query, parts, cursor)
        page: list[Task] = []
        size = 0
        for row, _, _ in rows[: min(query.limit, PAGE_MAX)]:
            found = cast(TaskRow, database.execute(statement("task_summary"), (row,)).fetchone())
            size += len(found[2]) + len(found[4])
            if page and size > PAGE_BYTES_MAX:
                break
            page.append(decode_task(found))
    has_more = len(rows) > len(page)
    next_cursor = None
    if has_more:
        _, value, task_id = rows[len(page) - 1]
        made = msgspec.msgpack.encode(Cursor(query=_digest(query), value=value, task_id=task_id))
        next_cursor = urlsafe_b64encode(made).rstrip(b"=").decode()
    seen = len(page) + has_more + (query.offset if cursor is None and page else 0)
    return TaskPage(
        tasks=page,
        total=max(seen, sum(count for count, _ in counts)),
        has_more=has_more,
        next_cursor=next_cursor,
        total_is_estimate=any(is_estimate for _, is_estimate in counts),
    )
