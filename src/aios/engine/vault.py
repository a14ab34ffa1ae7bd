"""Secrets at rest: sealed under a key that is not in the store, bound to the place where they lie (design.md §5)."""

from __future__ import annotations

import secrets

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from aios.errors import InternalError

KEY_BYTES = 32
_NONCE_BYTES = 12
_FORM = b"\x01"
_PURPOSE = b"aios vault 1"


def place(task_id: str, step: str) -> str:
    """Name the place of a task's step: the `context` under which its value is sealed."""
    return f"{task_id}\n{step}"


class Vault:
    """Seals with AES-256-GCM under a subkey of the master key.

    Args:
        key: The master key, 32 bytes.
    """

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"the master key must have {KEY_BYTES} bytes; this one has {len(key)}")
        subkey = HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=_PURPOSE).derive(key)
        self._cipher = AESGCM(subkey)

    def seal(self, plain: bytes, context: str) -> bytes:
        """Encrypt for one place: what is sealed for it opens nowhere else."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return _FORM + nonce + self._cipher.encrypt(nonce, plain, context.encode())

    def open(self, sealed: bytes, context: str) -> bytes:
        """Decrypt what was sealed for this place.

        Raises:
            InternalError: Another key or another place, or the bytes were changed.
        """
        try:
            if sealed[:1] != _FORM:
                raise InvalidTag
            nonce, rest = sealed[1 : 1 + _NONCE_BYTES], sealed[1 + _NONCE_BYTES :]
            return self._cipher.decrypt(nonce, rest, context.encode())
        except (InvalidTag, ValueError):
            raise InternalError(
                "a secret could not be opened: it was sealed with another key, or was changed in the store"
            ) from None
