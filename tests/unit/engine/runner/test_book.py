"""How durable calls are named, and when a record is refused."""

import functools
from typing import Any

import pytest

from aios.engine.checks import check_key
from aios.engine.runner.book import Book, digest_of, redact
from aios.engine.vault import Vault
from aios.errors import CapabilityChanged, StepNameRepeated, ValidationFailed
from aios.model import Step, TaskId

VAULT = Vault(bytes(range(32)))


def a_book(*recorded: Step) -> Book:
    return Book(TaskId("task-1"), recorded, vault=VAULT)


def work(*_: Any) -> None: ...
def other(*_: Any) -> None: ...


def test_calls_of_one_name_are_numbered_in_their_order() -> None:
    book = a_book()
    assert [book.name("step", "a"), book.name("step", "b"), book.name("step", "a"), book.name("ask", "a")] == [
        "step:a#1",
        "step:b#1",
        "step:a#2",
        "ask:a#1",
    ]


def test_a_key_of_the_codes_own_is_never_taken_for_a_number() -> None:
    book = a_book()
    assert book.name("step", "a", "a#1") == "step=a#1" != book.name("step", "a")


@pytest.mark.parametrize("name", ["long " * 200, "with \0 inside", "x" * 200 + "\0"])
def test_any_name_gives_a_key_that_can_be_stored_and_no_other_name_gives_it(name: str) -> None:
    key = a_book().name("ask", name)
    check_key(key)
    assert key != a_book().name("ask", name + "!")
    assert key == a_book().name("ask", name)


def test_a_name_is_open_until_its_call_is_done() -> None:
    book = a_book()
    with book.opened("step", "a"), book.opened("step", "b"), book.opened("ask", "a"):
        with pytest.raises(StepNameRepeated, match="The step 'a' is open already"):
            book.opened("step", "a").__enter__()
        with book.opened("step", "a", "own key"):
            pass
    with book.opened("step", "a") as key:
        assert key == "step:a#2"


def test_a_record_of_another_function_or_of_other_arguments_is_refused() -> None:
    step = Step(key="step:a#1", digest=digest_of(work, [1]), value=b"2")
    recorded = a_book(step).recall("step:a#1", digest_of(work, [1]))
    assert recorded is not None
    assert a_book().value_of(recorded) == 2
    for digest in (digest_of(other, [1]), digest_of(work, [2])):
        with pytest.raises(CapabilityChanged, match="step:a#1"):
            a_book(step).recall("step:a#1", digest)
    assert a_book(step).recall("step:a#2", digest_of(work, [1])) is None


@pytest.mark.parametrize(("key", "is_known"), [("step:a#1", False), ("step:a=b#1", False), ("step=a#1", True)])
def test_only_what_the_code_may_come_to_again_is_kept_in_memory(key: str, is_known: bool) -> None:
    book = a_book()
    book.note(Step(key=key, value=b"1"))
    assert (book.recall(key) is not None) is is_known
    assert (book.recall(key) is not None) is is_known


def test_a_digest_depends_on_name_and_arguments_alone() -> None:
    assert digest_of(work, [{"a": 1, "b": {"x", "y"}}]) == digest_of(work, [{"b": {"y", "x"}, "a": 1}])
    assert digest_of(functools.partial(work, 1), [2]) != digest_of(work, [1, 2])
    assert digest_of(functools.partial(work, 1), [2]) == digest_of(functools.partial(work, 1), [2])
    assert digest_of(work, [object()]) == digest_of(work, [object()])
    with pytest.raises(ValidationFailed, match="arguments of step work are not JSON"):
        digest_of(work, ["\ud800"])


def test_a_secret_is_sealed_for_its_place_and_known_once_it_was_opened() -> None:
    book = a_book()
    step = book.make("step:a#1", b'{"token": ["canary-1"], "n": 5}', is_secret=True)
    assert b"canary" not in step.value
    assert book.secrets == set()
    assert book.value_of(step) == {"token": ["canary-1"], "n": 5}
    assert redact("the token canary-1 is bad", book.secrets) == "the token ••• is bad"
