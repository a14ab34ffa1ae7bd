"""Sessions: made by the handshake, kept by use, closed by shutdown (protocol.md §3)."""

from __future__ import annotations

from collections import OrderedDict
from datetime import timedelta

import msgspec
import structlog

from aios.engine.engine import Engine
from aios.engine.ids import new_id
from aios.errors import SessionExpired, SessionNotFound, StoreUnavailable
from aios.model import JsonObject, Session, SessionId
from aios.service.call import Principal

LIFE = timedelta(hours=2)
SLIDE = timedelta(minutes=1)
"""An expiry that moved by less is not worth a write."""
KNOWN_MAX = 10_000
"""So many sessions are remembered; others are read from the store when they are used."""
ID_BITS = 130

_log = structlog.get_logger()


def default_id(user: str) -> SessionId:
    """Name the session in which a user's calls run that name none; it never expires and is not stored."""
    return SessionId(f"sess-default-{user}")


class Sessions:
    """All sessions; what is remembered here stands in the store too."""

    def __init__(self, *, engine: Engine) -> None:
        self._engine = engine
        self._known: OrderedDict[SessionId, Session] = OrderedDict()

    async def open(
        self, principal: Principal, *, client_info: JsonObject, previous: str | None = None
    ) -> tuple[Session, bool]:
        """Give the previous session, if it is this principal's and still open (then True), else a new one."""
        if previous is not None:
            try:
                return await self.use(previous, principal), True
            except (SessionNotFound, SessionExpired):
                pass  # A stranger's, a lost and an expired one are alike: the client gets a new one and is told so.
        now = self._engine.clock.now()
        session = Session(
            session_id=SessionId(new_id("sess", now, random_bits=ID_BITS)),
            principal=principal.user,
            created_at=now,
            expires_at=now + LIFE,
            client_info=client_info,
        )
        await self._engine.put_session(session)
        self._remember(session)
        return session, False

    async def use(self, session_id: str, principal: Principal) -> Session:
        """Give an open session and let it live on from now.

        Raises:
            SessionNotFound: There is none, or it is somebody else's.
            SessionExpired: Its time is over, or it was closed.
        """
        session = self._known.get(SessionId(session_id))
        if session is None:
            try:
                session = await self._engine.session(SessionId(session_id))
            except SessionNotFound:
                session = None
        if session is None or session.principal != principal.user:
            raise SessionNotFound(f"there is no session {session_id}", session_id=session_id)
        now = self._engine.clock.now()
        if session.closed_at is not None:
            raise SessionExpired(f"session {session_id} was closed; call aios/initialize again", session_id=session_id)
        if session.expires_at <= now:
            raise SessionExpired(f"session {session_id} has expired; call aios/initialize again", session_id=session_id)
        if now + LIFE - session.expires_at > SLIDE:
            session = msgspec.structs.replace(session, expires_at=now + LIFE)
            try:
                await self._engine.put_session(session)
            except StoreUnavailable as error:
                # Reading goes on while the disk is full; the session just lives by memory until the next use.
                _log.warning("session not prolonged on disk", session_id=session_id, reason=str(error))
        self._remember(session)
        return session

    def is_over(self, session: Session) -> bool:
        """Whether the session was closed or has expired, as far as is known here."""
        known = self._known.get(session.session_id, session)
        return known.closed_at is not None or known.expires_at <= self._engine.clock.now()

    async def close(self, session: Session) -> None:
        """Close a session for good; its tasks are not touched."""
        closed = msgspec.structs.replace(session, closed_at=self._engine.clock.now())
        self._remember(closed)
        await self._engine.put_session(closed)

    def _remember(self, session: Session) -> None:
        self._known[session.session_id] = session
        self._known.move_to_end(session.session_id)
        if len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)
