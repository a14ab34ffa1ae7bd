import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from aios.builtin.files.beneath import Identity, Root
from aios.builtin.files.findings import Choice
from aios.builtin.files.hashing import CHUNK_BYTES
from aios.builtin.files.removal import Place, remove_copy
from tests.unit.builtin.trees import fill, make_deep, remove_deep


def passed(_: int) -> None:
    pass


def place_of(root: Path) -> Place:
    with Root(os.fsencode(root)) as opened:
        return Place(opened.path, opened.device, opened.inode)


def choice_of(root: Path, path: bytes = b"folder/copy", keeps: bytes = b"kept") -> Choice:
    def identity(relative: bytes) -> Identity:
        return Identity.of(os.lstat(os.fsencode(root) + b"/" + relative))

    return Choice(id="copy-1", path=path, identity=identity(path), keeps=keeps, kept_identity=identity(keeps))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return fill(tmp_path / "root", {"kept": b"same", "folder/copy": b"same"})


def test_a_copy_goes_and_the_other_stays(root: Path) -> None:
    outcome = remove_copy(place_of(root), choice_of(root), passed=passed)
    assert outcome == {"id": "copy-1", "path": "folder/copy", "size": 4, "removed": True, "freed_bytes": 4}
    assert not (root / "folder/copy").exists()
    assert (root / "kept").read_bytes() == b"same"


def rewrite(root: Path) -> None:
    """Write other content of the same length, and set the times back as they were."""
    path = root / "folder/copy"
    before = path.stat()
    path.write_bytes(b"mine")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def replace(root: Path) -> None:
    (root / "new").write_bytes(b"same")
    (root / "new").rename(root / "folder/copy")


def swap_folder_for_link(root: Path) -> None:
    outside = fill(root.parent / "outside", {"copy": b"same"})
    (root / "folder").rename(root / "moved")
    (root / "folder").symlink_to(outside)


def swap_file_for_link(root: Path) -> None:
    outside = fill(root.parent / "outside", {"copy": b"same"})
    (root / "folder/copy").unlink()
    (root / "folder/copy").symlink_to(outside / "copy")


def move_out_and_link_back(root: Path) -> None:
    """Leave the very same file, but reached by a link out of the root."""
    (root / "folder").rename(root.parent / "outside")
    (root / "folder").symlink_to(root.parent / "outside")


def replace_root(root: Path) -> None:
    root.rename(root.parent / "root-before")
    fill(root, {"kept": b"same", "folder/copy": b"same"})


def make_root_a_link(root: Path) -> None:
    root.rename(root.parent / "root-before")
    root.symlink_to(root.parent / "root-before")


def make_copy_a_pipe(root: Path) -> None:
    (root / "folder/copy").unlink()
    os.mkfifo(root / "folder/copy")


BEFORE: list[tuple[Callable[[Path], object], str]] = [
    (rewrite, "it has changed since it was found"),
    (replace, "it has changed since it was found"),
    (lambda root: (root / "folder/copy").unlink(), "it is not there any more"),
    (lambda root: (root / "kept").unlink(), "the copy to keep, kept, is not there any more"),
    (lambda root: (root / "kept").write_bytes(b"else"), "the copy to keep, kept, has changed since it was found"),
    (lambda root: (root / "other").hardlink_to(root / "folder/copy"), "it has changed since it was found"),
    (swap_folder_for_link, "it has been replaced, or a folder on the way to it"),
    (swap_file_for_link, "it has been replaced, or a folder on the way to it"),
    (move_out_and_link_back, "it has been replaced, or a folder on the way to it"),
    (make_copy_a_pipe, "it has been replaced, or a folder on the way to it"),
    (replace_root, "the folder that was searched has been replaced by another"),
    (make_root_a_link, "is not a folder"),
    (lambda root: root.rename(root.parent / "away"), "There is no folder"),
]


@pytest.mark.parametrize(("meddle", "reason"), BEFORE)
def test_a_copy_stays_if_anything_has_changed(root: Path, meddle: Callable[[Path], object], reason: str) -> None:
    place, choice = place_of(root), choice_of(root)
    meddle(root)
    before = sorted(path for path in root.parent.rglob("*"))
    outcome = remove_copy(place, choice, passed=passed)
    assert outcome["removed"] is False
    assert outcome["freed_bytes"] == 0
    assert reason in outcome["reason"]
    assert sorted(path for path in root.parent.rglob("*")) == before


def test_a_copy_stays_that_never_was_one(root: Path) -> None:
    (root / "folder/copy").write_bytes(b"mine")
    outcome = remove_copy(place_of(root), choice_of(root), passed=passed)
    assert outcome["reason"] == "the copy to keep, kept, no longer holds the same"


def test_the_last_name_of_a_file_is_never_its_copy(root: Path) -> None:
    (root / "folder/copy").unlink()
    (root / "folder/copy").hardlink_to(root / "kept")
    outcome = remove_copy(place_of(root), choice_of(root), passed=passed)
    assert outcome["reason"] == "it is the same file as the one to keep"


MEANWHILE: list[tuple[Callable[[Path], object], str]] = [
    (lambda root: (root / "kept").unlink(), "the copy to keep, kept, is not there any more"),
    (rewrite, "it has changed meanwhile"),
    (swap_folder_for_link, "it has been replaced, or a folder on the way to it"),
    (move_out_and_link_back, "it has been replaced, or a folder on the way to it"),
]


@pytest.mark.parametrize(("meddle", "reason"), MEANWHILE)
def test_what_changes_while_the_contents_are_compared_is_noticed(
    root: Path, meddle: Callable[[Path], object], reason: str
) -> None:
    done: list[int] = []

    def meddling(count: int) -> None:
        if not done:
            meddle(root)
        done.append(count)

    outcome = remove_copy(place_of(root), choice_of(root), passed=meddling)
    assert done
    assert outcome["removed"] is False
    assert reason in outcome["reason"]


def test_contents_are_compared_to_the_end(tmp_path: Path) -> None:
    content = bytes(2 * CHUNK_BYTES + 10)
    root = fill(tmp_path, {"kept": content, "folder/copy": content[:-1] + b"x"})
    counts: list[int] = []
    outcome = remove_copy(place_of(root), choice_of(root), passed=counts.append)
    assert outcome["removed"] is False
    assert counts == [CHUNK_BYTES, CHUNK_BYTES]


def test_a_file_whose_name_is_not_text_can_be_removed(root: Path) -> None:
    name = b"caf\xe9\n\xf0\x9f\x8e\x89"
    (root / "folder/copy").rename(os.fsdecode(os.fsencode(root) + b"/" + name))
    outcome = remove_copy(place_of(root), choice_of(root, name), passed=passed)
    assert outcome["removed"] is True
    assert outcome["path"] == "caf\\xe9\n🎉"
    assert sorted(os.listdir(root)) == ["folder", "kept"]


def test_a_file_deeper_than_any_path_can_be_removed(tmp_path: Path) -> None:
    root = fill(tmp_path / "root", {"kept": b"same"})
    make_deep(root, 1200, "copy", b"same")
    kept = Identity.of(os.lstat(root / "kept"))
    folder = os.open(root, os.O_RDONLY)
    for _ in range(1200):
        inner = os.open("level", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    found = Identity.of(os.stat("copy", dir_fd=folder))
    choice = Choice(id="copy-1", path=b"level/" * 1200 + b"copy", identity=found, keeps=b"kept", kept_identity=kept)
    outcome = remove_copy(place_of(root), choice, passed=passed)
    left = os.listdir(folder)
    os.close(folder)
    remove_deep(root)
    assert outcome["removed"] is True
    assert left == []


def keep_swapping(root: Path, outside: Path, done: threading.Event) -> None:
    """Make the folder a link to outside and a folder again, as fast as can be."""
    while not done.is_set():
        (root / "folder").rename(root / "real")
        (root / "folder").symlink_to(outside)
        (root / "folder").unlink()
        (root / "real").rename(root / "folder")


@pytest.mark.soak
def test_however_often_a_folder_is_swapped_for_a_link_nothing_outside_goes(root: Path, rounds: int) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    place, kept = place_of(root), Identity.of(os.lstat(root / "kept"))
    folder = os.open(root / "folder", os.O_RDONLY)
    os.unlink("copy", dir_fd=folder)
    done = threading.Event()
    swapper = threading.Thread(target=keep_swapping, args=(root, outside, done))
    swapper.start()
    removed = 0
    try:
        for _ in range(10 * rounds):
            # Outside lies the very same file, so that nothing but the way to it tells the two apart.
            (outside / "copy").write_bytes(b"same")
            os.link(outside / "copy", "copy", dst_dir_fd=folder)
            found = Identity.of(os.stat("copy", dir_fd=folder))
            choice = Choice(id="copy-1", path=b"folder/copy", identity=found, keeps=b"kept", kept_identity=kept)
            outcome = remove_copy(place, choice, passed=passed)
            removed += outcome["removed"]
            assert os.listdir(outside) == ["copy"]
            assert os.listdir(folder) == ([] if outcome["removed"] else ["copy"])
            for name in os.listdir(folder):
                os.unlink(name, dir_fd=folder)
            (outside / "copy").unlink()
    finally:
        done.set()
        swapper.join()
        os.close(folder)
    assert removed < 10 * rounds
