"""AIOS Protocol: a durable task service for AI agents.

What an adapter's author and a client need is here; each name is loaded when it is first used, so that `from aios import Client`
loads no server.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aios.adapter import BlockingContext, Context, OAuth2
    from aios.adapters.functions import Adapter
    from aios.client import Client, SyncClient
    from aios.errors import AiosError, CapabilityFailed

__version__ = "0.1.0"

_HOMES = {
    "Adapter": "aios.adapters.functions",
    "AiosError": "aios.errors",
    "BlockingContext": "aios.adapter",
    "CapabilityFailed": "aios.errors",
    "Client": "aios.client",
    "Context": "aios.adapter",
    "OAuth2": "aios.adapter",
    "SyncClient": "aios.client",
}

__all__ = [
    "Adapter",
    "AiosError",
    "BlockingContext",
    "CapabilityFailed",
    "Client",
    "Context",
    "OAuth2",
    "SyncClient",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'aios' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
