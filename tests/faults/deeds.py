"""The part of the checker that looks at what running code did, and at what was asked of it: I5, I6 and I11 of `check.py`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from tests.faults.driver.evidence import Evidence, Stored
from tests.faults.driver.followers import TERMINAL
from tests.faults.driver.record import Operation

Json = dict[str, Any]

STOPPING_NS = 300_000_000
"""Code that is told to stop is told by another thread: so long after the answer it may still do something, in the same life."""
WORKER_LOST = "AIOS-WORKER-LOST"

# I5


def nothing_runs_after_its_end(evidence: Evidence) -> Iterator[str]:
    ended: dict[str, tuple[int, str]] = {}
    for sighting in evidence.record.sightings:
        if sighting.status in TERMINAL:
            at, _ = ended.get(sighting.task_id, (sighting.at, ""))
            ended[sighting.task_id] = (min(at, sighting.at), sighting.status)
    for line in evidence.ledger:
        at, status = ended.get(line["task_id"], (line["at"], ""))
        if line["at"] > at + (STOPPING_NS if status == "canceled" else 0):
            yield f"I5: {line['task_id']} was seen {status}, and afterwards did: {line}"


def recorded_steps_are_not_run_again(evidence: Evidence) -> Iterator[str]:
    furthest: dict[str, int] = {}
    values: dict[str, dict[int, str]] = defaultdict(dict)
    for line in evidence.ledger:
        if line["deed"] == "step":
            task_id, number = line["task_id"], line["number"]
            if number < furthest.get(task_id, -1):
                yield f"I5: step {number} of {task_id} ran again after step {furthest[task_id]} had begun"
            furthest[task_id] = max(number, furthest.get(task_id, -1))
            values[task_id][number] = line["value"]
    for task_id, view in evidence.views.items():
        if view["status"] == "completed" and task_id in values:
            expected = [values[task_id][number] for number in sorted(values[task_id])]
            if view["result"]["values"] != expected:
                yield f"I5: {task_id} gave {view['result']['values']}; its steps last gave {expected}"


def answers_are_given_once(evidence: Evidence) -> Iterator[str]:
    given: dict[str, dict[int, str]] = defaultdict(dict)
    for operation in of(evidence, "input"):
        given[operation.facts["task_id"]][operation.facts["value"]] = operation.outcome
    told: dict[tuple[str, int], int] = {}
    for line in evidence.ledger:
        if line["deed"] == "answered":
            key = (line["task_id"], line["number"])
            if told.setdefault(key, line["value"]) != line["value"]:
                yield f"I5: question {key[1]} of {key[0]} was answered with {told[key]}, then with {line['value']}"
    for task_id, values in given.items():
        view = evidence.views.get(task_id)
        if view is None or view["status"] != "completed":
            continue
        answers = view["result"]["answers"]
        if len(set(answers)) < len(answers) or not all(values.get(each) in {"ok", "unknown"} for each in answers):
            yield f"I5: {task_id} has the answers {answers}; given were {values}"
        lost = [value for value, outcome in values.items() if outcome == "ok" and value not in answers]
        if lost:
            yield f"I5: the answers {lost} to {task_id} were accepted and are lost"


COMMANDS = {
    "input": ("input_required", "working", "input_provided"),
    "authenticate": ("auth_required", "working", "authenticated"),
    "pause": ("working", "paused", None),
    "resume": ("paused", "working", None),
}


def commands_take_effect_once(evidence: Evidence) -> Iterator[str]:
    asked: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for operation in evidence.record.operations:
        if operation.kind in COMMANDS:
            asked[operation.facts["task_id"], operation.kind][operation.outcome] += 1
    for (task_id, kind), outcomes in asked.items():
        task = evidence.stored.get(task_id)
        if task is None:
            continue
        before, after, reason = COMMANDS[kind]
        done = sum(
            (data["previous_status"], data["status"], data.get("reason")) == (before, after, reason)
            for data in statuses(task)
        )
        if not outcomes["ok"] <= done <= outcomes["ok"] + outcomes["unknown"]:
            yield f"I5: {task_id} shows {done} times {kind}; clients were told {dict(outcomes)}"


def children_are_born_once(evidence: Evidence) -> Iterator[str]:
    born: dict[str, set[str]] = defaultdict(set)
    for task in evidence.stored.values():
        if task.parent is not None:
            born[task.parent].add(task.task_id)
    for task_id, view in evidence.views.items():
        if view["capability_id"] != "test.faults.family":
            continue
        wanted = view["arguments"]["children"]
        if len(born[task_id]) > wanted:
            yield f"I5: {task_id} wanted {wanted} children and has {len(born[task_id])}"
        if view["status"] == "completed" and set(view["result"]["children"]) != born[task_id]:
            yield f"I5: {task_id} tells of other children than it has"


# I6


def only_planned_errors_cost_an_attempt(evidence: Evidence) -> Iterator[str]:
    for task_id, view in evidence.views.items():
        task = evidence.stored.get(task_id)
        if task is None:
            continue
        fails = view["arguments"].get("fails", 0)
        planned = [
            data["fields"]["error"]["data"].get("planned")
            for _, kind, _, data in task.events
            if kind == "task.log" and "max_attempts" in data.get("fields", {})
        ]
        if not all(planned):
            yield f"I6: {task_id} used up an attempt without an error of its own"
        if view["attempt"] != len(planned) + 1 or view["attempt"] > fails + 1:
            yield f"I6: {task_id} is at attempt {view['attempt']} after {len(planned)} of {fails} planned errors"
        if view["status"] == "failed":
            yield from _why_failed(evidence, task, view)


def _why_failed(evidence: Evidence, task: Stored, view: Json) -> Iterator[str]:
    about = view["error"]["data"]
    may_be_lost = view["capability_id"] == "test.faults.once" and evidence.record.deaths + evidence.record.stops
    if not about.get("planned") and not (may_be_lost and about.get("error_id") == WORKER_LOST):
        yield f"I6: {task.task_id} failed of something that nobody planned: {view['error']}"


def attempts_have_one_token(evidence: Evidence) -> Iterator[str]:
    tokens: dict[tuple[str, int], set[str]] = defaultdict(set)
    begun: Counter[str] = Counter()
    for line in evidence.ledger:
        tokens[line["task_id"], line["attempt"]].add(line["token"])
        begun[line["task_id"]] += line["deed"] == "begin"
    for (task_id, attempt), several in tokens.items():
        if len(several) > 1:
            yield f"I6: attempt {attempt} of {task_id} was given {len(several)} tokens"
    for task_id, times in begun.items():
        capability_id = evidence.views.get(task_id, {}).get("capability_id")
        if capability_id == "test.faults.once" and times > 1:
            yield f"I6: {task_id} must not be run again after a crash and was run {times} times"


def crashes_are_counted_within_reason(evidence: Evidence) -> Iterator[str]:
    for task in evidence.stored.values():
        if task.state.get("crashes", 0) > evidence.record.deaths:
            yield f"I6: {task.task_id} counts {task.state['crashes']} crashes of {evidence.record.deaths}"


# I11


def canceled_stays_canceled(evidence: Evidence) -> Iterator[str]:
    for operation in of(evidence, "cancel"):
        task = evidence.stored.get(operation.facts["task_id"])
        if operation.outcome == "ok" and (task is None or task.state["status"] != "canceled"):
            yield f"I11: the cancel of {operation.facts['task_id']} was accepted and it is {task and task.state['status']}"


def paused_stands_still(evidence: Evidence) -> Iterator[str]:
    """From an accepted pause to the next command nothing is begun; what ran may take a moment to stop, in that life only."""
    for task_id, spans in _pauses(evidence).items():
        for line in evidence.ledger:
            if line["task_id"] != task_id:
                continue
            for pause, until in spans:
                is_later_life = line["pid"] != evidence.record.pids.get(pause.life)
                if pause.ended_at + (0 if is_later_life else STOPPING_NS) < line["at"] < until:
                    yield f"I11: {task_id} was paused by operation {pause.number}, and did: {line}"


def _pauses(evidence: Evidence) -> dict[str, list[tuple[Operation, int]]]:
    """Give the spans from each accepted pause of a task to the next command that anybody sent."""
    moves: dict[str, list[Operation]] = defaultdict(list)
    for operation in evidence.record.operations:
        if operation.kind in {"pause", "resume", "cancel"}:
            moves[operation.facts["task_id"]].append(operation)
    spans: dict[str, list[tuple[Operation, int]]] = defaultdict(list)
    for task_id, operations in moves.items():
        for pause in operations:
            if pause.kind != "pause" or pause.outcome != "ok":
                continue
            others = [
                each.invoked_at
                for each in operations
                if each is not pause and each.outcome in {"ok", "unknown"} and each.ended_at >= pause.invoked_at
            ]
            spans[task_id].append((pause, min(others, default=1 << 63)))
    return spans


def of(evidence: Evidence, kind: str) -> Iterator[Operation]:
    return (operation for operation in evidence.record.operations if operation.kind == kind)


def statuses(task: Stored) -> list[Json]:
    return [data for _, kind, _, data in task.events if kind == "task.status"]
