"""`rpc.discover`: what there is to be asked (protocol.md §1)."""

from __future__ import annotations

from functools import cache

import msgspec

from aios.protocol.discovery import Discover, document
from aios.service.call import HANDLERS, Call, handles


@handles(Discover, needs_session=False)
async def discover(call: Call, params: Discover) -> msgspec.Raw:
    """Describe the methods that are served."""
    return _described(str(call.service.server_info.get("version", "")))


@cache
def _described(version: str) -> msgspec.Raw:
    """Describe them once; it takes long enough to hold up others if it is asked for again and again."""
    return msgspec.Raw(msgspec.json.encode(document([each.kind for each in HANDLERS.values()], version=version)))
