"""`aios/artifact.*`, and the content of artifacts for doors (protocol.md §7)."""

from __future__ import annotations

import msgspec

from aios.engine.engine import Engine
from aios.model import Artifact
from aios.protocol.artifact import ArtifactGet, ArtifactGot, ArtifactList, ArtifactsListed
from aios.service import access, views
from aios.service.access import Act
from aios.service.call import Call, Principal, handles


class Content(msgspec.Struct, frozen=True):
    """Bytes of an artifact, and what they are."""

    body: bytes
    mime_type: str
    name: str


@handles(ArtifactGet)
async def get(call: Call, params: ArtifactGet) -> ArtifactGot:
    """Give the newest version of an artifact."""
    artifact = await access.reach_artifact(call.engine, call.principal, params.artifact_id)
    return ArtifactGot(artifact=views.artifact(artifact))


@handles(ArtifactList)
async def list_(call: Call, params: ArtifactList) -> ArtifactsListed:
    """Give all artifacts of a task."""
    task = await access.reach_task(call.engine, call.principal, params.task_id, Act.READ)
    artifacts = await call.engine.artifacts(task.task_id)
    return ArtifactsListed(artifacts=[views.artifact(each) for each in artifacts])


async def content(engine: Engine, principal: Principal, artifact_id: str, part: int | None) -> Content:
    """Give one part's content. Without `part`: that of the only part, or the artifact itself as JSON where it has several.

    Raises:
        ArtifactNotFound: There is none for this principal, or its content is not kept here.
    """
    artifact = await access.reach_artifact(engine, principal, artifact_id)
    if part is None and len(artifact.parts) != 1:
        return Content(msgspec.json.encode(views.artifact(artifact)), "application/json", _file_name(artifact))
    body, mime_type = await engine.artifact_content(artifact, part or 0)
    return Content(body, mime_type, _file_name(artifact))


def _file_name(artifact: Artifact) -> str:
    return artifact.name or artifact.id
