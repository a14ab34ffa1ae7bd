"""Names for new things: sortable by time, not to be guessed, opaque to everybody (protocol.md §1)."""

from __future__ import annotations

import secrets
from datetime import datetime

from aios.model import to_ms


def new_id(prefix: str, at: datetime, *, random_bits: int = 80) -> str:
    """Make the id of something of kind `prefix` (`task`, `art`, `sub` …) that begins to be at `at`.

    Where knowing the id is worth something to a stranger (sessions, tokens), ask for 128 random bits at least.
    """
    return f"{prefix}-{to_ms(at):012x}{secrets.token_hex(-(-random_bits // 8))}"
