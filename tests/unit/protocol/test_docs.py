"""The page of methods says what the types say."""

from __future__ import annotations

from aios.protocol.methods import METHODS
from scripts import docs

PAGE = docs.DOCS / "methods.md"


def test_the_page_of_methods_shows_the_types_as_they_are() -> None:
    """`make docs` writes it anew."""
    text = PAGE.read_text(encoding="utf-8")
    assert docs.fill(text) == text


def test_every_method_has_its_place_and_every_link_leads_somewhere() -> None:
    text = f"{docs.methods()}\n{docs.types()}"
    assert all(f"### `{method}`\n" in text for method in METHODS)
    headings = {line.removeprefix("### ").lower() for line in text.splitlines() if line.startswith("### ")}
    links = {part.partition(")")[0] for part in text.split("](#")[1:]}
    assert links <= headings
