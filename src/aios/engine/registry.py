"""Which adapters there are, what they offer, and whether values fit a schema.

Schemas never lead outside: a reference that is not inside the schema is refused, not fetched. Patterns run in time that is
linear in the text; where one looks around or back, after a bounded number of steps it counts as not matched.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from typing import Any

import jsonschema_rs

from aios.adapter import Adapter, Capability
from aios.errors import CapabilityNotFound, NotFound, ValidationFailed
from aios.model import JsonObject

ERRORS_MAX = 20
"""How many errors of one value are told."""
MESSAGE_CHARACTERS_MAX = 300
BACKTRACKS_MAX = 50_000
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}(\.[A-Za-z0-9_-]{1,64}){0,15}")


def _refuse(uri: str) -> Any:
    raise ValueError(f"a schema must be whole; `{uri}` is outside it and is not fetched")


def _compile(schema: JsonObject, *, whose: str) -> jsonschema_rs.Validator:
    try:
        return jsonschema_rs.validator_for(
            schema,
            retriever=_refuse,
            validate_formats=True,
            pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=BACKTRACKS_MAX),
        )
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        reason = _cut(str(getattr(error, "message", error)))
        raise ValidationFailed(f"The schema of {whose} is not a JSON Schema: {reason}.") from error


def _cut(text: str) -> str:
    return text if len(text) <= MESSAGE_CHARACTERS_MAX else text[: MESSAGE_CHARACTERS_MAX - 1] + "…"


def _pointer(path: Iterable[str | int]) -> str:
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def _errors(validator: jsonschema_rs.Validator, value: Any, *, root: str) -> list[JsonObject]:
    if validator.is_valid(value):
        return []
    found = islice(validator.iter_errors(value), ERRORS_MAX)
    return [{"path": root + _pointer(each.instance_path), "message": _cut(each.message)} for each in found]


def _canonical(capability_id: str) -> str:
    """`app.*` is another name of `compat.*` (protocol.md §8)."""
    return "compat." + capability_id.removeprefix("app.") if capability_id.startswith("app.") else capability_id


class Registry:
    """The adapters that were loaded, by id, and their capabilities."""

    def __init__(self) -> None:
        self._adapters: dict[str, Adapter] = {}
        self._capabilities: dict[str, Capability] = {}
        self._validators: dict[str, jsonschema_rs.Validator] = {}

    def add(self, adapter: Adapter) -> None:
        """Offer an adapter's capabilities.

        Raises:
            ValidationFailed: The adapter's id or one of its capabilities is taken, an id is malformed, or a schema is not one;
                nothing was added.
        """
        adapter_id = adapter.adapter_id
        if not _ID.fullmatch(adapter_id):
            raise ValidationFailed(
                f"`{_cut(adapter_id)}` cannot be an adapter's id: dotted words of letters, digits, _ and -."
            )
        if adapter_id in self._adapters:
            raise ValidationFailed(f"An adapter {adapter_id} is loaded already; give this one another id.")
        offered: dict[str, Capability] = {}
        validators: dict[str, jsonschema_rs.Validator] = {}
        for capability in adapter.capabilities():
            key = _canonical(capability.id)
            self._admit(adapter_id, capability, key, is_repeated=key in offered)
            offered[key] = capability
            validators[key] = _compile(capability.input, whose=f"the arguments of {capability.id}")
        self._adapters[adapter_id] = adapter
        self._capabilities |= offered
        self._validators |= validators

    def _admit(self, adapter_id: str, capability: Capability, key: str, *, is_repeated: bool) -> None:
        if not _ID.fullmatch(key):
            raise ValidationFailed(
                f"`{_cut(capability.id)}` of adapter {adapter_id} cannot be a capability's id: "
                "dotted words of letters, digits, _ and -."
            )
        if capability.adapter_id != adapter_id:
            raise ValidationFailed(
                f"{capability.id} names adapter {capability.adapter_id}, but {adapter_id} offers it."
            )
        taken_by = self._capabilities.get(key)
        if is_repeated or taken_by is not None:
            whose = taken_by.adapter_id if taken_by is not None else adapter_id
            raise ValidationFailed(f"{capability.id} of adapter {adapter_id} is offered already, by {whose}.")

    def remove(self, adapter_id: str) -> None:
        """Offer it no longer; tasks that run go on.

        Raises:
            NotFound: There is no such adapter.
        """
        self.adapter(adapter_id)
        del self._adapters[adapter_id]
        gone = [key for key, each in self._capabilities.items() if each.adapter_id == adapter_id]
        for key in gone:
            del self._capabilities[key]
            del self._validators[key]

    def adapter(self, adapter_id: str) -> Adapter:
        """Give an adapter. Raises: NotFound."""
        if adapter_id not in self._adapters:
            raise NotFound(f"No adapter {_cut(adapter_id)} is loaded.")
        return self._adapters[adapter_id]

    def adapters(self) -> list[Adapter]:
        """All, in the order in which they were added."""
        return list(self._adapters.values())

    def capability(self, capability_id: str) -> Capability:
        """Give a capability by its id. Raises: CapabilityNotFound."""
        found = self._capabilities.get(_canonical(capability_id))
        if found is None:
            raise CapabilityNotFound(
                f"No adapter offers {_cut(capability_id)}.",
                capability_id=_cut(capability_id),
                suggestion="aios/capability.list shows what there is",
            )
        return found

    def capabilities(self, *, namespace: str | None = None, category: str | None = None) -> list[Capability]:
        """Those of a namespace and category, ordered by id."""
        wanted = _canonical(namespace + ".").removesuffix(".") if namespace else None
        return sorted(
            (
                each
                for key, each in self._capabilities.items()
                if (wanted is None or key.partition(".")[0] == wanted) and category in {None, each.category}
            ),
            key=lambda each: each.id,
        )

    def validate(self, capability: Capability, arguments: JsonObject) -> None:
        """Hold arguments against the capability's schema.

        Raises:
            ValidationFailed: `data.errors` says where: `[{path, message}]`, the path as from the request's params.
        """
        validator = self._validators.get(_canonical(capability.id))
        if validator is None:
            validator = _compile(capability.input, whose=f"the arguments of {capability.id}")
        errors = _errors(validator, arguments, root="/arguments")
        if errors:
            raise ValidationFailed(
                f"The arguments do not fit {capability.id}: {errors[0]['message']}"
                f" (at {errors[0]['path']}). aios/capability.info shows the schema.",
                capability_id=capability.id,
                errors=errors,
            )

    def check(self, schema: JsonObject, value: Any, *, root: str = "") -> list[JsonObject]:
        """Hold a value against a schema: `[{path, message}]`, empty where it fits; paths begin with `root`.

        Raises:
            ValidationFailed: The schema itself is not one.
        """
        return _errors(_compile(schema, whose="the request"), value, root=root)
