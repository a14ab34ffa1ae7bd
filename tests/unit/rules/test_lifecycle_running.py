import pytest
from msgspec.structs import replace

from aios.errors import InvalidTaskState
from aios.model import EventKind, OnCrash, Progress, Retry, Status, TaskId
from aios.rules.lifecycle import (
    Await,
    Chunk,
    Emit,
    Fail,
    HandBack,
    Log,
    Lost,
    Pause,
    Report,
    Resume,
    Start,
    TimeOut,
    decide,
    decide_all,
)
from tests.unit.rules.samples import ARTIFACT, ERROR, LATE, NOW, TIMEOUT_MS, a_task, after, data, kinds, steps_of

WORKING = Status.WORKING


def test_the_first_start_takes_the_slot_and_says_working() -> None:
    change = decide(a_task(), Start("w-1"), now=after(5))
    task = change.task
    assert (task.status, task.version, task.claim, task.worker) == (WORKING, 1, 1, "w-1")
    assert (task.started_at, task.updated_at, task.run_at) == (after(5), after(5), None)
    assert task.deadline_at == after(5 + TIMEOUT_MS)
    assert (change.before, change.claim) == (0, 0)
    assert [data(event) for event in change.events] == [
        {
            "task_id": "task-1",
            "status": "working",
            "previous_status": "pending",
            "attempt": 1,
            "timestamp": "2026-01-05T10:00:00.005Z",
        }
    ]


def test_a_later_start_is_a_new_claim_and_no_event() -> None:
    waiting = a_task(WORKING, worker=None, deadline_at=None, run_at=NOW, used_ms=10_000, attempt=2)
    change = decide(waiting, Start("w-2"), now=after(100))
    task = change.task
    assert change.events == ()
    assert (task.version, task.claim, task.worker, task.run_at) == (3, 3, "w-2", None)
    assert (task.started_at, task.updated_at) == (NOW, NOW)
    assert task.deadline_at == after(100 + TIMEOUT_MS - 10_000)


@pytest.mark.parametrize("status", [Status.PAUSED, Status.INPUT_REQUIRED])
def test_code_that_must_not_run_twice_does_not_begin_anew_where_it_was_parked_in_a_worker_that_is_gone(
    status: Status,
) -> None:
    task = decide(a_task(on_crash=OnCrash.FAIL), Start("w-1"), now=NOW).task
    parked = replace(task, status=status, worker=None, deadline_at=None)
    resumed = replace(parked, status=WORKING, run_at=NOW)
    same = decide(resumed, Start("w-1"), now=NOW)
    assert (same.task.worker, same.task.claim, same.events) == ("w-1", 2, ())
    change = decide(resumed, Start("w-2"), now=NOW)
    assert steps_of(change) == [(WORKING, Status.FAILED)]
    assert change.task.worker is None
    assert (change.task.error or {})["data"]["error_id"] == "AIOS-WORKER-LOST"


def test_code_that_must_not_run_twice_begins_anew_after_an_error_or_before_it_ever_ran() -> None:
    task = decide(a_task(on_crash=OnCrash.FAIL, retry=Retry(max_attempts=2)), Start("w-1"), now=NOW).task
    for command in (HandBack(), Fail(ERROR)):
        again = decide(decide(task, command, now=NOW).task, Start("w-2"), now=NOW).task
        assert (again.status, again.worker, again.begun_by) == (WORKING, "w-2", "w-2")


def test_a_slot_is_never_taken_twice() -> None:
    with pytest.raises(InvalidTaskState):
        decide(a_task(WORKING, worker="w-1"), Start("w-2"), now=NOW)


def test_a_task_that_awaits_a_child_gives_its_slot_back_and_its_clock_stands() -> None:
    change = decide(a_task(WORKING), Await(TaskId("task-2")), now=after(400))
    assert change.awaits == "task-2"
    assert change.events == ()
    assert change.task == a_task(WORKING, worker=None, deadline_at=None, used_ms=400, run_at=None)


def test_a_task_that_sleeps_may_be_claimed_when_it_is_to_wake() -> None:
    task = decide(a_task(WORKING), Await(until=after(9_000)), now=after(400)).task
    assert (task.worker, task.run_at, task.used_ms) == (None, after(9_000), 400)


def test_a_task_that_is_handed_back_may_be_claimed_at_once_and_pays_nothing_for_it() -> None:
    change = decide(a_task(WORKING, crashes=2), HandBack(), now=after(400))
    expected = a_task(WORKING, crashes=2, worker=None, deadline_at=None, used_ms=400, run_at=after(400))
    assert change.task == expected
    assert change.events == ()


def test_a_paused_task_that_is_handed_back_stays_paused_without_a_slot() -> None:
    assert decide(a_task(Status.PAUSED, worker="w-1"), HandBack(), now=NOW).task == a_task(Status.PAUSED)


def test_handing_back_what_holds_no_slot_wakes_nothing() -> None:
    parked = a_task(WORKING, worker=None, deadline_at=None, run_at=None)
    assert decide(parked, HandBack(), now=NOW).task == parked


def test_a_lost_worker_costs_a_crash_but_no_attempt() -> None:
    change = decide(a_task(WORKING, used_ms=7), Lost(max_crashes=10), now=LATE)
    assert change.task == a_task(WORKING, worker=None, deadline_at=None, used_ms=7, crashes=1, run_at=LATE)
    assert change.events == ()


def test_a_worker_lost_once_too_often_fails_the_task() -> None:
    change = decide(a_task(WORKING, crashes=2), Lost(max_crashes=2), now=LATE)
    assert kinds(change) == [EventKind.STATUS, EventKind.ERROR]
    assert data(change.events[0])["reason"] == "worker_lost"
    error = data(change.events[1])["error"]
    assert (error["code"], error["data"]["error_id"], error["data"]["crashes"]) == (-32603, "AIOS-WORKER-LOST", 3)
    assert error["data"]["capability_id"] == "compat.shop.compare"
    assert (change.task.status, change.task.worker, change.task.error) == (Status.FAILED, None, error)
    assert decide(a_task(WORKING, crashes=1), Lost(max_crashes=2), now=LATE).task.status is WORKING


def test_what_may_not_run_twice_fails_when_its_worker_is_lost() -> None:
    change = decide(a_task(WORKING, on_crash=OnCrash.FAIL), Lost(max_crashes=10), now=LATE)
    assert steps_of(change) == [(WORKING, Status.FAILED)]
    assert "second time" in data(change.events[1])["error"]["data"]["detail"]


def test_a_paused_task_survives_its_worker() -> None:
    change = decide(a_task(Status.PAUSED, worker="w-1"), Lost(max_crashes=10), now=LATE)
    assert change.task == a_task(Status.PAUSED, crashes=1)
    assert change.events == ()


def test_a_paused_task_that_may_not_run_again_fails_by_way_of_working() -> None:
    """Otherwise its resumption would run it a second time."""
    paused = a_task(Status.PAUSED, worker="w-1", on_crash=OnCrash.FAIL)
    change = decide(paused, Lost(max_crashes=10), now=LATE)
    assert steps_of(change) == [(Status.PAUSED, WORKING), (WORKING, Status.FAILED)]
    assert change.events[-1].kind is EventKind.ERROR


@pytest.mark.parametrize("status", [Status.CANCELED, Status.COMPLETED, Status.FAILED])
def test_of_a_terminal_task_only_the_slot_can_be_lost(status: Status) -> None:
    held = a_task(status, worker="w-1", on_crash=OnCrash.FAIL)
    change = decide(held, Lost(max_crashes=0), now=LATE)
    assert change.task == a_task(status, on_crash=OnCrash.FAIL)
    assert change.events == ()


def test_a_worker_that_holds_nothing_cannot_be_lost() -> None:
    free = a_task(WORKING, worker=None, deadline_at=None, run_at=None, on_crash=OnCrash.FAIL)
    assert decide(free, Lost(max_crashes=0), now=LATE).task == free


def test_losing_the_rest_of_an_attempt_that_timed_out_costs_nothing() -> None:
    """Its code was still stopping, and its end was decided already."""
    stopping = a_task(WORKING, worker="w-1", deadline_at=None, run_at=after(900), attempt=2, on_crash=OnCrash.FAIL)
    change = decide(stopping, Lost(max_crashes=0), now=LATE)
    assert (change.task.worker, change.task.crashes, change.task.run_at) == (None, 0, after(900))
    assert change.events == ()


def test_a_pause_does_not_bring_a_timed_out_attempt_back_to_life() -> None:
    task = a_task(WORKING, retry=None)
    task = a_task(WORKING, worker="w-1", deadline_at=None, run_at=after(90_000), attempt=2)
    paused = decide(task, Pause(), now=after(10)).task
    resumed = decide(paused, Resume(), now=after(20)).task
    assert (resumed.deadline_at, resumed.run_at, resumed.worker) == (None, after(90_000), "w-1")
    with pytest.raises(InvalidTaskState):
        decide(resumed, TimeOut(), now=after(90_000))


@pytest.mark.parametrize(("given", "shown"), [(45.0, "45"), (45, "45"), (33.5, "33.5"), (0.0, "0"), (100.0, "100")])
def test_a_whole_percentage_is_an_integer(given: float, shown: str) -> None:
    change = decide(a_task(WORKING), Report(Progress(percent=given, message="on it")), now=NOW)
    assert b'"progress":{"percent":%s,"message":"on it"}' % shown.encode() in change.events[0].data
    assert str(change.task.progress.percent if change.task.progress else None) == shown


def test_the_latest_progress_is_the_tasks() -> None:
    first, last = Progress(percent=10), Progress(current_step=2, total_steps=4)
    change = decide_all(a_task(WORKING), [Report(first), Report(last)], now=NOW)
    assert change.task.progress == last
    assert data(change.events[1])["progress"] == {"current_step": 2, "total_steps": 4}


def test_a_log_line_and_a_chunk_are_shown_as_they_were_given() -> None:
    log, chunk = Log("info", "found", {"sites": 2}), Chunk({"text": "一"}, 3)
    change = decide_all(a_task(WORKING, attempt=2), [log, chunk], now=NOW)
    common = {"task_id": "task-1", "timestamp": "2026-01-05T10:00:00.000Z"}
    assert data(change.events[0]) == {**common, "level": "info", "message": "found", "fields": {"sites": 2}}
    assert data(change.events[1]) == {**common, "attempt": 2, "index": 3, "data": {"text": "一"}}


def test_an_artifact_is_kept_whole_even_where_only_a_piece_is_shown() -> None:
    whole, piece = (
        ARTIFACT.__class__(
            id=ARTIFACT.id, task_id=ARTIFACT.task_id, name="Prices", type="report", created_at=NOW, parts=parts
        )
        for parts in ([{"type": "text", "text": "ab"}], [{"type": "text", "text": "b"}])
    )
    change = decide(a_task(WORKING), Emit(whole, append=True, last_chunk=False, index=1, piece=piece), now=NOW)
    assert change.artifacts == (whole,)
    shown = data(change.events[0])
    assert shown["artifact"]["parts"] == [{"type": "text", "text": "b"}]
    assert (shown["append"], shown["last_chunk"], shown["index"]) == (True, False, 1)


def test_what_code_did_before_it_stopped_is_kept_though_it_arrives_late() -> None:
    change = decide(a_task(Status.PAUSED), Log("info", "just before"), now=NOW)
    assert (change.task.status, change.task.version) == (Status.PAUSED, 4)
