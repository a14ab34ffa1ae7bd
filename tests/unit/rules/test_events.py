import json

from msgspec.structs import replace

from aios.model import AuthRequest, Status, TaskId
from aios.rules import events
from tests.unit.rules.samples import ARTIFACT, NOW

TASK = TaskId("task-1")
AT = "2026-01-05T10:00:00.000Z"


def test_a_status_without_a_reason_has_no_member_for_it() -> None:
    bare = json.loads(events.status(TASK, AT, status=Status.WORKING, previous=Status.PENDING, attempt=1))
    assert list(bare) == ["task_id", "status", "previous_status", "attempt", "timestamp"]
    told = json.loads(events.status(TASK, AT, status=Status.PAUSED, previous=Status.WORKING, attempt=1, reason="午休"))
    assert told["reason"] == "午休"


def test_an_artifact_has_the_form_of_the_seeds() -> None:
    made = replace(ARTIFACT, mime_type="application/json", metadata={"site": "jd.com"}, version=2)
    assert events.artifact_to_wire(made) == {
        "id": "art-1",
        "name": "Prices",
        "type": "report",
        "mime_type": "application/json",
        "created_at": AT,
        "parts": [],
        "metadata": {"site": "jd.com", "source_task": "task-1", "version": 2},
    }
    assert "mime_type" not in events.artifact_to_wire(ARTIFACT)


def test_a_whole_artifact_shows_nothing_of_streaming() -> None:
    shown = json.loads(events.artifact(TASK, AT, ARTIFACT))
    assert list(shown) == ["task_id", "artifact", "timestamp"]
    assert events.artifact_to_wire(ARTIFACT)["created_at"] == events.wire_time(NOW)


def test_a_sign_in_shows_all_that_its_giver_needs_and_not_where_it_will_be_kept() -> None:
    request = AuthRequest(
        step="authenticate:mail#1",
        type="oauth2",
        reason="to read the mail",
        provider="google",
        authorization_url="https://accounts.example/auth",
        scopes=["mail.read"],
        state="xyz",
        timeout_ms=300_000,
        due_at=NOW,
    )
    assert events.auth_request_to_wire(request) == {
        "type": "oauth2",
        "reason": "to read the mail",
        "provider": "google",
        "authorization_url": "https://accounts.example/auth",
        "scopes": ["mail.read"],
        "state": "xyz",
        "timeout_ms": 300_000,
    }
