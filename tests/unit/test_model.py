from datetime import UTC, datetime, timedelta

from hypothesis import example, given
from hypothesis import strategies as st

from aios.model import wire_time

START = datetime(1970, 1, 1, tzinfo=UTC)


@given(st.integers(0, 200 * 366 * 24 * 3600 * 10**6))
@example(0)
@example(999)
@example(7_000)
@example(999_999)
def test_a_time_on_the_wire_has_three_digits_of_its_fraction_and_a_z(microseconds: int) -> None:
    instant = START + timedelta(microseconds=microseconds)
    assert wire_time(instant) == instant.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
