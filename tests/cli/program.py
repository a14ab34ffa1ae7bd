"""The real `aios` program, as a shell and as a person at a terminal use it."""

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple, Self

AIOS = str(Path(sys.executable).with_name("aios"))
TOOLS = str(Path(__file__).with_name("tools.py"))
PATIENCE_S = 30.0
COMPLETED, FAILED, REFUSED, CANCELED, WAITING, LEFT = 0, 1, 2, 3, 4, 130

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_AS_CONTROLLING_TERMINAL = (
    "import fcntl, os, sys, termios\nfcntl.ioctl(0, termios.TIOCSCTTY, 0)\nos.execv(sys.argv[1], sys.argv[1:])"
)


class Ended(NamedTuple):
    """What a finished program left."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output, which must be one JSON value."""
        return json.loads(self.out)

    @property
    def task_id(self) -> str:
        """The first task id that either stream names."""
        found = re.search(r"task-[0-9a-z]{20,}", self.err + self.out)
        assert found, self
        return found[0]


class Shell:
    """Runs `aios` with an environment of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder / "home"),
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "AIOS_DATA": str(folder / "data"),
        }

    def start(self, *words: str, **environ: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [AIOS, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**self.environ, **environ},
        )

    def aios(self, *words: str, typed: str | None = None, **environ: str) -> Ended:
        done = subprocess.run(
            [AIOS, *words],
            input=typed,
            stdin=subprocess.DEVNULL if typed is None else None,
            capture_output=True,
            check=False,
            text=True,
            timeout=PATIENCE_S,
            env={**self.environ, **environ},
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    def at_terminal(self, *words: str, **environ: str) -> "Person":
        return Person([AIOS, *words], {**self.environ, **environ})


def finish(process: subprocess.Popen[str]) -> Ended:
    out, err = process.communicate(timeout=PATIENCE_S)
    return Ended(process.returncode, out, err)


def read_until(process: subprocess.Popen[str], text: str) -> str:
    """Read standard error up to the line that has this text, and give that line."""
    assert process.stderr
    read: list[str] = []
    while line := process.stderr.readline():
        if text in line:
            return line
        read.append(line)
    raise AssertionError(f"{text!r} never came; there is:\n{''.join(read)}")


class Serving:
    """A daemon in a process of its own, which can be killed and started again on the same data."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self.start()

    def start(self) -> None:
        self.process = self.shell.start("serve", "--port", "0", "--adapter", TOOLS)
        self.ready = read_until(self.process, "aios is ready at http://127.0.0.1:")

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return finish(self.process).code


class Person:
    """Somebody at a (pseudo) terminal: reads the screen, types."""

    def __init__(self, command: list[str], environ: dict[str, str]) -> None:
        self._master, slave = os.openpty()
        self._process = subprocess.Popen(
            [sys.executable, "-c", _AS_CONTROLLING_TERMINAL, *command],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environ,
            start_new_session=True,
        )
        os.close(slave)
        self.raw = ""
        self._seen = 0

    @property
    def screen(self) -> str:
        """All that was shown, without what moves the cursor."""
        return _ESCAPES.sub("", self.raw).replace("\r", "")

    def sees(self, text: str) -> None:
        """Wait until a text appears that was not looked at before."""
        until = time.monotonic() + PATIENCE_S
        while (found := self.screen.find(text, self._seen)) < 0:
            assert self._read(until - time.monotonic()), f"{text!r} never came; there is:\n{self.screen[self._seen :]}"
        self._seen = found + len(text)

    def types(self, text: str) -> None:
        os.write(self._master, text.encode())

    def leaves_with(self) -> int:
        """Wait for the end of the program and give its exit code."""
        until = time.monotonic() + PATIENCE_S
        while self._read(until - time.monotonic()):
            pass
        return self._process.wait(PATIENCE_S)

    def _read(self, patience_s: float) -> bool:
        if not select.select([self._master], [], [], max(patience_s, 0))[0]:
            return False
        try:
            data = os.read(self._master, 65_536)
        except OSError:
            return False
        self.raw += data.decode("utf-8", "replace")
        return bool(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._master)
