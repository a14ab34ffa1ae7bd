"""An attempt's claim: what is said under it, and what becomes of that when it has been renewed, lost or closed."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from aios.engine.runner import claim as module
from aios.engine.runner.claim import Claim
from aios.errors import AiosError, Conflict, InvalidTaskState, ResourceBusy, TaskTimeout, ValidationFailed
from aios.model import Progress, Status, Task, TaskId, TaskSpec
from aios.rules.lifecycle import Command, Complete, Fail, HandBack, Log, Report
from aios.testing.clock import START

LOG = Log("info", "hello")
TASK = Task(
    task_id=TaskId("task-1"),
    spec=TaskSpec(capability_id="test.code", adapter_id="test", principal="owner", created_at=START),
    status=Status.WORKING,
    updated_at=START,
    claim=1,
    worker="worker-1",
)


class ScriptedRecorder:
    """Raises what it is told to, then accepts; and knows the task as the test says it stands."""

    def __init__(self, *errors: AiosError) -> None:
        self.errors = list(errors)
        self.said = list[tuple[int, Command]]()
        self.released = list[int]()
        self.newest = TASK
        self.asked: Callable[[], None] = lambda: None

    async def record(self, task: Task, *commands: Command) -> Task:
        if self.errors:
            self.asked()
            raise self.errors.pop(0)
        self.said += [(task.claim, command) for command in commands]
        return task

    def recorded(self, task: Task, *commands: Command) -> asyncio.Future[Task]:
        return asyncio.ensure_future(self.record(task, *commands))

    def progress(self, task: Task, progress: Progress) -> asyncio.Future[Task] | None:
        return self.recorded(task, Report(progress))

    async def release(self, task: Task) -> None:
        self.released.append(task.claim)

    async def task(self, task_id: TaskId) -> Task:
        return self.newest


def claimed(recorder: Any, lost: list[str] | None = None, *, is_stopping: bool = False) -> Claim:
    told = lost if lost is not None else []
    return Claim(TASK, recorder=recorder, lost=lambda: told.append("lost"), is_stopping=lambda: is_stopping)


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_what_was_refused_under_the_old_claim_is_said_again_under_the_new_one() -> None:
    recorder = ScriptedRecorder(Conflict("moved on"))
    claim = claimed(recorder)
    recorder.asked = lambda: claim.renew(replace(TASK, claim=2))
    await claim.record(LOG)
    assert recorder.said == [(2, LOG)]


async def test_a_claim_that_the_store_made_for_us_is_waited_for_until_we_are_told() -> None:
    recorder, lost = ScriptedRecorder(Conflict("moved on")), list[str]()
    recorder.newest = replace(TASK, claim=2)
    claim = claimed(recorder, lost)
    saying = asyncio.ensure_future(claim.record(LOG))
    await turns()
    assert not saying.done()
    claim.renew(replace(TASK, claim=2))
    await saying
    assert (recorder.said, lost) == ([(2, LOG)], [])


@pytest.mark.parametrize(
    "newest",
    [replace(TASK, claim=2, worker="worker-2"), replace(TASK, attempt=2), replace(TASK, status=Status.CANCELED), TASK],
)
async def test_a_claim_that_somebody_else_has_is_lost(newest: Task) -> None:
    recorder, lost = ScriptedRecorder(Conflict("moved on")), list[str]()
    recorder.newest = newest
    with pytest.raises(Conflict):
        await claimed(recorder, lost).record(LOG)
    assert (recorder.said, lost) == ([], ["lost"])


async def test_what_is_refused_while_the_task_is_paused_is_said_when_it_works_again() -> None:
    recorder = ScriptedRecorder(InvalidTaskState("paused"))
    claim = claimed(recorder)
    claim.status = Status.PAUSED
    saying = asyncio.ensure_future(claim.record(LOG))
    await turns()
    assert not saying.done()
    claim.status = Status.WORKING
    claim.wake()
    await saying
    assert recorder.said == [(1, LOG)]


@pytest.mark.parametrize("how", ["over", "closed"])
async def test_nobody_waits_for_a_task_whose_attempt_has_ended(how: str) -> None:
    claim = claimed(ScriptedRecorder(InvalidTaskState("paused")))
    claim.status = Status.PAUSED
    saying = asyncio.ensure_future(claim.record(LOG))
    await turns()
    if how == "over":
        claim.is_over = True
        claim.wake()
    else:
        claim.close()
    with pytest.raises(Conflict):
        await saying


async def test_nobody_waits_for_a_new_claim_whose_attempt_has_ended() -> None:
    recorder = ScriptedRecorder(Conflict("moved on"))
    recorder.newest = replace(TASK, claim=2)
    claim = claimed(recorder)
    saying = asyncio.ensure_future(claim.record(LOG))
    await turns()
    claim.close()
    with pytest.raises(Conflict):
        await saying


async def test_what_is_always_refused_though_the_task_works_is_told_in_the_end() -> None:
    refusals = [InvalidTaskState("never") for _ in range(module.REFUSALS_MAX + 1)]
    with pytest.raises(InvalidTaskState):
        await claimed(ScriptedRecorder(*refusals)).record(LOG)


async def test_progress_of_an_attempt_that_is_over_is_dropped() -> None:
    claimed(ScriptedRecorder(Conflict("over"))).report(Progress(percent=1))
    await turns()


async def test_an_end_that_is_said_once_is_known_to_be_recorded_or_not() -> None:
    heard = list[bool]()
    for errors in ([], [Conflict("over")], [ResourceBusy("busy")]):
        claimed(ScriptedRecorder(*errors)).say_end(Complete(1), heard.append)
        await turns()
    assert heard == [True, False, False]


async def test_a_result_that_is_refused_becomes_a_failure_for_good() -> None:
    recorder = ScriptedRecorder(ValidationFailed("too large"))
    await claimed(recorder).end(Complete({}))
    ((_, command),) = recorder.said
    assert isinstance(command, Fail)
    assert not command.is_retryable


@pytest.mark.parametrize("error", [Conflict("over"), InvalidTaskState("kept already")])
async def test_an_end_that_comes_too_late_gives_the_slot_back(error: AiosError) -> None:
    recorder = ScriptedRecorder(error)
    await claimed(recorder).end(Complete({}))
    assert (recorder.said, recorder.released) == ([], [1])


async def test_an_end_that_cannot_be_written_is_left_to_the_next_process_when_this_one_stops() -> None:
    recorder = ScriptedRecorder(ResourceBusy("disk full"))
    await claimed(recorder, is_stopping=True).end(HandBack())
    assert (recorder.said, recorder.released) == ([], [])


async def test_an_error_that_nobody_expects_of_an_end_is_not_hidden() -> None:
    with pytest.raises(TaskTimeout):
        await claimed(ScriptedRecorder(TaskTimeout("what?"))).end(Complete({}))
    with pytest.raises(ValidationFailed):
        await claimed(ScriptedRecorder(ValidationFailed("what?"))).end(HandBack())
