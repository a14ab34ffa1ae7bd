"""What tasks make: large parts move out, pieces come together, versions count, caps hold."""

from __future__ import annotations

from typing import Any

import pytest

from aios.errors import ArtifactNotFound, ValidationFailed
from aios.model import Artifact, ArtifactId, Blob, Task
from aios.rules.lifecycle import Complete, Emit
from tests.unit.engine.house import House, data_of, open_house

TEXT = "text/plain; charset=utf-8"


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "text": content}


async def emit(house: House, task: Task, *parts: Any, id: str = "art-1", append: bool | None = None) -> Artifact:
    made = Artifact(
        id=ArtifactId(id),
        task_id=task.task_id,
        name="Report",
        type="report",
        created_at=house.clock.now(),
        parts=list(parts),
    )
    await house.engine.record(task, Emit(made, append=append))
    return await house.engine.artifact(ArtifactId(id))


async def shown(house: House, task: Task) -> dict[str, Any]:
    """Give the artifact as the last event shows it."""
    return data_of((await house.log(task.task_id))[-1])["artifact"]


async def test_small_parts_stay_and_large_ones_move_out() -> None:
    async with open_house(max_inline_size=2_000) as house:
        task = await house.started()
        large, data = "é" * 1_001, {"rows": ["x" * 3_000]}
        made = await emit(house, task, text("short"), text(large), {"type": "data", "data": data})
        assert made.parts[0] == text("short")
        assert made.parts[1] == {
            "type": "file",
            "file": {"uri": "aios://artifacts/art-1/1", "mime_type": TEXT, "size": 2_002},
        }
        assert await shown(house, task) == {
            "id": "art-1",
            "name": "Report",
            "type": "report",
            "created_at": "2026-01-05T10:00:00.000Z",
            "parts": made.parts,
            "metadata": {"source_task": task.task_id, "version": 1},
        }
        assert await house.engine.artifact_content(made, 0) == (b"short", TEXT)
        assert await house.engine.artifact_content(made, 1) == (large.encode(), TEXT)
        content, mime_type = await house.engine.artifact_content(made, 2)
        assert (mime_type, len(content)) == ("application/json", 3_013)


async def test_content_that_lies_elsewhere_or_nowhere_is_not_found() -> None:
    async with open_house() as house:
        image = {"type": "image", "image": {"uri": "https://example.com/x.png", "mime_type": "image/png"}}
        made = await emit(house, await house.started(), image)
        for part in (0, 1, -1):
            with pytest.raises(ArtifactNotFound):
                await house.engine.artifact_content(made, part)


async def test_the_same_id_again_is_a_new_version() -> None:
    async with open_house() as house:
        task = await house.started()
        await emit(house, task, text("one"))
        house.clock.advance(5)
        second = await emit(house, task, text("two"))
        assert (second.version, second.parts) == (2, [text("two")])
        assert [each.version for each in await house.engine.artifacts(task.task_id)] == [2]


async def test_pieces_are_put_together_and_each_event_shows_only_its_own() -> None:
    async with open_house() as house:
        task = await house.started()
        await emit(house, task, text("a"), append=True)
        made = await emit(house, task, text("b"), append=True)
        assert made.parts == [text("a"), text("b")]
        assert (await shown(house, task))["parts"] == [text("b")]


async def test_content_that_code_brought_keeps_its_place_in_the_whole() -> None:
    async with open_house() as house:
        task = await house.started()
        await emit(house, task, text("a"), text("b"))
        sha256 = await house.engine.put_content(b"\x89PNG")
        piece = Artifact(
            id=ArtifactId("art-1"),
            task_id=task.task_id,
            name="Report",
            type="report",
            created_at=house.clock.now(),
            parts=[{"type": "image", "image": {"uri": "aios://artifacts/art-1/0", "mime_type": "image/png"}}],
            blobs=[Blob(part=0, sha256=sha256, size=4, mime_type="image/png")],
        )
        await house.engine.record(task, Emit(piece, append=True))
        whole = await house.engine.artifact(ArtifactId("art-1"))
        assert whole.parts[2]["image"]["uri"] == "aios://artifacts/art-1/2"
        assert await house.engine.artifact_content(whole, 2) == (b"\x89PNG", "image/png")
        assert (await shown(house, task))["parts"] == [whole.parts[2]]


async def test_another_tasks_artifact_is_not_overwritten() -> None:
    async with open_house() as house:
        await emit(house, await house.started(), text("mine"))
        with pytest.raises(ValidationFailed, match="another task"):
            await emit(house, await house.started(), text("yours"))


@pytest.mark.parametrize(
    "part",
    [
        "text",
        {"text": "no type"},
        {"type": "text"},
        {"type": "text", "text": 1},
        {"type": "data", "data": []},
        {"type": "script", "script": {}},
        {"type": "data", "data": {"x": float("nan")}},
        {"type": "text", "text": "\ud800"},
    ],
)
async def test_a_malformed_part_is_refused(part: Any) -> None:
    async with open_house() as house:
        task = await house.started()
        with pytest.raises(ValidationFailed, match=r"[Pp]art 0"):
            await emit(house, task, part)
        assert await house.kinds(task.task_id) == ["status working"]


@pytest.mark.parametrize("id", ["", "a/b", "a\0b", "x" * 201, "a\nb"])
async def test_an_id_that_could_not_stand_in_an_address_is_refused(id: str) -> None:
    async with open_house() as house:
        with pytest.raises(ValidationFailed, match="id must"):
            await emit(house, await house.started(), text("x"), id=id)


async def test_an_artifact_keeps_to_its_cap_over_all_its_pieces() -> None:
    async with open_house(max_artifact_size=10_000, max_inline_size=2_000) as house:
        task = await house.started()
        await emit(house, task, text("x" * 6_000))
        with pytest.raises(ValidationFailed, match="10001"):
            await emit(house, task, text("x" * 4_001), append=True)
        assert (await emit(house, task, text("x" * 4_000), append=True)).version == 2
        with pytest.raises(ValidationFailed):
            await house.engine.put_content(b"x" * 10_001)


async def test_many_middling_parts_move_out_so_that_the_event_stays_small() -> None:
    async with open_house() as house:
        task = await house.started()
        made = await emit(house, task, *(text("x" * 60_000) for _ in range(20)))
        assert [part["type"] for part in made.parts].count("file") == 18
        assert len((await house.log(task.task_id))[-1].data) < 256 * 1024


async def test_a_result_comes_with_all_that_the_task_made_as_far_as_it_fits() -> None:
    async with open_house(max_event_size=10_000) as house:
        task = await house.started()
        for number in range(4):
            await emit(house, task, text("x" * 4_000), id=f"art-{number}")
        last = Artifact(
            id=ArtifactId("art-0"),
            task_id=task.task_id,
            name="Last",
            type="data",
            created_at=house.clock.now(),
            parts=[text("newest")],
        )
        await house.engine.record(task, Emit(last), Complete("done"))
        told = data_of((await house.log(task.task_id))[-1])["artifacts"]
        assert [each["id"] for each in told] == ["art-0", "art-1", "art-2", "art-3"]
        assert [len(each["parts"]) for each in told] == [1, 1, 1, 0]
        assert told[0]["name"] == "Last"
