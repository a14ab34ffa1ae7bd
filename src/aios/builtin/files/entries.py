"""What is told of a file or folder, and how much of it fits a result."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import msgspec

from aios.builtin.files.names import to_text
from aios.errors import ValidationFailed
from aios.model import JsonObject, wire_time

RESULT_BYTES_MAX = 768 * 1024
"""Of the entries of a result, as JSON: a result may have 1 MiB."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}


def kind_of(mode: int) -> str:
    """Say in a word what something is: file, folder, link, or other for devices, sockets and pipes."""
    return _KINDS.get(stat.S_IFMT(mode), "other")


def describe(found: os.stat_result) -> JsonObject:
    """Give kind, size and time of a file or folder."""
    described: JsonObject = {"type": kind_of(found.st_mode)}
    if stat.S_ISREG(found.st_mode):
        described["size"] = found.st_size
    modified_at = time_of(found)
    if modified_at is not None:
        described["modified_at"] = wire_time(modified_at)
    return described


def time_of(found: os.stat_result) -> datetime | None:
    """Give when something was last written; None where the disk holds a time that no calendar has."""
    try:
        return _EPOCH + timedelta(milliseconds=found.st_mtime_ns // 1_000_000)
    except OverflowError:
        return None


def fitting(entries: Iterable[JsonObject]) -> tuple[list[JsonObject], bool]:
    """Give as many entries as a result can hold, and whether that was not all."""
    room = RESULT_BYTES_MAX
    taken: list[JsonObject] = []
    for entry in entries:
        room -= len(msgspec.json.encode(entry)) + 1
        if room < 0:
            return taken, True
        taken.append(entry)
    return taken, False


def to_instant(text: str | None, name: str) -> datetime | None:
    """Read an argument that is a time. Raises: ValidationFailed."""
    if text is None:
        return None
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        message = "must be a time like 2026-01-31T12:00:00Z"
        raise ValidationFailed(f"{name} {message}.", errors=[{"path": f"/{name}", "message": message}]) from None
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)


def link_target(descriptor: int, name: bytes) -> str | None:
    """Give where a link leads, as it says; None where it is gone."""
    try:
        return to_text(os.readlink(name, dir_fd=descriptor))
    except OSError:
        return None
