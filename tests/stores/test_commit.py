"""Changes: written once, against the version they were made from, or not at all."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from aios.errors import Conflict, TaskNotFound, ValidationFailed
from aios.model import Artifact, ArtifactId, Change, IdempotencyKey, Priority, Status, Step, TaskId
from aios.rules.lifecycle import Cancel, Complete, HandBack, Log, Pause, Resume, Start
from aios.store import Committed
from tests.stores.conftest import Stores
from tests.stores.making import WORKER, Desk, half_way, new_task


async def test_a_task_is_given_back_as_it_was_stored(stores: Stores) -> None:
    desk = stores.open()
    made = await desk.create(
        "task-1",
        arguments={"text": "价格 \N{SNOWMAN} e\u0301", "deep": [[{"a": None}]], "big": 2**53, "half": 0.5},
        metadata={"tags": ["a", "b"], "note": "NFC é, NFD e\u0301"},
    )
    assert await desk.store.task(TaskId("task-1")) == made
    done = await desk.carry_out("task-1", Start(WORKER), half_way(), Complete({"answer": [1, 2]}))
    assert await desk.store.task(TaskId("task-1")) == done
    assert done.result == {"answer": [1, 2]}


async def test_a_task_is_read_from_the_disk_as_it_was_committed(durable: Stores) -> None:
    desk = durable.open()
    running = await desk.create("task-1", arguments={"a": [1, {"b": "c"}]}, metadata={"k": "v"}, session_id="sess-1")
    running = await desk.carry_out("task-1", Start(WORKER), half_way())
    done = await desk.finish("task-2", {"found": 3}, priority=Priority.HIGH)
    empty = await desk.finish("task-3", None)
    desk = await durable.reopen(desk)
    assert await desk.store.task(TaskId("task-1")) == running
    assert await desk.store.task(TaskId("task-2")) == done
    assert await desk.store.task(TaskId("task-3")) == empty


async def test_an_unknown_task_is_not_found(desk: Desk) -> None:
    with pytest.raises(TaskNotFound):
        await desk.store.task(TaskId("task-none"))


async def test_of_two_changes_to_one_version_the_second_conflicts_and_leaves_no_trace(desk: Desk) -> None:
    await desk.create("task-1")
    task = await desk.carry_out("task-1", Start(WORKER))
    answers = await desk.commit_all([desk.change(task, Pause("one")), desk.change(task, Cancel("two"))])
    assert isinstance(answers[0], Committed)
    assert isinstance(answers[1], Conflict)
    assert (await desk.store.task(TaskId("task-1"))).status is Status.PAUSED
    assert await desk.numbers("task-1") == [1, 2]


async def test_of_many_changes_to_one_version_exactly_one_is_written(desk: Desk) -> None:
    await desk.create("task-1")
    for version in range(1, 20):
        task = (
            await desk.carry_out("task-1", Start(WORKER)) if version == 1 else await desk.store.task(TaskId("task-1"))
        )
        answers = await desk.commit_all([desk.change(task, Log("info", f"{version}.{n}")) for n in range(16)])
        assert sum(isinstance(answer, Committed) for answer in answers) == 1
        assert sum(isinstance(answer, Conflict) for answer in answers) == 15
    assert await desk.numbers("task-1") == list(range(1, 21))


async def test_a_change_to_a_task_that_is_not_there_conflicts(desk: Desk) -> None:
    ghost = new_task("task-ghost", desk.clock)
    with pytest.raises(Conflict):
        await desk.store.commit(desk.change(ghost, Cancel()))


async def test_a_task_cannot_be_created_twice(durable: Stores) -> None:
    desk = durable.open()
    await desk.create("task-1")
    with pytest.raises(Conflict):
        await desk.create("task-1")
    desk = await durable.reopen(desk)
    with pytest.raises(Conflict):
        await desk.create("task-1")
    await desk.create("task-2")


async def test_two_creations_of_one_task_at_once_make_one(desk: Desk) -> None:
    change = Change(task=new_task("task-1", desk.clock), before=None)
    answers = await desk.commit_all([change, change])
    assert [isinstance(answer, Conflict) for answer in answers] == [False, True]


async def test_what_an_older_claim_writes_is_refused(desk: Desk) -> None:
    await desk.create("task-1")
    first = await desk.carry_out("task-1", Start(WORKER))
    late = replace(desk.change(first, half_way()), claim=first.claim)
    await desk.carry_out("task-1", HandBack(), Start("worker-2"))
    with pytest.raises(Conflict):
        await desk.store.commit(late)


async def test_a_change_made_before_the_slot_was_given_back_is_refused(desk: Desk) -> None:
    """Else the slot would be taken again by code that has ended, and never be free."""
    await desk.create("task-1")
    paused = await desk.carry_out("task-1", Start(WORKER), Pause(None))
    stale = desk.change(paused, Resume())
    await desk.store.release(paused.task_id, claim=paused.claim)
    with pytest.raises(Conflict):
        await desk.store.commit(stale)
    assert (await desk.store.counts())["slots"] == 0


async def test_the_same_key_and_request_lead_to_the_first_task(desk: Desk) -> None:
    key = IdempotencyKey(key="k", digest=b"request")
    changes = [Change(task=new_task(f"task-{n}", desk.clock), before=None, idempotency=key) for n in range(8)]
    answers = [answer for answer in await desk.commit_all(changes) if isinstance(answer, Committed)]
    assert [answer.is_new for answer in answers] == [True] + [False] * 7
    assert {answer.task.task_id for answer in answers} == {"task-0"}


async def test_the_same_key_with_another_request_is_refused(desk: Desk) -> None:
    first = Change(task=new_task("task-1", desk.clock), before=None, idempotency=IdempotencyKey(key="k", digest=b"a"))
    other = Change(task=new_task("task-2", desk.clock), before=None, idempotency=IdempotencyKey(key="k", digest=b"b"))
    await desk.store.commit(first)
    with pytest.raises(ValidationFailed):
        await desk.store.commit(other)
    with pytest.raises(TaskNotFound):
        await desk.store.task(TaskId("task-2"))


async def test_a_key_is_one_principals_own(desk: Desk) -> None:
    key = IdempotencyKey(key="k", digest=b"a")
    for principal in ("ada", "bob"):
        task = new_task(f"task-{principal}", desk.clock, principal=principal)
        assert (await desk.store.commit(Change(task=task, before=None, idempotency=key))).is_new


async def test_a_key_is_kept_for_a_day_after_its_task_ended(durable: Stores) -> None:
    desk = durable.open()
    key = IdempotencyKey(key="k", digest=b"a")

    async def ask(task_id: str) -> bool:
        change = Change(task=new_task(task_id, desk.clock), before=None, idempotency=key)
        return (await desk.store.commit(change)).is_new

    assert await ask("task-1")
    desk.clock.advance(40 * 3_600_000)
    assert not await ask("task-2")
    await desk.carry_out("task-1", Start(WORKER), Complete(None))
    desk.clock.advance(24 * 3_600_000 - 1)
    desk = await durable.reopen(desk)
    assert not await ask("task-3")
    desk.clock.advance(1)
    assert await ask("task-4")


async def test_an_artifact_made_again_replaces_the_first_and_keeps_its_place(desk: Desk) -> None:
    await desk.create("task-1")
    task = await desk.carry_out("task-1", Start(WORKER))

    def artifact(name: str, version: int) -> Artifact:
        return Artifact(
            id=ArtifactId(f"art-{name}"),
            task_id=task.task_id,
            name=name,
            type="report",
            created_at=desk.clock.now(),
            version=version,
            parts=[{"type": "text", "text": f"{name} {version}"}],
        )

    for artifacts in ((artifact("b", 1),), (artifact("a", 1), artifact("b", 2))):
        task = (await desk.store.commit(replace(desk.change(task, half_way()), artifacts=artifacts))).task
    assert await desk.store.artifact(ArtifactId("art-b")) == artifact("b", 2)
    assert await desk.store.artifacts(task.task_id) == [artifact("b", 2), artifact("a", 1)]


async def test_an_artifact_id_of_another_task_is_refused_and_nothing_is_written(desk: Desk) -> None:
    for task_id in ("task-1", "task-2"):
        await desk.create(task_id)
        task = await desk.carry_out(task_id, Start(WORKER))
        artifact = Artifact(
            id=ArtifactId("art-1"), task_id=task.task_id, name="n", type="t", created_at=desk.clock.now()
        )
        change = replace(desk.change(task, half_way()), artifacts=(artifact,))
        if task_id == "task-1":
            await desk.store.commit(change)
        else:
            with pytest.raises(ValidationFailed):
                await desk.store.commit(change)
    assert (await desk.store.artifact(ArtifactId("art-1"))).task_id == "task-1"
    assert await desk.numbers("task-2") == [1]


async def test_steps_are_recorded_once(desk: Desk) -> None:
    await desk.create("task-1")
    task = await desk.carry_out("task-1", Start(WORKER))
    steps = [Step(key="step:a:1", digest=b"d", value=b"1"), Step(key="step:b:1", value=b"2", is_timeout=True)]
    for step in [*steps, replace(steps[0], value=b"other")]:
        await desk.store.put_step(task.task_id, step, claim=task.claim)
    assert sorted(await desk.store.steps(task.task_id), key=lambda step: step.key) == steps


async def test_a_step_of_an_older_claim_or_of_a_finished_task_is_refused(desk: Desk) -> None:
    await desk.create("task-1")
    task = await desk.carry_out("task-1", Start(WORKER))
    step = Step(key="step:a:1", value=b"1")
    with pytest.raises(Conflict):
        await desk.store.put_step(task.task_id, step, claim=task.claim + 1)
    await desk.carry_out("task-1", Complete(None))
    with pytest.raises(Conflict):
        await desk.store.put_step(task.task_id, step, claim=task.claim)
    assert await desk.store.steps(task.task_id) == []


async def test_a_step_sets_the_crashes_back(desk: Desk) -> None:
    await desk.create("task-1", crashes=3)
    task = await desk.carry_out("task-1", Start(WORKER))
    await desk.store.put_step(task.task_id, Step(key="step:a:1"), claim=task.claim)
    after = await desk.store.task(task.task_id)
    assert (after.crashes, after.version) == (0, task.version)


async def test_the_end_of_a_task_erases_its_secrets_and_nothing_else(desk: Desk) -> None:
    for task_id in ("task-1", "task-2"):
        await desk.create(task_id)
        task = await desk.carry_out(task_id, Start(WORKER))
        await desk.store.put_step(task.task_id, Step(key="auth:1", value=b"sealed", is_secret=True), claim=task.claim)
        await desk.store.put_step(task.task_id, Step(key="step:1", value=b"plain"), claim=task.claim)
    await desk.carry_out("task-1", Cancel())
    assert [step.key for step in await desk.store.steps(TaskId("task-1"))] == ["step:1"]
    assert [step.key for step in await desk.store.steps(TaskId("task-2"))] == ["auth:1", "step:1"]


async def test_a_secret_committed_with_the_end_does_not_outlive_it(desk: Desk) -> None:
    await desk.create("task-1")
    task = await desk.carry_out("task-1", Start(WORKER))
    secret = Step(key="auth:1", value=b"sealed", is_secret=True)
    await desk.store.commit(replace(desk.change(task, Complete(None)), steps=(secret,)))
    assert await desk.store.steps(task.task_id) == []
