"""`aios run` and `aios task`, as scripts use them."""

import json
import signal

import pytest

from tests.cli.program import CANCELED, COMPLETED, FAILED, LEFT, REFUSED, WAITING, Serving, Shell, finish, read_until


def test_a_result_is_all_that_standard_output_carries(shell: Shell) -> None:
    done = shell.aios("run", "demo.echo", "text=hi", "times=2", "loud=yes", "tags=a", "tags=b,c")
    assert done.code == COMPLETED
    assert done.json == {"text": "HIHI", "tags": ["a", "b,c"], "mode": "plain"}
    assert done.err.startswith("task task-")
    assert "50 % saying hi [1/2]" in done.err


def test_arguments_may_be_json_and_words_add_to_it(shell: Shell) -> None:
    done = shell.aios("run", "demo.echo", "--json", '{"text": "a", "times": 1}', "times=3", 'tags:=["x"]')
    assert done.json == {"text": "aaa", "tags": ["x"], "mode": "plain"}


def test_for_machines_there_is_one_json_document_and_nothing_else(shell: Shell) -> None:
    for words in (("-o", "json", "run", "demo.echo", "text=a"), ("run", "--output", "json", "demo.echo", "text=a")):
        done = shell.aios(*words)
        assert (done.code, done.err) == (COMPLETED, "")
        assert (done.json["status"], done.json["result"]["text"]) == ("completed", "a")


def test_a_failed_task_exits_with_1_and_says_why(shell: Shell) -> None:
    done = shell.aios("run", "demo.fail")
    assert (done.code, done.out) == (FAILED, "")
    assert "error: no luck today" in done.err
    assert "hint: try tomorrow" in done.err
    machine = shell.aios("run", "demo.fail", "-o", "json")
    assert (machine.code, machine.json["error"]["code"]) == (FAILED, -32050)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["run", "demo.ecko", "text=a"], "did you mean demo.echo"),
        (["run", "demo.echo"], '"text" is a required property'),
        (["run", "demo.echo", "text=a", "times=0"], "/arguments/times"),
        (["run", "demo.echo", "text=a", "times=x"], "times: 'x' is not a whole number"),
        (["run", "demo.echo", "text"], "is not key=value"),
        (["run", "demo.echo", "txt=a"], "there is no argument 'txt'; did you mean text?"),
        (["run", "demo.report", "x=1"], "there is no argument 'x'; there is: nothing"),
        (["run", "demo.echo", "text:=5"], "aios capability info demo.echo"),
        (["run", "demo.echo", "--json", "[]"], "a JSON object is wanted"),
        (["run"], "Missing argument"),
        (["fly"], "No such command"),
        (["task", "get", "task-unknown"], "aios task list"),
        (["artifact", "get", "art-unknown"], "aios artifact list"),
        (["call", "aios/task.fly"], "aios call rpc.discover"),
        (["call", "aios/task.get", '{"task_id": 5}'], "/task_id"),
        (["call", "aios/task.get", "{"], "not JSON"),
        (["task", "list", "--status", "asleep"], "Invalid value"),
    ],
)
def test_what_is_refused_exits_with_2_and_says_what_to_do(shell: Shell, words: list[str], complaint: str) -> None:
    done = shell.aios(*words)
    assert (done.code, done.out) == (REFUSED, "")
    assert complaint in done.err
    assert "Traceback" not in done.err


def test_a_refusal_is_json_too_where_json_is_wanted(shell: Shell) -> None:
    done = shell.aios("-o", "json", "run", "demo.echo")
    assert (done.code, done.json["error"]["code"]) == (REFUSED, -32108)
    for words in (
        ["-o", "json", "run", "demo.echo", "text"],
        ["run", "-o", "json"],
        ["--output=json", "task", "get"],
        ["-o", "json", "fly"],
        ["-o", "json", "task"],
        ["task", "-o", "json", "list", "--limit", "0"],
        ["-o", "json", "--loud"],
    ):
        done = shell.aios(*words)
        assert (done.code, done.json["error"]["code"]) == (REFUSED, -32602), words


def test_what_is_wrong_is_said_once(shell: Shell) -> None:
    assert shell.aios("run", "demo.echo").err.count("required property") == 1
    assert shell.aios("call", "aios/task.get").err.count("is required") == 1


def test_an_empty_table_says_that_there_is_nothing(shell: Shell) -> None:
    assert shell.aios("capability", "list", "--namespace", "nowhere").err == "(none)\n"


def test_a_canceled_task_exits_with_3(shell: Shell) -> None:
    running = shell.start("run", "demo.wait")
    task_id = read_until(running, "task ").split()[1]
    assert shell.aios("task", "cancel", task_id, "--reason", "enough").code == COMPLETED
    done = finish(running)
    assert (done.code, done.out) == (CANCELED, "")
    assert f"{task_id} was canceled: enough" in done.err


def test_a_question_to_nobody_exits_with_4_and_says_how_to_answer(shell: Shell) -> None:
    done = shell.aios("run", "demo.ask")
    assert done.code == WAITING
    assert "asks: Which color?" in done.err
    assert "  b Blue (dark)\n" in done.err
    assert f"aios task input {done.task_id}" in done.err
    machine = shell.aios("run", "demo.ask", "-o", "json")
    assert (machine.code, machine.json["status"]) == (WAITING, "input_required")


def test_ctrl_c_without_a_terminal_hints_first_and_leaves_at_the_second(shell: Shell) -> None:
    running = shell.start("run", "demo.wait")
    task_id = read_until(running, "task ").split()[1]
    read_until(running, "waiting long")
    running.send_signal(signal.SIGINT)
    read_until(running, "aios task cancel")
    running.send_signal(signal.SIGINT)
    assert finish(running).code == LEFT
    assert shell.aios("task", "get", task_id, "-o", "json").json["status"] == "working"
    shell.aios("task", "cancel", task_id)


def test_a_detached_task_is_steered_by_its_id(shell: Shell) -> None:
    started = shell.aios("run", "demo.wait", "--detach")
    task_id = started.out.strip()
    assert (started.code, started.task_id) == (COMPLETED, task_id)
    assert shell.aios("task", "pause", task_id).out == f"{task_id} paused\n"
    assert task_id in shell.aios("task", "list", "--status", "paused", "--capability", "demo.*").out
    again = shell.aios("task", "pause", task_id)
    assert again.code == REFUSED
    assert shell.aios("task", "resume", task_id, "-o", "json").json["status"] == "working"
    watching = shell.start("task", "watch", task_id, "-o", "json")
    assert shell.aios("task", "cancel", task_id).code == COMPLETED
    watched = finish(watching)
    events = [json.loads(line) for line in watched.out.splitlines()]
    assert watched.code == CANCELED
    assert [each["id"] for each in events] == [f"evt-{number:03d}" for number in range(1, len(events) + 1)]
    assert events[-1]["data"]["status"] == "canceled"
    history = shell.aios("task", "history", "--limit", "5", "-o", "json").json
    assert task_id in [each["task_id"] for each in history["tasks"]]
    assert "state_history" in shell.aios("task", "get", task_id).out


def test_answers_may_be_given_from_a_script(shell: Shell) -> None:
    task_id = shell.aios("run", "demo.ask", "--detach").out.strip()
    given = [["b"], ["none"], ["no"], ["7"], ["name=Ann", "pin=1"]]
    watching = shell.start("task", "watch", task_id)
    for number, values in enumerate(given):
        read_until(watching, "waits for an answer to")
        if number == 0:
            refused = shell.aios("task", "input", task_id, "purple").err
            assert "not one of the options" in refused
            assert "  red\n  b Blue (dark)\n" in refused
            shown = shell.aios("task", "get", task_id).out
            assert "asks             Which color?\n  red\n  b  Blue (dark)\n" in shown
        assert shell.aios("task", "input", task_id, *values).code == COMPLETED
    done = finish(watching)
    assert done.code == COMPLETED
    answers: dict[str, object] = {
        "color": "b",
        "letters": [],
        "sure": False,
        "count": 7,
        "person": {"name": "Ann", "pin": "1"},
    }
    assert done.json == answers


def test_artifacts_are_shown_and_taken_out_part_by_part(shell: Shell) -> None:
    done = shell.aios("run", "demo.report")
    assert done.out.startswith("── Findings (report) art-")
    assert "# Findings\n\nAll *well*.\n" in done.out
    assert done.out.endswith("done\ufffd[2J\n")
    assert "streamed\n" in done.err
    artifact_id = done.out.split()[3]
    listed = shell.aios("artifact", "list", done.task_id)
    assert "0:text, 1:data, 2:file" in listed.out
    assert shell.aios("artifact", "get", artifact_id, "--part", "0").out == "# Findings\n\nAll *well*."
    assert shell.aios("artifact", "get", artifact_id, "--part", "1").json == {"found": [1, 2]}
    target = shell.folder / "part"
    assert shell.aios("artifact", "get", artifact_id, "--part", "2", "--to", str(target)).code == COMPLETED
    assert target.read_bytes() == b"\x00\xff" * 50_000
    written = shell.aios("artifact", "get", artifact_id, "--part", "2", "--to", str(target), "-o", "json").json
    assert written == {"file": str(target), "size": 100_000}
    encoded = shell.aios("artifact", "get", artifact_id, "--part", "2", "-o", "json").json
    assert encoded["encoding"] == "base64"
    assert shell.aios("artifact", "get", artifact_id, "--part", "3").code == REFUSED
    assert shell.aios("artifact", "get", artifact_id, "--to", "x").code == REFUSED


def test_a_run_goes_on_when_the_daemon_is_killed_and_comes_back_elsewhere(lonely: Shell) -> None:
    serving = Serving(lonely)
    running = lonely.start("run", "demo.wait", "seconds=1.5")
    read_until(running, "waiting long")
    serving.end(signal.SIGKILL)
    read_until(running, "the daemon is away; trying to reach it again")
    serving.start()
    done = finish(running)
    assert (done.code, done.out) == (COMPLETED, "waited\n")
    assert "is away" not in done.err
    assert serving.end() == 0
