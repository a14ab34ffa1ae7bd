import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from aios.builtin.command import command, outputs, programs
from aios.errors import CapabilityFailed, FileMissing, PermissionDenied, ValidationFailed
from aios.model import JsonObject
from tests.unit.builtin.recording import RecordingContext, as_context

PATIENCE_S = 20


@pytest.fixture(autouse=True)
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Be less patient with families that do not want to end."""
    monkeypatch.setattr(programs, "TERM_GRACE_S", 0.2)


async def run(ctx: RecordingContext, *words: str, **arguments: Any) -> JsonObject:
    return await command.run("system.command.run", {"command": list(words), **arguments}, as_context(ctx))


async def run_python(ctx: RecordingContext, code: str, *words: str, **arguments: Any) -> JsonObject:
    return await run(ctx, sys.executable, "-c", code, *words, **arguments)


async def test_a_program_is_given_its_arguments_as_they_are() -> None:
    words = ["$HOME; echo *", "a b", "", '"quoted"', "重复"]
    result = await run_python(RecordingContext(), "import sys; print(sys.argv[1:])", *words)
    assert result["stdout"] == f"{words}\n"
    assert (result["exit_code"], result["stderr"], result["truncated"]) == (0, "", False)


async def test_output_comes_as_chunks_and_errors_as_log_lines() -> None:
    ctx = RecordingContext()
    code = "import sys; print('out', flush=True); sys.stderr.write('one\\n\\ntwo'); sys.stdout.write('put')"
    result = await run_python(ctx, code)
    assert "".join(ctx.recorded.chunks) == "out\nput"
    assert ctx.recorded.logs == [("info", "one", {"stream": "stderr"}), ("info", "two", {"stream": "stderr"})]
    assert (result["stdout"], result["stderr"]) == ("out\nput", "one\n\ntwo")


async def test_output_that_is_not_text_is_replaced_and_a_character_in_two_pieces_is_not() -> None:
    ctx = RecordingContext()
    code = (
        "import sys, time\n"
        "for byte in b'\\xe6\\x96\\x87\\xff':\n"
        "    sys.stdout.buffer.write(bytes([byte])); sys.stdout.buffer.flush(); time.sleep(0.01)"
    )
    result = await run_python(ctx, code)
    assert "".join(ctx.recorded.chunks) == result["stdout"] == "文\ufffd"


async def test_a_program_reads_what_it_is_given_and_nothing_else() -> None:
    echo = "import sys; print(len(sys.stdin.read()))"
    assert (await run_python(RecordingContext(), echo, stdin="文" * 100_000))["stdout"] == "100000\n"
    assert (await run_python(RecordingContext(), echo))["stdout"] == "0\n"
    # One that does not want to read all of it ends well, too.
    assert (await run_python(RecordingContext(), "pass", stdin="x" * 1_000_000))["exit_code"] == 0


async def test_a_program_sees_little_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOS_TOKEN", "canary")
    monkeypatch.setenv("LC_TIME", "C")
    show = "import os; print(sorted(os.environ))"
    result = await run_python(RecordingContext(), show, env={"MINE": "1"})
    assert "MINE" in result["stdout"]
    assert "PATH" in result["stdout"]
    assert "LC_TIME" in result["stdout"]
    assert "AIOS_TOKEN" not in result["stdout"]


async def test_a_program_starts_in_the_folder_it_is_told(tmp_path: Path) -> None:
    show = "import os; print(os.getcwd())"
    result = await run_python(RecordingContext(), show, cwd=str(tmp_path))
    assert result["stdout"].strip() == os.path.realpath(tmp_path)  # noqa: ASYNC240
    with pytest.raises(FileMissing, match="There is no folder"):
        await run_python(RecordingContext(), show, cwd=str(tmp_path / "nowhere"))


async def test_a_program_that_fails_fails_the_task_in_its_own_words() -> None:
    code = "import sys; print('first', file=sys.stderr); print('the reason', file=sys.stderr); sys.exit(3)"
    with pytest.raises(CapabilityFailed, match=r"ended with exit code 3: the reason") as failure:
        await run_python(RecordingContext(), code)
    assert failure.value.data["exit_code"] == 3
    assert failure.value.data["stderr"] == "first\nthe reason"
    assert (await run_python(RecordingContext(), code, check=False))["exit_code"] == 3


async def test_a_program_ended_by_a_signal_says_so() -> None:
    with pytest.raises(CapabilityFailed, match="was ended by SIGKILL"):
        await run_python(RecordingContext(), "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")


async def test_what_cannot_be_run_is_told_clearly(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("echo")
    with pytest.raises(FileMissing, match="There is no program 'no-such-program'"):
        await run(RecordingContext(), "no-such-program")
    with pytest.raises(FileMissing, match=r"There is no program '\./plain'"):
        await run(RecordingContext(), "./plain", cwd=str(tmp_path))
    plain.chmod(0o755)
    with pytest.raises(CapabilityFailed, match="could not be started"):
        await run(RecordingContext(), "./plain", cwd=str(tmp_path))
    with pytest.raises(ValidationFailed, match=r"U\+0000"):
        await run(RecordingContext(), "echo", "a\0b")
    with pytest.raises(ValidationFailed, match="env has a name that is empty"):
        await run(RecordingContext(), "echo", env={"A=B": "1"})
    with pytest.raises(ValidationFailed, match="names no program"):
        await run(RecordingContext(), "")
    with pytest.raises(ValidationFailed):
        await run(RecordingContext())


async def test_output_over_the_limit_is_read_and_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "STREAMED_BYTES_MAX", 50_000)
    ctx = RecordingContext()
    result = await run_python(ctx, "print('文' * 1_000_000)", output_limit=100)
    assert result["stdout"] == "文" * 33
    assert result["truncated"] is True
    assert sum(len(chunk.encode()) for chunk in ctx.recorded.chunks) < 100_000


async def test_output_that_grows_as_json_is_cut_to_what_a_result_may_have() -> None:
    result = await run_python(RecordingContext(), "print('\\x01' * 300_000)", output_limit=256 * 1024)
    assert result["truncated"] is True
    assert len(result["stdout"]) * 6 <= outputs.RESULT_BYTES_MAX


async def test_very_many_lines_are_logged_together_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "SINGLE_LINES_MAX", 10)
    ctx = RecordingContext()
    await run_python(ctx, "import sys\nsys.stderr.write(''.join(f'line {number}\\n' for number in range(5000)))")
    logged = "\n".join(message for _, message, _ in ctx.recorded.logs)
    assert logged.splitlines() == [f"line {number}" for number in range(5000)]
    assert len(ctx.recorded.logs) < 1000


async def test_a_line_without_end_is_logged_in_pieces() -> None:
    ctx = RecordingContext()
    await run_python(ctx, "import sys; sys.stderr.write('x' * 100_000)")
    assert sum(len(message) for _, message, _ in ctx.recorded.logs) == 100_000
    assert max(len(message) for _, message, _ in ctx.recorded.logs) <= outputs.LINE_CHARACTERS_MAX


FAMILY = """
import os, signal, subprocess, sys, time
if "stubborn" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
sleep = [sys.executable, "-c", "import time, signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"]
child = subprocess.Popen([sys.executable, "-c", f"import subprocess; subprocess.run({sleep!r})"])
print(os.getpid(), flush=True)
if "leave" not in sys.argv:
    time.sleep(600)
"""


def family_of(pid: int) -> list[psutil.Process]:
    """Give the living members of a process group."""
    members: list[psutil.Process] = []
    for process in psutil.process_iter():
        try:
            if os.getpgid(process.pid) == pid and process.status() != psutil.STATUS_ZOMBIE:
                members.append(process)
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue
    return members


async def until(is_so: Callable[[], bool]) -> None:
    """Wait, not for ever, for what other processes do; the system tells nobody."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            if is_so():
                return
            await asyncio.sleep(0.01)


async def started(ctx: RecordingContext, *words: str, **arguments: Any) -> tuple[asyncio.Task[JsonObject], int]:
    """Start a program with a child and a grandchild, and wait until all three are there."""
    task = asyncio.create_task(run_python(ctx, FAMILY, *words, **arguments))
    await until(lambda: task.done() or (bool(ctx.recorded.chunks) and len(family_of(int(ctx.recorded.chunks[0]))) == 3))
    assert not task.done()
    return task, int(ctx.recorded.chunks[0])


@pytest.mark.parametrize("temper", ["obedient", "stubborn"])
async def test_a_cancel_leaves_no_orphan(temper: str) -> None:
    task, pid = await started(RecordingContext(), temper)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert family_of(pid) == []


async def test_a_timeout_leaves_no_orphan() -> None:
    ctx = RecordingContext()
    task, pid = await started(ctx, timeout_ms=3_000)
    with pytest.raises(TimeoutError):
        await task
    assert family_of(pid) == []


async def test_what_a_program_leaves_in_the_background_is_ended_with_it() -> None:
    ctx = RecordingContext()
    result = await run_python(ctx, FAMILY, "leave")
    assert result["exit_code"] == 0
    assert family_of(int(result["stdout"])) == []


async def test_what_has_left_the_group_keeps_nobody_waiting() -> None:
    daemon = "import os, time\nos.setsid()\nprint(os.getpid(), flush=True)\ntime.sleep(600)"
    code = f"import subprocess, sys, time\nsubprocess.Popen([sys.executable, '-c', {daemon!r}])\ntime.sleep(0.5)"
    async with asyncio.timeout(PATIENCE_S):
        result = await run_python(RecordingContext(), code)
    escaped = psutil.Process(int(result["stdout"]))
    assert escaped.is_running()
    escaped.kill()


async def test_the_last_words_of_what_was_left_are_heard() -> None:
    result = await run(RecordingContext(), "sh", "-c", "echo first; (sleep 0.2; echo last) &")
    assert result["stdout"] == "first\nlast\n"


async def test_a_pause_stops_the_whole_family_and_a_cancel_ends_it_all_the_same() -> None:
    ctx = RecordingContext()
    task, pid = await started(ctx, "stubborn")
    ((pause, resume),) = ctx.pausers
    pause()
    await until(lambda: stopped(pid) == [True, True, True])
    resume()
    await until(lambda: stopped(pid) == [False, False, False])
    pause()
    await until(lambda: stopped(pid) == [True, True, True])
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert family_of(pid) == []
    assert ctx.pausers == []


def stopped(pid: int) -> list[bool]:
    # A process whose child was stopped between fork and exec waits for it, and is as still as if it were stopped.
    still = {psutil.STATUS_STOPPED, psutil.STATUS_DISK_SLEEP}
    return [process.status() in still for process in family_of(pid)]


async def test_a_second_cancel_in_the_middle_of_the_first_still_leaves_no_orphan() -> None:
    task, pid = await started(RecordingContext(), "stubborn")
    task.cancel()
    # The first has asked the family to end, and waits for it.
    for _ in range(10):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: not family_of(pid))


async def test_a_store_that_refuses_a_chunk_ends_the_program_with_its_own_error() -> None:
    class Refusing(RecordingContext):
        async def chunk(self, data: Any) -> None:
            self.recorded.chunks.append(data)
            raise PermissionDenied("no more")

    ctx = Refusing()
    with pytest.raises(PermissionDenied, match="no more"):
        await run_python(ctx, FAMILY)
    assert family_of(int(ctx.recorded.chunks[0])) == []


async def test_hundreds_of_runs_leave_no_descriptor_open() -> None:
    await run(RecordingContext(), "true")
    before = psutil.Process().num_fds()
    for _ in range(30):
        await run(RecordingContext(), "true", stdin="x")
    assert psutil.Process().num_fds() <= before
