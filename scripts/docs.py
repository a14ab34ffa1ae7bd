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

DOCS = Path(__file__).resolve().parent.parent / "docs"
PART = re.compile(r"(?P<open><!-- generated: (?P<name>[\w-]+) -->\n)(?P<body>.*?)(?P<close><!-- end -->)", re.DOTALL)

GENERATORS: dict[str, Callable[[], str]] = {}


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
