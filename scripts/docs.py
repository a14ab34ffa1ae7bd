"""Write the generated parts of `docs/`, or with `--check` say which are stale.

A part stands between two lines of a Markdown file, the first of which names it:

    <!-- generated: lifecycle -->
    <!-- end -->

`GENERATORS` says what makes each part.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path

from aios.model import Status
from aios.rules.lifecycle import STANDING, TRANSITIONS, Command

DOCS = Path(__file__).resolve().parent.parent / "docs"
PART = re.compile(r"(?P<open><!-- generated: (?P<name>[\w-]+) -->\n)(?P<body>.*?)(?P<close><!-- end -->)", re.DOTALL)


def lifecycle_diagram() -> str:
    """Draw the statuses and what leads from one to the other."""
    lines = ["stateDiagram-v2", "    direction LR", "    [*] --> pending"]
    for status, moves in TRANSITIONS.items():
        for target in dict.fromkeys(moves.values()):
            kinds = " / ".join(command.kind for command, to in moves.items() if to is target)
            lines.append(f"    {status} --> {target}: {kinds}")
        if status is Status.WORKING:
            lines.append(f"    {status} --> {status}: retry")
        if status.is_terminal:
            lines.append(f"    {status} --> [*]")
    return "\n".join(["```mermaid", *lines, "```"])


def lifecycle_commands() -> str:
    """Say for every command and status where the first step leads; a dot where the task stays as it is."""
    commands: dict[type[Command], None] = dict.fromkeys(
        each
        for status in Status
        for each in (*TRANSITIONS[status], *sorted(STANDING[status], key=lambda one: one.kind))
    )
    ongoing = [status for status in Status if not status.is_terminal]

    def cell(command: type[Command], status: Status) -> str:
        target = TRANSITIONS[status].get(command)
        return str(target) if target else "·" if command in STANDING[status] else ""

    rows = [[f"`{each.kind}`", *(cell(each, status) for status in ongoing)] for each in commands]
    head = ["command", *(str(status) for status in ongoing)]
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows])


GENERATORS: dict[str, Callable[[], str]] = {
    "lifecycle-diagram": lifecycle_diagram,
    "lifecycle-commands": lifecycle_commands,
}


def fill(text: str) -> str:
    """Make every generated part of `text` anew.

    Raises:
        KeyError: The text names a part that nothing generates.
    """
    return PART.sub(lambda part: f"{part['open']}{GENERATORS[part['name']]().strip()}\n{part['close']}", text)


def main(arguments: list[str]) -> int:
    """Fill all files; with `--check` change none and fail if one would change."""
    stale = {path: filled for path in sorted(DOCS.rglob("*.md")) if (filled := fill(text := path.read_text())) != text}
    for path, filled in stale.items():
        print(path.relative_to(DOCS.parent))
        if "--check" not in arguments:
            path.write_text(filled)
    return int(bool(stale) and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
