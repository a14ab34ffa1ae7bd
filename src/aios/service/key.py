"""Credentials: who a token, or a peer on a Unix socket, is (protocol.md §2)."""

from __future__ import annotations

import hashlib
import hmac

from aios.errors import AuthenticationRequired
from aios.service.call import ROLES, Principal

OWNER = Principal("owner", ROLES)
"""Whoever can read the data folder's token, or has its uid: every role."""


class Keys:
    """The credentials that are good here.

    Args:
        token: The owner's, from the data folder.
        owner_uid: Whose processes are the owner when they come over a Unix socket without a credential.
    """

    def __init__(self, token: str, owner_uid: int) -> None:
        self._token = _digest(token)
        self._owner_uid = owner_uid

    def __repr__(self) -> str:
        """Keep the token out of logs."""
        return f"Keys(owner_uid={self._owner_uid})"

    def authenticate(self, credential: str | None, peer_uid: int | None = None) -> Principal:
        """Say who it is. A credential that is presented decides alone, whoever the peer is.

        Raises:
            AuthenticationRequired: There is no credential, or it is not good; the answer does not say which would be.
        """
        if credential is not None:
            # Digests have one length, so that the comparison tells nothing of the token's.
            if hmac.compare_digest(_digest(credential), self._token):
                return OWNER
            raise AuthenticationRequired(
                "the credential is not this daemon's; its token is what `aios token` prints on its data folder"
            )
        if peer_uid is not None and peer_uid == self._owner_uid:
            return OWNER
        raise AuthenticationRequired("a credential is needed: the token of the data folder, or a key")


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
