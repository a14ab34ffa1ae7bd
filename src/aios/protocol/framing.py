"""How messages are cut out of byte streams and put into them, sans-I/O (protocol.md §2).

Server-sent events for HTTP; lines for sockets; `Content-Length` headers for standard input and output. A reader is fed what
arrives and gives the messages that are complete; it keeps at most one message, and raises when the stream can no longer be
understood: the door then answers with the error and closes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Protocol

from aios.errors import ParseError
from aios.model import Event
from aios.protocol.events import Snapshot, name

KEEP_ALIVE = b": keep-alive\n\n"
KEEP_ALIVE_MS = 15_000
HEADER_BYTES_MAX = 8 * 1024


def sse(event: Event | Snapshot) -> bytes:
    """Frame a task's event. Its data is JSON on one line, so no line of it can be taken for another field."""
    return b"event: %b\nid: %b\ndata: %b\n\n" % (name(event).encode(), event.event_id.encode(), event.data)


def sse_message(body: bytes) -> bytes:
    """Frame a JSON-RPC message."""
    return b"event: message\ndata: %b\n\n" % body


def sse_retry(delay_ms: int) -> bytes:
    """Tell the reader how long to wait before it connects again."""
    return b"retry: %d\n\n" % delay_ms


class Reader(Protocol):
    """Cuts messages out of a stream."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Take what arrived and give the messages that are complete.

        Raises:
            ParseError: What comes after the messages given so far cannot be understood; nothing more can be read.
        """
        ...

    def end(self) -> None:
        """Say that nothing more will come. Raises: ParseError if a message was cut off."""
        ...

    def frame(self, body: bytes) -> bytes:
        """Put a message into the form in which this stream is read."""
        ...


class LineReader:
    """One message a line; empty lines and a carriage return before the line's end do not count."""

    def __init__(self, *, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """See `Reader.feed`."""
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._keep(line)
            whole = b"".join(self._parts).strip(b" \t\r")
            self._parts, self._size = [], 0
            if whole:
                yield whole
        self._keep(rest)

    def end(self) -> None:
        """See `Reader.end`."""
        if b"".join(self._parts).strip():
            raise ParseError("the stream ended inside a message")

    def frame(self, body: bytes) -> bytes:
        """See `Reader.frame`."""
        return body + b"\n"

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._max_bytes:
            raise ParseError(f"a line may have {self._max_bytes} bytes", max_message_size=self._max_bytes)
        if part:
            self._parts.append(part)


class ContentLengthReader:
    """A header block with `Content-Length` (in bytes, not characters), an empty line, the message."""

    def __init__(self, *, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._buffer = bytearray()
        self._need: int | None = None
        """Length of the message whose header has been read."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """See `Reader.feed`."""
        self._buffer += data
        while True:
            if self._need is None and not self._read_header():
                return
            if self._need is None or len(self._buffer) < self._need:
                return
            body = bytes(self._buffer[: self._need])
            del self._buffer[: self._need]
            self._need = None
            yield body

    def end(self) -> None:
        """See `Reader.end`."""
        if self._need is not None or self._buffer.strip():
            raise ParseError("the stream ended inside a message")

    def frame(self, body: bytes) -> bytes:
        """See `Reader.frame`."""
        return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)

    def _read_header(self) -> bool:
        """Take a complete header block off the buffer, if there is one; empty lines before it do not count."""
        if self._buffer.startswith((b"\r", b"\n")):
            self._buffer = self._buffer.lstrip(b"\r\n")
        found = _HEADER_END.search(self._buffer, 0, HEADER_BYTES_MAX + 4)
        if found is None:
            if len(self._buffer) > HEADER_BYTES_MAX:
                raise ParseError(f"no end of the header within {HEADER_BYTES_MAX} bytes")
            return False
        self._need = self._length(bytes(self._buffer[: found.start()]))
        del self._buffer[: found.end()]
        return True

    def _length(self, header: bytes) -> int:
        lengths: set[bytes] = set()
        for line in header.splitlines():
            field, colon, value = line.partition(b":")
            if not colon or not _FIELD.fullmatch(field):
                raise ParseError("a header line must be `Name: value`")
            if field.lower() == b"content-length":
                lengths.add(value.strip(b" \t"))
        if len(lengths) != 1:
            raise ParseError("a header must have one Content-Length")
        text = lengths.pop()
        # The digits are counted first: a length of a thousand digits is not worth converting.
        if not re.fullmatch(rb"[0-9]{1,15}", text) or int(text) > self._max_bytes:
            raise ParseError(
                f"Content-Length must be a number up to {self._max_bytes}", max_message_size=self._max_bytes
            )
        return int(text)


_HEADER_END = re.compile(rb"\r?\n\r?\n")
_FIELD = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class OpeningReader:
    """Reads either form; the first byte decides: `{` or `[` begins a line, anything else a header."""

    def __init__(self, *, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._chosen: LineReader | ContentLengthReader | None = None

    def feed(self, data: bytes) -> Iterator[bytes]:
        """See `Reader.feed`."""
        if self._chosen is None:
            data = data.lstrip(b" \t\r\n")
            if not data:
                return
            kind = LineReader if data[:1] in {b"{", b"["} else ContentLengthReader
            self._chosen = kind(max_bytes=self._max_bytes)
        yield from self._chosen.feed(data)

    def end(self) -> None:
        """See `Reader.end`."""
        if self._chosen is not None:
            self._chosen.end()

    def frame(self, body: bytes) -> bytes:
        """See `Reader.frame`; before the first byte came, with a header."""
        chosen = self._chosen or ContentLengthReader(max_bytes=self._max_bytes)
        return chosen.frame(body)
