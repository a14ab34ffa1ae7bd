"""The tutorial does what it says: its code is the example's, and its commands have the effects it shows."""

import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.program import COMPLETED, Shell, finish

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLE = ROOT / "examples" / "my_tools.py"
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", TUTORIAL, re.DOTALL)
COMMANDS = [line.split("#")[0].strip() for kind, block in BLOCKS if kind == "sh" for line in block.splitlines()]
RESULT = next(block for kind, block in BLOCKS if kind == "json")


class Reader:
    """Somebody who follows the tutorial, with a daemon of their own."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self.home = Path(shell.environ["HOME"])
        self.home.mkdir()
        self.serve()

    def serve(self) -> None:
        assert "aios serve --adapter my_tools.py" in COMMANDS
        self.daemon: subprocess.Popen[str] = self.shell.start("serve", "--port", "0", "--adapter", str(EXAMPLE))
        assert self.daemon.stderr
        assert "aios is ready" in self.daemon.stderr.readline()

    def make_texts(self) -> None:
        for command in COMMANDS[1:4]:
            subprocess.run(["sh", "-c", command], check=True, env=self.shell.environ)


@pytest.fixture
def reader() -> Iterator[Reader]:
    with tempfile.TemporaryDirectory(prefix="aios-") as folder:
        reading = Reader(Shell(Path(folder)))
        yield reading
        reading.daemon.send_signal(signal.SIGTERM)
        assert finish(reading.daemon).code == 0


def test_the_code_on_the_page_is_the_example() -> None:
    assert BLOCKS[0] == ("python", EXAMPLE.read_text(encoding="utf-8"))
    assert len(EXAMPLE.read_text(encoding="utf-8").splitlines()) < 25


def test_the_example_shows_progress_asks_and_leaves_a_report(reader: Reader) -> None:
    reader.make_texts()
    command = next(command for command in COMMANDS if command.startswith("aios run"))
    _, *words = command.replace("~", str(reader.home)).split()
    with reader.shell.at_terminal(*words) as person:
        person.sees("Make a report?")
        person.types("yes\r")
        person.sees("a.txt")
        assert person.leaves_with() == COMPLETED
    assert "reading b.txt" in person.screen
    assert RESULT.strip() in person.screen


def test_a_question_outlives_the_daemon_and_no_text_is_read_twice(reader: Reader) -> None:
    reader.make_texts()
    asked = reader.shell.aios("run", "--no-input", "compat.words.count", f"folder={reader.home}/texts")
    reader.daemon.kill()
    finish(reader.daemon)
    # What was read before the question does not change the answer any more.
    (reader.home / "texts" / "a.txt").write_text("and now for something completely different")
    reader.serve()
    assert asked.task_id in reader.shell.aios("task", "list").out
    assert reader.shell.aios("task", "input", asked.task_id, "yes").code == COMPLETED
    watched = reader.shell.aios("task", "watch", asked.task_id)
    assert watched.code == COMPLETED
    assert "| a.txt | 3 |" in watched.out
