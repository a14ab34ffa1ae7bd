"""Whom the client trusts on TLS connections."""

from __future__ import annotations

import ssl


def trust(ca_file: str | None) -> ssl.SSLContext:
    """The system's authorities, or those in the file. Raises: OSError."""
    return ssl.create_default_context(cafile=ca_file)


def trust_nobody() -> ssl.SSLContext:
    """For connections without TLS, where one has to be named: reading the world's certificates takes a while."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
