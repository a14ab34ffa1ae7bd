"""Capabilities that are Python functions (design.md §9).

```python
shop = Adapter("com.example.shop", name="Shop tools")

@shop.capability("compat.shop.compare", name="Compare prices", permission="medium", scope="{url}")
async def compare(ctx: Context, query: str, url: str = "https://shop.example/") -> dict:
    \"\"\"Compare the price of a product on several sites.\"\"\"
```

Hints and defaults become the JSON Schema, the docstring the description. An `async def` runs on the daemon's lanes, a plain
`def` in a thread; either may take the context as a parameter that is hinted so.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from string import Formatter
from typing import Any, TypeVar

import msgspec

from aios.adapter import BlockingContext, Capability, Context, PermissionLevel
from aios.adapters.signatures import Signature, output_schema
from aios.errors import CapabilityNotFound, ValidationFailed
from aios.model import JsonObject, OnCrash

Function = TypeVar("Function", bound=Callable[..., Any])

CAPABILITY_ID_MAX = 128
_CAPABILITY_ID = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)+")
_ADAPTER_ID = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+")
HOME = "__aios_capability__"
"""The attribute of a decorated function that says which adapter offers it under which id."""


class _Offer:
    """A capability and the function behind it."""

    def __init__(self, capability: Capability, function: Callable[..., Any], signature: Signature) -> None:
        self.capability = capability
        self.function = function
        self.signature = signature
        self.is_async = inspect.iscoroutinefunction(inspect.unwrap(function)) or inspect.iscoroutinefunction(function)


class Adapter:
    """Functions offered as capabilities.

    Args:
        adapter_id: Reverse-domain name, `com.example.shop`.
        name: For people; the id where it is empty.
        version: Of the adapter.

    Raises:
        ValidationFailed: The id is not dotted words.
    """

    def __init__(self, adapter_id: str, *, name: str = "", version: str = "1.0.0") -> None:
        if not _ADAPTER_ID.fullmatch(adapter_id):
            raise ValidationFailed(f"{adapter_id!r} is not an adapter's id: dotted words like com.example.shop")
        self._adapter_id = adapter_id
        self._name = name or adapter_id
        self._version = version
        self._offers: dict[str, _Offer] = {}

    @property
    def adapter_id(self) -> str:
        """Reverse-domain name."""
        return self._adapter_id

    @property
    def name(self) -> str:
        """For people."""
        return self._name

    @property
    def version(self) -> str:
        """Of the adapter."""
        return self._version

    def capabilities(self) -> Iterable[Capability]:
        """What was decorated, in order."""
        return [offer.capability for offer in self._offers.values()]

    def capability(
        self,
        id: str,
        *,
        name: str,
        description: str | None = None,
        permission: str = "low",
        permission_id: str | None = None,
        scope: str = "",
        timeout_ms: int | None = None,
        on_crash: str = "rerun",
        category: str = "",
        output: JsonObject | None = None,
        examples: Sequence[JsonObject] = (),
    ) -> Callable[[Function], Function]:
        """Offer the decorated function, which stays as it is.

        Args:
            id: Dotted lower-case words, `compat.shop.compare`.
            name: For people.
            description: Instead of the docstring.
            permission: public, low, medium, high or critical.
            permission_id: `aios.permission.…`; made from the id where it is not given.
            scope: What it touches: fixed, or a template over its arguments (`{url}`).
            timeout_ms: How long an attempt may take where the caller does not say.
            on_crash: `rerun`, or `fail` if the function must not run a second time after its daemon crashed.
            category: For lists.
            output: JSON Schema of the result; read from the return hint where that says enough.
            examples: Arguments to try.

        Raises:
            ValidationFailed: When decorating: the id, a word or the function's signature is not possible.
        """

        def offer(function: Function) -> Function:
            signature = Signature(function, subject=id)
            _check(function, id=id, scope=scope, timeout_ms=timeout_ms, parameters=signature.names)
            if id in self._offers:
                raise ValidationFailed(f"{id}: the adapter {self._adapter_id} offers it already")
            made = Capability(
                id=id,
                name=name,
                adapter_id=self._adapter_id,
                description=description if description is not None else signature.documentation.description,
                version=self._version,
                category=category,
                permission_level=_word(PermissionLevel, permission, subject=f"{id}: permission"),
                permission_id=permission_id if permission_id is not None else f"aios.permission.{id}",
                scope=scope,
                input=signature.schema,
                output=output if output is not None else output_schema(signature.returns),
                timeout_ms=timeout_ms,
                on_crash=_word(OnCrash, on_crash, subject=f"{id}: on_crash"),
                examples=list(examples),
            )
            self._offers[id] = _Offer(made, function, signature)
            setattr(function, HOME, (self, id))
            return function

        return offer

    async def run(self, capability_id: str, arguments: JsonObject, ctx: Context) -> Any:
        """Call the function with its arguments made from JSON.

        Raises:
            CapabilityNotFound: No function was decorated with this id.
            ValidationFailed: The arguments do not fit the hints.
        """
        offer = self._offers.get(capability_id)
        if offer is None:
            raise CapabilityNotFound(f"the adapter {self._adapter_id} does not offer {capability_id}")
        given, name = offer.signature.bind(arguments), offer.signature.context
        if offer.is_async:
            if name is not None:
                given[name] = ctx
            return await offer.function(**given)

        def call(blocking: BlockingContext) -> Any:
            if name is not None:
                given[name] = blocking
            return offer.function(**given)

        return await ctx.in_thread(call, is_last=True)


def _check(function: Any, *, id: str, scope: str, timeout_ms: int | None, parameters: list[str]) -> None:
    if not _CAPABILITY_ID.fullmatch(id) or len(id) > CAPABILITY_ID_MAX:
        raise ValidationFailed(
            f"{id!r} is not a capability's id: dotted words of a-z, 0-9 and _ like compat.shop.compare, "
            f"at most {CAPABILITY_ID_MAX} characters"
        )
    inner = inspect.unwrap(function)
    if inspect.isasyncgenfunction(inner) or inspect.isgeneratorfunction(inner):
        raise ValidationFailed(f"{id}: the function yields; a capability returns, and streams with `ctx.chunk`")
    if timeout_ms is not None and timeout_ms <= 0:
        raise ValidationFailed(f"{id}: timeout_ms is {timeout_ms}; it must be greater than 0")
    try:
        fields = [field for _, field, _, _ in Formatter().parse(scope) if field is not None]
    except ValueError as error:
        raise ValidationFailed(f"{id}: the scope {scope!r} is not a template: {error}") from error
    unknown = [field for field in fields if field not in parameters]
    if unknown:
        raise ValidationFailed(f"{id}: the scope names {', '.join(map(repr, unknown))}, which is no parameter")


Word = TypeVar("Word", PermissionLevel, OnCrash)


def _word(kind: type[Word], word: str, *, subject: str) -> Word:
    try:
        return msgspec.convert(word, kind)
    except msgspec.ValidationError:
        raise ValidationFailed(f"{subject} is {word!r}; it must be one of {', '.join(kind)}") from None
