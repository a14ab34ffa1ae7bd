"""That promises and tests belong together: none without a test, no test for one that nobody made."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.spec.requirements import CHAPTERS, PROMISES

TESTS = Path(__file__).parents[1]


def marked(path: Path) -> Iterator[tuple[str, str]]:
    """The ids that the tests of a file name, each with the test's name."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.promise":
                    yield from ((str(ast.literal_eval(each)), node.name) for each in mark.args)


SHOWN = [each for path in sorted(TESTS.rglob("test_*.py")) for each in marked(path)]


def test_each_promise_has_a_test() -> None:
    assert not PROMISES.keys() - {promise for promise, _ in SHOWN}


def test_each_marker_names_a_promise_and_stands_on_a_test() -> None:
    assert not [(promise, name) for promise, name in SHOWN if promise not in PROMISES]
    assert not [name for _, name in SHOWN if not name.startswith("test_")]


def test_each_promise_is_a_sentence_under_a_chapter() -> None:
    for promise, sentence in PROMISES.items():
        assert promise.partition(".")[0] in CHAPTERS
        assert sentence.endswith(".")
        assert len(sentence) <= 120
    numbers = [int(promise.partition(".")[0]) for promise in PROMISES]
    assert numbers == sorted(numbers), "in the order of the chapters"
