"""What code tells while it runs: progress, log, chunks, artifacts."""

import asyncio
from typing import Any

import pytest

from aios.adapter import BlockingContext, Context
from aios.errors import CapabilityFailed, ValidationFailed
from aios.model import EventKind, Retry, Status
from tests.unit.engine.runner.workshop import open_workshop


async def test_what_is_told_stands_in_the_log_in_order() -> None:
    async def code(ctx: Context) -> None:
        await ctx.progress(percent=10, message="begun", current_step=1, total_steps=2)
        await ctx.log("info", "hello", number=1)
        await ctx.chunk("a")
        await ctx.chunk({"b": 1})

    async with open_workshop() as shop:
        done = await shop.run(code)
        assert done.progress is not None
        assert (done.progress.percent, done.progress.message) == (10, "begun")
        page = await shop.store.events_after(done.task_id, 0, limit=100)
        kinds = [event.kind for event in page.events]
        assert kinds[1:5] == [EventKind.PROGRESS, EventKind.LOG, EventKind.CHUNK, EventKind.CHUNK]
        chunks = await shop.logged(done.task_id, EventKind.CHUNK)
        assert [(chunk["index"], chunk["data"]) for chunk in chunks] == [(0, "a"), (1, {"b": 1})]


async def test_a_flood_of_progress_lets_others_have_their_turn_and_its_last_word_is_told() -> None:
    async def code(ctx: Context) -> None:
        for number in range(2_000):
            await ctx.progress(percent=number / 20, message=str(number))

    async with open_workshop() as shop:
        done = await shop.run(code)
        assert done.progress is not None
        assert done.progress.message == "1999"
        assert len(await shop.logged(done.task_id, EventKind.PROGRESS)) < 10


async def test_progress_that_is_not_json_is_an_error_in_the_code() -> None:
    async def code(ctx: Context) -> str:
        with pytest.raises(ValidationFailed):
            await ctx.progress(percent=float("nan"))
        await ctx.progress(percent=100.0000001)
        return "told"

    async with open_workshop() as shop:
        assert (await shop.run(code)).result == {"value": "told"}


async def test_an_artifact_keeps_its_id_over_attempts_and_its_contents_as_bytes() -> None:
    ids = list[str]()
    parts = [
        {"type": "text", "text": "hello"},
        {"type": "file", "file": {"content": b"\x00\x01", "mime_type": "application/x-two"}},
        {"type": "image", "image": {"content": "<svg/>", "mime_type": "image/svg+xml"}},
    ]

    async def code(ctx: Context) -> None:
        ids.append(await ctx.artifact("Report", "report", parts, metadata={"a": 1}))
        ids.append(await ctx.artifact("Report"))
        if ctx.attempt == 1:
            raise CapabilityFailed("once more")

    async with open_workshop() as shop:
        done = await shop.run(code, retry=Retry(max_attempts=2))
        assert done.status is Status.COMPLETED
        assert ids[:2] == ids[2:]
        assert ids[0] != ids[1]
        report, other = await shop.engine.artifacts(done.task_id)
        assert (report.id, other.id) == tuple(ids[:2])
        assert (report.name, report.type, report.version, report.metadata) == ("Report", "report", 2, {"a": 1})
        assert report.parts[1]["file"] == {
            "uri": f"aios://artifacts/{report.id}/1",
            "mime_type": "application/x-two",
            "size": 2,
        }
        assert await shop.engine.artifact_content(report, 1) == (b"\x00\x01", "application/x-two")
        assert await shop.engine.artifact_content(report, 2) == (b"<svg/>", "image/svg+xml")


async def test_a_streamed_artifact_grows_piece_by_piece_under_one_id() -> None:
    async def code(ctx: Context) -> list[str]:
        ids = [await ctx.artifact("Text", parts=[{"type": "text", "text": "one "}], index=0, last_chunk=False)]
        ids.append(
            await ctx.artifact("Text", parts=[{"type": "text", "text": "two"}], append=True, index=1, last_chunk=True)
        )
        return ids

    async with open_workshop() as shop:
        done = await shop.run(code)
        (artifact,) = await shop.engine.artifacts(done.task_id)
        assert done.result == {"value": [artifact.id, artifact.id]}
        assert [part["text"] for part in artifact.parts] == ["one ", "two"]
        pieces = await shop.logged(done.task_id, EventKind.ARTIFACT)
        told = [(piece["append"], piece["index"], piece["last_chunk"]) for piece in pieces]
        assert told == [(False, 0, False), (True, 1, True)]


async def test_a_part_whose_content_is_no_bytes_is_an_error_in_the_code() -> None:
    async def code(ctx: Context) -> None:
        await ctx.artifact("Report", parts=[{"type": "file", "file": {"content": 5}}])

    async with open_workshop() as shop:
        done = await shop.run(code)
        assert "the content of part 0 must be bytes or text" in str(done.error)


async def test_a_thread_tells_the_same() -> None:
    def work(ctx: BlockingContext) -> list[Any]:
        ctx.progress(50, "half")
        ctx.log("warning", "hello")
        ctx.chunk(1)
        ctx.sleep(1)
        artifact_id = ctx.artifact("Report", parts=[{"type": "data", "data": {}}])
        return [ctx.task_id, ctx.attempt, ctx.max_attempts, ctx.metadata, ctx.principal, artifact_id[:4]]

    async def code(ctx: Context) -> Any:
        return await ctx.in_thread(work, is_last=True)

    async with open_workshop() as shop:
        done = await shop.run(code, metadata={"tags": ["x"]})
        assert done.result == {"value": [done.task_id, 1, 1, {"tags": ["x"]}, "owner", "art-"]}
        assert len(await shop.logged(done.task_id, EventKind.LOG)) == 1


async def test_the_token_for_side_effects_is_the_same_within_an_attempt_and_new_in_the_next() -> None:
    tokens = list[str]()

    async def code(ctx: Context) -> None:
        tokens.append(ctx.idempotency_token)
        await ctx.ask("Which?")
        tokens.append(ctx.idempotency_token)
        if ctx.attempt == 1:
            raise CapabilityFailed("once more")

    async with open_workshop() as shop:
        task = await shop.create(code, retry=Retry(max_attempts=2))
        await shop.wait(task, Status.INPUT_REQUIRED)
        await shop.engine.give_input(task.task_id, "a")
        await shop.wait(task, Status.COMPLETED)
    assert tokens[0] == tokens[1]
    assert tokens[2] == tokens[3]
    assert tokens[1] != tokens[2]


async def test_code_may_do_with_what_it_is_given_as_it_likes() -> None:
    async def script(arguments: dict[str, Any], ctx: Context) -> None:
        arguments["list"].append(ctx.attempt)
        ctx.metadata["more"] = 1
        if ctx.attempt == 1:
            raise CapabilityFailed("once more")
        assert arguments == {"list": [2]}
        assert ctx.metadata == {"more": 1}
        await asyncio.sleep(0)

    async with open_workshop() as shop:
        shop.registry.remove(shop.adapter.adapter_id)
        shop.adapter.offer("test.script", script)
        shop.registry.add(shop.adapter)
        done = await shop.run("test.script", arguments={"list": []}, retry=Retry(max_attempts=2))
        assert done.status is Status.COMPLETED
        assert done.spec.arguments == {"list": []}
