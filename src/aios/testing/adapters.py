"""An adapter whose capabilities do what a test's script says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from aios.adapter import Capability, Context
from aios.errors import CapabilityNotFound
from aios.model import JsonObject

Script = Callable[[JsonObject, Context], Awaitable[Any]]
"""What a capability does: `async def script(arguments, ctx)`; its value is the result."""


class ScriptedAdapter:
    """An adapter without a schema, a signature or a thread of its own: each capability is one script.

    Args:
        scripts: By capability id.
        adapter_id: Where a test has several.
    """

    def __init__(self, scripts: dict[str, Script] | None = None, *, adapter_id: str = "test.scripted") -> None:
        self._adapter_id = adapter_id
        self._scripts: dict[str, Script] = {}
        self._capabilities: dict[str, Capability] = {}
        for capability_id, script in (scripts or {}).items():
            self.offer(capability_id, script)

    @property
    def adapter_id(self) -> str:
        """Its id."""
        return self._adapter_id

    @property
    def name(self) -> str:
        """For people."""
        return "Scripted"

    @property
    def version(self) -> str:
        """Of the adapter."""
        return "1.0.0"

    def offer(self, id: str, script: Script, **fields: Any) -> None:
        """Offer one more capability, or another script for the same; `fields` are those of `Capability`."""
        self._scripts[id] = script
        given: dict[str, Any] = {"name": id, "input": {"type": "object"}, **fields}
        self._capabilities[id] = Capability(id=id, adapter_id=self._adapter_id, **given)

    def capabilities(self) -> Iterable[Capability]:
        """What has been offered."""
        return list(self._capabilities.values())

    async def run(self, capability_id: str, arguments: JsonObject, ctx: Context) -> Any:
        """Run the script. Raises: CapabilityNotFound."""
        script = self._scripts.get(capability_id)
        if script is None:
            raise CapabilityNotFound(f"the adapter {self._adapter_id} has no script for {capability_id}")
        return await script(arguments, ctx)
