import os
import shutil
import socket
from pathlib import Path

import pytest

from aios.builtin.files.beneath import Root
from aios.builtin.files.walking import Globs, Rules, Tally, Walk
from aios.errors import FileMissing, ValidationFailed
from tests.unit.builtin.trees import fill, make_deep, remove_deep, unprivileged


def nothing(*_: object) -> None:
    pass


def walk(root: Path, rules: Rules | None = None) -> tuple[set[str], Tally]:
    with Root(os.fsencode(root)) as opened:
        walked = Walk(opened, rules or Rules(), checkpoint=nothing, seen=nothing)
        listing = walked.run()
    return {os.fsdecode(listing.path(number)) for number in range(len(listing))}, walked.tally


def test_a_walk_finds_every_file_with_its_path(tmp_path: Path) -> None:
    fill(tmp_path, {"a": b"1", "b/c": b"22", "b/d/e": b""})
    found, tally = walk(tmp_path)
    assert found == {"a", "b/c", "b/d/e"}
    assert (tally.files, tally.bytes, tally.folders) == (3, 3, 3)


def test_a_walk_of_an_empty_folder_finds_nothing(tmp_path: Path) -> None:
    assert walk(tmp_path)[0] == set()


def test_links_are_counted_and_not_followed(tmp_path: Path) -> None:
    root = fill(tmp_path / "root", {"folder/a": b"1"})
    outside = fill(tmp_path / "outside", {"secret": b"2"})
    (root / "loop").symlink_to(root)
    (root / "out").symlink_to(outside)
    (root / "file").symlink_to(root / "folder/a")
    (root / "broken").symlink_to(root / "nowhere")
    found, tally = walk(root)
    assert found == {"folder/a"}
    assert tally.links == 4


def test_followed_links_loop_never_and_lead_never_out(tmp_path: Path) -> None:
    root = fill(tmp_path / "root", {"folder/a": b"1", "hidden/deep/b": b"2"})
    outside = fill(tmp_path / "root-outside", {"secret": b"3"})
    (root / "folder/up").symlink_to(root)
    (root / "folder/self").symlink_to(root / "folder")
    (root / "ping").symlink_to(root / "pong")
    (root / "pong").symlink_to(root / "ping")
    (root / "out").symlink_to(outside)
    (root / "way").symlink_to(root / "hidden/deep")
    found, tally = walk(root, Rules(follow_links=True, exclude=Globs(["hidden"])))
    assert found == {"folder/a", "hidden/deep/b"}
    assert tally.outside.paths == ["out"]


def test_devices_sockets_and_pipes_are_passed_over(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        # The path of a socket must be short.
        listener.bind(os.path.relpath(tmp_path / "socket"))
    found, tally = walk(tmp_path)
    assert found == set()
    assert tally.special == 2


PATTERNS: list[tuple[list[str], list[str], set[str]]] = [
    (["*.jpg"], [], {"a.jpg", "sub/b.jpg"}),
    (["sub/*"], [], {"sub/b.jpg", "sub/c.txt"}),
    ([], ["*.jpg"], {"sub/c.txt"}),
    ([], ["sub/"], {"a.jpg"}),
    (["*.jpg"], ["sub/b*"], {"a.jpg"}),
    (["*.JPG"], [], set()),
    (["[ab].jp?"], [], {"a.jpg", "sub/b.jpg"}),
]


@pytest.mark.parametrize(("include", "exclude", "expected"), PATTERNS)
def test_patterns_say_what_is_taken_in(
    tmp_path: Path, include: list[str], exclude: list[str], expected: set[str]
) -> None:
    fill(tmp_path, {"a.jpg": b"1", "sub/b.jpg": b"2", "sub/c.txt": b"3"})
    assert walk(tmp_path, Rules(include=Globs(include), exclude=Globs(exclude)))[0] == expected


def test_small_files_are_counted_and_left_out(tmp_path: Path) -> None:
    fill(tmp_path, {"small": b"1", "large": b"12345"})
    found, tally = walk(tmp_path, Rules(min_size=5))
    assert found == {"large"}
    assert tally.files == 2


def test_what_cannot_be_read_is_counted_and_the_walk_goes_on(open_folder: Path) -> None:
    fill(open_folder, {"closed/a": b"1", "listed/b": b"2", "open/c": b"3"})
    (open_folder / "closed").chmod(0o000)
    (open_folder / "listed").chmod(0o444)
    with unprivileged():
        found, tally = walk(open_folder)
    for name in ("closed", "listed"):
        (open_folder / name).chmod(0o755)
    assert found == {"open/c"}
    assert sorted(tally.unreadable.paths) == ["closed", "listed/b"]


def test_a_folder_that_vanishes_in_the_middle_is_counted(tmp_path: Path) -> None:
    fill(tmp_path, {"a/one": b"1", "b/two": b"2"})
    with Root(os.fsencode(tmp_path)) as root:
        walked = Walk(root, Rules(), checkpoint=nothing, seen=nothing)
        entries = walked.entries()
        assert {next(entries).name, next(entries).name} == {b"a", b"b"}
        shutil.rmtree(tmp_path / "a")
        assert [found.name for found in entries] == [b"two"]
    assert walked.tally.vanished.paths == ["a"]


def test_a_folder_replaced_by_a_link_in_the_middle_is_not_entered(tmp_path: Path) -> None:
    root = fill(tmp_path / "root", {"folder/a": b"1"})
    outside = fill(tmp_path / "outside", {"secret": b"2"})
    with Root(os.fsencode(root)) as opened:
        walked = Walk(opened, Rules(), checkpoint=nothing, seen=nothing)
        entries = walked.entries()
        assert next(entries).name == b"folder"
        (root / "folder").rename(tmp_path / "elsewhere")
        (root / "folder").symlink_to(outside)
        assert list(entries) == []
    assert walked.tally.vanished.paths == ["folder"]


def test_a_tree_deeper_than_any_path_is_walked_to_its_end(tmp_path: Path) -> None:
    make_deep(tmp_path, 1500, "leaf", b"1")
    try:
        found, tally = walk(tmp_path)
    finally:
        remove_deep(tmp_path)
    assert {len(path) for path in found} == {1500 * len("level/") + len("leaf")}
    assert tally.folders == 1501


def test_names_that_are_not_text_are_found(tmp_path: Path) -> None:
    with open(os.fsencode(tmp_path) + b"/caf\xe9\n", "wb"):
        pass
    with Root(os.fsencode(tmp_path)) as opened:
        listing = Walk(opened, Rules(), checkpoint=nothing, seen=nothing).run()
    assert listing.path(0) == b"caf\xe9\n"


def test_another_file_system_is_entered_only_if_asked_for() -> None:
    # `/dev/shm` and the like are mounted below `/dev` on every Linux.
    with Root(b"/dev") as root:
        staying = Walk(root, Rules(), checkpoint=nothing, seen=nothing)
        staying.run()
        crossing = Walk(root, Rules(cross_mounts=True), checkpoint=nothing, seen=nothing)
        crossing.run()
    assert staying.tally.mounts.count > 0
    assert crossing.tally.mounts.count == 0


def test_a_root_must_be_a_folder_that_is_there(tmp_path: Path) -> None:
    fill(tmp_path, {"file": b""})
    with pytest.raises(FileMissing, match="There is no folder"):
        Root(os.fsencode(tmp_path / "nowhere"))
    with pytest.raises(ValidationFailed, match="is not a folder"):
        Root(os.fsencode(tmp_path / "file"))
