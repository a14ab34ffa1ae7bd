from aios.model import Status
from aios.rules.lifecycle import EDGES
from scripts import docs
from tests.unit.rules.samples import KINDS

PAGE = docs.DOCS / "lifecycle.md"


def test_the_lifecycle_page_shows_the_tables_as_they_are() -> None:
    """`make docs` writes it anew."""
    text = PAGE.read_text(encoding="utf-8")
    assert docs.fill(text) == text


def test_the_diagram_has_every_edge_and_the_retry() -> None:
    lines = docs.lifecycle_diagram().splitlines()
    for before, after in EDGES:
        assert any(line.strip().startswith(f"{before} --> {after}:") for line in lines)
    assert f"    {Status.WORKING} --> {Status.WORKING}: retry" in lines


def test_the_table_has_every_command() -> None:
    table = docs.lifecycle_commands()
    assert all(f"| `{kind.kind}` |" in table for kind in KINDS)
