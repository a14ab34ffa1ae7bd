"""Secrets open only with their key, in their place, unchanged."""

from __future__ import annotations

import pytest

from aios.engine.vault import Vault, place
from aios.errors import InternalError

KEY = bytes(range(32))


def test_what_is_sealed_opens_in_its_place() -> None:
    sealed = Vault(KEY).seal(b"CANARY", place("task-1", "step"))
    assert b"CANARY" not in sealed
    assert Vault(KEY).open(sealed, place("task-1", "step")) == b"CANARY"
    assert Vault(KEY).seal(b"CANARY", place("task-1", "step")) != sealed


@pytest.mark.parametrize("context", [place("task-1", "other"), place("task-2", "step"), ""])
def test_what_is_sealed_opens_nowhere_else(context: str) -> None:
    sealed = Vault(KEY).seal(b"CANARY", place("task-1", "step"))
    with pytest.raises(InternalError):
        Vault(KEY).open(sealed, context)


def test_another_key_or_a_changed_byte_opens_nothing_and_says_nothing() -> None:
    sealed = Vault(KEY).seal(b"CANARY", "here")
    broken = [sealed[:index] + bytes([sealed[index] ^ 1]) + sealed[index + 1 :] for index in range(len(sealed))]
    for each in (*broken, b"", sealed[:5], sealed + b"x"):
        with pytest.raises(InternalError) as refused:
            Vault(KEY).open(each, "here")
        assert "CANARY" not in str(refused.value)
    with pytest.raises(InternalError):
        Vault(bytes(32)).open(sealed, "here")


def test_a_key_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(ValueError, match="32"):
        Vault(b"short")
