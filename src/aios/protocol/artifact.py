"""`aios/artifact.*`: what tasks made (protocol.md §7)."""

from __future__ import annotations

from typing import Any

from aios.errors import ArtifactNotFound, TaskNotFound
from aios.model import JsonObject
from aios.protocol.params import Identifier, Params, Timestamp, View


class ArtifactView(View, frozen=True, kw_only=True):
    """An artifact in the seeds' form; each part has a `type` and a member of that name."""

    id: str
    name: str
    type: str
    created_at: Timestamp | None = None
    mime_type: str | None = None
    parts: list[JsonObject]
    metadata: JsonObject = {}


class ArtifactGot(View, frozen=True, kw_only=True):
    """One artifact."""

    artifact: ArtifactView


class ArtifactGet(Params[ArtifactGot], frozen=True, kw_only=True):
    """Give the newest version of an artifact."""

    method = "aios/artifact.get"
    result = ArtifactGot
    errors = (ArtifactNotFound,)
    artifact_id: Identifier


class ArtifactsListed(View, frozen=True, kw_only=True):
    """A task's artifacts, in the order in which they were first made."""

    artifacts: list[ArtifactView]


class ArtifactList(Params[ArtifactsListed], frozen=True, kw_only=True):
    """Give the artifacts of a task."""

    method = "aios/artifact.list"
    result = ArtifactsListed
    errors = (TaskNotFound,)
    task_id: Identifier


METHODS: tuple[type[Params[Any]], ...] = (ArtifactGet, ArtifactList)
