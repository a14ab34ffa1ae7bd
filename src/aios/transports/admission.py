"""Who may knock at the HTTP door at all: which `Host`, from which web page, with which credential in which header.

A browser is the one peer that can be made to speak to us by a stranger. The names in `Host` are listed, so that a domain that
was re-bound to loopback finds nobody; an `Origin` must be our own or listed; and nothing is ever allowed across origins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from aios.errors import AiosError, AuthenticationRequired, InvalidRequest, PermissionDenied

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
CREDENTIAL_SIZE_MAX = 4096

_HOST = re.compile(rb"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(:[0-9]{1,5})?", re.ASCII)

Fields = Mapping[bytes, bytes]
"""Header fields of a request by their lower-case names; of a repeated one the last."""
Headers = list[tuple[bytes, bytes]]


class Refused(Exception):
    """The door's own answer to a request that never reaches the service.

    Args:
        status: Of HTTP.
        error: What the JSON-RPC error in the body says; its id is null.
        headers: More fields of the answer, as `Retry-After`.
    """

    def __init__(self, status: int, error: AiosError, *headers: tuple[bytes, bytes]) -> None:
        super().__init__(error.detail)
        self.status = status
        self.error = error
        self.headers = headers


class Admission:
    """The lists of hosts and origins.

    Args:
        scheme: http or https, that of the door itself.
        host: What the door is bound to; its name is allowed unless it means every address.
        allowed_hosts: Further names; one with a port is allowed with that port only.
        allowed_origins: Pages of other origins that may speak to the door.
    """

    def __init__(
        self, *, scheme: str, host: str, allowed_hosts: Iterable[str] = (), allowed_origins: Iterable[str] = ()
    ) -> None:
        bound = f"[{host}]" if ":" in host else host
        names = {bound} if bound not in {"0.0.0.0", "[::]"} else set[str]()  # noqa: S104 - compared, not bound
        self._scheme = scheme
        self._hosts = LOOPBACK_NAMES | {name.lower() for name in (*names, *allowed_hosts)}
        self._origins = {origin.lower().rstrip("/") for origin in allowed_origins}
        # Nearly every request brings the very bytes of the one before it.
        self._known: set[bytes] = set()

    def check(self, headers: Headers, fields: Fields) -> None:
        """Look at the names in a request's header, which comes as it was sent and by name.

        Raises:
            Refused: 400 for no, two or an unreadable `Host`, 403 for one that is not ours and for a foreign `Origin`.
        """
        host = fields.get(b"host")
        if host is None or (len(fields) < len(headers) and sum(name == b"host" for name, _ in headers) != 1):
            raise Refused(400, InvalidRequest("a request has exactly one Host header"))
        if host not in self._known:
            self._check_host(host)
        if b"origin" in fields:
            self._check_origin([value for name, value in headers if name == b"origin"], host)

    def _check_host(self, host: bytes) -> None:
        matched = _HOST.fullmatch(host)
        if not matched:
            raise Refused(400, InvalidRequest("the Host header is not a host name"))
        name = matched[1].decode("ascii").lower()
        if name not in self._hosts and host.decode("ascii").lower() not in self._hosts:
            raise Refused(
                403, PermissionDenied(f"this daemon does not answer as {name!r}; list the name in http.allowed_hosts")
            )
        if len(self._known) < len(self._hosts) * 4:
            self._known.add(host)

    def _check_origin(self, origins: list[bytes], host: bytes) -> None:
        own = b"%s://%s" % (self._scheme.encode(), host.lower())
        for origin in origins:
            if origin.lower() != own and origin.decode("latin-1").lower() not in self._origins:
                raise Refused(
                    403, PermissionDenied("pages of this Origin may not use the daemon; see http.allowed_origins")
                )


def credential(fields: Fields) -> str | None:
    """Give the token or key that a request presents; None where it presents none.

    Raises:
        Refused: 401 for an `Authorization` that is not a bearer token.
    """
    value = fields.get(b"authorization")
    if value is None:
        presented = fields.get(b"x-aios-api-key")
        return None if presented is None else _text(presented)
    scheme, _, token = value.partition(b" ")
    if scheme.lower() != b"bearer":
        raise unauthorized("Authorization must be `Bearer <token or key>`")
    return _text(token.strip())


def _text(value: bytes) -> str:
    if len(value) > CREDENTIAL_SIZE_MAX:
        raise unauthorized("the credential is too long to be one")
    return value.decode("latin-1")


def unauthorized(detail: str) -> Refused:
    """Make the answer to a request without a valid credential."""
    return Refused(401, AuthenticationRequired(detail), (b"www-authenticate", b'Bearer realm="aios"'))
