"""A caller's connection as the service sees it: who it is, its session, and what is sent to it unasked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING

import msgspec
import structlog

from aios.errors import AiosError
from aios.model import Session
from aios.protocol import events
from aios.service.call import Principal

if TYPE_CHECKING:
    from aios.service.subscriptions import Subscription, Subscriptions

Send = Callable[[bytes], Awaitable[None]]
"""Puts one JSON-RPC message on its way, and waits while the reader is slow. Raises OSError once the connection is gone."""

_log = structlog.get_logger()


class Reply(msgspec.Struct):
    """What a door does after it has received a body, in this order: write the body, start the subscriptions, close."""

    body: bytes = b""
    """Empty: there is nothing to write."""
    subscriptions: list[Subscription] = []
    closes: bool = False
    is_unreadable: bool = False
    """The body as a whole was no JSON-RPC; HTTP says 400."""


class Connection:
    """One connection; on HTTP, one request. Made by `Service.connect`."""

    def __init__(
        self,
        *,
        principal: Principal | None,
        transport: str,
        is_duplex: bool,
        send: Send | None,
        session_id: str | None,
        version: str | None,
        subscriptions: Subscriptions,
    ) -> None:
        self.principal = principal
        """None: not known before `aios/initialize` brings a credential."""
        self.transport = transport
        self.is_duplex = is_duplex
        self.send = send
        """None: nothing can be sent to this caller but answers."""
        self.session_id = session_id
        """The session that HTTP's header names."""
        self.version = version
        self.session: Session | None = None
        """Of the handshake; set on duplex transports."""
        self.opening: asyncio.Future[None] | None = None
        """While a handshake is under way, what came after it waits for this."""
        self.closes = False
        """The answer that is being made is the last."""
        self._subscriptions = subscriptions
        self._pumps: set[asyncio.Task[None]] = set()

    def start(self, subscription: Subscription) -> None:
        """Begin to send a subscription's events; to be called once the answer that told its id has been written."""
        if self.send is None:
            return
        pump = asyncio.create_task(self._pump(subscription, self.send), name=f"pump {subscription.subscription_id}")
        self._pumps.add(pump)
        pump.add_done_callback(self._pumps.discard)

    async def close(self) -> None:
        """Stop sending. Tasks, subscriptions and the session stay."""
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)

    async def _pump(self, subscription: Subscription, send: Send) -> None:
        """Send one event after the other; the next page is read when the last event of this one is out."""
        try:
            async with aclosing(self._subscriptions.follow(subscription)) as pages:
                async for page in pages:
                    for event in page:
                        await send(events.notification(event, subscription.subscription_id))
        except OSError:
            # The connection is gone; its door knows.
            return
        except AiosError as error:
            _log.warning("subscription ended", subscription_id=subscription.subscription_id, reason=str(error))
        except Exception:
            _log.exception("subscription failed", subscription_id=subscription.subscription_id)
