"""Starting on what is there: another daemon, a newer schema, damage, what a dead one left behind."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
from pathlib import Path

import pytest

from tests.faults.conftest import Build
from tests.faults.driver.asking import create, ended
from tests.faults.driver.daemon import AIOS, Daemon
from tests.stores.sqlite.faults import raw_database

PAGE = 4096
RACERS = 4
NEWER = 999
REFUSED = 2


async def refuses(daemon: Daemon, *words: str) -> str:
    """Start a daemon that must not come up; gives what it said."""
    said = len(daemon.lines)
    await daemon.launch()
    assert not await daemon.comes_up()
    text = "\n".join(daemon.lines[said:])
    assert await daemon.ended() == REFUSED, text
    assert "Traceback" not in text
    assert all(word in text for word in words), text
    return text


async def lived(daemon: Daemon, tasks: int = 30) -> list[str]:
    """Have a daemon do something, and kill it."""
    await daemon.start()
    http = daemon.connect()
    task_ids = [await create(http, "plain", work_ms=0) for _ in range(tasks)]
    for task_id in task_ids:
        await ended(http, task_id)
    await daemon.kill()
    return task_ids


async def test_a_second_daemon_on_the_folder_is_refused_by_name_and_the_first_serves_on(build: Build) -> None:
    first = build()
    second = build(first.folder)
    await first.start()
    note = (first.data / "daemon.json").read_bytes()
    await refuses(second, str(first.data), "in use by another daemon", f"process {first.process.pid}")
    http = first.connect()
    assert (await ended(http, await create(http, "plain")))["status"] == "completed"
    assert (first.data / "daemon.json").read_bytes() == note
    assert (first.data / "aios.sock").is_socket()


async def test_of_daemons_that_start_on_a_folder_at_once_one_comes_up(build: Build) -> None:
    first = build()
    racers = [first, *(build(first.folder) for _ in range(RACERS - 1))]
    await asyncio.gather(*(each.launch() for each in racers))
    came_up = await asyncio.gather(*(each.comes_up() for each in racers))
    assert came_up.count(True) == 1
    assert "Traceback" not in "\n".join(line for each in racers for line in each.lines)
    winner = racers[came_up.index(True)]
    assert json.loads((first.data / "daemon.json").read_bytes())["pid"] == winner.process.pid
    http = winner.connect()
    assert (await ended(http, await create(http, "plain")))["status"] == "completed"


async def test_what_a_dead_daemon_left_behind_is_replaced(build: Build) -> None:
    daemon = build()
    await daemon.start()
    old = json.loads((daemon.data / "daemon.json").read_bytes())
    await daemon.kill()
    assert (daemon.data / "aios.sock").exists()
    await daemon.start()
    new = json.loads((daemon.data / "daemon.json").read_bytes())
    assert (new["pid"], new["url"]) == (daemon.process.pid, daemon.url)
    assert new["pid"] != old["pid"]
    for environ in ({"AIOS_URL": f"unix:{daemon.socket_path}"}, {"AIOS_DATA": str(daemon.data)}):
        await called(daemon, environ)


async def called(daemon: Daemon, environ: dict[str, str]) -> None:
    """Call the daemon by the command, which finds it by what lies in the folder."""
    command = await asyncio.create_subprocess_exec(
        AIOS,
        "call",
        "aios/task.list",
        env={**daemon.environ, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, err = await command.communicate()
    assert command.returncode == 0, err.decode()
    assert json.loads(out)["tasks"] == []


async def test_a_newer_schema_is_refused_and_left_alone(build: Build) -> None:
    daemon = build()
    await lived(daemon, 3)
    database = raw_database(daemon.data)
    database.pragma("user_version", NEWER)
    database.close()
    await refuses(daemon, f"schema {NEWER}", "newer version")
    database = raw_database(daemon.data)
    assert database.pragma("user_version") == NEWER
    assert database.execute("SELECT count(*) FROM finished").fetchone() == (3,)
    database.close()


@pytest.mark.parametrize("damage", ["garbage", "zeroes", "no header", "cut off"])
async def test_a_damaged_database_is_refused_with_a_word_on_what_to_do(build: Build, damage: str) -> None:
    daemon = build()
    await lived(daemon)
    # The killed daemon's log is brought into the database first, or it would mend what is damaged here.
    database = raw_database(daemon.data)
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    spoil(daemon.data / "aios.db", damage)
    await refuses(daemon, "damaged", "restore a backup")


def spoil(path: Path, damage: str) -> None:
    size, dice = path.stat().st_size, random.Random(1)
    with path.open("r+b") as file:
        if damage == "cut off":
            file.truncate(size // 2)
        elif damage == "no header":
            file.write(dice.randbytes(100))
        else:
            for page in range(1, size // PAGE):
                file.seek(page * PAGE)
                file.write(dice.randbytes(64) if damage == "garbage" else bytes(64))


async def test_a_byte_that_turned_is_found_or_does_no_harm(build: Build, rounds: int) -> None:
    """Wherever it is: the daemon refuses, or what it tells of the tasks is what it told before."""
    daemon = build()
    task_ids = await lived(daemon)
    path, dice = daemon.data / "aios.db", random.Random(2)
    database = raw_database(daemon.data)
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    sound = path.read_bytes()
    for _ in range(max(5, rounds // 20)):
        spoiled = bytearray(sound)
        spoiled[dice.randrange(PAGE)] ^= 1 << dice.randrange(8)
        path.write_bytes(spoiled)
        await daemon.launch()
        if await daemon.comes_up():
            page = await daemon.connect().call("aios/task.list", {"pagination": {"limit": 100}})
            assert {task["task_id"] for task in page["tasks"]} == set(task_ids)
            await daemon.kill()
        else:
            assert await daemon.ended() == REFUSED
        for rest in daemon.data.glob("aios.db-*"):
            rest.unlink()
    assert not [line for line in daemon.lines if "Traceback" in line]
