"""What a Google-style docstring says of a function and of its arguments."""

from __future__ import annotations

import inspect
import re

from aios.model import Record

_SECTION = re.compile(
    r"(Args|Arguments|Parameters|Returns|Return|Yields|Raises|Example|Examples|Note|Notes|Warning|Warnings|See Also):"
)
_ARGUMENT_SECTIONS = {"Args", "Arguments", "Parameters"}
_ARGUMENT = re.compile(r"\*{0,2}(?P<name>\w+)\s*(?:\([^)]*\))?\s*:\s*(?P<text>.*)")


class Documentation(Record, frozen=True, kw_only=True):
    """A docstring, taken apart."""

    description: str = ""
    """All that stands before the first section, one paragraph a line."""
    arguments: dict[str, str] = {}


def read(docstring: str | None) -> Documentation:
    """Take a docstring apart; what does not look like a section is description."""
    lines = inspect.cleandoc(docstring or "").splitlines()
    section = ""
    description: list[str] = []
    arguments: dict[str, list[str]] = {}
    current: list[str] = []
    indent = 0
    for line in lines:
        heading = _SECTION.fullmatch(line)
        if heading:
            section, indent = heading[1], 0
        elif not section:
            description.append(line.strip())
        elif section in _ARGUMENT_SECTIONS and line.strip():
            depth = len(line) - len(line.lstrip())
            indent = indent or depth
            found = _ARGUMENT.fullmatch(line.strip()) if depth <= indent else None
            if found:
                current = arguments.setdefault(found["name"], [])
            current.append(found["text"] if found else line.strip())
    return Documentation(
        description=_paragraphs(description),
        arguments={name: " ".join(filter(None, text)) for name, text in arguments.items()},
    )


def _paragraphs(lines: list[str]) -> str:
    return "\n".join(filter(None, (" ".join(part.split()) for part in "\n".join(lines).split("\n\n"))))
