"""Names of files as text: a name on disk is bytes, on the wire it must be JSON, and for people it must fit a line."""

from __future__ import annotations

import unicodedata

ELLIPSIS = "…"

# Marks that turn the direction of the text around them, with which `exe.txt` can be made to look like `txt.exe`.
_TURNING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_UNPRINTABLE = frozenset({"Cc", "Cn", "Co", "Cs", "Zl", "Zp"})
_UNITS = ("kB", "MB", "GB", "TB", "PB", "EB")


def to_text(name: bytes) -> str:
    r"""Give a name or path as JSON text; bytes that are not UTF-8 are shown as `\xff`."""
    return name.decode("utf-8", "backslashreplace")


def to_label(text: str, width: int = 120) -> str:
    """Give text on one line for people: what cannot be seen is escaped, what is too long loses its middle."""
    seen = "".join(_visible(letter) for letter in text)
    if len(seen) <= width:
        return seen
    front = (width - 1) // 3
    return seen[:front] + ELLIPSIS + seen[len(seen) - (width - 1 - front) :]


def _visible(letter: str) -> str:
    if letter in _TURNING or unicodedata.category(letter) in _UNPRINTABLE:
        return letter.encode("unicode_escape").decode("ascii")
    return letter


def to_size(count: int) -> str:
    """Give a number of bytes for people: `12 bytes`, `3.4 MB`."""
    if count < 1000:
        return "1 byte" if count == 1 else f"{count} bytes"
    power = next((power for power in range(1, len(_UNITS)) if count < 999.95 * 1000**power), len(_UNITS))
    return f"{count / 1000**power:.1f} {_UNITS[power - 1]}"


def to_count(count: int, one: str, many: str) -> str:
    """Give a number with its noun: `1 file`, `12,345 files`."""
    return f"{count:,} {one if count == 1 else many}"
