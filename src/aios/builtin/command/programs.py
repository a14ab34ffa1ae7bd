"""A program as a process group of its own: started from an argument list, stopped as a whole, with nothing left behind."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from typing import IO

from aios.errors import CapabilityFailed, FileMissing, PermissionDenied, PlatformUnsupported, ValidationFailed

TERM_GRACE_S = 2.0
"""Between asking a group to end and making it end."""
KILL_GRACE_S = 5.0
"""A busy system may need so long to take down what it was told to kill; what waits for a broken disk, for ever."""
POLL_S = 0.05
"""How often to look whether a group is empty: the kernel tells of the end of a process, not of a group's."""
READ_BYTES = 16 * 1024

_INHERITED = frozenset({"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR"})


def environment(own: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Give a program's environment: what is harmless in the daemon's own, and what the caller adds.

    It goes by names that are allowed, not by names that are forbidden: nobody knows what secrets are called.
    """
    kept = {name: value for name, value in own.items() if name in _INHERITED or name.startswith("LC_")}
    return {**kept, **given}


def launch(
    command: Sequence[str], *, cwd: str | None, env: Mapping[str, str], has_input: bool
) -> subprocess.Popen[bytes]:
    """Start a program in a session and process group of its own.

    Args:
        command: The program and its arguments, as the program will get them: no shell reads them.
        cwd: The folder it starts in.
        env: Its whole environment.
        has_input: Whether it will be given something to read; else its standard input is empty.

    Raises:
        ValidationFailed: The command is empty, or holds U+0000.
        FileMissing: There is no such program, or no such folder.
        PermissionDenied: It may not be run.
        CapabilityFailed: The system refuses for another reason.
    """
    if os.name != "posix":
        raise PlatformUnsupported("Programs are run as process groups, which only POSIX systems have.")
    _require_valid(command, cwd=cwd, env=env)
    folder = os.path.realpath(os.path.expanduser(cwd)) if cwd else None
    if folder is not None and not os.path.isdir(folder):
        raise FileMissing(f"There is no folder {cwd!r} to run the program in.")
    named = os.path.join(folder or "", os.path.expanduser(command[0])) if "/" in command[0] else command[0]
    program = shutil.which(named, path=env.get("PATH", os.defpath))
    if program is None:
        raise FileMissing(f"There is no program {command[0]!r} on this machine; give its full path, or install it.")
    try:
        return subprocess.Popen(
            command,
            executable=program,
            cwd=folder,
            env=env,
            stdin=subprocess.PIPE if has_input else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
    except PermissionError:
        raise PermissionDenied(
            f"The daemon may not run {program!r}" + (f" in {folder!r}." if folder else ".")
        ) from None
    except OSError as error:
        raise CapabilityFailed(
            f"{program!r} could not be started: {os.strerror(error.errno or 0)}.", retryable=False
        ) from None


def _require_valid(command: Sequence[str], *, cwd: str | None, env: Mapping[str, str]) -> None:
    problems = {
        ("/command", "names no program"): not command or not command[0],
        ("/command", "holds the character U+0000"): any("\0" in word for word in command),
        ("/cwd", "holds the character U+0000"): "\0" in (cwd or ""),
        ("/env", "holds the character U+0000"): any("\0" in text for text in (*env, *env.values())),
        ("/env", "has a name that is empty or holds `=`"): any(not name or "=" in name for name in env),
    }
    errors = [{"path": path, "message": message} for (path, message), is_so in problems.items() if is_so]
    if errors:
        raise ValidationFailed(f"The argument {errors[0]['path'][1:]} {errors[0]['message']}.", errors=errors)


class Program:
    """A running program and all that it starts, as long as that stays in its group.

    Once there is one, `finish` must be awaited, whatever happens in between.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        loop = asyncio.get_running_loop()
        self.exit_code: asyncio.Future[int] = loop.create_future()
        self._process = process
        self._transports: list[asyncio.BaseTransport] = []
        self._is_gone = False
        threading.Thread(target=self._wait, args=(loop,), name="aios-program", daemon=True).start()

    def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        # A thread of its own works on every event loop and in every thread of the daemon; child watchers do not.
        code = self._process.wait()
        try:
            loop.call_soon_threadsafe(self._note_exit, code)
        except RuntimeError:
            # The loop was closed before the program had ended; nobody asks any more.
            return

    def _note_exit(self, code: int) -> None:
        if not self.exit_code.done():
            self.exit_code.set_result(code)

    async def output(self) -> asyncio.StreamReader:
        """Give its standard output to be read."""
        return await self._reader(self._process.stdout)

    async def errors(self) -> asyncio.StreamReader:
        """Give its standard error to be read."""
        return await self._reader(self._process.stderr)

    async def _reader(self, pipe: IO[bytes] | None) -> asyncio.StreamReader:
        reader = asyncio.StreamReader(limit=READ_BYTES)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        self._transports.append(transport)
        return reader

    async def feed(self, data: bytes) -> None:
        """Write to its standard input, if it was given one, and close it; what it does not want to read is dropped."""
        if self._process.stdin is None:
            return
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, self._process.stdin)
        self._transports.append(transport)
        writer = asyncio.StreamWriter(transport, protocol, None, loop)
        try:
            writer.write(data)
            await writer.drain()
            writer.close()
        except (BrokenPipeError, ConnectionResetError):
            # It ended, or closed its input, before it had read all: its own business.
            return

    def pause(self) -> None:
        """Stop it where it stands, with all that it has started."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    async def end(self) -> None:
        """End whatever of the group still lives: ask it, and make it after two seconds."""
        try:
            self._signal(signal.SIGTERM)
            # What is stopped hears nothing before it goes on.
            self._signal(signal.SIGCONT)
            await self._emptied(TERM_GRACE_S)
        finally:
            # Also where the wait was cut short, by a second cancel or by the end of the daemon.
            self._signal(signal.SIGKILL)
        await self._emptied(KILL_GRACE_S)

    async def finish(self) -> None:
        """End the group and let go of all pipes."""
        try:
            await self.end()
        finally:
            for transport in self._transports:
                transport.close()
            for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
                if pipe is not None:
                    pipe.close()

    async def _emptied(self, seconds: float) -> None:
        for _ in range(round(seconds / POLL_S)):
            if not self._signal(0) or not _has_living(self._process.pid):
                return
            await asyncio.sleep(POLL_S)

    def _signal(self, number: int) -> bool:
        """Signal the whole group; say whether anybody was there to hear it."""
        if self._is_gone:
            return False
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            # Never again: some day the number is another's.
            self._is_gone = True
            return False
        except PermissionError:
            # All that is left of it runs as somebody else (a program with the setuid bit).
            return True
        return True


def _has_living(group: int) -> bool:
    """Say whether a process group has a member that is not a zombie: how soon those are collected is not in our hands.

    Where the system does not tell, it is taken to have one.
    """
    try:
        numbers = [name for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return True
    return not numbers or any(_is_living_member(number, group) for number in numbers)


def _is_living_member(process: str, group: int) -> bool:
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            # The name of the program comes before, in parentheses, and may hold anything.
            state, _, its_group, *_ = file.read().rpartition(b")")[2].split()
    except (OSError, ValueError):
        # It has just gone.
        return False
    return int(its_group) == group and state not in {b"Z", b"X"}
