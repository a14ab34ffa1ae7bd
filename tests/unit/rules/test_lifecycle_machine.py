"""Any sequence of commands, at any times: what the docstring of `aios.rules.lifecycle` promises always holds."""

from datetime import datetime, timedelta
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from aios.errors import InvalidTaskState, TaskFinal
from aios.model import Backoff, Change, Event, EventKind, OnCrash, Progress, Retry, Status, Step, TaskId, wire_time
from aios.rules.lifecycle import (
    EDGES,
    STANDING,
    TRANSITIONS,
    Answer,
    Ask,
    Authenticate,
    Await,
    Cancel,
    Chunk,
    Command,
    Complete,
    Emit,
    Expire,
    Fail,
    HandBack,
    Log,
    Lost,
    Pause,
    Report,
    RequestTimeout,
    RequireAuth,
    Resume,
    Start,
    TimeOut,
    Withdraw,
    decide,
    decide_all,
    stuck_at,
)
from tests.unit.rules.samples import ARTIFACT, ERROR, NOW, QUESTION, SIGN_IN, STEP, a_task, after, data

JITTER = st.floats(min_value=0, max_value=1, exclude_max=True)
KEYS = st.sampled_from([STEP, STEP, STEP, "ask:size#1"])
WAITS = st.sampled_from([None, 0, 2_000])
TIMES = st.none() | st.integers(0, 60_000).map(after)

BY_KIND: dict[type[Command], st.SearchStrategy[Command]] = {
    Start: st.sampled_from(["w-1", "w-2"]).map(Start),
    Complete: st.integers(0, 9).map(Complete),
    Fail: st.builds(Fail, st.just(ERROR), st.booleans(), JITTER),
    TimeOut: st.builds(TimeOut, JITTER),
    Pause: st.builds(Pause, st.sampled_from([None, "lunch"])),
    Resume: st.builds(Resume),
    Cancel: st.just(Cancel("enough")),
    Ask: WAITS.map(lambda ms: Ask(replace(QUESTION, timeout_ms=ms))),
    RequireAuth: WAITS.map(lambda ms: RequireAuth(replace(SIGN_IN, timeout_ms=ms))),
    Answer: KEYS.map(lambda key: Answer(Step(key=key, value=b"1"))),
    Authenticate: KEYS.map(lambda key: Authenticate(Step(key=key, value=b"1"))),
    RequestTimeout: st.just(RequestTimeout()),
    Withdraw: KEYS.map(Withdraw),
    Expire: st.just(Expire()),
    Lost: st.integers(0, 3).map(Lost),
    Await: TIMES.map(lambda until: Await(None if until else TaskId("task-2"), until)),
    HandBack: st.just(HandBack()),
    Report: st.floats(0, 100).map(lambda percent: Report(Progress(percent=percent))),
    Log: st.builds(Log, st.just("info"), st.text(max_size=3)),
    Emit: st.just(Emit(ARTIFACT)),
    Chunk: st.integers(0, 3).map(lambda index: Chunk("x", index)),
}
ANY_COMMAND = st.one_of(list(BY_KIND.values()))
RARE = {Cancel, Expire, Complete, Fail}
"""What ends a task is drawn seldom, so that most live for a while."""


def likely(status: Status) -> list[type[Command]]:
    """Give the kinds of command that may be carried out in `status`, moves four times as often as the rest."""
    moves = [kind for kind in TRANSITIONS[status] if kind not in RARE] * 4
    return [*moves, *TRANSITIONS[status], *sorted(STANDING[status], key=lambda kind: kind.kind)]


class Life(RuleBasedStateMachine):
    """One task, the log it has left behind, and what its slot and clock should be by simpler means."""

    @initialize(
        attempts=st.integers(1, 6),
        backoff=st.sampled_from(Backoff),
        on_crash=st.sampled_from([OnCrash.RERUN, OnCrash.RERUN, OnCrash.FAIL]),
        delay_ms=st.sampled_from([0, 500]),
    )
    def create(self, attempts: int, backoff: Backoff, on_crash: OnCrash, delay_ms: int) -> None:
        self.now: datetime = NOW
        retry = Retry(max_attempts=attempts, backoff=backoff, delay_ms=delay_ms)
        self.task = a_task(retry=retry, on_crash=on_crash)
        self.log: list[Event] = []
        self.running_since: datetime | None = None
        self.used_ms = 0
        self.is_awaiting = False

    @precondition(lambda self: self.task.status.is_terminal)
    @rule(attempts=st.integers(1, 6), on_crash=st.sampled_from(OnCrash))
    def another_task(self, attempts: int, on_crash: OnCrash) -> None:
        self.create(attempts, Backoff.LINEAR, on_crash, 500)

    @rule(ms=st.one_of(st.integers(0, 20_000), st.integers(-2_000, 40_000)))
    def time_passes(self, ms: int) -> None:
        self.now += timedelta(milliseconds=ms)

    @precondition(lambda self: not self.task.status.is_terminal)
    @rule(draw=st.data(), waits=st.lists(st.sampled_from([0, 1, 700, 2_000, 31_000]), min_size=1, max_size=6))
    def ask_for_what_is_possible(self, draw: st.DataObject, waits: list[int]) -> None:
        for ms in waits:
            self.now += timedelta(milliseconds=ms)
            kind = draw.draw(st.sampled_from(likely(self.task.status)))
            self.carry_out([draw.draw(BY_KIND[kind])])

    @rule(commands=st.lists(ANY_COMMAND, min_size=1, max_size=2))
    def ask_for_anything(self, commands: list[Command]) -> None:
        self.carry_out(commands)

    @precondition(lambda self: not self.task.status.is_terminal)
    @rule(draw=st.data())
    def ask_for_two_things_at_once(self, draw: st.DataObject) -> None:
        records = draw.draw(st.sampled_from([Report, Log, Emit, Chunk]))
        kind = draw.draw(st.sampled_from(likely(self.task.status)))
        self.carry_out([draw.draw(BY_KIND[records]), draw.draw(BY_KIND[kind])])

    @rule()
    def the_code_has_stopped(self) -> None:
        """What the store does by itself when a slot is released."""
        task = self.task
        if task.worker is None:
            return
        self.stop_clock()
        may_run = task.status in (Status.PENDING, Status.WORKING)
        run_at = self.now if may_run and task.run_at is None else task.run_at
        self.task = replace(task, worker=None, deadline_at=None, used_ms=self.used_ms, run_at=run_at)

    def carry_out(self, commands: list[Command]) -> None:
        before = self.task
        try:
            change = decide_all(before, commands, now=self.now)
        except TaskFinal:
            assert before.status.is_terminal or len(commands) > 1
            return
        except InvalidTaskState:
            return
        self.check_fold(commands, change)
        self.check_numbers(commands, change)
        self.account(commands, change)
        self.log.extend(change.events)
        self.task = change.task

    def check_fold(self, commands: list[Command], change: Change) -> None:
        """Several commands in one change make what they make one after the other."""
        task, events = self.task, list[Event]()
        for command in commands:
            one = decide(task, command, now=self.now)
            task = one.task
            events += one.events
        assert (change.task, list(change.events)) == (task, events)

    def check_numbers(self, commands: list[Command], change: Change) -> None:
        before, task = self.task, change.task
        assert (change.before, change.claim) == (before.version, before.claim)
        assert task.claim == before.claim + sum(type(command) is Start for command in commands)
        if task.worker not in (None, before.worker):
            assert Start(task.worker) in commands
        ends = sum(type(command) in (Fail, TimeOut, Resume) for command in commands)
        assert before.attempt <= task.attempt <= before.attempt + ends
        assert task.attempt <= task.spec.retry.max_attempts
        assert 0 <= task.crashes - before.crashes <= sum(type(command) is Lost for command in commands)
        if before.status.is_terminal:
            assert (change.events, replace(task, worker=None)) == ((), replace(before, worker=None))

    def account(self, commands: list[Command], change: Change) -> None:
        """Reckon the attempt's time by a stopwatch, beside the deadline by which the rules do it."""
        for command in commands:
            task = decide(self.task, command, now=self.now).task
            if task.attempt != self.task.attempt:
                self.running_since, self.used_ms = None, 0
            elif type(command) is Lost and task.deadline_at is None:
                self.running_since = None
            elif task.deadline_at is None:
                self.stop_clock()
            elif self.running_since is None:
                self.running_since = self.now
            if task.worker is not None or task.status.is_terminal:
                self.is_awaiting = False
            if type(command) is Await:
                self.is_awaiting = command.until is None
            self.task = task

    def stop_clock(self) -> None:
        if self.running_since is not None:
            self.used_ms += max(0, (self.now - self.running_since) // timedelta(milliseconds=1))
            self.running_since = None

    @invariant()
    def the_version_is_the_last_events_number_and_none_is_left_out(self) -> None:
        assert [event.number for event in self.log] == list(range(1, len(self.log) + 1))
        assert self.task.version == len(self.log)

    @invariant()
    def no_time_in_the_log_goes_back(self) -> None:
        times = [NOW, *(event.at for event in self.log)]
        assert times == sorted(times)
        assert self.task.updated_at == times[-1]
        assert all(data(event)["timestamp"] == wire_time(event.at) for event in self.log)

    @invariant()
    def the_log_tells_one_unbroken_walk_along_the_table(self) -> None:
        status, attempt = Status.PENDING, 1
        for event in self.log:
            if event.kind is not EventKind.STATUS:
                continue
            told: dict[str, Any] = data(event)
            step = (status, Status(told["status"]))
            assert told["previous_status"] == status
            assert step in EDGES or (step == (Status.WORKING, Status.WORKING) and told["reason"] == "retry")
            assert told["attempt"] >= attempt
            status, attempt = step[1], told["attempt"]
        assert self.task.status is status

    @invariant()
    def nothing_comes_after_the_end_but_its_result_or_error(self) -> None:
        kinds = [event.kind for event in self.log]
        ends = [at for at, event in enumerate(self.log) if Status(data(event).get("status", "working")).is_terminal]
        companions = {Status.COMPLETED: [EventKind.RESULT], Status.FAILED: [EventKind.ERROR]}
        assert self.task.status.is_terminal is bool(ends)
        assert len(ends) <= 1
        assert not ends or kinds[ends[0] + 1 :] == companions.get(self.task.status, [])

    @invariant()
    def the_clock_runs_only_for_working_code_in_a_slot(self) -> None:
        task = self.task
        if task.deadline_at is not None:
            assert task.status is Status.WORKING
            assert task.worker is not None
            assert task.run_at is None
            assert self.running_since is not None
            left = task.spec.timeout_ms - self.used_ms
            assert task.deadline_at == self.running_since + timedelta(milliseconds=left)
        assert task.used_ms == self.used_ms

    @invariant()
    def a_task_holds_what_its_status_speaks_of_and_nothing_else(self) -> None:
        task = self.task
        assert (task.request is not None) is (task.status in (Status.INPUT_REQUIRED, Status.AUTH_REQUIRED))
        assert task.outcome is None or task.status is Status.PAUSED
        assert (task.ended_at is not None) is task.status.is_terminal
        assert (task.started_at is None) is (
            not any(event.kind is EventKind.STATUS for event in self.log)
        ) or task.ended_at
        assert (task.error is not None) is (task.status is Status.FAILED)

    @invariant()
    def no_task_is_forgotten(self) -> None:
        """What may run either runs, has a time at which it may be claimed, or awaits a child that will wake it."""
        task = self.task
        if task.status in (Status.PENDING, Status.WORKING) and task.worker is None:
            assert task.run_at is not None or self.is_awaiting

    @invariant()
    def no_task_works_for_ever(self) -> None:
        """Whatever its code does, there is a time at which a working task is looked at again."""
        task = self.task
        if task.status is Status.WORKING and task.worker is not None:
            assert (task.deadline_at is None) is not (stuck_at(task) is None)


Life.TestCase.settings = settings(max_examples=100, stateful_step_count=40)
TestLife = Life.TestCase
