"""The protocol's description of itself."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema_rs
import pytest

from aios.errors import AiosError, ValidationFailed
from aios.model import JsonObject
from aios.protocol.discovery import document
from aios.protocol.methods import METHODS

DOCUMENT = document(METHODS.values(), version="9.9.9")
BY_NAME: dict[str, JsonObject] = {each["name"]: each for each in DOCUMENT["methods"]}


def validator(schema: JsonObject) -> Any:
    return jsonschema_rs.validator_for({**schema, "components": DOCUMENT["components"]})


def test_every_method_is_described() -> None:
    assert set(BY_NAME) == set(METHODS)
    assert all(each["summary"] and each["paramStructure"] == "by-name" for each in DOCUMENT["methods"])


def test_the_document_is_plain_json_and_every_reference_leads_somewhere() -> None:
    text = json.dumps(DOCUMENT)
    for kind, name in re.findall(r'"#/components/(\w+)/(\w+)"', text):
        assert name in DOCUMENT["components"][kind], name
    assert len(re.findall(r'"\$ref"', text)) == len(re.findall(r'"#/components/(\w+)/(\w+)"', text))


@pytest.mark.parametrize("method", sorted(each for each in METHODS if each != "rpc.discover"))
def test_the_examples_fit_the_schemas(method: str) -> None:
    described = BY_NAME[method]
    (example,) = described["examples"]
    schemas = {each["name"]: each["schema"] for each in described["params"]}
    for param in example["params"]:
        assert validator(schemas[param["name"]]).is_valid(param["value"]), param
    assert {each["name"] for each in described["params"] if each["required"]} <= {
        each["name"] for each in example["params"]
    }
    assert validator(described["result"]["schema"]).is_valid(example["result"]["value"])


def test_the_errors_are_those_of_the_tree() -> None:
    errors = DOCUMENT["components"]["errors"]
    assert errors["ValidationFailed"] == {
        "code": -32108,
        "message": ValidationFailed.title,
        "data": {"error_id": "AIOS-VALIDATION-FAILED"},
    }
    assert set(errors) >= {each.__name__ for each in AiosError.__subclasses__()}


def test_names_on_the_wire_are_the_protocols_own() -> None:
    """`async` and `from` are words of Python, and go by other names inside."""
    options = DOCUMENT["components"]["schemas"]["CreateOptions"]["properties"]
    assert {"async", "wait_ms", "priority", "timeout_ms", "retry", "idempotency_key"} <= set(options)
    assert "from" in {each["name"] for each in BY_NAME["aios/task.subscribe"]["params"]}
