import os

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aios.builtin.files.names import to_count, to_label, to_size, to_text


@given(st.binary(max_size=40))
def test_any_name_becomes_text_that_json_can_carry(name: bytes) -> None:
    text = to_text(name)
    assert msgspec.json.decode(msgspec.json.encode(text)) == text


def test_bytes_that_are_not_utf_8_are_shown_by_their_numbers() -> None:
    assert to_text(b"caf\xe9 \xf0\x9f\x8e\x89") == "caf\\xe9 🎉"


def test_names_with_blanks_emoji_and_chinese_stay_as_they_are() -> None:
    name = "重复 文件\n👩‍👩‍👧.txt"
    assert to_text(os.fsencode(name)) == name


@given(st.text(max_size=300), st.integers(min_value=10, max_value=200))
def test_a_label_is_one_line_of_bounded_width(text: str, width: int) -> None:
    label = to_label(text, width)
    assert len(label) <= width
    assert len(label.splitlines()) <= 1


def test_a_label_shows_what_would_turn_its_direction() -> None:
    assert to_label("invoice\u202efdp.exe") == "invoice\\u202efdp.exe"


def test_a_long_label_keeps_its_beginning_and_more_of_its_end() -> None:
    assert to_label("/" + "a" * 300 + "/photo.jpg", 31) == "/aaaaaaaaa…aaaaaaaaaa/photo.jpg"


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (3_400_000, "3.4 MB"),
        (5 * 10**12, "5.0 TB"),
        (10**22, "10000.0 EB"),
    ],
)
def test_sizes_are_told_as_file_managers_tell_them(count: int, text: str) -> None:
    assert to_size(count) == text


def test_a_noun_goes_with_its_number() -> None:
    assert to_count(1, "copy", "copies") == "1 copy"
    assert to_count(12_345, "copy", "copies") == "12,345 copies"
