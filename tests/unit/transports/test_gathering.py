"""What is written in one turn goes out together, and nothing is lost or turned round by that."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from aios.transports.gathering import SIZE_MAX, Gathering


class Pipe:
    """Notes what comes out at the lower end."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.calls: list[str] = []

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def get_write_buffer_size(self) -> int:
        return 5

    def is_closing(self) -> bool:
        return bool(self.calls)

    def __getattr__(self, name: str) -> Any:
        return lambda: self.calls.append(name)


def gathered() -> tuple[Pipe, Gathering]:
    pipe = Pipe()
    return pipe, Gathering(cast("asyncio.Transport", pipe), asyncio.get_running_loop())


async def test_what_is_written_in_one_turn_goes_out_in_one_piece() -> None:
    pipe, out = gathered()
    out.write(b"head ")
    out.write(b"body")
    assert pipe.written == []
    assert out.get_write_buffer_size() == 5 + 9
    await asyncio.sleep(0)
    out.write(b"tail")
    await asyncio.sleep(0)
    assert pipe.written == [b"head body", b"tail"]
    assert out.get_write_buffer_size() == 5


async def test_what_is_written_now_goes_out_after_what_waits() -> None:
    pipe, out = gathered()
    out.write(b"one ")
    out.write_now(b"two")
    await asyncio.sleep(0)
    assert pipe.written == [b"one two"]


async def test_much_does_not_wait_for_the_turns_end() -> None:
    pipe, out = gathered()
    out.write(bytes(SIZE_MAX - 1))
    assert not pipe.written
    out.write(b"x")
    assert sum(map(len, pipe.written)) == SIZE_MAX


async def test_whatever_ends_the_writing_lets_what_waits_go_first_but_an_abort() -> None:
    for end, written in (("close", [b"x"]), ("write_eof", [b"x"]), ("abort", [])):
        pipe, out = gathered()
        out.write(b"x")
        getattr(out, end)()
        await asyncio.sleep(0)
        assert pipe.written == written
        assert pipe.calls == [end]
        assert out.is_closing()


async def test_the_transport_beneath_is_given_with_nothing_left_waiting() -> None:
    pipe, out = gathered()
    out.write(b"x")
    assert cast("Any", out.bare()) is pipe
    assert pipe.written == [b"x"]
    out.pause_reading()
    assert pipe.calls == ["pause_reading"]
