"""One checker of what must hold whatever was killed and when: the promises of the README, held against all that is left.

Every check gives sentences about what is wrong, each with the number of its invariant:

- I1: what was acknowledged is there, and nothing that nobody asked for; a key leads to one task.
- I2: a terminal status is never left, and reached once.
- I3: `state_history` is a path along the table, and time does not go back.
- I4: a task's events are numbered 1 … n; every follower saw the beginning of that, each event once.
- I5: nothing is completed twice, no recorded step runs again, no answer is given twice.
- I6: a crash costs no attempt: only planned errors do.
- I7: at the end nothing is left over: no slot, no worker, no secret.
- I9: every artifact is there once and whole.
- I11: what is canceled stays so; what is paused stands still.
- I12: counters agree with rows, and the database is whole.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from tests.faults import deeds
from tests.faults.deeds import of, statuses
from tests.faults.driver.evidence import Evidence, Stored
from tests.faults.driver.record import Followed, Operation

Json = dict[str, Any]
Check = Callable[[Evidence], Iterator[str]]

TERMINAL = {"completed": "completed_at", "failed": "failed_at", "canceled": "canceled_at"}
EDGES = {
    "pending": {"working", "failed", "canceled"},
    "working": {"completed", "failed", "paused", "input_required", "auth_required", "canceled"},
    "paused": {"working", "canceled"},
    "input_required": {"working", "canceled"},
    "auth_required": {"working", "canceled"},
}
LAST = {
    "completed": ["task.status", "task.result"],
    "failed": ["task.status", "task.error"],
    "canceled": ["task.status"],
}


def check(evidence: Evidence) -> list[str]:
    """Give all that is wrong; nothing, if everything holds."""
    return [wrong for each in CHECKS for wrong in each(evidence)]


# I1


def creations_are_kept(evidence: Evidence) -> Iterator[str]:
    by_op: dict[int, set[str]] = defaultdict(set)
    for task in evidence.stored.values():
        if task.parent is None and task.op is not None:
            by_op[task.op].add(task.task_id)
    asked: dict[int, list[Operation]] = defaultdict(list)
    for operation in of(evidence, "create"):
        asked[operation.facts["op"]].append(operation)
    for op, task_ids in by_op.items():
        if op not in asked or all(each.outcome == "fail" for each in asked[op]):
            yield f"I1: {sorted(task_ids)} came from operation {op}, which was never asked or was refused"
        if len(task_ids) > 1:
            yield f"I1: operation {op} made {len(task_ids)} tasks: {sorted(task_ids)}"
    for op, operations in asked.items():
        for operation in operations:
            if operation.outcome == "ok" and by_op[op] != {operation.value["task_id"]}:
                yield f"I1: operation {op} was answered with {operation.value['task_id']}; stored is {sorted(by_op[op])}"


def whatever_was_seen_is_there(evidence: Evidence) -> Iterator[str]:
    seen = {sighting.task_id for sighting in evidence.record.sightings}
    for task_id in sorted(seen - evidence.stored.keys()):
        yield f"I1: {task_id} was shown to a client and is gone"
    for task_id in sorted(evidence.stored.keys() ^ evidence.views.keys()):
        yield f"I1: {task_id} is known to only one of the daemon and its database"
    for operation in of(evidence, "get"):
        if operation.outcome == "fail":
            yield f"I1: task.get was refused for {operation.facts['task_id']}: {operation.value}"


# I2


def terminal_is_terminal(evidence: Evidence) -> Iterator[str]:
    for task in evidence.stored.values():
        status, kinds = task.state["status"], [kind for _, kind, _, _ in task.events]
        if status not in TERMINAL:
            continue
        ends = [number for number, kind, _, data in task.events if kind == "task.status" and data["status"] in TERMINAL]
        if len(ends) != 1:
            yield f"I2: {task.task_id} has {len(ends)} terminal events"
        last = LAST[status]
        if kinds[-len(last) :] != last or kinds.count("task.result") + kinds.count("task.error") != len(last) - 1:
            yield f"I2: {task.task_id} is {status} and its log ends with {kinds[-3:]}"
        view = evidence.views.get(task.task_id, {})
        times = [member for member in TERMINAL.values() if member in view]
        if times != [TERMINAL[status]]:
            yield f"I2: {task.task_id} is {status} and shows {times}"
    for sighting in evidence.record.sightings:
        task = evidence.stored.get(sighting.task_id)
        if sighting.status in TERMINAL and task is not None and task.state["status"] != sighting.status:
            yield f"I2: {task.task_id} was {sighting.status} and is {task.state['status']} now"


# I3


def history_is_a_path(evidence: Evidence) -> Iterator[str]:
    for task_id, view in evidence.views.items():
        history = view["state_history"]
        states = [entry["state"] for entry in history]
        if states[0] != "pending" or states[-1] != view["status"]:
            yield f"I3: {task_id} is {view['status']}; its history goes from {states[0]} to {states[-1]}"
        for before, after in pairwise(history):
            is_retry = before["state"] == after["state"] == "working" and after.get("reason") == "retry"
            if after["state"] not in EDGES.get(before["state"], ()) and not is_retry:
                yield f"I3: {task_id} went from {before['state']} to {after['state']}"
            if after["timestamp"] < before["timestamp"]:
                yield f"I3: the time of {task_id} went back from {before['timestamp']} to {after['timestamp']}"
        stored = evidence.stored.get(task_id)
        if stored is not None and states[1:] != [data["status"] for data in statuses(stored)]:
            yield f"I3: the history of {task_id} is not what its log says: {states}"


# I4


def logs_have_no_gap(evidence: Evidence) -> Iterator[str]:
    for task in evidence.stored.values():
        numbers = [number for number, _, _, _ in task.events]
        if numbers != list(range(1, len(numbers) + 1)):
            yield f"I4: the events of {task.task_id} are numbered {numbers}"
        if task.state.get("version", 0) != len(numbers):
            yield f"I4: {task.task_id} is at version {task.state.get('version', 0)} and has {len(numbers)} events"
        times = [at for _, _, at, _ in task.events]
        if times != sorted(times):
            yield f"I4: the times of {task.task_id}'s events go back"


def followers_saw_a_prefix(evidence: Evidence) -> Iterator[str]:
    for followed in evidence.record.followed:
        task = evidence.stored.get(followed.task_id)
        if followed.refused:
            yield f"I4: nobody may follow {followed.task_id} after {len(followed.events)} events: {followed.refused}"
        if task is None:
            yield f"I4: {followed.task_id} was followed and is gone"
        else:
            yield from _compare(followed, task)


def _compare(followed: Followed, task: Stored) -> Iterator[str]:
    who = f"the follower of {task.task_id} by {followed.way}"
    log = [(number, kind, data) for number, kind, _, data in task.events if followed.has_chunks or kind != "task.chunk"]
    for number, (seen, stored) in enumerate(zip(followed.events, log, strict=False)):
        if seen != stored:
            around = [each[0] for each in followed.events[max(0, number - 2) : number + 3]]
            yield f"I4: {who} saw {seen} where the log has {stored}; numbers around it are {around}"
            return
    if len(followed.events) > len(log):
        yield f"I4: {who} saw {len(followed.events) - len(log)} events more than there are"
    if followed.is_finished and len(followed.events) < len(log):
        yield f"I4: the stream for {who} ended {len(log) - len(followed.events)} events early"


# I7, I9


def nothing_is_left_over(evidence: Evidence) -> Iterator[str]:
    for task in evidence.stored.values():
        if task.state["status"] not in TERMINAL or task.worker is not None:
            yield f"I7: at the end {task.task_id} is {task.state['status']}, held by {task.worker}"
    if evidence.held or evidence.secrets:
        yield f"I7: {evidence.held} slots are still held, {evidence.secrets} secrets still kept"


def artifacts_are_whole(evidence: Evidence) -> Iterator[str]:
    for task in evidence.stored.values():
        view = evidence.views.get(task.task_id, {})
        ids = [artifact["id"] for artifact in task.artifacts]
        if view.get("status") == "completed" and sorted(view["result"].get("artifacts", [])) != sorted(ids):
            yield f"I9: {task.task_id} tells of {view['result'].get('artifacts')} and has {ids}"
        if len(ids) > 2:
            yield f"I9: {task.task_id} made 2 artifacts and has {len(ids)}"
    for digest in evidence.named_blobs:
        if evidence.blobs.get(digest) != digest:
            yield f"I9: the content {digest} is missing or damaged"


# I12


def counters_agree(evidence: Evidence) -> Iterator[str]:
    rows = Counter(task.state["status"] for task in evidence.stored.values())
    if evidence.integrity:
        yield f"I12: the database is damaged: {evidence.integrity[:3]}"
    for status in (*EDGES, *TERMINAL):
        if evidence.gauges.get(f'aios_tasks{{status="{status}"}}') != rows[status]:
            yield f"I12: the daemon counts {evidence.gauges} and has {rows[status]} {status}"
        if status in TERMINAL and evidence.counters.get(status, 0) != rows[status]:
            yield f"I12: the counter of {status} says {evidence.counters.get(status, 0)}; there are {rows[status]}"
    for name in ("aios_slots_taken", "aios_queue_depth"):
        if evidence.gauges.get(name) != 0:
            yield f"I12: {name} is {evidence.gauges.get(name)} when all is done"
    for line in evidence.complaints:
        yield f"I13: the daemon complains: {line}"


CHECKS: tuple[Check, ...] = (
    creations_are_kept,
    whatever_was_seen_is_there,
    terminal_is_terminal,
    history_is_a_path,
    logs_have_no_gap,
    followers_saw_a_prefix,
    deeds.nothing_runs_after_its_end,
    deeds.recorded_steps_are_not_run_again,
    deeds.answers_are_given_once,
    deeds.commands_take_effect_once,
    deeds.children_are_born_once,
    deeds.only_planned_errors_cost_an_attempt,
    deeds.attempts_have_one_token,
    deeds.crashes_are_counted_within_reason,
    nothing_is_left_over,
    artifacts_are_whole,
    deeds.canceled_stays_canceled,
    deeds.paused_stands_still,
    counters_agree,
)
