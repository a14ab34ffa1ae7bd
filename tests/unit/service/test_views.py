"""Records in the words of the wire."""

from __future__ import annotations

from typing import Any

import pytest

from aios.engine.engine import Engine
from aios.model import Artifact, ArtifactId, InputRequest, Progress, Status, Task
from aios.rules.lifecycle import Ask, Complete, Emit, Fail, Report
from aios.testing.clock import START
from tests.unit.service.desk import Desk, open_desk


async def bring(desk: Desk, task: Task, status: Status) -> Task:
    """Bring a working task to a status, the shortest way."""
    match status:
        case Status.PAUSED:
            return await desk.engine.pause(task.task_id)
        case Status.INPUT_REQUIRED:
            return await desk.engine.record(task, Ask(InputRequest(step="ask:1", prompt="?")))
        case Status.COMPLETED:
            return await desk.engine.record(task, Complete({}))
        case Status.FAILED:
            return await desk.engine.record(task, Fail({"code": -32603, "message": "no"}, is_retryable=False))
        case Status.CANCELED:
            return await desk.engine.cancel(task.task_id)
        case _:
            return task


@pytest.mark.parametrize("has_progress", [False, True])
@pytest.mark.parametrize("has_artifact", [False, True])
@pytest.mark.parametrize("status", sorted(set(Status) - {Status.PENDING, Status.AUTH_REQUIRED}))
async def test_artifacts_are_looked_for_exactly_where_there_may_be_some(
    status: Status, has_artifact: bool, has_progress: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    artifacts = Engine.artifacts

    async def noted(self: Engine, task_id: Any) -> Any:
        asked.append(task_id)
        return await artifacts(self, task_id)

    monkeypatch.setattr(Engine, "artifacts", noted)
    async with open_desk() as desk:
        task = await desk.started()
        if has_progress:
            await desk.engine.record(task, Report(Progress(percent=5)))
        if has_artifact:
            made = Artifact(id=ArtifactId("art-1"), task_id=task.task_id, name="a", type="text", created_at=START)
            await desk.engine.record(task, Emit(made))
        await bring(desk, task, status)
        shown = await desk.caller().ask("aios/task.get", {"task_id": task.task_id})
        assert shown["status"] == status
        assert [each["id"] for each in shown["artifacts"]] == ["art-1"] * has_artifact
        assert bool(asked) is has_artifact
