"""`rpc.discover`: what there is to be asked (protocol.md §1)."""

from __future__ import annotations

from aios.model import JsonObject
from aios.protocol.discovery import Discover, document
from aios.service.call import HANDLERS, Call, handles


@handles(Discover, needs_session=False)
async def discover(call: Call, params: Discover) -> JsonObject:
    """Describe the methods that are served."""
    kinds = [handler.kind for handler in HANDLERS.values()]
    return document(kinds, version=str(call.service.server_info.get("version", "")))
