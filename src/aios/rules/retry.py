"""Whether there is another attempt, and after what delay (protocol.md §4, `options.retry`)."""

from __future__ import annotations

from typing import Final

from aios.model import Backoff, Retry

DELAY_MS_MAX: Final = 366 * 24 * 3600 * 1000
"""No delay is longer than a year, however the backoff grows."""


def has_attempt_left(retry: Retry, attempt: int) -> bool:
    """Whether another attempt may follow attempt number `attempt`."""
    return attempt < retry.max_attempts


def delay_ms(retry: Retry, attempt: int, *, jitter: float = 0.0) -> int:
    """Say how long to wait after attempt number `attempt` (from 1) has ended by an error.

    Args:
        retry: What the task's creator asked for.
        attempt: The attempt that ended.
        jitter: Drawn from [0, 1); moves the delay of `exponential_jitter` between its half and its whole.
    """
    match retry.backoff:
        case Backoff.FIXED:
            grown = retry.delay_ms
        case Backoff.LINEAR:
            grown = retry.delay_ms * attempt
        case Backoff.EXPONENTIAL | Backoff.EXPONENTIAL_JITTER:
            grown = retry.delay_ms * 2 ** (attempt - 1)
    longest = DELAY_MS_MAX if retry.max_delay_ms is None else min(retry.max_delay_ms, DELAY_MS_MAX)
    delay = min(grown, longest)
    if retry.backoff is Backoff.EXPONENTIAL_JITTER:
        return round(delay / 2 + jitter * delay / 2)
    return delay
