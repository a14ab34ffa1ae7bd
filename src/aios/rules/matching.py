"""Globs over capability ids: `*` is any run of characters, everything else is itself (protocol.md §4, `task.list`)."""

from __future__ import annotations


def matches(glob: str, text: str) -> bool:
    """Whether `glob` covers the whole of `text`; upper and lower case differ.

    Each piece between two stars is taken at the first place where it fits, which is enough because only stars follow. So no
    glob, however many stars it has, costs more than one walk along the text per piece.
    """
    first, *rest = glob.split("*")
    if not rest:
        return text == glob
    *middle, last = rest
    if len(text) < len(first) + len(last) or not text.startswith(first) or not text.endswith(last):
        return False
    position, end = len(first), len(text) - len(last)
    for piece in middle:
        found = text.find(piece, position, end)
        if found < 0:
            return False
        position = found + len(piece)
    return True
