"""Sessions, contents of artifacts, durations, and what retention takes away."""

from __future__ import annotations

import hashlib
from datetime import timedelta

import pytest
from msgspec.structs import replace

from aios.errors import ArtifactNotFound, SessionNotFound, TaskNotFound
from aios.model import (
    Artifact,
    ArtifactId,
    Blob,
    Change,
    IdempotencyKey,
    Session,
    SessionId,
    Status,
    Step,
    TaskId,
    TaskQuery,
)
from aios.rules.lifecycle import Cancel, Complete, Start
from aios.stores.sqlite import purging
from tests.stores.conftest import Stores
from tests.stores.making import WORKER, Desk, half_way, new_task

HOUR_MS = 3_600_000


def session(desk: Desk, session_id: str) -> Session:
    now = desk.clock.now()
    return Session(
        session_id=SessionId(session_id),
        principal="owner",
        created_at=now,
        expires_at=now + timedelta(hours=2),
        client_info={"name": "测试"},
    )


async def test_a_session_is_kept_and_changed(durable: Stores) -> None:
    desk = durable.open()
    made = session(desk, "sess-1")
    await desk.store.put_session(made)
    assert await desk.store.session(made.session_id) == made
    closed = replace(made, closed_at=desk.clock.now(), metadata={"a": 1})
    await desk.store.put_session(closed)
    desk = await durable.reopen(desk)
    assert await desk.store.session(made.session_id) == closed
    with pytest.raises(SessionNotFound):
        await desk.store.session(SessionId("sess-2"))


async def test_a_content_is_kept_by_its_hash(durable: Stores) -> None:
    desk = durable.open()
    for content in (b"", b"x", b"large" * 100_000):
        digest = await desk.store.put_blob(content)
        assert digest == hashlib.sha256(content).hexdigest()
        assert await desk.store.put_blob(content) == digest
        assert await desk.store.blob(digest) == content
    desk = await durable.reopen(desk)
    assert await desk.store.blob(hashlib.sha256(b"x").hexdigest()) == b"x"


@pytest.mark.parametrize("name", ["0" * 64, "../../aios.db", "", "0" * 63, "G" * 64, "/etc/passwd", "\u0660" * 64])
async def test_an_unknown_content_is_not_found_whatever_its_name(desk: Desk, name: str) -> None:
    with pytest.raises(ArtifactNotFound):
        await desk.store.blob(name)


async def test_durations_are_those_of_the_last_completed_tasks(desk: Desk) -> None:
    for number, duration in enumerate([100, 200, 300]):
        await desk.create(f"task-{number}")
        await desk.carry_out(f"task-{number}", Start(WORKER))
        desk.clock.advance(duration)
        await desk.carry_out(f"task-{number}", Complete(None))
    await desk.create("task-c")
    await desk.carry_out("task-c", Start(WORKER), Cancel())
    await desk.finish("task-o", capability_id="compat.shop.other")
    assert await desk.store.recent_durations("compat.shop.compare", limit=2) == [300, 200]
    assert await desk.store.recent_durations("compat.shop.compare", limit=9) == [300, 200, 100]
    assert await desk.store.recent_durations("compat.shop", limit=9) == []


async def artifact_with(desk: Desk, task_id: str, content: bytes) -> Artifact:
    task = await desk.store.task(TaskId(task_id))
    digest = await desk.store.put_blob(content)
    artifact = Artifact(
        id=ArtifactId(f"art-{task_id}"),
        task_id=task.task_id,
        name="a",
        type="report",
        created_at=desk.clock.now(),
        blobs=[Blob(part=0, sha256=digest, size=len(content), mime_type="text/plain")],
    )
    await desk.store.commit(replace(desk.change(task, half_way()), artifacts=(artifact,)))
    return artifact


async def test_purging_takes_a_task_with_all_that_is_its_own(durable: Stores) -> None:
    desk = durable.open()
    key = IdempotencyKey(key="k", digest=b"a")
    for task_id, idempotency in (("task-old", key), ("task-new", None)):
        made = new_task(task_id, desk.clock, metadata={"tags": ["t"]})
        await desk.store.commit(Change(task=made, before=None, idempotency=idempotency))
        task = await desk.carry_out(task_id, Start(WORKER))
        await desk.store.put_step(task.task_id, Step(key="s"), claim=task.claim)
        await artifact_with(desk, task_id, task_id.encode())
        await desk.carry_out(task_id, Complete(None))
        desk.clock.advance(HOUR_MS)
    horizon = desk.clock.now() - timedelta(hours=1)
    assert await desk.store.purge(horizon, limit=100) == 1
    assert await desk.store.purge(horizon, limit=100) == 0
    old = TaskId("task-old")
    with pytest.raises(TaskNotFound):
        await desk.store.task(old)
    with pytest.raises(ArtifactNotFound):
        await desk.store.artifact(ArtifactId("art-task-old"))
    assert (await desk.store.events_after(old, 0, limit=9)).events == []
    assert await desk.store.steps(old) == []
    assert (await desk.store.counts())[Status.COMPLETED] == 1
    page = await desk.store.tasks(TaskQuery(principal="owner", tags=("t",)))
    assert ([task.task_id for task in page.tasks], page.total) == (["task-new"], 1)
    again = Change(task=new_task("task-again", desk.clock), before=None, idempotency=key)
    assert (await desk.store.commit(again)).is_new
    assert await desk.numbers("task-new") == [1, 2, 3, 4]


async def test_purging_stops_at_its_limit_and_spares_what_runs_or_holds_a_slot(desk: Desk) -> None:
    for number in range(5):
        await desk.finish(f"task-{number}")
    await desk.create("task-held")
    await desk.carry_out("task-held", Start(WORKER), Cancel())
    await desk.create("task-open")
    desk.clock.advance(1)
    assert await desk.store.purge(desk.clock.now(), limit=2) == 2
    assert await desk.store.purge(desk.clock.now(), limit=9) == 3
    assert await desk.store.purge(desk.clock.now(), limit=9) == 0
    held = await desk.store.task(TaskId("task-held"))
    await desk.store.release(held.task_id, claim=held.claim)
    assert await desk.store.purge(desk.clock.now(), limit=9) == 1
    assert (await desk.store.task(TaskId("task-open"))).status is Status.PENDING


async def test_purging_tasks_with_long_logs_takes_several_transactions(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purging, "EVENTS_MAX", 7)
    for number in range(5):
        await desk.finish(f"task-{number}")
    desk.clock.advance(1)
    assert await desk.store.purge(desk.clock.now(), limit=4) == 4
    assert (await desk.store.counts())[Status.COMPLETED] == 1


async def test_contents_that_no_artifact_names_are_collected_when_they_are_old(desk: Desk) -> None:
    await desk.create("task-1")
    await desk.carry_out("task-1", Start(WORKER))
    await artifact_with(desk, "task-1", b"first version")
    orphan = await desk.store.put_blob(b"never named")
    desk.clock.advance(2 * HOUR_MS)
    fresh = await desk.store.put_blob(b"its row is on its way")
    again = await desk.store.put_blob(b"put again")
    kept = (await artifact_with(desk, "task-1", b"second version")).blobs[0].sha256
    await desk.store.purge(desk.clock.now(), limit=10)
    for digest in (orphan, hashlib.sha256(b"first version").hexdigest()):
        with pytest.raises(ArtifactNotFound):
            await desk.store.blob(digest)
    for digest in (fresh, again, kept):
        await desk.store.blob(digest)


async def test_a_content_that_another_task_names_too_stays(desk: Desk) -> None:
    for task_id in ("task-1", "task-2"):
        await desk.create(task_id)
        await desk.carry_out(task_id, Start(WORKER))
        artifact = await artifact_with(desk, task_id, b"shared")
    await desk.carry_out("task-1", Complete(None))
    desk.clock.advance(2 * HOUR_MS)
    assert await desk.store.purge(desk.clock.now(), limit=10) == 1
    assert await desk.store.blob(artifact.blobs[0].sha256) == b"shared"


async def test_expired_sessions_go_with_the_retention(desk: Desk) -> None:
    await desk.store.put_session(session(desk, "sess-1"))
    desk.clock.advance(3 * HOUR_MS)
    await desk.store.put_session(session(desk, "sess-2"))
    await desk.store.purge(desk.clock.now() - timedelta(minutes=1), limit=10)
    with pytest.raises(SessionNotFound):
        await desk.store.session(SessionId("sess-1"))
    await desk.store.session(SessionId("sess-2"))
