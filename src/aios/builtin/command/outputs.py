"""What a program writes: kept for the result up to a limit, and told while it runs."""

from __future__ import annotations

import asyncio
import codecs
from collections import deque
from collections.abc import Awaitable, Callable

import msgspec

from aios.adapter import Context
from aios.builtin.command.programs import READ_BYTES
from aios.model import JsonObject

STREAMED_BYTES_MAX = 16 * 1024 * 1024
"""Of each stream; what comes after is still read, so that the program can go on, but not told any more."""
SINGLE_LINES_MAX = 1_000
"""So many lines are logged one by one; after that, those that come together are logged together."""
LINE_CHARACTERS_MAX = 8 * 1024
"""A longer line is logged in pieces."""
LAST_LINES = 20
LAST_CHARACTERS_MAX = 4 * 1024
RESULT_BYTES_MAX = 400 * 1024
"""Of each stream in the result, as JSON: where every character must be escaped it is six times as long."""


class Kept:
    """The beginning of a stream, for the result."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._data = bytearray()
        self.total = 0

    def add(self, data: bytes) -> None:
        """Keep what still fits."""
        self.total += len(data)
        self._data += data[: max(0, self._limit - len(self._data))]

    def text(self) -> tuple[str, bool]:
        """Give what was kept, and whether that is not all. What is not UTF-8 is replaced."""
        is_cut = self.total > len(self._data)
        # The last character may have been cut through; then it is left out.
        text = _decoder().decode(bytes(self._data), final=not is_cut)
        while (length := len(msgspec.json.encode(text))) > RESULT_BYTES_MAX:
            text = text[: int(len(text) * RESULT_BYTES_MAX / length)]
            is_cut = True
        return text, is_cut


class Chunks:
    """Standard output, told piece by piece as it comes."""

    def __init__(self, emit: Callable[[str], Awaitable[None]]) -> None:
        self._emit = emit
        self._decoder = _decoder()
        self._total = 0

    async def add(self, data: bytes) -> None:
        """Tell a piece; an empty one says that there is no more."""
        if self._total >= STREAMED_BYTES_MAX:
            return
        self._total += len(data)
        text = self._decoder.decode(data, final=not data)
        if text:
            await self._emit(text)


class Lines:
    """Standard error, told line by line."""

    def __init__(self, emit: Callable[[str], Awaitable[None]]) -> None:
        self._emit = emit
        self._decoder = _decoder()
        self._rest = ""
        self._total = 0
        self._count = 0
        self._last: deque[str] = deque(maxlen=LAST_LINES)

    async def add(self, data: bytes) -> None:
        """Tell the lines that are complete; an empty piece says that there is no more."""
        text = self._rest + self._decoder.decode(data, final=not data)
        *lines, self._rest = text.split("\n")
        while len(self._rest) > LINE_CHARACTERS_MAX or (self._rest and not data):
            lines.append(self._rest[:LINE_CHARACTERS_MAX])
            self._rest = self._rest[LINE_CHARACTERS_MAX:]
        lines = [line for line in (line.rstrip() for line in lines) if line]
        self._last.extend(line[:LAST_CHARACTERS_MAX] for line in lines)
        if self._total < STREAMED_BYTES_MAX:
            await self._tell(lines)
        self._total += len(data)

    async def _tell(self, lines: list[str]) -> None:
        singles = max(0, SINGLE_LINES_MAX - self._count)
        self._count += len(lines)
        for message in (*lines[:singles], "\n".join(lines[singles:])):
            if message:
                await self._emit(message)

    def last(self) -> list[str]:
        """Give the last lines, for the error."""
        room = LAST_CHARACTERS_MAX
        taken: list[str] = []
        for line in reversed(self._last):
            room -= len(line)
            if room < 0 and taken:
                break
            taken.append(line)
        return taken[::-1]


class Listener:
    """Reads one stream of a program to its end.

    Args:
        kept: For the result.
        tell: Given each piece while the program runs; until it returns nothing more is read, and a program that writes faster
            than the store takes it is slowed down.
    """

    def __init__(self, kept: Kept, tell: Callable[[bytes], Awaitable[None]]) -> None:
        self.kept = kept
        self._tell = tell
        self.is_telling = False

    async def listen(self, stream: asyncio.StreamReader) -> None:
        """Read until the last one who could write has closed it."""
        while data := await stream.read(READ_BYTES):
            self.kept.add(data)
            await self._pass_on(data)
        await self._pass_on(b"")

    async def _pass_on(self, data: bytes) -> None:
        self.is_telling = True
        await self._tell(data)
        self.is_telling = False


class Ear:
    """All that is heard of a program: chunks and log lines while it runs, and the beginning of both streams after."""

    def __init__(self, ctx: Context, limit: int) -> None:
        async def log(line: str) -> None:
            await ctx.log("info", line, stream="stderr")

        self._lines = Lines(log)
        self.output = Listener(Kept(limit), Chunks(ctx.chunk).add)
        self.errors = Listener(Kept(limit), self._lines.add)

    @property
    def heard_bytes(self) -> int:
        """How much was read until now."""
        return self.output.kept.total + self.errors.kept.total

    @property
    def is_telling(self) -> bool:
        """Whether something that was read is being passed on just now."""
        return self.output.is_telling or self.errors.is_telling

    def result(self) -> JsonObject:
        """Give both streams for the result."""
        stdout, is_output_cut = self.output.kept.text()
        stderr, are_errors_cut = self.errors.kept.text()
        return {"stdout": stdout, "stderr": stderr, "truncated": is_output_cut or are_errors_cut}

    def last_lines(self) -> list[str]:
        """Give the last lines of standard error."""
        return self._lines.last()


def _decoder() -> codecs.IncrementalDecoder:
    return codecs.getincrementaldecoder("utf-8")("replace")
