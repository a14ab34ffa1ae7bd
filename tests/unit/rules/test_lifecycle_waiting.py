import pytest
from msgspec.structs import replace

from aios.errors import InvalidTaskState
from aios.model import Backoff, EventKind, Retry, Status, Step
from aios.rules.lifecycle import (
    Answer,
    Ask,
    Authenticate,
    Command,
    Complete,
    Fail,
    Pause,
    RequestTimeout,
    RequireAuth,
    Resume,
    Withdraw,
    decide,
)
from tests.unit.rules.samples import (
    ARTIFACT,
    ERROR,
    LATE,
    NOW,
    QUESTION,
    SIGN_IN,
    STEP,
    TIMEOUT_MS,
    a_task,
    after,
    data,
    kinds,
    steps_of,
)

WORKING = Status.WORKING
WAITING = [Status.INPUT_REQUIRED, Status.AUTH_REQUIRED]


def test_a_pause_stops_the_clock_and_leaves_the_slot_to_the_code() -> None:
    change = decide(a_task(WORKING), Pause("lunch"), now=after(400))
    task = change.task
    assert (task.status, task.worker, task.used_ms, task.deadline_at) == (Status.PAUSED, "w-1", 400, None)
    assert data(change.events[0])["reason"] == "lunch"


def test_code_that_has_not_stopped_goes_on_where_its_clock_stood() -> None:
    change = decide(a_task(Status.PAUSED, worker="w-1", used_ms=400), Resume(), now=after(9_000))
    task = change.task
    assert (task.status, task.worker, task.run_at) == (WORKING, "w-1", None)
    assert task.deadline_at == after(9_000 + TIMEOUT_MS - 400)
    assert "reason" not in data(change.events[0])


def test_code_that_has_stopped_waits_for_a_slot() -> None:
    task = decide(a_task(Status.PAUSED, used_ms=400), Resume(), now=after(9_000)).task
    assert (task.worker, task.run_at, task.deadline_at, task.used_ms) == (None, after(9_000), None, 400)


@pytest.mark.parametrize(("run_ms", "resumed_ms"), [(50_000, 50_000), (100, 9_000)])
def test_a_retry_delay_or_a_sleep_goes_on_through_a_pause(run_ms: int, resumed_ms: int) -> None:
    waiting = a_task(WORKING, worker=None, deadline_at=None, run_at=after(run_ms))
    paused = decide(waiting, Pause(), now=after(50)).task
    assert decide(paused, Resume(), now=after(9_000)).task.run_at == after(resumed_ms)


def test_a_result_that_comes_while_paused_is_applied_at_resume() -> None:
    paused = a_task(Status.PAUSED, worker="w-1")
    kept = decide(paused, Complete({"n": 1}, [ARTIFACT]), now=after(5))
    assert (kept.task.status, kept.task.worker, kept.task.version, kept.events) == (Status.PAUSED, None, 3, ())
    change = decide(kept.task, Resume("back"), now=after(10))
    assert steps_of(change) == [(Status.PAUSED, WORKING), (WORKING, Status.COMPLETED)]
    assert kinds(change)[-1] is EventKind.RESULT
    result = data(change.events[-1])
    assert (result["result"], result["artifacts"][0]["id"]) == ({"n": 1}, "art-1")
    assert (change.task.result, change.task.outcome, change.task.version) == ({"n": 1}, None, 6)


def test_an_error_that_comes_while_paused_is_applied_at_resume() -> None:
    kept = decide(a_task(Status.PAUSED, worker="w-1"), Fail(ERROR), now=after(5)).task
    change = decide(kept, Resume(), now=after(10))
    assert steps_of(change) == [(Status.PAUSED, WORKING), (WORKING, Status.FAILED)]
    assert change.task.error == ERROR


@pytest.mark.parametrize(("is_retryable", "status"), [(True, WORKING), (False, Status.FAILED)])
def test_an_error_that_was_kept_is_retried_as_it_would_have_been(is_retryable: bool, status: Status) -> None:
    retry = Retry(max_attempts=2, delay_ms=1_000, backoff=Backoff.EXPONENTIAL_JITTER)
    paused = a_task(Status.PAUSED, worker="w-1", retry=retry)
    kept = decide(paused, Fail(ERROR, is_retryable=is_retryable, jitter=0.5), now=after(5)).task
    task = decide(kept, Resume(), now=after(10)).task
    assert (task.status, task.outcome) == (status, None)
    if is_retryable:
        assert (task.attempt, task.run_at) == (2, after(760))


def test_an_attempt_ends_only_once_while_paused() -> None:
    kept = decide(a_task(Status.PAUSED, worker="w-1"), Complete(1), now=after(5)).task
    with pytest.raises(InvalidTaskState):
        decide(kept, Fail(ERROR), now=after(6))


def test_a_question_is_told_directly_after_its_status() -> None:
    change = decide(a_task(WORKING), Ask(replace(QUESTION, options=["red"], schema={"type": "string"})), now=after(400))
    task = change.task
    assert kinds(change) == [EventKind.STATUS, EventKind.INPUT_REQUIRED]
    assert data(change.events[0])["status"] == "input_required"
    assert data(change.events[1]) == {
        "task_id": "task-1",
        "prompt": "Which color?",
        "options": ["red"],
        "schema": {"type": "string"},
        "timeout_ms": 5_000,
        "timestamp": "2026-01-05T10:00:00.400Z",
    }
    assert (task.worker, task.used_ms, task.deadline_at, task.run_at) == (None, 400, None, None)
    assert task.request is not None
    assert task.request.due_at == after(5_400)


def test_a_sign_in_is_told_directly_after_its_status() -> None:
    change = decide(a_task(WORKING), RequireAuth(SIGN_IN), now=NOW)
    assert kinds(change) == [EventKind.STATUS, EventKind.AUTH_REQUIRED]
    assert data(change.events[1]) == {
        "task_id": "task-1",
        "status": "auth_required",
        "auth_request": {"type": "api_key", "reason": "to read the mail", "timeout_ms": 5_000},
        "timestamp": "2026-01-05T10:00:00.000Z",
    }
    assert change.task.worker is None


def test_a_request_without_a_timeout_is_never_due_and_a_given_time_is_kept() -> None:
    asked = decide(a_task(WORKING), Ask(replace(QUESTION, timeout_ms=None)), now=NOW).task
    assert asked.request is not None
    assert asked.request.due_at is None
    with pytest.raises(InvalidTaskState):
        decide(asked, RequestTimeout(), now=LATE)
    given = decide(a_task(WORKING), Ask(replace(QUESTION, due_at=after(9))), now=NOW).task
    assert given.request is not None
    assert given.request.due_at == after(9)


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        (Status.INPUT_REQUIRED, Answer(Step(key=STEP, value=b'"red"'), "answered")),
        (Status.AUTH_REQUIRED, Authenticate(Step(key=STEP, value=b"sealed", is_secret=True), "answered")),
    ],
)
def test_an_answer_is_recorded_and_the_task_waits_for_a_slot(status: Status, answer: Answer | Authenticate) -> None:
    change = decide(a_task(status, used_ms=400), answer, now=after(100))
    task = change.task
    assert change.steps == (answer.step,)
    assert steps_of(change) == [(status, WORKING)]
    assert data(change.events[0])["reason"] == "answered"
    assert (task.request, task.run_at, task.worker, task.deadline_at) == (None, after(100), None, None)
    assert task.used_ms == 400
    assert b"sealed" not in change.events[0].data


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        (Status.INPUT_REQUIRED, Answer(Step(key="ask:size#1"))),
        (Status.AUTH_REQUIRED, Authenticate(Step(key="ask:size#1"))),
    ],
)
def test_an_answer_to_another_question_is_refused(status: Status, answer: Command) -> None:
    """Two callers answered at once, and the task has asked something else since."""
    with pytest.raises(InvalidTaskState):
        decide(a_task(status), answer, now=NOW)


@pytest.mark.parametrize("status", WAITING)
def test_a_request_that_nobody_answered_is_recorded_as_that(status: Status) -> None:
    change = decide(a_task(status), RequestTimeout(), now=after(5_000))
    assert change.steps == (Step(key=STEP, is_timeout=True),)
    assert data(change.events[0])["reason"] == "timeout"
    assert (change.task.status, change.task.run_at, change.task.request) == (WORKING, after(5_000), None)


@pytest.mark.parametrize("status", WAITING)
def test_a_request_that_the_code_withdraws_leaves_nothing_recorded(status: Status) -> None:
    change = decide(a_task(status), Withdraw(STEP), now=after(100))
    assert steps_of(change) == [(status, WORKING)]
    assert data(change.events[0])["reason"] == "withdrawn"
    assert (change.steps, change.task.run_at, change.task.request) == ((), after(100), None)
    with pytest.raises(InvalidTaskState):
        decide(a_task(status), Withdraw("ask:size#1"), now=NOW)


@pytest.mark.parametrize("status", WAITING)
def test_a_request_does_not_time_out_before_it_is_due(status: Status) -> None:
    with pytest.raises(InvalidTaskState):
        decide(a_task(status), RequestTimeout(), now=after(4_999))
