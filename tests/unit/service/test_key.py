"""Whose credential it is."""

from __future__ import annotations

import pytest

from aios.errors import AuthenticationRequired
from aios.service.key import OWNER, Keys

KEYS = Keys("s3cret-token", owner_uid=1_000)


def test_the_token_and_the_owners_uid_are_the_owner() -> None:
    assert KEYS.authenticate("s3cret-token") == OWNER
    assert KEYS.authenticate(None, 1_000) == OWNER
    assert {"client", "operator", "approver", "admin"} == OWNER.roles


@pytest.mark.parametrize("peer_uid", [None, 1_000, 0])
@pytest.mark.parametrize("credential", ["", "s3cret-toke", "s3cret-token ", "S3CRET-TOKEN", "sess-1", "令牌", "\ud800"])
def test_a_presented_credential_decides_alone(credential: str, peer_uid: int | None) -> None:
    with pytest.raises(AuthenticationRequired) as refused:
        KEYS.authenticate(credential, peer_uid)
    assert refused.value.data == {"authentication_required": True}


@pytest.mark.parametrize("peer_uid", [None, 0, 1_001])
def test_without_a_credential_only_the_owners_peer_is_known(peer_uid: int | None) -> None:
    with pytest.raises(AuthenticationRequired):
        KEYS.authenticate(None, peer_uid)


def test_the_token_does_not_show() -> None:
    assert "s3cret" not in repr(KEYS)
