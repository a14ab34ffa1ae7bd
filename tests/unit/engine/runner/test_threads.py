"""The pool of threads: bounded, and no reason for the process to stay."""

import threading
from concurrent.futures import Future

import pytest

from aios.engine.runner import threads as module
from aios.engine.runner.threads import Threads

WAIT_S = 10


def test_no_more_threads_work_than_the_bound_and_what_waits_is_done_later() -> None:
    pool, let_go, begun = Threads(3), threading.Event(), threading.Semaphore(0)

    def work() -> str:
        begun.release()
        let_go.wait(WAIT_S)
        return threading.current_thread().name

    futures: list[Future[str]] = [pool.submit(work) for _ in range(8)]
    for _ in range(3):
        assert begun.acquire(timeout=WAIT_S)
    assert not begun.acquire(timeout=0.05)
    let_go.set()
    assert len({future.result(WAIT_S) for future in futures}) <= 3
    pool.stop()


def test_an_idle_thread_is_used_again() -> None:
    pool, was_idle = Threads(8), threading.Event()
    first = pool.submit(threading.current_thread).result(WAIT_S)

    def settled() -> threading.Thread:
        was_idle.wait(0.001)
        return pool.submit(threading.current_thread).result(WAIT_S)

    assert any(settled() is first for _ in range(100))
    pool.stop()


def test_an_error_goes_to_the_one_who_asked() -> None:
    pool = Threads(1)
    future: Future[float] = pool.submit(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        future.result(WAIT_S)
    pool.stop()


def test_its_threads_do_not_keep_the_process_alive() -> None:
    pool = Threads(1)
    assert pool.submit(lambda: threading.current_thread().daemon).result(WAIT_S)
    pool.stop()


def test_a_thread_that_was_idle_too_long_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE_S_MAX", 0.01)
    pool = Threads(1)
    thread = pool.submit(threading.current_thread).result(WAIT_S)
    thread.join(WAIT_S)
    assert not thread.is_alive()
    assert pool.submit(lambda: 1).result(WAIT_S) == 1
    pool.stop()


def test_work_that_is_withdrawn_before_it_began_is_not_done() -> None:
    pool, let_go, done = Threads(1), threading.Event(), list[str]()
    pool.submit(let_go.wait, WAIT_S)
    waiting: Future[None] = pool.submit(done.append, "withdrawn")
    assert waiting.cancel()
    let_go.set()
    pool.submit(done.append, "after").result(WAIT_S)
    assert done == ["after"]
    pool.stop()
