"""Who may do what: the one place that decides (protocol.md §2, Roles).

What a caller may not reach is answered exactly as what does not exist.
"""

from __future__ import annotations

from enum import Enum

from aios.engine.engine import Engine
from aios.errors import ArtifactNotFound, PermissionDenied, TaskNotFound
from aios.model import Artifact, ArtifactId, Priority, Task, TaskId
from aios.service.call import ADMIN, CLIENT, OPERATOR, Principal


class Act(Enum):
    """What is to be done with a task."""

    READ = "read"
    STEER = "steer"
    """Cancel, pause, resume."""
    ANSWER = "answer"
    """Give input, sign in: speak for the task's principal."""


def may(principal: Principal, act: Act, *, owner: str) -> bool:
    """Whether the principal may do this with what belongs to `owner`."""
    if principal.user == owner or ADMIN in principal.roles:
        return True
    return OPERATOR in principal.roles and act in {Act.READ, Act.STEER}


def sees_all(principal: Principal) -> bool:
    """Whether lists show everyone's tasks."""
    return bool(principal.roles & {OPERATOR, ADMIN})


def sees_sign_ins(principal: Principal, *, owner: str) -> bool:
    """Whether auth requests are shown: to nobody but the task's own principal, whatever the role."""
    return principal.user == owner


def check_create(principal: Principal, priority: Priority = Priority.NORMAL) -> None:
    """Refuse who may not create such a task.

    Raises:
        PermissionDenied: `data.required_role` says which role is missing.
    """
    if not principal.roles & {CLIENT, OPERATOR, ADMIN}:
        raise PermissionDenied("creating tasks needs the role client", required_role=CLIENT)
    if priority is Priority.URGENT and not sees_all(principal):
        raise PermissionDenied("priority urgent needs the role operator", required_role=OPERATOR)


async def reach_task(engine: Engine, principal: Principal, task_id: str, act: Act) -> Task:
    """Give the task, if the principal may do this with it.

    Raises:
        TaskNotFound: There is none, or none for this principal.
    """
    try:
        task = await engine.task(TaskId(task_id))
    except TaskNotFound:
        task = None
    if task is None or not may(principal, act, owner=task.spec.principal):
        raise TaskNotFound(f"there is no task {task_id}", task_id=task_id)
    return task


async def reach_artifact(engine: Engine, principal: Principal, artifact_id: str) -> Artifact:
    """Give the artifact, if the principal may read its task.

    Raises:
        ArtifactNotFound: There is none, or none for this principal.
    """
    try:
        artifact = await engine.artifact(ArtifactId(artifact_id))
        await reach_task(engine, principal, artifact.task_id, Act.READ)
    except (ArtifactNotFound, TaskNotFound):
        raise ArtifactNotFound(f"there is no artifact {artifact_id}", artifact_id=artifact_id) from None
    return artifact
