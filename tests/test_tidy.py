"""What keeps the house readable. No rule here has a list of exceptions."""

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
VAGUE_NAMES = {"utils", "util", "common", "helpers", "helper", "core", "manager", "managers", "misc"}
CLOCKS_AND_DICE = {"now", "utcnow", "today"}
PURE_ROOMS = {"rules", "protocol", "mappings", "model", "errors"}

# Put together from pieces, so that this file does not hold what it forbids.
MACHINE_PATH = re.compile("/" + r"work/|/(root|home/\w+|Users/\w+)/\." + r"\w|/tmp/" + "bash_")
INDEX_HOST = re.compile(r"(py" + r"pi|python" + r"hosted|npm" + r"js|yarn" + r"pkg)\.(org|com)", re.IGNORECASE)
OPEN_QUESTION = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b(?!.*#\d+)")


def python_files(*folders: str) -> Iterator[Path]:
    return (path for folder in folders for path in sorted((ROOT / folder).rglob("*.py")))


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@cache
def tracked_texts() -> list[tuple[str, str]]:
    """Read every text file of the project: those in Git and those about to be."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    contents = [(name, (ROOT / name).read_bytes()) for name in names if name and (ROOT / name).is_file()]
    return [(name, data.decode("utf-8", "replace")) for name, data in contents if b"\0" not in data]


def lines_matching(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{name}:{number}"
        for name, text in tracked_texts()
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]


def where(path: Path, node: ast.AST) -> str:
    return f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}"


def test_no_python_file_is_too_long_to_be_read_at_once() -> None:
    sizes = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in python_files("src", "tests")}
    assert [f"{path.relative_to(ROOT)}: {size}" for path, size in sizes.items() if size > FILE_LINES_MAX] == []


def test_every_function_fits_on_a_screen() -> None:
    assert [
        f"{where(path, node)} {node.name}: {size}"
        for path in python_files("src", "tests")
        for node in ast.walk(parse(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (size := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES_MAX
    ] == []


def test_no_room_has_a_name_that_says_nothing() -> None:
    parts = {path: path.relative_to(ROOT).with_suffix("").parts for path in python_files("src", "tests")}
    assert [str(path) for path, names in parts.items() if VAGUE_NAMES.intersection(names)] == []


def test_every_open_question_has_an_issue_number() -> None:
    assert lines_matching(OPEN_QUESTION) == []


def test_no_file_knows_the_machine_it_was_written_on() -> None:
    assert lines_matching(MACHINE_PATH) == []


def test_no_file_names_the_host_of_a_package_index() -> None:
    assert lines_matching(INDEX_HOST) == []


def test_the_house_does_not_import_its_own_face() -> None:
    """`aios/__init__.py` is lazy and for others; inside, a name is imported from where it lives."""
    assert [
        where(path, node)
        for path in python_files("src")
        for node in ast.walk(parse(path))
        if (isinstance(node, ast.ImportFrom) and node.module == "aios")
        or (isinstance(node, ast.Import) and any(alias.name == "aios" for alias in node.names))
    ] == []


def test_pure_rooms_are_given_the_time() -> None:
    assert [
        where(path, node)
        for path in python_files("src")
        if PURE_ROOMS.intersection(path.relative_to(ROOT / "src").with_suffix("").parts[1:2])
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CLOCKS_AND_DICE
    ] == []


def test_requirements_are_locked_by_hash_and_name_no_source() -> None:
    for path in sorted((ROOT / "requirements").glob("*.txt")):
        text = path.read_text(encoding="utf-8")
        pins = re.findall(r"^[\w.\[\]-]+==\S+.*?(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
        assert pins
        assert all("--hash=sha256:" in pin for pin in pins), path.name
        assert not re.search(r"://|^-|--(index|extra-index|find-links)", text, re.MULTILINE), path.name


def test_import_contracts_speak_of_rooms_that_have_a_floor() -> None:
    settings: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers, *others = settings["tool"]["importlinter"]["contracts"]
    floors = set(re.findall(r"\w+", " ".join(layers["layers"])))
    named: set[str] = {
        name for contract in others for name in contract["source_modules"] + contract["forbidden_modules"]
    }
    assert {name.removeprefix("aios.") for name in named if name.startswith("aios.")} - floors == set()
