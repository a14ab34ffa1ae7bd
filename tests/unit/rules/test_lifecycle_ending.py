from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace

from aios.errors import InvalidTaskState
from aios.model import Backoff, EventKind, Retry, Status
from aios.rules.lifecycle import Cancel, Complete, Expire, Fail, Log, Pause, TimeOut, decide, decide_all, stuck_at
from tests.unit.rules.samples import ARTIFACT, ERROR, LATE, NOW, TIMEOUT_MS, a_task, after, data, kinds, steps_of

WORKING = Status.WORKING
THRICE = Retry(max_attempts=3, delay_ms=1_000, backoff=Backoff.LINEAR)


def test_a_completed_task_says_so_and_then_gives_its_result() -> None:
    change = decide(a_task(WORKING), Complete({"cheapest": "b"}, [ARTIFACT]), now=after(700))
    task = change.task
    assert kinds(change) == [EventKind.STATUS, EventKind.RESULT]
    assert [event.event_id for event in change.events] == ["evt-004", "evt-005"]
    assert data(change.events[0])["status"] == "completed"
    result = data(change.events[1])
    assert (result["result"], [each["id"] for each in result["artifacts"]]) == ({"cheapest": "b"}, ["art-1"])
    assert (task.status, task.result, task.ended_at) == (Status.COMPLETED, {"cheapest": "b"}, after(700))
    assert (task.worker, task.deadline_at, task.run_at, task.used_ms) == (None, None, None, 700)
    assert task.version == 5


def test_a_failed_task_says_so_and_then_gives_its_error() -> None:
    change = decide(a_task(WORKING), Fail(ERROR), now=after(700))
    assert kinds(change) == [EventKind.STATUS, EventKind.ERROR]
    assert data(change.events[1])["error"] == ERROR
    assert (change.task.status, change.task.error, change.task.worker) == (Status.FAILED, ERROR, None)
    assert change.task.ended_at == after(700)


def test_a_failed_attempt_is_followed_by_the_next() -> None:
    change = decide(a_task(WORKING, retry=THRICE, attempt=2, crashes=1), Fail(ERROR), now=after(700))
    task = change.task
    assert kinds(change) == [EventKind.LOG, EventKind.STATUS]
    log, status = (data(event) for event in change.events)
    assert log["level"] == "warning"
    assert log["fields"] == {"attempt": 2, "max_attempts": 3, "delay_ms": 2_000, "error": ERROR}
    assert "no luck" in log["message"]
    assert (status["status"], status["previous_status"]) == ("working", "working")
    assert (status["reason"], status["attempt"]) == ("retry", 3)
    assert (task.status, task.attempt, task.used_ms, task.crashes) == (WORKING, 3, 0, 1)
    assert (task.worker, task.deadline_at, task.run_at, task.error) == (None, None, after(2_700), None)


def test_the_last_attempt_and_a_final_error_are_followed_by_none() -> None:
    assert decide(a_task(WORKING, retry=THRICE, attempt=3), Fail(ERROR), now=NOW).task.status is Status.FAILED
    final = Fail(ERROR, is_retryable=False)
    assert decide(a_task(WORKING, retry=THRICE), final, now=NOW).task.status is Status.FAILED


def test_the_jitter_that_was_drawn_sets_the_delay() -> None:
    retry = Retry(max_attempts=2, delay_ms=1_000, backoff=Backoff.EXPONENTIAL_JITTER)
    assert decide(a_task(WORKING, retry=retry), Fail(ERROR, jitter=0.5), now=NOW).task.run_at == after(750)


def test_a_task_that_never_started_tries_again_without_a_word_about_its_status() -> None:
    change = decide(a_task(retry=THRICE), Fail(ERROR), now=after(5))
    assert kinds(change) == [EventKind.LOG]
    assert (change.task.status, change.task.attempt, change.task.run_at) == (Status.PENDING, 2, after(1_005))
    assert steps_of(decide(a_task(), Fail(ERROR), now=NOW)) == [(Status.PENDING, Status.FAILED)]


@pytest.mark.parametrize("waiting", [Status.INPUT_REQUIRED, Status.AUTH_REQUIRED])
def test_a_waiting_task_fails_by_way_of_working(waiting: Status) -> None:
    change = decide(a_task(waiting), Fail(ERROR), now=NOW)
    assert steps_of(change) == [(waiting, WORKING), (WORKING, Status.FAILED)]
    assert kinds(change)[-1] is EventKind.ERROR
    assert change.task.request is None


@pytest.mark.parametrize("waiting", [Status.INPUT_REQUIRED, Status.AUTH_REQUIRED])
def test_a_waiting_task_that_fails_may_try_again(waiting: Status) -> None:
    change = decide(a_task(waiting, retry=THRICE), Fail(ERROR), now=NOW)
    assert steps_of(change) == [(waiting, WORKING), (WORKING, WORKING)]
    assert (change.task.request, change.task.attempt, change.task.run_at) == (None, 2, after(1_000))


def test_an_attempt_that_overran_fails_with_the_time_it_took() -> None:
    change = decide(a_task(WORKING), TimeOut(), now=after(TIMEOUT_MS + 500))
    error = data(change.events[1])["error"]
    assert (error["code"], error["message"]) == (-32005, "Timeout")
    assert error["data"] == {
        "error_id": "AIOS-TIMEOUT",
        "detail": "Attempt 1 held its slot for 30500 ms; its timeout_ms is 30000.",
        "capability_id": "compat.shop.compare",
        "timeout_ms": 30_000,
        "elapsed_ms": 30_500,
    }
    assert data(change.events[0])["reason"] == "timeout"
    assert (change.task.status, change.task.worker) == (Status.FAILED, "w-1")


def test_the_slot_of_a_timed_out_attempt_stays_taken_until_its_code_has_stopped() -> None:
    task = decide(a_task(WORKING, retry=THRICE), TimeOut(), now=after(TIMEOUT_MS)).task
    assert (task.status, task.attempt, task.worker, task.deadline_at) == (WORKING, 2, "w-1", None)
    assert task.run_at == after(TIMEOUT_MS + 1_000)
    assert task.used_ms == 0


def test_code_that_keeps_the_slot_for_the_time_of_the_next_attempt_too_ends_its_task() -> None:
    task = decide(a_task(WORKING, retry=THRICE), TimeOut(), now=after(TIMEOUT_MS)).task
    due = after(TIMEOUT_MS + 1_000 + TIMEOUT_MS)
    assert stuck_at(task) == due
    with pytest.raises(InvalidTaskState):
        decide(task, TimeOut(), now=due - timedelta(milliseconds=1))
    change = decide(task, TimeOut(), now=due)
    assert steps_of(change) == [(WORKING, Status.FAILED)]
    assert data(change.events[0])["reason"] == "timeout"
    error = data(change.events[1])["error"]
    assert (error["code"], error["data"]["elapsed_ms"]) == (-32005, TIMEOUT_MS)
    assert "Attempt 2 waited 30000 ms for the code of the one before to end" in error["data"]["detail"]
    assert (change.task.worker, change.task.run_at) == ("w-1", None)


def test_nothing_is_stuck_once_the_code_has_given_the_slot_back_or_while_the_task_is_paused() -> None:
    task = decide(a_task(WORKING, retry=THRICE), TimeOut(), now=after(TIMEOUT_MS)).task
    assert stuck_at(replace(task, worker=None)) is None
    assert stuck_at(decide(task, Pause(), now=after(TIMEOUT_MS)).task) is None


@pytest.mark.parametrize("deadline_ms", [None, TIMEOUT_MS + 1])
def test_a_timeout_that_comes_too_early_is_refused(deadline_ms: int | None) -> None:
    """The attempt that it was meant for may have ended, and the next one must not pay for it."""
    deadline_at = None if deadline_ms is None else after(deadline_ms)
    with pytest.raises(InvalidTaskState):
        decide(a_task(WORKING, deadline_at=deadline_at), TimeOut(), now=after(TIMEOUT_MS))


def test_a_task_that_did_not_start_in_time_fails_whatever_its_retries() -> None:
    change = decide(a_task(retry=THRICE), Expire(), now=after(60_000))
    assert steps_of(change) == [(Status.PENDING, Status.FAILED)]
    assert data(change.events[0])["reason"] == "expired"
    error = data(change.events[1])["error"]
    assert (error["code"], error["data"]["capability_id"]) == (-32005, "compat.shop.compare")
    assert "2026-01-05T10:01:00.000Z" in error["data"]["detail"]


@pytest.mark.parametrize("expires_at", [None, after(1)])
def test_a_task_that_has_time_left_does_not_expire(expires_at: datetime | None) -> None:
    with pytest.raises(InvalidTaskState):
        decide(a_task(expires_at=expires_at), Expire(), now=NOW)


@pytest.mark.parametrize("status", [status for status in Status if not status.is_terminal])
def test_a_cancel_ends_the_task_and_leaves_the_slot_to_its_code(status: Status) -> None:
    held = a_task(status, worker="w-1", run_at=NOW)
    change = decide(held, Cancel("user_request"), now=after(9))
    assert kinds(change) == [EventKind.STATUS]
    assert data(change.events[0])["reason"] == "user_request"
    task = change.task
    assert (task.status, task.worker, task.ended_at) == (Status.CANCELED, "w-1", after(9))
    assert (task.request, task.outcome, task.deadline_at, task.run_at) == (None, None, None, None)


def test_a_clock_that_was_set_back_does_not_turn_the_log_back() -> None:
    change = decide(a_task(WORKING), Complete(1), now=after(-5_000))
    assert {event.at for event in change.events} == {NOW}
    assert (change.task.updated_at, change.task.ended_at, change.task.used_ms) == (NOW, NOW, 0)
    assert data(change.events[0])["timestamp"] == "2026-01-05T10:00:00.000Z"


def test_several_commands_make_one_change() -> None:
    change = decide_all(a_task(WORKING), [Log("info", "one"), Complete(1)], now=LATE)
    assert kinds(change) == [EventKind.LOG, EventKind.STATUS, EventKind.RESULT]
    assert [event.number for event in change.events] == [4, 5, 6]
    assert (change.before, change.claim, change.task.version) == (3, 2, 6)
