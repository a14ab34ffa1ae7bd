"""Names for new things: sortable by time, not to be guessed, opaque to everybody (protocol.md §1)."""

from __future__ import annotations

import secrets
from datetime import datetime

from aios.model import to_ms

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_TIME_DIGITS = 10
_BITS_A_DIGIT = 5


def _digits(number: int, count: int) -> str:
    return "".join(_ALPHABET[number >> _BITS_A_DIGIT * place & 31] for place in reversed(range(count)))


def new_id(prefix: str, at: datetime, *, random_bits: int = 80) -> str:
    """Make the id of something of kind `prefix` (`task`, `art`, `sub` …) that begins to be at `at`.

    Where knowing the id is worth something to a stranger (sessions, tokens), ask for 130 random bits.
    """
    count = -(-random_bits // _BITS_A_DIGIT)
    return f"{prefix}-{_digits(to_ms(at), _TIME_DIGITS)}{_digits(secrets.randbits(count * _BITS_A_DIGIT), count)}"
