"""What tasks make: checked, with large parts moved out of the record, and put together where it came in pieces (§7)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from aios.engine.values import plain
from aios.errors import ArtifactNotFound, ValidationFailed
from aios.model import Artifact, ArtifactId, Blob, JsonObject, Limits, Task
from aios.rules.events import artifact_to_wire
from aios.rules.lifecycle import Command, Complete, Emit
from aios.store import Store

PARTS_MAX = 1_000
ID_CHARACTERS_MAX = 200
NAME_CHARACTERS_MAX = 1_000
SMALL_BYTES = 1024
"""A part that is smaller than this is never moved out."""
PART_TYPES: dict[str, type] = {"text": str, "data": dict, "file": dict, "image": dict, "audio": dict, "video": dict}
_MIME_TYPES = {"text": "text/plain; charset=utf-8", "data": "application/json"}


def uri_of(artifact_id: str, part: int) -> str:
    """Give the address of one part's content."""
    return f"aios://artifacts/{artifact_id}/{part}"


class Artifacts:
    """Keeps artifacts, their large contents by hash."""

    def __init__(self, *, store: Store, limits: Limits) -> None:
        self._store = store
        self._limits = limits

    async def put_content(self, content: bytes) -> str:
        """Keep content on disk and give its SHA-256. Raises: ValidationFailed."""
        if len(content) > self._limits.max_artifact_size:
            raise ValidationFailed(
                f"The content has {len(content)} bytes; at most {self._limits.max_artifact_size} are kept (max_artifact_size)."
            )
        return await self._store.put_blob(content)

    async def content(self, artifact: Artifact, part: int) -> tuple[bytes, str]:
        """Give one part's content and its mime type. Raises: ArtifactNotFound where it is not kept here."""
        if not 0 <= part < len(artifact.parts):
            raise ArtifactNotFound(f"Artifact {artifact.id} has no part {part}: it has {len(artifact.parts)}.")
        blob = next((each for each in artifact.blobs if each.part == part), None)
        if blob is not None:
            return await self._store.blob(blob.sha256), blob.mime_type
        kind = artifact.parts[part]["type"]
        if kind not in _MIME_TYPES:
            raise ArtifactNotFound(f"The content of part {part} of artifact {artifact.id} lies elsewhere, at its uri.")
        return _content(artifact.parts[part]), _MIME_TYPES[kind]

    async def prepared(self, task: Task, commands: Sequence[Command]) -> list[Command]:
        """Give commands of running code with their artifacts as they are to be kept; an end with all that was made.

        Raises:
            ValidationFailed: An artifact is malformed or too large, or its id is another task's.
        """
        made: dict[ArtifactId, Artifact] = {}
        ready: list[Command] = []
        for command in commands:
            if isinstance(command, Emit):
                emitted = await self._kept(task, command, made)
                made[emitted.artifact.id] = emitted.artifact
                ready.append(emitted)
            elif isinstance(command, Complete):
                ready.append(replace(command, artifacts=await self._all(task, made)))
            else:
                ready.append(command)
        return ready

    async def _kept(self, task: Task, emit: Emit, made: dict[ArtifactId, Artifact]) -> Emit:
        given = self._checked(replace(emit.artifact, task_id=task.task_id))
        before = made.get(given.id) or await self._newest(given.id)
        if before is not None and before.task_id != task.task_id:
            raise ValidationFailed(f"The artifact id {given.id} is another task's; leave the id out, and one is made.")
        if before is not None:
            given = replace(given, version=before.version + 1, created_at=before.created_at)
        is_piece = bool(emit.append) and before is not None
        kept_parts = before.parts if is_piece and before is not None else []
        piece = await self._moved_out(
            _shifted(given, len(kept_parts)), first=len(kept_parts), beside=_inline(kept_parts)
        )
        whole = piece
        if is_piece and before is not None:
            whole = replace(piece, parts=[*before.parts, *piece.parts], blobs=[*before.blobs, *piece.blobs])
        self._check_size(whole)
        return replace(emit, artifact=whole, piece=piece if is_piece else None)

    async def _newest(self, artifact_id: ArtifactId) -> Artifact | None:
        try:
            return await self._store.artifact(artifact_id)
        except ArtifactNotFound:
            return None

    def _checked(self, artifact: Artifact) -> Artifact:
        if (
            not artifact.id
            or len(artifact.id) > ID_CHARACTERS_MAX
            or not artifact.id.isprintable()
            or "/" in artifact.id
        ):
            raise ValidationFailed(
                f"An artifact's id must have 1 to {ID_CHARACTERS_MAX} printable characters, none of them a slash."
            )
        if not artifact.name or len(artifact.name) > NAME_CHARACTERS_MAX or "\0" in artifact.name:
            raise ValidationFailed(
                f"An artifact's name must have 1 to {NAME_CHARACTERS_MAX} characters, none of them NUL."
            )
        what, bytes_max = f"Artifact {artifact.id}", self._limits.max_artifact_size
        head = plain([artifact.id, artifact.name, artifact.type, artifact.mime_type], what=what, bytes_max=bytes_max)
        metadata = plain(artifact.metadata, what=f"The metadata of {what}", bytes_max=self._limits.max_inline_size)
        parts = [
            _checked_part(plain(part, what=f"Part {index} of {what}", bytes_max=2 * bytes_max), index)
            for index, part in enumerate(artifact.parts)
        ]
        return replace(artifact, name=head[1], type=head[2], mime_type=head[3], metadata=metadata, parts=parts)

    async def _moved_out(self, artifact: Artifact, *, first: int, beside: int) -> Artifact:
        """Put large parts on disk; those beside them that would make the record or its event too large, too."""
        parts, blobs = list(artifact.parts), list(artifact.blobs)
        room = self._limits.max_event_size // 2 - beside
        for index, part in enumerate(parts):
            kind = part["type"]
            if kind not in _MIME_TYPES:
                continue
            content = _content(part)
            if len(content) <= SMALL_BYTES or len(content) <= min(room, self._limits.max_inline_size):
                room -= len(content)
                continue
            number = first + index
            sha256, size = await self.put_content(content), len(content)
            blobs.append(Blob(part=number, sha256=sha256, size=size, mime_type=_MIME_TYPES[kind]))
            where = {"uri": uri_of(artifact.id, number), "mime_type": _MIME_TYPES[kind], "size": size}
            parts[index] = {"type": "file", "file": where}
        return replace(artifact, parts=parts, blobs=blobs)

    def _check_size(self, artifact: Artifact) -> None:
        outside = {each.part for each in artifact.blobs}
        inline = [part for number, part in enumerate(artifact.parts) if number not in outside]
        size = sum(each.size for each in artifact.blobs) + _inline(inline)
        if size > self._limits.max_artifact_size:
            raise ValidationFailed(
                f"Artifact {artifact.id} has {size} bytes; at most {self._limits.max_artifact_size} are kept "
                "(max_artifact_size)."
            )
        if len(artifact.parts) > PARTS_MAX:
            raise ValidationFailed(
                f"Artifact {artifact.id} has {len(artifact.parts)} parts; at most {PARTS_MAX} are kept."
            )

    async def _all(self, task: Task, made: dict[ArtifactId, Artifact]) -> list[Artifact]:
        """Give what the task made, for its result event: whole as far as they fit, the rest without their parts."""
        # Nothing can have been made before the second event: the first says that the task works.
        found = await self._store.artifacts(task.task_id) if task.version > 1 else []
        newest = {each.id: each for each in found} | made
        room, told = self._limits.max_event_size, list[Artifact]()
        for artifact in newest.values():
            for form in (artifact, replace(artifact, parts=[])):
                size = len(msgspec.json.encode(artifact_to_wire(form)))
                if size <= room:
                    told.append(form)
                    room -= size
                    break
        return told


def _checked_part(part: Any, index: int) -> JsonObject:
    members = cast("JsonObject", part) if isinstance(part, dict) else {}
    kind = members.get("type")
    if not isinstance(kind, str) or kind not in PART_TYPES or not isinstance(members.get(kind), PART_TYPES[kind]):
        raise ValidationFailed(
            f"Part {index} of the artifact must be an object with a type ({', '.join(PART_TYPES)}) and a member of that name: "
            '{"type": "text", "text": "…"}.'
        )
    return members


def _content(part: JsonObject) -> bytes:
    return part["text"].encode() if part["type"] == "text" else msgspec.json.encode(part[part["type"]])


def _inline(parts: Iterable[JsonObject]) -> int:
    return sum(len(_content(part)) for part in parts)


def _shifted(artifact: Artifact, by: int) -> Artifact:
    """Number the parts of a piece as parts of the whole; content that the runner kept leads to its number there."""
    if not by or not artifact.blobs:
        return artifact
    parts = list(artifact.parts)
    for blob in artifact.blobs:
        part = parts[blob.part]
        kind = part["type"]
        parts[blob.part] = {**part, kind: {**part[kind], "uri": uri_of(artifact.id, blob.part + by)}}
    return replace(artifact, parts=parts, blobs=[replace(each, part=each.part + by) for each in artifact.blobs])
