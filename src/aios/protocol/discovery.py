"""`rpc.discover`: the protocol described by itself, as an OpenRPC document (protocol.md §1)."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

import msgspec

from aios.errors import AiosError, InternalError, InvalidParams, InvalidRequest, MethodNotFound, ParseError
from aios.model import JsonObject
from aios.protocol.examples import EXAMPLES
from aios.protocol.params import Params

OPENRPC_VERSION = "1.3.2"
PROTOCOL_VERSION = "0.3.0"

_SCHEMAS = "#/components/schemas/{name}"
_OF_EVERY_METHOD: tuple[type[AiosError], ...] = (
    ParseError,
    InvalidRequest,
    MethodNotFound,
    InvalidParams,
    InternalError,
)


class Discover(Params[JsonObject], frozen=True, kw_only=True):
    """Describe every method as an OpenRPC document."""

    method = "rpc.discover"
    result = JsonObject


METHODS: tuple[type[Params[Any]], ...] = (Discover,)


def document(kinds: Iterable[type[Params[Any]]], *, version: str) -> JsonObject:
    """Describe methods in OpenRPC, from the types by which they are read and answered.

    Args:
        kinds: The params of each method.
        version: The server's.
    """
    methods = sorted(kinds, key=lambda kind: kind.method)
    results, schemas = msgspec.json.schema_components([kind.result for kind in methods], ref_template=_SCHEMAS)
    _, of_params = msgspec.json.schema_components(methods, ref_template=_SCHEMAS)
    names = {kind.__name__ for kind in methods}
    shared = {name: schema for name, schema in of_params.items() if name not in names}
    return {
        "openrpc": OPENRPC_VERSION,
        "info": {
            "title": "AIOS Protocol",
            "version": PROTOCOL_VERSION,
            "description": f"A durable task service for AI agents, served by aiosd {version}.",
        },
        "methods": [
            _method(kind, of_params[kind.__name__], result) for kind, result in zip(methods, results, strict=True)
        ],
        "components": {
            "schemas": {**shared, **schemas},
            "errors": {kind.__name__: _error(kind) for kind in _tree(AiosError)},
        },
    }


def _method(kind: type[Params[Any]], params: JsonObject, result: JsonObject) -> JsonObject:
    required = set(params.get("required", ()))
    properties: dict[str, JsonObject] = params.get("properties", {})
    described: JsonObject = {
        "name": kind.method,
        "summary": (inspect.getdoc(kind) or "").strip(),
        "paramStructure": "by-name",
        "params": [
            {"name": name, "required": name in required, "schema": schema} for name, schema in properties.items()
        ],
        "result": {"name": "result", "schema": result},
        "errors": [{"$ref": f"#/components/errors/{each.__name__}"} for each in (*kind.errors, *_OF_EVERY_METHOD)],
    }
    if example := EXAMPLES.get(kind.method):
        asked, answered = example
        described["examples"] = [
            {
                "name": kind.method,
                "params": [{"name": name, "value": value} for name, value in asked.items()],
                "result": {"name": "result", "value": answered},
            }
        ]
    return described


def _error(kind: type[AiosError]) -> JsonObject:
    return {"code": kind.code, "message": kind.title, "data": {"error_id": kind.error_id}}


def _tree(root: type[AiosError]) -> list[type[AiosError]]:
    return [root, *(each for child in root.__subclasses__() for each in _tree(child))]
