"""What a function takes: its JSON Schema, read once from its hints, and its arguments, made from JSON at each call."""

from __future__ import annotations

import contextlib
import inspect
import re
import typing
from collections.abc import Callable
from typing import Any

import msgspec

from aios.adapter import BlockingContext, Context
from aios.adapters import docstrings
from aios.errors import ValidationFailed
from aios.model import JsonObject

_CONTEXTS = {"Context": Context, "BlockingContext": BlockingContext}
"""Known to hints even where a module imports them for its type checker only."""
_KEYWORD_KINDS = {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
_ROOT = "Arguments"
_POINTER = re.compile(r"\.|\[|\]\.?")
"""What separates the parts of a path as msgspec writes it, `$.sites[1].url`."""


class Signature:
    """The arguments of one function.

    Args:
        function: Every parameter but the context becomes a property; one without a default is required.
        subject: What to call the function in an error.

    Raises:
        ValidationFailed: A parameter cannot be given by name, or its hint has no meaning in JSON.
    """

    def __init__(self, function: Callable[..., Any], *, subject: str) -> None:
        self._subject = subject
        self._hints = self._read_hints(function)
        self._extra: Any = None
        self.returns: Any = self._hints.get("return")
        self.context: str | None = None
        """The parameter that wants the context."""
        self.documentation = docstrings.read(function.__doc__)
        self.defaults: JsonObject = {}
        fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
        for number, parameter in enumerate(inspect.signature(function).parameters.values()):
            if self._is_context(number, parameter):
                self.context = parameter.name
            elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
                self._extra = self._hint(parameter)
            else:
                fields.append(self._field(parameter))
        self.names = [field[0] for field in fields]
        arguments = msgspec.defstruct(_ROOT, fields, kw_only=True, forbid_unknown_fields=self._extra is None)
        self._decode = msgspec.json.Decoder(arguments).decode
        self.schema = self._make_schema(arguments)

    def bind(self, arguments: JsonObject) -> dict[str, Any]:
        """Make the function's keyword arguments: JSON becomes what the hints say; what is not given is left to its default.

        Raises:
            ValidationFailed: An argument does not fit its hint.
        """
        try:
            made = self._make(arguments)
            extra = {name: value for name, value in arguments.items() if name not in self.names}
            more: dict[str, Any] = msgspec.convert(extra, dict[str, self._extra]) if extra else {}
        except msgspec.ValidationError as error:
            message, _, path = str(error).partition(" - at ")
            pointer = _POINTER.sub("/", path.strip("`").removeprefix("$"))
            errors = [{"path": pointer.rstrip("/"), "message": message}]
            raise ValidationFailed(f"{self._subject}: the arguments do not fit: {error}", errors=errors) from None
        given = {name: getattr(made, name) for name in self.names}
        return {name: value for name, value in given.items() if value is not msgspec.UNSET} | more

    def _make(self, arguments: JsonObject) -> Any:
        # Through JSON, so that the function shares nothing with the task's record.
        try:
            return self._decode(msgspec.json.encode(arguments))
        except msgspec.ValidationError:
            return self._decode(msgspec.json.encode(_with_whole_numbers(arguments)))

    def _read_hints(self, function: Callable[..., Any]) -> dict[str, Any]:
        inner = inspect.unwrap(function)
        names = {**_CONTEXTS, **getattr(inner, "__globals__", {})}
        try:
            return typing.get_type_hints(inner, globalns=names, include_extras=True)
        except (NameError, TypeError, AttributeError, SyntaxError) as error:
            raise ValidationFailed(
                f"{self._subject}: its hints cannot be read: {error}; "
                "types in hints must be importable at the top of their module"
            ) from error

    def _is_context(self, number: int, parameter: inspect.Parameter) -> bool:
        hint = self._hints.get(parameter.name)
        if hint is not None:
            return hint in (Context, BlockingContext)
        return number == 0 and parameter.name == "ctx"

    def _hint(self, parameter: inspect.Parameter) -> Any:
        hint = self._hints.get(parameter.name, Any)
        try:
            msgspec.json.schema(hint)
            msgspec.convert(None, hint)
        except msgspec.ValidationError:
            return hint
        except (TypeError, RecursionError) as error:
            raise ValidationFailed(
                f"{self._subject}: parameter `{parameter.name}` has a hint that JSON cannot express: "
                f"{str(error).splitlines()[-1]}"
            ) from error
        return hint

    def _field(self, parameter: inspect.Parameter) -> tuple[str, Any] | tuple[str, Any, Any]:
        if parameter.kind not in _KEYWORD_KINDS:
            raise ValidationFailed(
                f"{self._subject}: parameter `{parameter}` cannot be given by name; arguments are a JSON object"
            )
        hint = self._hint(parameter)
        if parameter.default is inspect.Parameter.empty:
            return (parameter.name, hint)
        with contextlib.suppress(TypeError, RecursionError):  # A default that is not JSON is the function's own affair.
            self.defaults[parameter.name] = msgspec.to_builtins(parameter.default, str_keys=True)
        return (parameter.name, typing.Union[hint, msgspec.UnsetType], msgspec.UNSET)  # noqa: UP007 # `Any | X` fails.

    def _make_schema(self, arguments: type[msgspec.Struct]) -> JsonObject:
        (reference,), components = msgspec.json.schema_components([arguments], ref_template="#/$defs/{name}")
        schema = components.pop(reference["$ref"].rpartition("/")[2])
        properties: dict[str, JsonObject] = schema["properties"]
        for name, member in properties.items():
            member.pop("default", None)
            if name in self.defaults:
                member["default"] = self.defaults[name]
            if "description" not in member and name in self.documentation.arguments:
                member["description"] = self.documentation.arguments[name]
        made: JsonObject = {"type": "object", "properties": properties}
        if schema.get("required"):
            made["required"] = schema["required"]
        if self._extra in (None, Any):
            made["additionalProperties"] = self._extra is Any
        else:
            made["additionalProperties"] = msgspec.json.schema(self._extra)
        if components:
            made["$defs"] = components
        return made


def _with_whole_numbers(value: Any) -> Any:
    """Write 2.0 as 2: to JSON Schema both are integers, to msgspec only the second is an `int` (and either is a `float`)."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_with_whole_numbers(each) for each in typing.cast("list[Any]", value)]
    if isinstance(value, dict):
        return {name: _with_whole_numbers(each) for name, each in typing.cast("JsonObject", value).items()}
    return value


def output_schema(hint: Any) -> JsonObject | None:
    """Give the schema of what a function returns, where its hint says more than "some JSON"."""
    if hint in (None, Any, dict, type(None)):
        return None
    try:
        schema = msgspec.json.schema(hint)
    except (TypeError, RecursionError):
        return None
    is_object = schema.get("type") == "object" or "$ref" in schema
    return schema if is_object else None
