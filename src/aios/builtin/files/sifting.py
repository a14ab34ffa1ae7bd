"""Whether a file is one that a search looks for: its kind, size, time, and what is in it."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from aios.builtin.files.entries import kind_of, time_of
from aios.builtin.files.hashing import CHUNK_BYTES
from aios.model import JsonObject

EXCERPT_CHARACTERS = 100
"""Of a line, on either side of what was found in it."""
BINARY_BYTES = 8192
"""A zero byte in so much of the beginning tells that a file is no text."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What an entry must be, besides its name."""

    type: str = "any"
    min_size: int = 0
    max_size: int | None = None
    modified_after: datetime | None = None
    modified_before: datetime | None = None

    def fits(self, found: os.stat_result) -> bool:
        """Say whether kind, size and time are right."""
        return (
            self.type in {"any", kind_of(found.st_mode)}
            and self._has_right_size(found)
            and self._has_right_time(time_of(found))
        )

    def _has_right_size(self, found: os.stat_result) -> bool:
        if self.min_size == 0 and self.max_size is None:
            return True
        # What a folder has for a size is nobody's business.
        if not stat.S_ISREG(found.st_mode):
            return False
        return found.st_size >= self.min_size and (self.max_size is None or found.st_size <= self.max_size)

    def _has_right_time(self, time: datetime | None) -> bool:
        if self.modified_after is None and self.modified_before is None:
            return True
        return (
            time is not None
            and (self.modified_after is None or time >= self.modified_after)
            and (self.modified_before is None or time < self.modified_before)
        )


class TextFinder:
    """Finds the first place where a file contains a text.

    Args:
        text: What to look for.
        ignore_case: Whether upper and lower case are the same.
        bytes_max: Only so much of each file is read.
        checkpoint: Called between two reads; may wait or raise.
    """

    def __init__(self, text: str, *, ignore_case: bool, bytes_max: int, checkpoint: Callable[[], None]) -> None:
        self._pattern = re.compile(re.escape(text), re.IGNORECASE if ignore_case else 0)
        self._bytes_max = bytes_max
        self._checkpoint = checkpoint
        self.cut = 0
        """Files of which only the beginning was read."""

    def find(self, descriptor: int) -> JsonObject | None:
        """Give number and excerpt of the first line that has it; None: there is none, or it is no text."""
        text = self._read(descriptor)
        found = self._pattern.search(text)
        if found is None:
            return None
        start = max(text.rfind("\n", 0, found.start()) + 1, found.start() - EXCERPT_CHARACTERS)
        end = text.find("\n", found.end())
        end = min(len(text) if end < 0 else end, found.end() + EXCERPT_CHARACTERS)
        return {"line": text.count("\n", 0, found.start()) + 1, "text": text[start:end].rstrip("\r")}

    def _read(self, descriptor: int) -> str:
        content = bytearray()
        while len(content) < self._bytes_max:
            self._checkpoint()
            data = os.pread(descriptor, min(CHUNK_BYTES, self._bytes_max - len(content)), len(content))
            if not data:
                break
            if not content and b"\0" in data[:BINARY_BYTES]:
                return ""
            content += data
        else:
            self.cut += 1
        return content.decode("utf-8", "replace")
