import os
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from aios.builtin.files import files
from aios.errors import FileMissing, ValidationFailed
from aios.model import JsonObject
from tests.unit.builtin.recording import Recorded, RecordingContext, as_context
from tests.unit.builtin.trees import fill, make_deep, remove_deep, unprivileged


async def find(ctx: RecordingContext, root: Path | str, **arguments: Any) -> JsonObject:
    return await files.run("system.files.find_duplicates", {"root": str(root), **arguments}, as_context(ctx))


def contents(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


async def test_only_what_was_answered_is_removed(tmp_path: Path) -> None:
    fill(tmp_path, {"a": b"111", "b": b"111", "c": b"111", "d": b"22", "e": b"22", "f": b"33"})
    recorded = Recorded(answers=[["copy-2", "e"]])
    result = await find(RecordingContext(recorded), tmp_path)
    assert contents(tmp_path) == {"a", "b", "d", "f"}
    (question,) = recorded.questions
    assert question["prompt"].startswith("Which copies may go?")
    assert question["options"][0] == {
        "id": "copy-1",
        "label": "b (3 bytes), a copy of a",
        "value": "b",
        "path": "b",
        "size": 3,
        "keeps": "a",
    }
    assert [option["path"] for option in question["options"]] == ["b", "c", "e"]
    counts = ("files", "bytes", "groups", "copies", "wasted_bytes", "offered", "chosen", "removed", "freed_bytes")
    assert [result[name] for name in counts] == [6, 15, 2, 3, 8, 3, 2, 2, 5]
    assert [artifact["name"] for artifact in recorded.artifacts] == ["Duplicate files", "Removed copies"]


async def test_the_schema_takes_ids_and_paths_and_nothing_else(tmp_path: Path) -> None:
    fill(tmp_path, {"a": b"1", "b": b"1"})
    recorded = Recorded(answers=[[]])
    await find(RecordingContext(recorded), tmp_path)
    schema = jsonschema_rs.validator_for(recorded.questions[0]["schema"])
    assert [schema.is_valid(answer) for answer in ([], ["copy-1"], ["b"], ["copy-1", "b"])] == [True] * 4
    assert [schema.is_valid(answer) for answer in (["a"], ["/etc/passwd"], "copy-1", ["b", "b"], None)] == [False] * 5


async def test_an_empty_answer_removes_nothing(tmp_path: Path) -> None:
    fill(tmp_path, {"a": b"1", "b": b"1"})
    recorded = Recorded(answers=[[]])
    result = await find(RecordingContext(recorded), tmp_path)
    assert contents(tmp_path) == {"a", "b"}
    assert (result["offered"], result["chosen"], result["removed"]) == (1, 0, 0)
    assert len(recorded.artifacts) == 1


async def test_a_copy_named_twice_is_removed_once(tmp_path: Path) -> None:
    fill(tmp_path, {"a": b"1", "b": b"1"})
    result = await find(RecordingContext(Recorded(answers=[["copy-1", "b"]])), tmp_path)
    assert (result["chosen"], result["removed"]) == (1, 1)


async def test_nobody_is_asked_where_nothing_may_go(tmp_path: Path) -> None:
    fill(tmp_path, {"a": b"1", "b": b"2"})
    unique = Recorded()
    assert (await find(RecordingContext(unique), tmp_path))["groups"] == 0
    fill(tmp_path, {"c": b"1"})
    never = Recorded()
    result = await find(RecordingContext(never), tmp_path, remove="never")
    assert (result["groups"], result["offered"]) == (1, 0)
    assert unique.questions == never.questions == []
    assert contents(tmp_path) == {"a", "b", "c"}


async def test_hard_links_are_said_to_free_nothing_and_are_not_offered(tmp_path: Path) -> None:
    fill(tmp_path, {"a": b"1", "b": b"1"})
    (tmp_path / "a-too").hardlink_to(tmp_path / "a")
    (tmp_path / "b-too").hardlink_to(tmp_path / "b")
    recorded = Recorded()
    result = await find(RecordingContext(recorded), tmp_path)
    assert (result["groups"], result["copies"], result["hard_links"]) == (1, 1, 2)
    assert recorded.questions == []
    assert "removal, which would free nothing" in recorded.artifacts[0]["parts"][0]["text"]


async def test_empty_files_are_found_if_asked_for(tmp_path: Path) -> None:
    fill(tmp_path, {"a": b"", "b": b""})
    assert (await find(RecordingContext(), tmp_path))["groups"] == 0
    result = await find(RecordingContext(Recorded(answers=[["b"]])), tmp_path, min_size=0)
    assert (result["groups"], result["removed"], result["freed_bytes"]) == (1, 1, 0)


async def test_large_files_are_compared_by_head_and_tail_before_they_are_read(tmp_path: Path) -> None:
    size = 3 * 1024 * 1024
    fill(
        tmp_path,
        {
            "a": b"x" * size,
            "b": b"x" * size,
            "head": b"y" + b"x" * (size - 1),
            "tail": b"x" * (size - 1) + b"y",
            "middle": b"x" * (size // 2) + b"y" + b"x" * (size - size // 2 - 1),
        },
    )
    recorded = Recorded(answers=[["copy-1"]])
    result = await find(RecordingContext(recorded), tmp_path)
    assert (result["groups"], result["copies"]) == (1, 1)
    messages = [message for _, message, _, _ in recorded.progress if message]
    assert any(message.endswith("of 9.4 MB") for message in messages)  # a, b and middle: the others are not hashed


async def test_progress_goes_through_the_phases_and_never_back(tmp_path: Path) -> None:
    fill(tmp_path, {"a": b"1" * 3_000_000, "b": b"1" * 3_000_000})
    recorded = Recorded(answers=[["copy-1"]])
    await find(RecordingContext(recorded), tmp_path)
    percents = [percent for percent, _, _, _ in recorded.progress if percent is not None]
    assert percents == sorted(percents)
    assert (percents[0], percents[-1]) == (0, 100)
    steps = [step for _, _, step, _ in recorded.progress if step is not None]
    assert sorted(set(steps)) == [1, 2, 3, 4, 5]
    assert steps == sorted(steps)


async def test_names_of_all_kinds_are_reported_as_text_and_can_be_removed(tmp_path: Path) -> None:
    names = [b"line\nbreak", "🎉 重复".encode(), b"caf\xe9", b"caf\\xe9", b'"quoted"']
    fill(tmp_path, {os.fsdecode(name): b"same" for name in [b"first", *names]})
    recorded = Recorded(answers=[["line\nbreak", "🎉 重复", "copy-3", "copy-4", '"quoted"']])
    result = await find(RecordingContext(recorded), tmp_path)
    assert result["removed"] == 5
    assert contents(tmp_path) == {"first"}
    # Two of them look alike, so neither can be named by its path.
    assert "caf\\xe9" not in recorded.questions[0]["schema"]["items"]["enum"]


async def test_a_tree_deeper_than_any_path_is_searched(tmp_path: Path) -> None:
    fill(tmp_path, {"a": b"same"})
    make_deep(tmp_path, 1100, "b", b"same")
    try:
        result = await find(RecordingContext(Recorded(answers=[["copy-1"]])), tmp_path)
    finally:
        remove_deep(tmp_path)
    assert (result["groups"], result["removed"]) == (1, 1)


async def test_files_that_cannot_be_read_are_counted_and_left_out(open_folder: Path) -> None:
    fill(open_folder, {"a": b"same", "b": b"same", "secret": b"same"})
    (open_folder / "secret").chmod(0o000)
    recorded = Recorded()
    with unprivileged():
        result = await find(RecordingContext(recorded), open_folder, remove="never")
    assert (result["copies"], result["unreadable"]) == (1, 1)
    assert "`secret` could not be read." in recorded.artifacts[0]["parts"][0]["text"]


async def test_a_copy_that_may_not_be_removed_stays_with_a_reason(open_folder: Path) -> None:
    fill(open_folder, {"a": b"same", "locked/b": b"same"})
    (open_folder / "locked").chmod(0o555)
    recorded = Recorded(answers=[["locked/b"]])
    with unprivileged():
        result = await find(RecordingContext(recorded), open_folder)
    assert (result["chosen"], result["removed"]) == (1, 0)
    (outcome,) = recorded.artifacts[1]["parts"][1]["data"]["outcomes"]
    assert outcome["reason"] == "it may not be read or removed by the daemon"


async def test_home_is_found_by_its_sign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    fill(tmp_path, {"docs/a": b"1"})
    assert (await find(RecordingContext(), "~/docs"))["root"] == str(tmp_path / "docs")


async def test_a_wrong_root_is_said_to_be_wrong(tmp_path: Path) -> None:
    fill(tmp_path, {"file": b""})
    with pytest.raises(FileMissing, match="There is no folder"):
        await find(RecordingContext(), tmp_path / "nowhere")
    with pytest.raises(ValidationFailed, match="is not a folder"):
        await find(RecordingContext(), tmp_path / "file")
    with pytest.raises(ValidationFailed, match=r"U\+0000"):
        await find(RecordingContext(), "a\0b")
