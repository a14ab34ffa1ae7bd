"""From an error object back to the exception that was raised: for clients, and for a parent whose child has failed."""

from __future__ import annotations

from typing import Any

from aios.errors import AiosError, AuthenticationRequired, PermissionDenied


def _tree(root: type[AiosError]) -> list[type[AiosError]]:
    return [root, *(each for child in root.__subclasses__() for each in _tree(child))]


# A parent comes last and so wins where a child shares its name on the wire.
_BY_ID: dict[str, type[AiosError]] = {kind.error_id: kind for kind in reversed(_tree(AiosError))}
_BY_ID_AND_TITLE: dict[tuple[str, str], type[AiosError]] = {
    (kind.error_id, kind.title): kind for kind in reversed(_tree(AiosError))
}


def from_wire(error: dict[str, Any]) -> AiosError:
    """Make the exception that the server raised from the error object it sent.

    An `error_id` that this version does not know gives a plain `AiosError` with the same code, message and data.
    """
    data: dict[str, Any] = dict(error.get("data") or {})
    title = str(error.get("message", ""))
    error_id = str(data.pop("error_id", ""))
    detail = str(data.pop("detail", ""))
    kind = _BY_ID_AND_TITLE.get((error_id, title)) or _BY_ID.get(error_id, AiosError)
    if kind is PermissionDenied and "authentication_required" in data:
        kind = AuthenticationRequired
    made = kind.__new__(kind)
    made.title = title or kind.title
    made.is_retryable = bool(data.pop("retryable", False))
    made.number = int(error.get("code", kind.code))
    AiosError.__init__(made, detail, **data)
    return made
