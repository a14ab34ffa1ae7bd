"""Removing a copy that somebody chose, and nothing else.

Between question and answer days may pass, and whoever can write to the folder may want us to remove something that we were not
asked to. So each copy is looked at again just before: reached from the root without passing a link, the same file as it was
found, not written to since, and byte by byte the same as the one that is kept for it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import NamedTuple

from aios.builtin.files.beneath import Identity, NotRegular, Parts, Passage, Root
from aios.builtin.files.findings import Choice
from aios.builtin.files.hashing import same_content
from aios.builtin.files.names import to_label, to_text
from aios.errors import AiosError
from aios.model import JsonObject


class Kept(Exception):
    """The copy stays, for a reason that is told."""


class Place(NamedTuple):
    """Where the root was when the search began."""

    path: bytes
    device: int
    inode: int


def remove_copy(place: Place, choice: Choice, *, passed: Callable[[int], None]) -> JsonObject:
    """Remove one copy, if everything is still as it was, and say what became of it.

    Args:
        place: The root.
        choice: The copy, and the one that is kept for it.
        passed: Called with the length of each chunk that was compared; may wait or raise.
    """
    outcome: JsonObject = {"id": choice.id, "path": to_text(choice.path), "size": choice.identity.size}
    try:
        with Root(place.path) as root:
            if (root.device, root.inode) != (place.device, place.inode):
                raise Kept("the folder that was searched has been replaced by another")
            _compare(root, choice, passed)
            _unlink(root, choice)
    except AiosError as error:
        return {**outcome, "removed": False, "freed_bytes": 0, "reason": error.detail}
    except Kept as kept:
        return {**outcome, "removed": False, "freed_bytes": 0, "reason": str(kept)}
    return {**outcome, "removed": True, "freed_bytes": choice.identity.size}


def _compare(root: Root, choice: Choice, passed: Callable[[int], None]) -> None:
    if choice.identity[:2] == choice.kept_identity[:2]:
        raise Kept("it is the same file as the one to keep")
    keeper = _keeper(choice)
    with (
        Passage(root) as passage,
        _told("it"),
        passage.opened(*_split(choice.path)) as copy,
        _told(keeper),
        passage.opened(*_split(choice.keeps)) as kept,
    ):
        _require(os.fstat(copy), choice.identity, "it has changed since it was found")
        _require(os.fstat(kept), choice.kept_identity, f"{keeper} has changed since it was found")
        if not same_content(copy, kept, passed):
            raise Kept(f"{keeper} no longer holds the same")


def _unlink(root: Root, choice: Choice) -> None:
    """Remove the name, reached anew: while the contents were compared its folder may have been moved out of the root."""
    for path, identity, what in (
        (choice.keeps, choice.kept_identity, _keeper(choice)),
        (choice.path, choice.identity, "it"),
    ):
        folder, name = _split(path)
        with Passage(root) as passage, _told(what):
            here = passage.enter(folder)
            _require(os.stat(name, dir_fd=here, follow_symlinks=False), identity, f"{what} has changed meanwhile")
            if path == choice.path:
                os.unlink(name, dir_fd=here)


def _keeper(choice: Choice) -> str:
    return f"the copy to keep, {to_label(to_text(choice.keeps))},"


def _require(found: os.stat_result, expected: Identity, reason: str) -> None:
    if Identity.of(found) != expected:
        raise Kept(reason)


def _split(path: bytes) -> tuple[Parts, bytes]:
    *folder, name = path.split(b"/")
    return tuple(folder), name


@contextmanager
def _told(what: str) -> Generator[None]:
    """Turn what the system refuses into a reason for people."""
    try:
        yield
    except FileNotFoundError:
        raise Kept(f"{what} is not there any more") from None
    except PermissionError:
        raise Kept(f"{what} may not be read or removed by the daemon") from None
    except OSError as error:
        if isinstance(error, NotRegular) or error.errno in {errno.ENOTDIR, errno.ELOOP}:
            raise Kept(f"{what} has been replaced, or a folder on the way to it") from None
        raise Kept(f"{what} could not be read or removed: {os.strerror(error.errno or 0)}") from None
