from itertools import product

import pytest

from aios.errors import InvalidTaskState, TaskFinal
from aios.model import OnCrash, Retry, Status, Task
from aios.rules.lifecycle import EDGES, STANDING, TRANSITIONS, Command, Lost, Resume, Start, decide, decide_all
from tests.unit.rules.samples import COMMANDS, KINDS, LATE, NOW, a_task, steps_of

THE_FIFTEEN = {
    ("pending", "working"),
    ("pending", "failed"),
    ("pending", "canceled"),
    ("working", "completed"),
    ("working", "failed"),
    ("working", "paused"),
    ("working", "input_required"),
    ("working", "auth_required"),
    ("working", "canceled"),
    ("paused", "working"),
    ("paused", "canceled"),
    ("input_required", "working"),
    ("input_required", "canceled"),
    ("auth_required", "working"),
    ("auth_required", "canceled"),
}

PAIRS = list(product(Status, KINDS))


def tasks_in(status: Status) -> list[Task]:
    """Give tasks in one status that differ in all that could lead somewhere else."""
    variants: list[dict[str, object]] = [
        {},
        {"worker": "w-1"},
        {"worker": "w-1", "on_crash": OnCrash.FAIL},
        {"worker": "w-1", "run_at": NOW},
        {"worker": None, "deadline_at": None},
    ]
    retries = [Retry(), Retry(max_attempts=3)]
    return [a_task(status, retry=retry, **fields) for retry in retries for fields in variants]


def test_there_is_a_sample_of_every_command() -> None:
    assert set(COMMANDS) == set(KINDS)
    assert len({kind.kind for kind in KINDS}) == len(KINDS)


def test_the_edges_are_the_fifteen_of_the_protocol() -> None:
    assert set(EDGES) == THE_FIFTEEN
    assert len(EDGES) == 15


def test_every_move_of_the_table_is_an_edge_and_every_edge_is_a_move() -> None:
    moves = {(status, target) for status, targets in TRANSITIONS.items() for target in targets.values()}
    assert moves == set(EDGES)
    assert set(TRANSITIONS) == set(STANDING) == set(Status)
    assert all(not STANDING[status].intersection(TRANSITIONS[status]) for status in Status)


@pytest.mark.parametrize(("status", "kind"), PAIRS)
def test_a_command_is_carried_out_exactly_where_the_table_has_it(status: Status, kind: type[Command]) -> None:
    task = a_task(status, worker=None) if kind is Start else a_task(status)
    command = COMMANDS[kind]
    if kind in TRANSITIONS[status] or kind in STANDING[status]:
        assert decide(task, command, now=LATE).before == task.version
    elif status.is_terminal:
        with pytest.raises(TaskFinal) as final:
            decide(task, command, now=LATE)
        assert final.value.to_wire()["message"] == f"Task already {status}"
    else:
        with pytest.raises(InvalidTaskState) as refused:
            decide(task, command, now=LATE)
        assert refused.value.data["status"] == status
        assert refused.value.data["requested"] == kind.kind


@pytest.mark.parametrize(("status", "kind"), PAIRS)
def test_a_move_begins_with_the_step_that_the_table_names(status: Status, kind: type[Command]) -> None:
    if kind not in TRANSITIONS[status]:
        return
    task = a_task(status, worker="w-1", on_crash=OnCrash.FAIL) if kind is Lost else a_task(status)
    change = decide(task, COMMANDS[kind], now=LATE)
    assert steps_of(change)[0] == (status, TRANSITIONS[status][kind])


@pytest.mark.parametrize(("status", "kind"), PAIRS)
def test_where_a_command_only_stands_the_status_stays(status: Status, kind: type[Command]) -> None:
    if kind not in STANDING[status]:
        return
    task = a_task(status, worker=None) if kind is Start else a_task(status)
    change = decide(task, COMMANDS[kind], now=LATE)
    assert change.task.status is status
    assert steps_of(change) == []


def test_nothing_ever_takes_another_step_than_the_edges_and_the_retry() -> None:
    taken: set[tuple[Status, Status]] = set()
    for status, command in product(Status, COMMANDS.values()):
        for task in tasks_in(status):
            try:
                change = decide(task, command, now=LATE)
                if change.task.outcome is not None:
                    change = decide(change.task, Resume(), now=LATE)
            except (InvalidTaskState, TaskFinal):
                continue
            steps = steps_of(change)
            taken.update(steps)
            assert [before for before, _ in steps[1:]] == [target for _, target in steps[:-1]]
            assert not steps or change.task.status is steps[-1][1]
    assert taken == {*EDGES, (Status.WORKING, Status.WORKING)}


@pytest.mark.parametrize(
    ("status", "allowed"),
    [
        (Status.PENDING, ["cancel"]),
        (Status.WORKING, ["pause", "cancel"]),
        (Status.PAUSED, ["resume", "cancel"]),
        (Status.INPUT_REQUIRED, ["input", "cancel"]),
        (Status.AUTH_REQUIRED, ["authenticate", "cancel"]),
    ],
)
def test_a_refusal_says_what_a_caller_may_ask_for_instead(status: Status, allowed: list[str]) -> None:
    wrong = next(COMMANDS[kind] for kind in KINDS if kind.kind in {"pause", "resume"} and kind.kind not in allowed)
    with pytest.raises(InvalidTaskState) as refused:
        decide(a_task(status), wrong, now=NOW)
    wire = refused.value.to_wire()
    assert wire["code"] == -32108
    assert wire["data"]["allowed"] == allowed
    assert wire["data"]["detail"] == (
        f"Task task-1 is {status}: `{wrong.kind}` is not possible there; "
        f"what can be asked for now: {', '.join(allowed)}."
    )


def test_of_several_commands_one_that_is_refused_refuses_all() -> None:
    with pytest.raises(TaskFinal):
        decide_all(
            a_task(Status.WORKING), [COMMANDS[kind] for kind in KINDS if kind.kind in {"cancel", "log"}], now=NOW
        )


def test_a_decision_leaves_the_task_it_was_given_alone() -> None:
    task = a_task(Status.WORKING)
    twin = a_task(Status.WORKING)
    for command in COMMANDS.values():
        try:
            first = decide(task, command, now=LATE)
        except InvalidTaskState:
            continue
        assert task == twin
        assert decide(twin, command, now=LATE) == first
