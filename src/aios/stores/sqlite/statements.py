"""The SQL of the store, read from `stores/sql/sqlite/*.sql`: named statements, and migrations in their order."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Final

ROWS_MAX: Final = 64
"""Rows that one statement carries at most."""

_NAME = re.compile(r"^-- :(\w+)\n", re.MULTILINE)
_TUPLE = re.compile(r"(VALUES|IN) (\(\?(?:, \?)*\))")


def _texts() -> dict[str, str]:
    folder = files("aios.stores") / "sql" / "sqlite"
    return {entry.name: entry.read_text(encoding="utf-8") for entry in folder.iterdir() if entry.name.endswith(".sql")}


@cache
def _statements() -> dict[str, str]:
    found: dict[str, str] = {}
    for name, text in _texts().items():
        if not name[0].isdigit():
            pieces = _NAME.split(text)
            found.update(zip(pieces[1::2], (piece.strip() for piece in pieces[2::2]), strict=True))
    return found


def statement(name: str) -> str:
    """Give the statement of this name."""
    return _statements()[name]


@cache
def repeated(name: str, count: int) -> str:
    """Give the statement for `count` rows at once: its tuple of values, or its list after IN, is repeated."""
    text = statement(name)
    found = _TUPLE.search(text)
    if found is None:
        raise LookupError(f"{name} has no list of values to repeat")
    word, one = found.groups()
    many = ", ".join([one] * count) if word == "VALUES" else f"({', '.join(['?'] * count)})"
    return f"{text[: found.start()]}{word} {many}{text[found.end() :]}"


@cache
def migrations() -> list[str]:
    """Give the scripts that build the schema; the first makes version 1 out of nothing."""
    numbered = sorted((name, text) for name, text in _texts().items() if name[0].isdigit())
    if [int(name[:4]) for name, _ in numbered] != list(range(1, len(numbered) + 1)):
        raise LookupError("migrations are not numbered from 0001 without a gap")
    return [text for _, text in numbered]
