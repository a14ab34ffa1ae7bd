"""Who reaches what: every method that names something, by its owner, a stranger and an operator."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from aios.errors import PermissionDenied
from aios.model import Artifact, ArtifactId, AuthRequest, JsonObject, Task
from aios.rules.lifecycle import Emit, RequireAuth
from aios.service import access
from aios.service.access import Act
from aios.service.call import ADMIN, APPROVER, CLIENT, OPERATOR, Principal
from aios.service.key import OWNER
from aios.testing.clock import START
from tests.unit.service.desk import ALICE, BOB, ECHO, OPAL, Desk, open_desk

READERS = (
    "aios/task.get",
    "aios/task.subscribe",
    "aios/task.resubscribe",
    "aios/artifact.list",
    "aios/capability.status",
)
STEERING = ("aios/task.pause", "aios/task.cancel", "aios/capability.cancel")
ANSWERS = ("aios/task.input", "aios/task.authenticate")
NEEDED: JsonObject = {"last_event_id": "evt-001", "input": "a", "auth_response": {"type": "api_key", "api_key": "k"}}


@pytest.mark.parametrize("method", [*READERS, *STEERING, "aios/task.resume", *ANSWERS])
async def test_a_strangers_task_is_answered_like_one_that_does_not_exist(method: str) -> None:
    async with open_desk() as desk:
        task = await desk.waiting(ALICE) if method in ANSWERS else await desk.started(ALICE)
        bob = desk.caller(BOB)
        foreign = await bob.answer(method, {**NEEDED, "task_id": task.task_id})
        unknown = await bob.answer(method, {**NEEDED, "task_id": "task-none"})
        assert foreign["error"]["code"] == -32106
        assert _without(foreign, task.task_id) == _without(unknown, "task-none")


def _without(answer: JsonObject, name: str) -> bytes:
    return msgspec.json.encode(answer).replace(name.encode(), b"X")


@pytest.mark.parametrize("method", [*READERS, *STEERING])
async def test_an_operator_reads_and_steers_everyones(method: str) -> None:
    async with open_desk() as desk:
        task = await desk.started(ALICE)
        assert "result" in await desk.caller(OPAL).answer(method, {**NEEDED, "task_id": task.task_id})


@pytest.mark.parametrize("method", ANSWERS)
async def test_an_operator_does_not_speak_for_others(method: str) -> None:
    async with open_desk() as desk:
        task = await desk.waiting(ALICE)
        answer = await desk.caller(OPAL).answer(method, {**NEEDED, "task_id": task.task_id})
        assert answer["error"]["code"] == -32106


@pytest.mark.parametrize(
    ("roles", "act", "is_allowed"),
    [
        ({CLIENT}, Act.READ, False),
        ({APPROVER}, Act.READ, False),
        ({OPERATOR}, Act.READ, True),
        ({OPERATOR}, Act.STEER, True),
        ({OPERATOR}, Act.ANSWER, False),
        ({ADMIN}, Act.ANSWER, True),
    ],
)
def test_roles_reach_what_belongs_to_others(roles: set[str], act: Act, is_allowed: bool) -> None:
    assert access.may(Principal("someone", frozenset(roles)), act, owner="else") is is_allowed
    assert access.may(Principal("someone", frozenset(roles)), act, owner="someone")


async def test_an_approver_alone_creates_nothing() -> None:
    async with open_desk() as desk:
        approver = desk.caller(Principal("ann", frozenset({APPROVER})))
        for method in ("aios/task.create", "aios/capability.invoke"):
            with pytest.raises(PermissionDenied) as refused:
                await approver.ask(method, {"capability_id": ECHO})
            assert refused.value.data == {"required_role": "client"}


async def sign_in(desk: Desk) -> Task:
    task = await desk.started(ALICE)
    request = AuthRequest(step="auth:1", type="oauth2", authorization_url="https://example.com/a", state="s")
    return await desk.engine.record(task, RequireAuth(request))


@pytest.mark.parametrize("principal", [OPAL, OWNER])
async def test_a_sign_in_is_shown_to_nobody_but_the_tasks_principal(principal: Principal) -> None:
    async with open_desk() as desk:
        task = await sign_in(desk)

        async def seen(who: Principal) -> list[Any]:
            caller = desk.caller(who)
            shown = await caller.ask("aios/task.get", {"task_id": task.task_id})
            missed = await caller.ask("aios/task.resubscribe", {"task_id": task.task_id, "last_event_id": "evt-001"})
            listed = await caller.ask("aios/task.list")
            return ["auth_request" in str(each) for each in (shown, missed["missed_events"], listed)]

        assert await seen(ALICE) == [True, True, True]
        assert await seen(principal) == [False, False, False]


async def test_an_artifact_is_reached_through_its_task() -> None:
    async with open_desk() as desk:
        task = await desk.started(ALICE)
        parts: list[JsonObject] = [{"type": "text", "text": "hello"}]
        made = Artifact(
            id=ArtifactId("art-1"), task_id=task.task_id, name="Greeting", type="text", created_at=START, parts=parts
        )
        await desk.engine.record(task, Emit(made))
        alice, bob = desk.caller(ALICE), desk.caller(BOB)
        shown = (await alice.ask("aios/artifact.get", {"artifact_id": "art-1"}))["artifact"]
        assert (shown["name"], shown["parts"], shown["metadata"]["source_task"]) == ("Greeting", parts, task.task_id)
        assert (await alice.ask("aios/artifact.list", {"task_id": task.task_id}))["artifacts"] == [shown]
        content = await desk.service.artifact_content(ALICE, "art-1")
        assert (content.body, content.name) == (b"hello", "Greeting")
        foreign = await bob.answer("aios/artifact.get", {"artifact_id": "art-1"})
        unknown = await bob.answer("aios/artifact.get", {"artifact_id": "art-none"})
        assert foreign["error"]["code"] == -32106
        assert _without(foreign, "art-1") == _without(unknown, "art-none")


async def test_a_subscription_is_ended_by_its_own_principal_alone() -> None:
    async with open_desk() as desk:
        task = await desk.started(ALICE)
        alice = desk.caller(ALICE)
        made = await alice.ask("aios/task.subscribe", {"task_id": task.task_id})
        ending = {"subscription_id": made["subscription_id"]}
        for stranger in (BOB, OPAL, OWNER):
            answer = await desk.caller(stranger).answer("aios/task.unsubscribe", ending)
            assert answer["error"]["code"] == -32106
        assert await alice.ask("aios/task.unsubscribe", ending) == {"success": True}
        assert (await alice.answer("aios/task.unsubscribe", ending))["error"]["code"] == -32106
