import re
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aios.rules.matching import matches


@pytest.mark.parametrize(
    ("glob", "text", "fits"),
    [
        ("compat.browser.*", "compat.browser.open", True),
        ("compat.browser.*", "compat.browser.", True),
        ("compat.browser.*", "compat.browser", False),
        ("compat.browser.*", "compat.browser.tab.open", True),
        ("*", "", True),
        ("*", "a.b", True),
        ("", "", True),
        ("", "a", False),
        ("*.open", "compat.browser.open", True),
        ("*.open", "compat.browser.opened", False),
        ("a*b*c", "a1b2c", True),
        ("a*b*c", "acb", False),
        ("ab*ba", "aba", False),
        ("ab*ba", "abba", True),
        ("*ab*ab*", "ab", False),
        ("a*b*b", "ab", False),
        ("a*b*b", "abb", True),
        ("**", "x", True),
        ("Compat.*", "compat.browser", False),
        ("demo", "demo", True),
        ("demo", "demo.echo", False),
    ],
)
def test_a_star_is_any_run_of_characters(glob: str, text: str, fits: bool) -> None:
    assert matches(glob, text) is fits


@pytest.mark.parametrize("character", list("%_[]?\\!^$.+(){}|"))
def test_no_other_character_is_special(character: str) -> None:
    assert matches(f"a{character}*", f"a{character}b")
    assert matches(f"a{character}b", f"a{character}b")
    assert not matches(f"a{character}b", "axb")
    assert not matches(f"a{character}", "a")
    assert not matches(f"[a{character}]", "a")


@given(st.text(alphabet="ab*?[%_\\", max_size=8), st.text(alphabet="ab*?[%_\\", max_size=12))
def test_it_agrees_with_a_regular_expression(glob: str, text: str) -> None:
    pattern = ".*".join(re.escape(piece) for piece in glob.split("*"))
    assert matches(glob, text) is bool(re.fullmatch(pattern, text, re.DOTALL))


def test_a_glob_of_many_stars_takes_no_time() -> None:
    """As a regular expression this one would run for ever."""
    began = process_time()
    assert not matches("*a" * 500 + "*b", "a" * 5_000)
    assert process_time() - began < 1
