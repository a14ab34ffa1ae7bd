"""Questions and sign-ins: what fits is recorded once, what does not leaves the task waiting."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aios.engine.vault import place
from aios.errors import InvalidInput, InvalidTaskState, ValidationFailed
from aios.model import AuthRequest, InputRequest, JsonObject, Status, Task
from aios.rules.lifecycle import Ask, Chunk, RequireAuth
from tests.unit.engine.house import House, open_house

CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
PRIVATE_KEY = "-----BEGIN EC PRIVATE KEY-----\nMIIB\n-----END EC PRIVATE KEY-----\n"
PRODUCTS = [{"id": "product-1", "name": "A"}, {"value": 2}, "three", True]


async def asked(house: House, **request: Any) -> Task:
    task = await house.started()
    question = InputRequest(step="ask:which:1", prompt="which?", **request)
    return await house.engine.record(task, Ask(question))


async def sign_in(house: House, type: str = "api_key", **request: Any) -> Task:
    task = await house.started()
    return await house.engine.record(task, RequireAuth(AuthRequest(step="authenticate:1", type=type, **request)))


async def test_an_answer_is_recorded_once_and_the_task_goes_on_under_a_new_claim() -> None:
    async with open_house() as house:
        task = await asked(house, options=["a", "b"])
        assert (task.status, task.worker) == (Status.INPUT_REQUIRED, None)
        answered = await house.engine.give_input(task.task_id, "b")
        assert (answered.status, answered.request) == (Status.WORKING, None)
        again = await house.runner.next()
        assert again.claim == 2
        (step,) = await house.engine.steps(again)
        assert (step.key, step.value) == ("ask:which:1", b'"b"')
        with pytest.raises(InvalidTaskState):
            await house.engine.give_input(task.task_id, "a")


@pytest.mark.parametrize(
    ("request_fields", "good", "bad"),
    [
        ({"options": ["a", "b"]}, ["a"], ["c", ["a"], None, {"id": "a"}]),
        ({"options": PRODUCTS}, ["product-1", {"id": "product-1", "name": "A"}, 2, "three", True], ["A", 1, 3, "true"]),
        ({"options": [1, 2], "schema": {"type": "array"}}, [[1], [2, 1], []], [[3], 1, [True]]),
        (
            {"options": PRODUCTS, "schema": {"type": "object", "required": ["selected_product"]}},
            [{"selected_product": "product-123", "confirm_purchase": True}],
            [{"confirm_purchase": True}, "product-1"],
        ),
        ({"schema": {"type": "integer", "minimum": 3}}, [3], [2, "3", 3.5]),
        ({}, [None, "anything", {"a": [1]}], []),
    ],
)
async def test_an_answer_must_be_one_of_the_options_and_fit_the_schema(
    request_fields: dict[str, Any], good: list[Any], bad: list[Any]
) -> None:
    async with open_house() as house:
        for value in good:
            task = await asked(house, **request_fields)
            for wrong in bad:
                with pytest.raises(InvalidInput) as refused:
                    await house.engine.give_input(task.task_id, wrong)
                (first, *_) = refused.value.data["errors"]
                assert first["path"].startswith("/input")
                assert first["message"]
            assert (await house.engine.task(task.task_id)).version == task.version
            assert (await house.engine.give_input(task.task_id, value)).status is Status.WORKING
            await house.complete(await house.runner.next())


@pytest.mark.parametrize("value", [float("nan"), "\ud800", "x" * 2_000])
async def test_an_answer_that_is_not_json_or_too_large_is_refused(value: object) -> None:
    async with open_house(max_step_size=1_000) as house:
        task = await asked(house)
        with pytest.raises(InvalidInput):
            await house.engine.give_input(task.task_id, value)


async def test_a_question_with_a_schema_that_is_none_fails_at_the_call() -> None:
    async with open_house() as house:
        task = await house.started()
        for schema in ({"type": "bogus"}, {"$ref": "http://127.0.0.1:1/x"}, {"$ref": "file:///etc/passwd"}):
            with pytest.raises(ValidationFailed, match="JSON Schema"):
                await house.engine.record(task, Ask(InputRequest(step="ask:1", prompt="?", schema=schema)))


async def test_input_right_after_the_state_event_is_never_lost(rounds: int) -> None:
    async with open_house() as house:
        for _ in range(rounds * 10):
            task = await house.started()

            async def answer(task: Task = task) -> Task:
                await house.wait(task.task_id, Status.INPUT_REQUIRED)
                return await house.engine.give_input(task.task_id, 1)

            answering = asyncio.create_task(answer())
            await house.engine.record(task, Ask(InputRequest(step="ask:1", prompt="?")))
            assert (await answering).status is Status.WORKING
            await house.complete(await house.runner.next())


async def test_code_may_stream_after_it_asked_but_another_claim_may_not() -> None:
    async with open_house() as house:
        task = await asked(house)
        await house.engine.record(task, Chunk("late", 0))
        assert (await house.kinds(task.task_id))[-1] == "chunk"


@pytest.mark.parametrize(
    ("type", "response"),
    [
        ("api_key", {"api_key": "CANARY"}),
        ("password", {"username": "me", "password": "CANARY"}),
        ("certificate", {"certificate": CERTIFICATE}),
        ("certificate", {"certificate": CERTIFICATE, "private_key": PRIVATE_KEY}),
        ("oauth2", {"authorization_code": "CANARY"}),
        ("oauth2", {"authorization_code": "CANARY", "state": "s", "unknown": "CANARY"}),
    ],
)
async def test_a_sign_in_is_sealed_for_its_step_and_seen_nowhere(
    type: str, response: JsonObject, tmp_path: Path
) -> None:
    async with open_house(tmp_path / "data") as house:
        task = await sign_in(house, type)
        done = await house.engine.authenticate(task.task_id, {"type": type, **response})
        assert done.status is Status.WORKING
        running = await house.runner.next()
        (step,) = await house.engine.steps(running)
        opened = msgspec.json.decode(house.vault.open(step.value, place(task.task_id, step.key)))
        response.pop("unknown", None)
        assert (step.is_secret, opened) == (True, {"type": type, **response})
        told = b"".join(event.data for event in await house.log(task.task_id))
        files = b"".join(path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file())
        assert b"CANARY" not in told + files + msgspec.json.encode(done)
        await house.complete(running)
        assert await house.engine.steps(running) == []


@pytest.mark.parametrize(
    ("type", "response", "path"),
    [
        ("api_key", {}, "type"),
        ("api_key", {"type": "password", "username": "a", "password": "CANARY"}, "type"),
        ("api_key", {"type": "api_key"}, "api_key"),
        ("api_key", {"type": "api_key", "api_key": 7}, "api_key"),
        ("api_key", {"type": "api_key", "api_key": ""}, "api_key"),
        ("password", {"type": "password", "username": "CANARY"}, "password"),
        ("certificate", {"type": "certificate", "certificate": "CANARY"}, "certificate"),
        ("certificate", {"type": "certificate", "certificate": CERTIFICATE, "private_key": "CANARY"}, "private_key"),
        ("oauth2", {"type": "oauth2", "state": "secret-state"}, "authorization_code"),
        ("oauth2", {"type": "oauth2", "authorization_code": "CANARY"}, "state"),
        ("oauth2", {"type": "oauth2", "authorization_code": "CANARY", "state": "other"}, "state"),
        ("permission", {"type": "permission"}, "type"),
    ],
)
async def test_a_sign_in_that_does_not_fit_leaves_the_task_waiting_and_is_not_repeated(
    type: str, response: JsonObject, path: str
) -> None:
    async with open_house() as house:
        task = await sign_in(house, type, state="secret-state" if type == "oauth2" else None)
        with pytest.raises(InvalidInput) as refused:
            await house.engine.authenticate(task.task_id, response)
        assert [each["path"] for each in refused.value.data["errors"]] == [f"/auth_response/{path}"]
        assert "CANARY" not in str(refused.value.to_wire())
        assert "secret-state" not in str(refused.value.to_wire())
        assert (await house.engine.task(task.task_id)).status is Status.AUTH_REQUIRED


async def test_input_does_not_answer_a_sign_in_nor_a_sign_in_a_question() -> None:
    async with open_house() as house:
        question, signing_in = await asked(house), await sign_in(house)
        with pytest.raises(InvalidTaskState):
            await house.engine.authenticate(question.task_id, {"type": "api_key", "api_key": "k"})
        with pytest.raises(InvalidTaskState):
            await house.engine.give_input(signing_in.task_id, "x")
