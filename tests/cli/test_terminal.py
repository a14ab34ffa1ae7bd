"""What a person at a terminal meets."""

import pytest

from tests.cli.program import CANCELED, COMPLETED, LEFT, WAITING, Shell


def test_questions_of_every_kind_are_asked_and_answered(shell: Shell) -> None:
    with shell.at_terminal("run", "demo.ask") as person:
        person.sees("Which color?")
        person.sees("1  red")
        person.sees("2  Blue (dark)")
        person.sees("Answer [1-2]: ")
        person.types("7\n")
        person.sees("type a number from 1 to 2")
        person.types("2\n")
        person.sees("Answer [numbers, as 1,3-5; all; none]: ")
        person.types("all\n")
        person.sees("That does not fit: ")
        person.sees("none]: ")
        person.types("1,3\n")
        person.sees("Really?")
        person.sees("[Y/n]: ")
        person.types("\n")
        person.sees("[a whole number up to 9]: ")
        person.types("many\n")
        person.sees("'many' is not a whole number")
        person.types("12\n")
        person.sees("That does not fit: ")
        person.sees("9]: ")
        person.types("3\n")
        person.sees("Name: ")
        person.types("Ann 安\n")
        person.sees("age, optional [a whole number from 0]: ")
        person.types("\n")
        person.sees("pin: ")
        person.types("TOP-SECRET\n")
        assert person.leaves_with() == COMPLETED
        assert '"color": "b"' in person.screen
        assert '"person": {\n    "name": "Ann 安",\n    "pin": "TOP-SECRET"' in person.screen
        assert person.screen.count("TOP-SECRET") == 1, "a secret is shown while it is typed"


def test_a_sign_in_is_asked_for_without_showing_the_password(shell: Shell) -> None:
    with shell.at_terminal("run", "demo.door") as person:
        person.sees("The task needs a sign-in (password): for the shop")
        person.sees("User name: ")
        person.types("ann\n")
        person.sees("Password: ")
        person.types("CANARY\n")
        assert person.leaves_with() == COMPLETED
        assert "CANARY" not in person.screen
        assert person.screen.rstrip().endswith("6")


def test_ctrl_c_cancels_nothing_and_the_second_leaves_the_task_running(shell: Shell) -> None:
    with shell.at_terminal("run", "demo.wait") as person:
        person.sees("waiting long")
        person.types("\x03")
        person.sees("The task goes on.")
        person.sees("aios task cancel task-")
        person.types("\x03")
        person.sees("Left; the task goes on.")
        assert person.leaves_with() == LEFT
        task_id = person.screen[person.screen.index("task-") :].split()[0]
    assert shell.aios("task", "get", task_id, "-o", "json").json["status"] == "working"
    assert shell.aios("task", "cancel", task_id).out == f"{task_id} canceled\n"


def test_ctrl_c_at_a_question_shows_the_question_again(shell: Shell) -> None:
    with shell.at_terminal("run", "demo.question") as person:
        person.sees("none]: ")
        person.types("garbage\x03")
        person.sees("Ctrl-C again leaves it running")
        person.sees("none]: ")
        person.types("2\n")
        assert person.leaves_with() == COMPLETED
        assert '"y"' in person.screen


def test_ctrl_d_leaves_the_question_open(shell: Shell) -> None:
    with shell.at_terminal("run", "demo.question") as person:
        person.sees("none]: ")
        person.types("\x04")
        person.sees("The task waits.")
        assert person.leaves_with() == WAITING


def test_an_answer_from_elsewhere_takes_the_question_away(shell: Shell) -> None:
    with shell.at_terminal("run", "demo.question") as person:
        person.sees("task ")
        person.sees("none]: ")
        task_id = person.screen[person.screen.index("task-") :].split()[0]
        assert shell.aios("task", "input", task_id, "z").code == COMPLETED
        assert person.leaves_with() == COMPLETED
        assert '"z"' in person.screen


def test_what_was_typed_before_a_question_is_no_answer_to_it(shell: Shell) -> None:
    with shell.at_terminal("run", "demo.wait", "seconds=1") as person:
        person.sees("waiting long")
        person.types("all\n")
        assert person.leaves_with() == COMPLETED


def test_no_input_asks_nothing_even_at_a_terminal(shell: Shell) -> None:
    with shell.at_terminal("run", "demo.question", "--no-input") as person:
        person.sees("asks: Which letters?")
        assert person.leaves_with() == WAITING


def test_watching_from_a_second_terminal_asks_too_and_sees_the_end(shell: Shell) -> None:
    task_id = shell.aios("run", "demo.question", "--detach").out.strip()
    with shell.at_terminal("task", "watch", task_id) as person:
        person.sees("none]: ")
        person.types("1\n")
        assert person.leaves_with() == COMPLETED
    other = shell.aios("run", "demo.wait", "--detach").out.strip()
    with shell.at_terminal("task", "watch", other) as person:
        person.sees("waiting long")
        shell.aios("task", "cancel", other, "--reason", "too slow")
        person.sees("was canceled: too slow")
        assert person.leaves_with() == CANCELED


def test_task_input_without_a_value_asks_here(shell: Shell) -> None:
    task_id = shell.aios("run", "demo.question", "--detach").out.strip()
    shell.aios("run", "demo.echo", "text=x")
    with shell.at_terminal("task", "input", task_id) as person:
        person.sees("Which letters?")
        person.types("1\n")
        person.sees("working")
        assert person.leaves_with() == COMPLETED


def test_what_a_task_says_cannot_steer_the_terminal(shell: Shell) -> None:
    with shell.at_terminal("run", "demo.report") as person:
        assert person.leaves_with() == COMPLETED
        assert "careful \ufffd[31m[bold]now[/bold] place=here" in person.screen
        assert "\x1b[2J" not in person.raw
        assert "streamed" in person.screen
        assert "Findings" in person.screen


@pytest.mark.parametrize("no_color", ["", "1"])
def test_colour_is_for_terminals_that_want_it(shell: Shell, no_color: str) -> None:
    with shell.at_terminal("capability", "list", NO_COLOR=no_color) as person:
        assert person.leaves_with() == COMPLETED
        assert ("\x1b[1m" in person.raw) is (not no_color)
    assert "\x1b" not in shell.aios("capability", "list").out
