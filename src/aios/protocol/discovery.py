"""`rpc.discover`: the protocol described by itself, as an OpenRPC document (protocol.md §1)."""

from __future__ import annotations

from typing import Any

from aios.model import JsonObject
from aios.protocol.params import Params


class Discover(Params[JsonObject], frozen=True, kw_only=True):
    """Describe every method as an OpenRPC document."""

    method = "rpc.discover"
    result = JsonObject


METHODS: tuple[type[Params[Any]], ...] = (Discover,)
