"""The mailbox: in order, one wake-up for all that waits, and nobody's error is another's."""

import asyncio
import threading

from aios.engine.runner.mailbox import Mailbox

PATIENCE_S = 10


async def test_what_several_threads_post_is_called_on_the_loop_in_each_ones_order() -> None:
    loop, done = asyncio.get_running_loop(), asyncio.Event()
    box, got = Mailbox(loop), list[tuple[int, int]]()

    def receive(thread: int, number: int) -> None:
        got.append((thread, number))
        if len(got) == 4_000:
            done.set()

    def post(thread: int) -> None:
        for number in range(1_000):
            box.post(receive, thread, number)

    threads = [threading.Thread(target=post, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    async with asyncio.timeout(PATIENCE_S):
        await done.wait()
    for thread in range(4):
        assert [number for who, number in got if who == thread] == list(range(1_000))


async def test_a_call_that_fails_does_not_take_the_next_ones_down() -> None:
    loop, got = asyncio.get_running_loop(), asyncio.Event()
    box = Mailbox(loop)
    box.post(lambda: 1 / 0)
    box.post(got.set)
    async with asyncio.timeout(PATIENCE_S):
        await got.wait()


async def test_what_is_posted_while_it_is_emptied_has_its_turn_later() -> None:
    loop, done = asyncio.get_running_loop(), asyncio.Event()
    box, turns = Mailbox(loop), list[str]()

    def again(count: int) -> None:
        turns.append("box")
        if count:
            box.post(again, count - 1)
        else:
            done.set()

    box.post(again, 3)
    loop.call_soon(turns.append, "other")
    async with asyncio.timeout(PATIENCE_S):
        await done.wait()
    assert turns.index("other") < 3


def test_posting_to_a_loop_that_is_closed_is_of_no_effect() -> None:
    loop = asyncio.new_event_loop()
    box = Mailbox(loop)
    loop.close()
    box.post(print)
