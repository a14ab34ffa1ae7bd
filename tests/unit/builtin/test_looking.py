"""`system.files.list`, `.search` and `.checksum`."""

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from aios.builtin.files import entries, files
from aios.errors import CapabilityFailed, FileMissing, ValidationFailed
from aios.model import JsonObject
from tests.unit.builtin.recording import Crash, Recorded, RecordingContext, as_context
from tests.unit.builtin.trees import fill


async def run(verb: str, ctx: RecordingContext | None = None, /, **arguments: Any) -> JsonObject:
    return await files.run(f"system.files.{verb}", arguments, as_context(ctx or RecordingContext()))


async def paths(root: Path, **arguments: Any) -> list[str]:
    return [match["path"] for match in (await run("search", root=str(root), **arguments))["matches"]]


async def test_a_folder_is_listed_by_name_with_kind_size_and_time(tmp_path: Path) -> None:
    fill(tmp_path, {"b.txt": b"12345", "a/inner": b""})
    (tmp_path / "c").symlink_to("nowhere")
    os.mkfifo(tmp_path / "d")
    listed = await run("list", path=str(tmp_path))
    assert [entry["name"] for entry in listed["entries"]] == ["a", "b.txt", "c", "d"]
    assert [entry["type"] for entry in listed["entries"]] == ["folder", "file", "link", "other"]
    assert listed["entries"][1]["size"] == 5
    assert listed["entries"][1]["modified_at"] == "2023-11-14T22:13:20.000Z"
    assert listed["entries"][2]["target"] == "nowhere"
    assert (listed["count"], listed["truncated"]) == (4, False)


async def test_a_long_folder_is_listed_page_by_page(tmp_path: Path) -> None:
    fill(tmp_path, {f"{number:02}": b"" for number in range(25)})
    names: list[str] = []
    truncated = True
    while truncated:
        page = await run("list", path=str(tmp_path), limit=10, after=names[-1] if names else "")
        names += [entry["name"] for entry in page["entries"]]
        truncated = page["truncated"]
        assert page["count"] == 25
    assert names == [f"{number:02}" for number in range(25)]


async def test_a_listing_that_is_too_large_for_a_result_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "RESULT_BYTES_MAX", 500)
    fill(tmp_path, {f"{number:02}": b"" for number in range(25)})
    page = await run("list", path=str(tmp_path))
    assert page["truncated"] is True
    assert 0 < len(page["entries"]) < 25


async def test_a_listing_can_leave_out_what_is_hidden_or_has_another_name(tmp_path: Path) -> None:
    fill(tmp_path, {".hidden": b"", "a.pdf": b"", "b.txt": b""})
    listed = await run("list", path=str(tmp_path), hidden=False, pattern="*.pdf")
    assert [entry["name"] for entry in listed["entries"]] == ["a.pdf"]


async def test_files_are_found_by_name_size_time_and_kind(tmp_path: Path) -> None:
    fill(tmp_path, {"Report.PDF": b"1", "sub/report.pdf": b"12345", "sub/deep/notes.txt": b"123"})
    assert await paths(tmp_path, name="*.pdf") == ["Report.PDF", "sub/report.pdf"]
    assert await paths(tmp_path, name="*.pdf", ignore_case=False) == ["sub/report.pdf"]
    assert await paths(tmp_path, name="sub/*/*.txt") == ["sub/deep/notes.txt"]
    assert await paths(tmp_path, min_size=3) == ["sub/deep/notes.txt", "sub/report.pdf"]
    assert await paths(tmp_path, max_size=1) == ["Report.PDF"]
    assert await paths(tmp_path, type="folder") == ["sub", "sub/deep"]
    assert await paths(tmp_path, type="file", modified_after="2023-11-14T22:13:21Z") == [
        "sub/deep/notes.txt",
        "sub/report.pdf",
    ]
    assert await paths(tmp_path, modified_before="2023-11-14T23:13:21+01:00") == ["Report.PDF"]
    assert await paths(tmp_path, exclude=["sub"]) == ["Report.PDF"]


async def test_files_are_found_by_their_text(tmp_path: Path) -> None:
    fill(
        tmp_path,
        {
            "a.txt": b"first\nthe Insurance number\nlast",
            "b.bin": b"\0insurance",
            "c.txt": b"caf\xe9 insurance",
            "d.txt": b"nothing",
            "e.txt": b"x" * 500 + b" insurance " + b"y" * 500,
        },
    )
    found = (await run("search", root=str(tmp_path), text="insurance"))["matches"]
    assert [(match["path"], match["line"]) for match in found] == [("a.txt", 2), ("c.txt", 1), ("e.txt", 1)]
    assert found[0]["text"] == "the Insurance number"
    assert len(found[2]["text"]) == 100 + len("insurance") + 100
    assert await paths(tmp_path, text="insurance", ignore_case=False) == ["c.txt", "e.txt"]
    short = await run("search", root=str(tmp_path), text="insurance", max_file_bytes=100)
    assert [match["path"] for match in short["matches"]] == ["a.txt", "c.txt"]
    assert short["partly_read"] == 1


async def test_a_search_stops_when_it_has_enough(tmp_path: Path) -> None:
    fill(tmp_path, {f"{number:02}": b"" for number in range(25)})
    found = await run("search", root=str(tmp_path), max_results=10)
    assert (len(found["matches"]), found["truncated"]) == (10, True)
    exactly = await run("search", root=str(tmp_path), max_results=25)
    assert (len(exactly["matches"]), exactly["truncated"]) == (25, False)


async def test_a_search_follows_no_link_and_opens_no_pipe(tmp_path: Path) -> None:
    root = fill(tmp_path / "root", {"a": b"word"})
    fill(tmp_path / "outside", {"b": b"word"})
    (root / "out").symlink_to(tmp_path / "outside")
    (root / "file").symlink_to(tmp_path / "outside/b")
    os.mkfifo(root / "pipe")
    assert await paths(root, text="word") == ["a"]


async def test_a_time_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValidationFailed, match="must be a time like"):
        await run("search", root=str(tmp_path), modified_after="yesterday")


@pytest.mark.parametrize("algorithm", ["sha256", "sha1", "md5", "blake2b"])
async def test_a_checksum_is_what_others_compute(tmp_path: Path, algorithm: str) -> None:
    content = bytes(range(256)) * 10_000
    fill(tmp_path, {"a": content})
    made = await run("checksum", path=str(tmp_path / "a"), algorithm=algorithm)
    expected = hashlib.new(algorithm, content, usedforsecurity=False).hexdigest()
    assert made["files"] == [{"path": str(tmp_path / "a"), "size": len(content), "checksum": expected}]


async def test_checksums_of_several_files_report_progress_by_bytes(tmp_path: Path) -> None:
    fill(tmp_path, {"a": b"1" * 3_000_000, "b": b"", "c": b"2"})
    recorded = Recorded()
    made = await run("checksum", RecordingContext(recorded), path=[str(tmp_path / name) for name in "abc"])
    assert made["bytes"] == 3_000_001
    percents = [percent for percent, _, _, _ in recorded.progress if percent is not None]
    assert percents == sorted(percents)
    assert percents[-1] == 100


async def test_a_file_that_has_its_checksum_is_not_read_again_after_a_crash(tmp_path: Path) -> None:
    fill(tmp_path, {"a": b"1", "b": b"2"})
    recorded = Recorded()
    first = RecordingContext(recorded)

    def crash(place: str) -> None:
        if place == "checksum#2":
            raise Crash

    first.on_step = crash
    both = [str(tmp_path / name) for name in "ab"]
    with pytest.raises(Crash):
        await run("checksum", first, path=both)
    (tmp_path / "a").unlink()
    made = await run("checksum", RecordingContext(recorded), path=both)
    assert [file["checksum"] for file in made["files"]] == [hashlib.sha256(text).hexdigest() for text in (b"1", b"2")]


async def test_a_file_of_the_kernel_is_read_to_its_end() -> None:
    made = await run("checksum", path="/proc/version")
    assert made["bytes"] > 0


async def test_what_has_no_checksum_is_said_to_have_none(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileMissing, match="There is no file"):
        await run("checksum", path=str(tmp_path / "nowhere"))
    with pytest.raises(ValidationFailed, match="is a folder"):
        await run("checksum", path=str(tmp_path))
    with pytest.raises(ValidationFailed, match="is no regular file"):
        await run("checksum", path=str(tmp_path / "pipe"))
    with pytest.raises(ValidationFailed, match="is no regular file"):
        await run("checksum", path="/dev/zero")


async def test_a_file_that_is_written_to_meanwhile_has_no_checksum(tmp_path: Path) -> None:
    fill(tmp_path, {"a": b"1" * 3_000_000})
    ctx = RecordingContext()
    seen: list[int] = []

    def on_checkpoint() -> None:
        seen.append(1)
        if len(seen) == 3:
            (tmp_path / "a").write_bytes(b"2" * 3_000_000)

    ctx.on_checkpoint = on_checkpoint
    with pytest.raises(CapabilityFailed, match="was written to while it was read") as failure:
        await run("checksum", ctx, path=str(tmp_path / "a"))
    assert failure.value.is_retryable
