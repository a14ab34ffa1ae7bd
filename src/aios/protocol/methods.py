"""All methods there are, by name."""

from __future__ import annotations

from typing import Any

from aios.protocol import artifact, capability, discovery, handshake, subscriptions, task
from aios.protocol.params import Params

METHODS: dict[str, type[Params[Any]]] = {
    kind.method: kind
    for namespace in (handshake, task, subscriptions, artifact, capability, discovery)
    for kind in namespace.METHODS
}
