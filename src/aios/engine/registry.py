"""Which adapters there are, what they offer, and whether arguments fit."""

from __future__ import annotations

from typing import Any

from aios.adapter import Adapter, Capability
from aios.model import JsonObject


class Registry:
    """The adapters that were loaded, by id, and their capabilities; `app.*` is an alias of `compat.*` (protocol.md §8)."""

    def add(self, adapter: Adapter) -> None:
        """Offer an adapter's capabilities.

        Raises:
            ValidationFailed: The adapter's id or one of its capabilities is taken, or a schema is not one; nothing was added.
        """
        raise NotImplementedError

    def remove(self, adapter_id: str) -> None:
        """Offer it no longer; tasks that run go on. Raises: AdapterNotFound."""
        raise NotImplementedError

    def adapter(self, adapter_id: str) -> Adapter:
        """Raises: AdapterNotFound."""
        raise NotImplementedError

    def adapters(self) -> list[Adapter]:
        """All, in the order in which they were added."""
        raise NotImplementedError

    def capability(self, capability_id: str) -> Capability:
        """Raises: CapabilityNotFound."""
        raise NotImplementedError

    def capabilities(self, *, namespace: str | None = None, category: str | None = None) -> list[Capability]:
        """Those of a namespace and category, ordered by id."""
        raise NotImplementedError

    def validate(self, capability: Capability, arguments: JsonObject) -> None:
        """Hold arguments against the capability's schema.

        Raises:
            ValidationFailed: `data.errors` says where: `[{path, message}]`.
        """
        raise NotImplementedError

    def check(self, schema: JsonObject, value: Any) -> list[JsonObject]:
        """Hold a value against a schema: `[{path, message}]`, empty where it fits.

        Raises:
            ValidationFailed: The schema itself is not one.
        """
        raise NotImplementedError
