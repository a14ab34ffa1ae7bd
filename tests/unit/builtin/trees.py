"""Real trees to look at, and what is done to them while somebody looks."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65534


def fill(root: Path, files: dict[str, bytes]) -> Path:
    """Make files with their contents, oldest first, and the folders they are in."""
    for number, (name, content) in enumerate(files.items()):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
    return root


@contextmanager
def unprivileged() -> Generator[None]:
    """Be nobody for a while, where we are root: root may read everything, so nothing is unreadable to it."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def make_deep(root: Path, levels: int, leaf: str, content: bytes) -> None:
    """Make a file so deep down that no path to it is short enough for the system."""
    here = os.open(root, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("level", dir_fd=here)
        inner = os.open("level", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    with os.fdopen(os.open(leaf, os.O_WRONLY | os.O_CREAT, dir_fd=here), "wb") as file:
        file.write(content)
    os.close(here)


def remove_deep(root: Path) -> None:
    """Take away what `make_deep` made; what cleans temporary folders up walks by recursion and by path."""
    top = root / "top"
    while (root / "level").exists():
        # The folder below becomes the one on top, and the old one, empty then, goes.
        (root / "level").rename(top)
        for entry in os.scandir(top):
            os.rename(entry.path, root / entry.name)
        top.rmdir()
