"""Whatever is sent, what comes back is an answer of the protocol, and never a failure that nobody foresaw."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aios.protocol.examples import EXAMPLES
from aios.protocol.methods import METHODS
from tests.unit.service.desk import ALICE, ECHO, open_desk

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=8), children, max_size=3),
    max_leaves=8,
)
names = sorted({name for params, _ in EXAMPLES.values() for name in params})
methods = sorted(set(METHODS) - {"aios/shutdown", "aios/capability.invoke"})


@st.composite
def calls(draw: st.DrawFn) -> Any:
    """Take a method's example and spoil a few of its members."""
    method = draw(st.sampled_from(methods))
    params = dict(EXAMPLES.get(method, ({}, None))[0])
    params.update(draw(st.dictionaries(st.sampled_from(names), json_values, max_size=2)))
    if method == "aios/task.create" and "capability_id" in params:
        params["capability_id"] = draw(st.sampled_from([ECHO, params["capability_id"]]))
        params["options"] = {"async": True, **draw(st.dictionaries(st.sampled_from(["run_at", "retry"]), json_values))}
    return {
        "jsonrpc": "2.0",
        "id": draw(st.integers(0, 9) | st.text(max_size=3) | json_values),
        "method": method,
        "params": params,
    }


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(calls() | json_values, min_size=1, max_size=20))
async def test_any_call_is_answered(messages: list[Any]) -> None:
    async with open_desk() as desk:
        caller = desk.caller(ALICE)
        answers: list[Any] = await caller.send(msgspec.json.encode(messages)) or []
        for answer in answers:
            assert answer["jsonrpc"] == "2.0"
            assert ("result" in answer) != ("error" in answer)
            assert answer.get("error", {}).get("code") != -32603, answer
        assert await caller.ask("aios/ping")
