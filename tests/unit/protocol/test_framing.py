"""Cutting messages out of streams, at whatever places the stream happens to be cut."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aios.errors import ParseError
from aios.model import Event, EventKind
from aios.protocol import framing
from aios.protocol.events import Snapshot, message, notification
from aios.protocol.framing import ContentLengthReader, LineReader, OpeningReader, Reader
from aios.testing.clock import START

MAX = 1_000
TASK = '{"task_id":"task-1"'


def event(data: str, number: int = 7) -> Event:
    return Event(number=number, kind=EventKind.PROGRESS, at=START, data=data.encode())


def read(reader: Reader, *pieces: bytes) -> list[bytes]:
    return [each for piece in pieces for each in reader.feed(piece)]


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(stream) + 1) for place in places), len(stream)]
    return [stream[start:end] for start, end in pairwise(edges)]


def headed(body: bytes) -> bytes:
    return ContentLengthReader(max_bytes=MAX).frame(body)


bodies = st.lists(st.text(min_size=1, max_size=40).map(lambda text: json.dumps(text).encode()), min_size=1, max_size=5)


@given(bodies, st.lists(st.integers(min_value=0), max_size=8))
def test_lines_arrive_whole_wherever_the_stream_is_cut(sent: list[bytes], places: list[int]) -> None:
    reader = LineReader(max_bytes=MAX)
    assert read(reader, *cut(b"".join(reader.frame(each) for each in sent), places)) == sent
    reader.end()


@given(bodies, st.lists(st.integers(min_value=0), max_size=8))
def test_headed_messages_arrive_whole_wherever_the_stream_is_cut(sent: list[bytes], places: list[int]) -> None:
    reader = ContentLengthReader(max_bytes=MAX)
    assert read(reader, *cut(b"".join(reader.frame(each) for each in sent), places)) == sent
    reader.end()


def test_empty_lines_and_carriage_returns_do_not_count() -> None:
    assert read(LineReader(max_bytes=MAX), b"\r\n\n  {}\r\n \n[]\n") == [b"{}", b"[]"]


def test_one_byte_at_a_time_is_enough() -> None:
    assert read(LineReader(max_bytes=MAX), *(bytes([each]) for each in b"{}\n[]\n")) == [b"{}", b"[]"]
    stream = headed("中文".encode()) + headed(b"[]")
    assert read(ContentLengthReader(max_bytes=MAX), *(bytes([each]) for each in stream)) == ["中文".encode(), b"[]"]


@pytest.mark.parametrize(("size", "is_read"), [(MAX, True), (MAX + 1, False)])
def test_a_message_may_have_so_many_bytes_and_no_more(size: int, is_read: bool) -> None:
    body = b"1" * size
    for reader, stream in (
        (LineReader(max_bytes=MAX), body + b"\n"),
        (ContentLengthReader(max_bytes=MAX), b"Content-Length: %d\r\n\r\n%b" % (size, body)),
    ):
        if is_read:
            assert read(reader, stream) == [body]
        else:
            with pytest.raises(ParseError):
                read(reader, stream)


def test_a_line_without_an_end_is_refused_before_it_is_kept() -> None:
    reader = LineReader(max_bytes=MAX)
    with pytest.raises(ParseError):
        read(reader, *[b"x" * 100] * 11)


def test_messages_before_the_broken_one_are_given() -> None:
    pieces = ContentLengthReader(max_bytes=MAX).feed(headed(b"[]") + headed(b"{}") + b"Content-Length: -1\r\n\r\n")
    assert [next(pieces), next(pieces)] == [b"[]", b"{}"]
    with pytest.raises(ParseError):
        next(pieces)


@pytest.mark.parametrize(
    "header",
    [
        b"Content-Length: -1",
        b"Content-Length: +5",
        b"Content-Length: 1e30",
        b"Content-Length: abc",
        b"Content-Length: 5.0",
        b"Content-Length: 0x5",
        b"Content-Length: 5 5",
        b"Content-Length:",
        b"Content-Length: " + b"9" * 5_000,
        b"Content-Length: 5\r\nContent-Length: 6",
        b"Content-Length 5",
        b"Content-Type: application/json",
        b"garbage",
        b"X" * 9_000,
        "Content-Length: ５".encode(),
    ],
)
def test_a_header_that_cannot_be_understood_ends_the_stream(header: bytes) -> None:
    with pytest.raises(ParseError):
        read(ContentLengthReader(max_bytes=MAX), header + b"\r\n\r\n{}")


def test_a_header_without_an_end_is_refused_before_it_is_kept() -> None:
    with pytest.raises(ParseError):
        read(ContentLengthReader(max_bytes=MAX), *[b"x" * 100] * 100)


@pytest.mark.parametrize(
    "stream",
    [
        b"content-length: 2\r\n\r\n{}",
        b"Content-Length: 2\n\n{}",
        b"Content-Type: application/json; charset=utf-8\r\nContent-Length:2\r\n\r\n{}",
        b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
        b"\r\n\r\nContent-Length: 2\r\n\r\n{}",
    ],
)
def test_a_sound_header_is_understood_however_it_is_written(stream: bytes) -> None:
    assert read(ContentLengthReader(max_bytes=MAX), stream) == [b"{}"]


@pytest.mark.parametrize(
    ("reader", "stream"),
    [
        (LineReader(max_bytes=MAX), b'{"a":'),
        (ContentLengthReader(max_bytes=MAX), b"Content-Length: 5\r\n\r\n{}"),
        (ContentLengthReader(max_bytes=MAX), b"Content-Le"),
        (OpeningReader(max_bytes=MAX), b"["),
    ],
)
def test_a_stream_that_ends_inside_a_message_is_noticed(reader: Reader, stream: bytes) -> None:
    assert read(reader, stream) == []
    with pytest.raises(ParseError):
        reader.end()


@pytest.mark.parametrize("opening", [b"{}\n", b"[]\n", b"\n  [1]\n"])
def test_a_bracket_first_means_lines_and_is_answered_in_lines(opening: bytes) -> None:
    reader = OpeningReader(max_bytes=MAX)
    assert read(reader, opening, b"{}\n") == [opening.strip(), b"{}"]
    assert reader.frame(b"{}") == b"{}\n"


def test_anything_else_first_means_headers_and_is_answered_with_headers() -> None:
    reader = OpeningReader(max_bytes=MAX)
    assert read(reader, headed(b"{}"), headed(b"[]")) == [b"{}", b"[]"]
    assert reader.frame(b"{}") == b"Content-Length: 2\r\n\r\n{}"


@given(st.lists(st.binary(max_size=60), max_size=6))
def test_any_bytes_give_messages_or_a_parse_error(pieces: list[bytes]) -> None:
    for reader in (LineReader(max_bytes=50), ContentLengthReader(max_bytes=50), OpeningReader(max_bytes=50)):
        try:
            assert all(len(each) <= 50 for each in read(reader, *pieces))
            reader.end()
        except ParseError:
            continue


@given(st.text())
def test_an_event_is_one_frame_whatever_text_it_carries(text: str) -> None:
    data = json.dumps({"task_id": "task-1", "message": text}, ensure_ascii=False)
    frame = framing.sse(event(data))
    assert frame == f"event: task.progress\nid: evt-007\ndata: {data}\n\n".encode()
    lines = frame.decode().split("\n")
    assert [line.partition(":")[0] for line in lines] == ["event", "id", "data", "", ""]
    assert json.loads(lines[2].removeprefix("data: "))["message"] == text


def test_a_snapshot_is_framed_with_the_last_events_id() -> None:
    snapshot = Snapshot(number=1_234, data=f'{TASK},"events_lost":true}}'.encode())
    assert framing.sse(snapshot).startswith(b"event: task.snapshot\nid: evt-1234\ndata: {")
    sent = json.loads(notification(snapshot, "sub-1"))
    assert sent["method"] == "aios/task.snapshot"
    assert sent["params"] == {
        "event_id": "evt-1234",
        "subscription_id": "sub-1",
        "task_id": "task-1",
        "events_lost": True,
    }


def test_an_event_is_a_notification_with_its_id_and_its_subscriptions() -> None:
    assert json.loads(notification(event(f'{TASK},"progress":{{"percent":5}}}}'), "sub-1")) == {
        "jsonrpc": "2.0",
        "method": "aios/task.progress",
        "params": {
            "event_id": "evt-007",
            "subscription_id": "sub-1",
            "task_id": "task-1",
            "progress": {"percent": 5},
        },
    }


def test_messages_and_pauses_of_a_stream_have_their_frames() -> None:
    body = message("aios/pong", {"timestamp": "t"})
    assert (
        framing.sse_message(body)
        == b'event: message\ndata: {"jsonrpc":"2.0","method":"aios/pong","params":{"timestamp":"t"}}\n\n'
    )
    assert framing.sse_retry(2_000) == b"retry: 2000\n\n"
    assert framing.KEEP_ALIVE == b": keep-alive\n\n"
