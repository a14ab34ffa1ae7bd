import hashlib
import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from aios.builtin.files.beneath import Identity, Root
from aios.builtin.files.digests import BATCH_BYTES, BATCH_FILES, Digests
from aios.builtin.files.grouping import Group, Suspects
from aios.builtin.files.listing import ROOT, Listing
from aios.builtin.files.walking import Rules, Walk
from tests.unit.builtin.trees import fill


def listing_of(root: Path) -> Listing:
    with Root(os.fsencode(root)) as opened:
        return Walk(opened, Rules(), checkpoint=lambda: None, seen=lambda _: None).run()


def made_up(files: list[tuple[int, int]]) -> Listing:
    """Make a listing of (inode, size)."""
    listing = Listing()
    for inode, size in files:
        found = Identity(device=1, inode=inode, size=size, mtime_ns=0, ctime_ns=0)
        listing.add(ROOT, b"file-%d" % len(listing), found, links=2 if inode < 3 else 1)
    return listing


def groups(root: Path) -> list[list[str]]:
    listing = listing_of(root)
    suspects = Suspects(listing)

    def digest(number: int) -> bytes:
        return hashlib.sha256((root / os.fsdecode(listing.path(number))).read_bytes()).digest()

    return [names(listing, group) for group in suspects.groups(suspects.numbers, digest)]


def names(listing: Listing, group: Group) -> list[str]:
    return ["+".join(os.fsdecode(listing.path(number)) for number in copy.names) for copy in group.copies]


def test_files_are_grouped_by_what_they_hold_the_largest_first(tmp_path: Path) -> None:
    fill(tmp_path, {"a": b"11", "b": b"22", "c": b"11", "d": b"333", "e": b"333", "f": b"4444"})
    assert groups(tmp_path) == [["d", "e"], ["a", "c"]]


def test_names_of_one_file_are_one_copy(tmp_path: Path) -> None:
    fill(tmp_path, {"a": b"same", "c": b"same", "alone": b"other file"})
    (tmp_path / "b").hardlink_to(tmp_path / "a")
    (tmp_path / "alone too").hardlink_to(tmp_path / "alone")
    assert groups(tmp_path) == [["a+b", "c"]]


def test_the_copy_to_keep_has_most_names_else_is_the_oldest_else_has_the_shortest_path(tmp_path: Path) -> None:
    fill(tmp_path, {"old": b"1", "linked": b"1", "new": b"1", "much/longer": b"1"})
    (tmp_path / "second").hardlink_to(tmp_path / "linked")
    os.utime(tmp_path / "much/longer", (1_700_000_002, 1_700_000_002))
    assert groups(tmp_path) == [["linked+second", "old", "new", "much/longer"]]


def test_files_without_a_digest_are_in_no_group() -> None:
    suspects = Suspects(made_up([(5, 10), (6, 10), (7, 10)]))
    assert list(suspects.groups(suspects.numbers, {0: b"x"}.get)) == []
    (group,) = suspects.groups(suspects.numbers, {0: b"x", 2: b"x"}.get)
    assert group.wasted_bytes == 10


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(0, 3))))
def test_suspects_are_exactly_the_files_whose_size_another_file_has(files: list[tuple[int, int]]) -> None:
    listing = made_up(files)
    suspects = Suspects(listing)
    inodes = {size: {inode for inode, its in files if its == size} for _, size in files}
    suspected = {(listing.inode(number)[1], listing.sizes[number]) for number in suspects.numbers}
    assert suspected == {(inode, size) for size, which in inodes.items() if len(which) > 1 for inode in which}
    assert len(suspected) == len(suspects.numbers)
    assert suspects.hard_links == len(files) - sum(len(which) for which in inodes.values())


def test_digests_come_in_batches_of_bounded_number_and_size() -> None:
    listing = made_up([(inode, BATCH_BYTES // 2) for inode in range(10, 20)])
    digests = Digests(listing, range(10))
    sizes: list[int] = []
    while batch := digests.next_batch():
        sizes.append(len(batch))
        digests.record(batch, {})
    assert sizes == [2, 2, 2, 2, 2]
    many = made_up([(inode, 1) for inode in range(10, 11 + BATCH_FILES)])
    assert len(Digests(many, range(len(many))).next_batch()) == BATCH_FILES


def test_what_was_recorded_counts_only_for_files_that_are_still_the_same() -> None:
    before = made_up([(10, 5), (11, 5), (12, 5)])
    first = Digests(before, range(3))
    record = first.record(first.next_batch(), {0: b"a" * 32, 1: b"b" * 32, 2: b"c" * 32})
    # 11 has grown meanwhile, 12 is gone, 13 is new, and the order is another.
    after = made_up([(13, 5), (11, 6), (10, 5)])
    second = Digests(after, range(3))
    assert second.recall(record) == [2]
    assert (second(0), second(1), second(2)) == (None, None, b"a" * 32)
    assert second.next_batch() == [0, 1]


def test_a_file_that_could_not_be_read_is_not_tried_again() -> None:
    digests = Digests(made_up([(10, 5), (11, 5)]), range(2))
    digests.record(digests.next_batch(), {1: b"b" * 32})
    assert digests.next_batch() == []
    assert digests(0) is None


def test_the_record_of_a_full_batch_fits_a_step() -> None:
    listing = made_up([(inode, 1) for inode in range(BATCH_FILES)])
    digests = Digests(listing, range(len(listing)))
    batch = digests.next_batch()
    assert len(digests.record(batch, dict.fromkeys(batch, b"x" * 32))) < 512 * 1024
