import json
import os
from typing import Any

import pytest

from aios.builtin.info import info
from aios.errors import ValidationFailed
from aios.model import JsonObject
from tests.unit.builtin.recording import RecordingContext, as_context


async def read(**arguments: Any) -> JsonObject:
    return await info.run("system.info.read", arguments, as_context(RecordingContext()))


async def test_all_sections_are_told_by_default() -> None:
    told = await read()
    assert set(told) == {"host", "os", "python", "cpu", "memory", "disks", "uptime"}
    assert told["cpu"]["count"] >= told["cpu"]["usable"] >= 1
    assert told["memory"]["total_bytes"] > told["memory"]["available_bytes"] > 0
    assert told["disks"]["file_systems"][0]["mount"] == "/"
    assert told["uptime"]["uptime_ms"] > 0


async def test_only_the_sections_asked_for_are_told() -> None:
    assert list(await read(sections=["uptime", "os"])) == ["uptime", "os"]


async def test_a_section_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValidationFailed):
        await read(sections=["users"])


async def test_nothing_of_the_environment_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOS_TOKEN", "canary-7f3a")
    told = json.dumps(await read())
    assert "canary" not in told
    assert os.environ["PATH"] not in told
