"""The checker itself: it has nothing to say of what is in order, and finds each thing that is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.faults.check import check
from tests.faults.driver.evidence import Evidence, Stored
from tests.faults.driver.record import Followed, Operation, Record, Sighting

SECOND = 1_000_000_000
ASKING, STEPPED, STOPPED = "task-asking", "task-stepped", "task-stopped"


def status(now: str, before: str, at: int, **more: Any) -> tuple[str, int, dict[str, Any]]:
    return "task.status", at, {"status": now, "previous_status": before, "attempt": 1, **more}


LOGS: dict[str, list[tuple[str, int, dict[str, Any]]]] = {
    ASKING: [
        status("working", "pending", 10),
        status("input_required", "working", 20),
        ("task.input_required", 20, {"prompt": "question 0"}),
        status("working", "input_required", 30, reason="input_provided"),
        status("completed", "working", 40),
        ("task.result", 40, {"result": {}}),
    ],
    STEPPED: [
        status("working", "pending", 10),
        ("task.chunk", 15, {"index": 0}),
        status("completed", "working", 40),
        ("task.result", 40, {"result": {}}),
    ],
    STOPPED: [
        status("working", "pending", 10),
        status("paused", "working", 20),
        status("canceled", "paused", 30),
    ],
}
ABOUT: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    ASKING: ("asking", {"questions": 1}, {"answers": [7]}),
    STEPPED: ("stepped", {"steps": 2}, {"values": ["a", "b"]}),
    STOPPED: ("endless", {}, {}),
}


def operation(evidence: Evidence, kind: str, at: int, told: Any = None, outcome: Any = "ok", **facts: Any) -> None:
    number = len(evidence.record.operations)
    made = Operation(number, "c0", kind, facts, at * SECOND, 1, outcome, at * SECOND + 1, told)
    evidence.record.operations.append(made)


def deed(evidence: Evidence, task_id: str, at: int, deed: str, **more: Any) -> None:
    line = {"at": at * SECOND, "pid": 1, "task_id": task_id, "token": f"{task_id}.1", "attempt": 1, "deed": deed}
    evidence.ledger.append({**line, **more})


def view(task_id: str) -> dict[str, Any]:
    """Make what `task.get` shows of a task."""
    capability, arguments, result = ABOUT[task_id]
    history = [{"state": "pending", "timestamp": "00"}]
    for kind, at, data in LOGS[task_id]:
        if kind == "task.status":
            history.append({"state": data["status"], "timestamp": f"{at}"})
    end = history[-1]["state"]
    shown = {"task_id": task_id, "capability_id": f"test.faults.{capability}", "arguments": arguments, "attempt": 1}
    return {**shown, "status": end, f"{end}_at": "40", "result": result, "state_history": history}


def sound() -> Evidence:
    """Make evidence in which nothing is wrong."""
    views = {task_id: view(task_id) for task_id in LOGS}
    gauges = {f'aios_tasks{{status="{name}"}}': 0.0 for name in ("pending", "working", "paused", "failed")}
    gauges |= {f'aios_tasks{{status="{name}"}}': 0.0 for name in ("input_required", "auth_required")}
    gauges |= {'aios_tasks{status="completed"}': 2, 'aios_tasks{status="canceled"}': 1}
    gauges |= {"aios_slots_taken": 0, "aios_queue_depth": 0}
    evidence = Evidence(Record(pids={1: 1, 2: 2}, deaths=1), [], views, gauges)
    evidence.counters = {"completed": 2, "canceled": 1}
    for op, (task_id, log) in enumerate(LOGS.items()):
        state = {"status": views[task_id]["status"], "version": len(log)}
        events = [(number, kind, at, dict(data)) for number, (kind, at, data) in enumerate(log, 1)]
        evidence.stored[task_id] = Stored(task_id, op, None, state, None, events)
        operation(evidence, "create", 1, {"task_id": task_id}, op=op)
        deed(evidence, task_id, 2, "begin")
        for has_chunks in (True, False):
            seen = [(n, kind, data) for n, kind, _, data in events if has_chunks or kind != "task.chunk"]
            evidence.record.followed.append(Followed(task_id, "get", has_chunks, seen, is_finished=True))
    evidence.record.sightings.append(Sighting(STEPPED, "completed", 6 * SECOND))
    operation(evidence, "input", 3, task_id=ASKING, value=7)
    operation(evidence, "pause", 3, task_id=STOPPED)
    operation(evidence, "cancel", 9, task_id=STOPPED)
    deed(evidence, ASKING, 4, "answered", number=0, value=7)
    for number, value in enumerate("xb"):
        deed(evidence, STEPPED, 3, "step", number=number, value=value)
        if not number:
            deed(evidence, STEPPED, 3, "step", number=0, value="a")
    return evidence


def test_what_is_in_order_is_left_in_peace() -> None:
    assert check(sound()) == []


def lose(evidence: Evidence) -> None:
    del evidence.stored[STEPPED]


def renumber(evidence: Evidence) -> None:
    events = evidence.stored[STEPPED].events
    events[1] = (3, *events[1][1:])


def say_twice(evidence: Evidence) -> None:
    seen = evidence.record.followed[0].events
    seen.insert(1, seen[0])


def change_history(evidence: Evidence) -> None:
    del evidence.views[ASKING]["state_history"][3]


def answer_again(evidence: Evidence) -> None:
    operation(evidence, "input", 4, task_id=ASKING, value=8)


def take_back(evidence: Evidence) -> None:
    evidence.record.sightings.append(Sighting(STEPPED, "failed", 3))


def use_up(evidence: Evidence) -> None:
    evidence.views[STEPPED]["attempt"] = 2


def damage(evidence: Evidence) -> None:
    evidence.named_blobs, evidence.blobs = ["abc"], {"abc": "abd"}


def go_on_in_the_next_life(evidence: Evidence) -> None:
    deed(evidence, STOPPED, 3, "round", pid=2)
    evidence.ledger[-1]["at"] += 2


DOCTORED: list[tuple[str, Callable[[Evidence], Any]]] = [
    ("I1: ", lose),
    ("I1: ", lambda e: e.record.operations.pop(0)),
    ("I1: operation 1 made 2", lambda e: e.stored.update({"x": Stored("x", 1, None, {"status": "working"}, None)})),
    ("I1: task.get", lambda e: operation(e, "get", 5, outcome="fail", task_id=STEPPED)),
    ("I2: ", take_back),
    ("I2: ", lambda e: e.stored[STEPPED].events.pop()),
    ("I2: ", lambda e: e.views[STEPPED].update(failed_at="40")),
    ("I3: ", change_history),
    ("I3: the time", lambda e: e.views[ASKING]["state_history"][2].update(timestamp="05")),
    ("I4: the events", renumber),
    ("I4: ", say_twice),
    ("I4: nobody may", lambda e: setattr(e.record.followed[0], "refused", "-32106")),
    ("I4: the stream", lambda e: e.record.followed[0].events.pop()),
    ("I5: .* afterwards", lambda e: deed(e, STEPPED, 7, "begin")),
    ("I5: step 0", lambda e: deed(e, STEPPED, 4, "step", number=0, value="a")),
    ("I5: ", lambda e: e.views[STEPPED]["result"].update(values=["x", "b"])),
    ("I5: the answers", answer_again),
    ("I5: question", lambda e: deed(e, ASKING, 5, "answered", number=0, value=8)),
    ("I5: .* times pause", lambda e: operation(e, "pause", 12, task_id=STOPPED)),
    ("I6: ", use_up),
    ("I6: ", lambda e: deed(e, STEPPED, 3, "begin", token="other")),
    ("I6: ", lambda e: e.stored[STEPPED].state.update(crashes=2)),
    ("I7: ", lambda e: setattr(e.stored[STEPPED], "worker", "w-1")),
    ("I7: ", lambda e: setattr(e, "held", 1)),
    ("I9: ", damage),
    ("I9: ", lambda e: e.stored[STEPPED].artifacts.append({"id": "art-1"})),
    ("I11: the cancel", lambda e: operation(e, "cancel", 9, task_id=STEPPED)),
    ("I11: .* was paused", lambda e: deed(e, STOPPED, 6, "round")),
    ("I11: .* was paused", go_on_in_the_next_life),
    ("I12: ", lambda e: e.gauges.update(aios_slots_taken=1)),
    ("I12: the counter", lambda e: e.counters.update(completed=3)),
    ("I12: the database", lambda e: e.integrity.append("row 5 missing")),
    ("I13: ", lambda e: e.complaints.append("level=error")),
]


@pytest.mark.parametrize(("expected", "doctor"), DOCTORED)
def test_each_thing_that_is_not_in_order_is_found(expected: str, doctor: Callable[[Evidence], Any]) -> None:
    evidence = sound()
    doctor(evidence)
    with pytest.raises(AssertionError, match=expected):
        assert not check(evidence), "\n".join(check(evidence))
