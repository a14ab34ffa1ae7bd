import pytest

from aios.model import Backoff, Retry
from aios.rules.retry import DELAY_MS_MAX, delay_ms, has_attempt_left


@pytest.mark.parametrize(
    ("backoff", "delays"),
    [
        (Backoff.FIXED, [1_000, 1_000, 1_000, 1_000]),
        (Backoff.LINEAR, [1_000, 2_000, 3_000, 4_000]),
        (Backoff.EXPONENTIAL, [1_000, 2_000, 4_000, 8_000]),
    ],
)
def test_the_delay_grows_as_the_backoff_says(backoff: Backoff, delays: list[int]) -> None:
    retry = Retry(max_attempts=5, delay_ms=1_000, backoff=backoff)
    assert [delay_ms(retry, attempt) for attempt in (1, 2, 3, 4)] == delays
    assert [delay_ms(retry, attempt, jitter=0.9) for attempt in (1, 2, 3, 4)] == delays


@pytest.mark.parametrize("attempt", range(1, 8))
def test_jitter_moves_the_exponential_delay_between_its_half_and_its_whole(attempt: int) -> None:
    retry = Retry(max_attempts=9, delay_ms=1_000, backoff=Backoff.EXPONENTIAL_JITTER)
    whole = 1_000 * 2 ** (attempt - 1)
    assert delay_ms(retry, attempt, jitter=0.0) == whole // 2
    assert delay_ms(retry, attempt, jitter=0.5) == whole * 3 // 4
    assert whole - 1 <= delay_ms(retry, attempt, jitter=0.999_999_999) <= whole


@pytest.mark.parametrize("backoff", list(Backoff))
def test_no_delay_is_longer_than_it_may_be(backoff: Backoff) -> None:
    capped = Retry(max_attempts=100, delay_ms=1_000, backoff=backoff, max_delay_ms=2_500)
    endless = Retry(max_attempts=100, delay_ms=2**53, backoff=backoff)
    for attempt in range(1, 101):
        assert delay_ms(capped, attempt, jitter=0.99) <= 2_500
        assert delay_ms(endless, attempt, jitter=0.99) <= DELAY_MS_MAX


def test_a_delay_of_a_year_is_kept_whole() -> None:
    year_ms = 366 * 24 * 3_600_000
    assert delay_ms(Retry(delay_ms=year_ms), 1) == year_ms
    assert delay_ms(Retry(delay_ms=year_ms + 1, max_delay_ms=2 * year_ms), 1) == year_ms


def test_a_task_may_be_attempted_as_often_as_it_says() -> None:
    assert not has_attempt_left(Retry(), 1)
    assert has_attempt_left(Retry(max_attempts=3), 2)
    assert not has_attempt_left(Retry(max_attempts=3), 3)
