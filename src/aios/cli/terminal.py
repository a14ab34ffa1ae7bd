"""Reading lines from the terminal without a thread: a prompt can be given up when somebody else has answered."""

from __future__ import annotations

import asyncio
import os
import sys
import termios
from collections.abc import Generator
from contextlib import contextmanager

import click

LINE_BYTES_MAX = 64 * 1024


def is_interactive() -> bool:
    """Whether somebody sits there who can be asked: standard input and error are a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


class Terminal:
    """The terminal on standard input; prompts go to standard error, as standard output may lead elsewhere."""

    def __init__(self, descriptor: int = 0) -> None:
        self._descriptor = descriptor
        self.prompt = ""
        """What is being asked, to be shown again after something else was written."""

    def forget_typed(self) -> None:
        """Drop what was typed before the question was seen: it was no answer to it."""
        termios.tcflush(self._descriptor, termios.TCIFLUSH)

    async def line(self, prompt: str, *, is_secret: bool = False) -> str:
        """Ask for a line, as the terminal's own editing gives it.

        Raises:
            EOFError: Ctrl-D was typed.
        """
        loop = asyncio.get_running_loop()
        arrived: asyncio.Future[bytes] = loop.create_future()

        def read() -> None:
            if not arrived.done():
                try:
                    arrived.set_result(os.read(self._descriptor, LINE_BYTES_MAX))
                except OSError:
                    # The terminal is gone; that is the end of what can be typed.
                    arrived.set_result(b"")

        self.prompt = prompt
        # Silent before the prompt is shown: who types quickly would else be seen.
        with _silent(self._descriptor) if is_secret else _as_it_is():
            self.show(prompt)
            loop.add_reader(self._descriptor, read)
            try:
                typed = await arrived
            finally:
                loop.remove_reader(self._descriptor)
                self.prompt = ""
                if is_secret:
                    self.show("\n")
        if not typed:
            raise EOFError
        return typed.decode("utf-8", "replace").rstrip("\r\n")

    def show(self, text: str) -> None:
        """Write to the person."""
        click.echo(text, err=True, nl=False)


@contextmanager
def _silent(descriptor: int) -> Generator[None]:
    """Show nothing of what is typed."""
    before = termios.tcgetattr(descriptor)
    quiet = [*before]
    quiet[3] &= ~termios.ECHO
    termios.tcsetattr(descriptor, termios.TCSADRAIN, quiet)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


@contextmanager
def _as_it_is() -> Generator[None]:
    yield
