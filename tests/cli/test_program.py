"""The program as a whole: help, finding the daemon, and the commands about the daemon itself."""

import json
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from aios.cli import main
from tests.cli.program import AIOS, COMPLETED, FAILED, REFUSED, Serving, Shell


def commands(group: click.Group = main, *names: str) -> Iterator[tuple[str, click.Command]]:
    for name, each in group.commands.items():
        if isinstance(each, click.Group):
            yield from commands(each, *names, name)
        yield " ".join([*names, name]), each


def test_the_commands_are_those_that_were_promised() -> None:
    leaves = {name for name, each in commands() if not isinstance(each, click.Group)}
    task = {f"task {name}" for name in ["list", "get", "watch", "cancel", "pause", "resume", "input", "history"]}
    others = {"serve", "run", "capability list", "capability info", "call", "token", "config show", "doctor"}
    assert leaves == task | others | {"artifact list", "artifact get"}


@pytest.mark.parametrize("name", [name for name, each in commands() if not isinstance(each, click.Group)])
def test_every_command_explains_itself_with_an_example_and_takes_the_shared_options(name: str) -> None:
    found = dict(commands())[name]
    assert found.help
    assert found.help.split("\n")[0].endswith((".", "it asks.", "result."))
    assert f"aios {name}" in (found.epilog or "") or name == "token"
    with click.Context(found) as context:
        assert "\b" not in found.get_help(context)
        assert "\\b" not in found.get_help(context)
    options = {option for each in found.params for option in each.opts}
    assert {"--output", "--data"} <= options
    for each in found.params:
        assert not isinstance(each, click.Option) or each.help, each


def test_help_loads_nothing_heavy() -> None:
    """What is not loaded costs no time: a clock in a test would lie on a busy machine."""
    heavy = {"asyncio", "msgspec", "httpx2", "rich", "websockets", "uvloop", "apsw", "jsonschema_rs"}
    code = f"import sys, aios.cli; print(sorted({heavy!r} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
    helped = subprocess.run([AIOS, "--help"], capture_output=True, text=True, check=True)
    assert "Exit codes:" in helped.stdout


@pytest.mark.parametrize(
    "words",
    [
        ["task", "list"],
        ["run", "demo.echo"],
        ["capability", "list"],
        ["call", "aios/ping"],
        ["-o", "json", "task", "list"],
    ],
)
def test_without_a_daemon_the_error_says_how_to_start_one(lonely: Shell, words: list[str]) -> None:
    done = lonely.aios(*words)
    assert done.code == REFUSED
    assert "no daemon runs on the data folder" in done.err
    assert "hint: start it with `aios serve`" in done.err
    assert done.json["error"]["data"]["error_id"] == "AIOS-UNREACHABLE" if "json" in words else done.out == ""


def test_a_daemon_that_was_killed_is_told_from_one_that_never_ran(lonely: Shell) -> None:
    Serving(lonely).end(signal.SIGKILL)
    done = lonely.aios("task", "list")
    assert done.code == REFUSED
    assert "no daemon answers at http://127.0.0.1:" in done.err


def test_the_daemon_is_found_by_address_and_token_or_by_its_folder(shell: Shell) -> None:
    note = json.loads((shell.folder / "data" / "daemon.json").read_text())
    token = shell.aios("token").out.strip()
    elsewhere = {"AIOS_DATA": str(shell.folder / "none")}
    assert shell.aios("task", "list", **elsewhere).code == REFUSED
    assert shell.aios("task", "list", **elsewhere, AIOS_URL=note["url"]).code == REFUSED
    for url in (note["url"], f"unix:{note['socket']}", note["url"].replace("http", "ws")):
        assert shell.aios("task", "list", **elsewhere, AIOS_URL=url, AIOS_TOKEN=token).code == COMPLETED
        assert shell.aios("--url", url, "task", "list", **elsewhere, AIOS_TOKEN=token).code == COMPLETED
    assert shell.aios("task", "list", "--data", str(shell.folder / "data"), **elsewhere).code == COMPLETED
    wrong = shell.aios("task", "list", AIOS_TOKEN="wrong")
    assert (wrong.code, "hint: give the daemon's token" in wrong.err) == (REFUSED, True)


def test_the_token_is_printed_for_other_programs(shell: Shell) -> None:
    path = shell.folder / "data" / "token"
    assert shell.aios("token").out.strip() == path.read_text().strip()
    assert shell.aios("token", "-o", "json").json == {"token": path.read_text().strip()}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_where_there_is_no_token_yet_that_is_said(lonely: Shell) -> None:
    done = lonely.aios("token")
    assert (done.code, done.out) == (REFUSED, "")
    assert "aios serve" in done.err
    assert "aios serve" in lonely.aios("token", "-o", "json").json["error"]["data"]["detail"]


def test_config_show_says_where_each_value_comes_from(lonely: Shell) -> None:
    file = lonely.folder / "aios.toml"
    file.write_text("[http]\nport = 1234\n")
    shown = lonely.aios("config", "show", "--config", str(file), "-o", "json", AIOS_LIMITS__MAX_QUEUE_SIZE="5").json
    assert shown["http.port"] == {"value": 1234, "origin": f"file {file}"}
    assert shown["limits.max_queue_size"] == {"value": 5, "origin": "environment AIOS_LIMITS__MAX_QUEUE_SIZE"}
    assert shown["http.host"] == {"value": "127.0.0.1", "origin": "default"}
    assert "http.host\t127.0.0.1\tdefault\n" in lonely.aios("config", "show").out
    wrong = lonely.aios("config", "show", AIOS_HTTP__PROT="1")
    assert (wrong.code, "AIOS_HTTP__PROT: unknown key" in wrong.err) == (REFUSED, True)


def test_doctor_finds_nothing_wrong_where_nothing_is(shell: Shell) -> None:
    done = shell.aios("doctor", "-o", "json")
    assert (done.code, done.json["healthy"]) == (COMPLETED, True), done
    states = {each["check"]: each["state"] for each in done.json["checks"]}
    names = {"python", "aios", "configuration", "data folder", "disk", "token", "daemon", "store"}
    assert names <= states.keys()
    assert "fail" not in states.values()
    assert shell.aios("doctor").out.startswith("ok    python")


def test_doctor_says_what_is_wrong_and_what_to_do(lonely: Shell) -> None:
    data = lonely.folder / "data"
    data.mkdir()
    (data / "token").write_text("x" * 43)
    (data / "token").chmod(0o644)
    done = lonely.aios("doctor")
    assert done.code == FAILED
    assert f"others can read {data}/token" in done.out
    assert "chmod 600" in done.out
    assert "fail  daemon" in done.out
    assert "start it with `aios serve`" in done.out


def test_call_reaches_any_method_and_keeps_secrets_off_the_command_line(shell: Shell) -> None:
    assert "server_time" in shell.aios("call", "aios/ping").json
    found = shell.aios("call", "aios/task.list", "-", typed='{"pagination": {"limit": 1}}')
    assert len(found.json["tasks"]) <= 1


def test_capability_info_shows_how_to_run_it(shell: Shell) -> None:
    shown = shell.aios("capability", "info", "demo.echo").out
    assert "times (integer, default 1)\n      How often." in shown
    assert "mode (fancy|plain, default" in shown or "mode (plain|fancy, default" in shown
    assert "  aios run demo.echo text='two words' times:=2" in shown
    assert shell.aios("capability", "info", "demo.echo", "-o", "json").json["id"] == "demo.echo"
    assert "demo.echo\tpublic\tEcho\n" in shell.aios("capability", "list", "--namespace", "demo").out


def test_serve_says_in_one_line_where_it_is_and_stops_when_asked(lonely: Shell) -> None:
    serving = Serving(lonely)
    assert str(lonely.folder / "data" / "aios.sock") in serving.ready
    second = lonely.aios("serve", "--port", "0")
    assert second.code == REFUSED
    assert "Traceback" not in second.err
    assert serving.end(signal.SIGINT) == 0
    assert not (lonely.folder / "data" / "daemon.json").exists()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--adapter", "none.py"], "there is no file"),
        (["--tcp", "nowhere"], "is not HOST:PORT"),
        (["--port", "99999"], "99999"),
        (["--host", "0.0.0.0"], "insecure-plaintext"),
        (["--tls-cert", "x.pem"], "--tls-key"),
        (["--config", "none.toml"], "none.toml"),
    ],
)
def test_serve_refuses_what_cannot_be_meant(lonely: Shell, words: list[str], complaint: str) -> None:
    done = lonely.aios("serve", *(() if "--port" in words else ("--port", "0")), *words)
    assert done.code == REFUSED, done
    assert complaint in done.err
    assert "Traceback" not in done.err
