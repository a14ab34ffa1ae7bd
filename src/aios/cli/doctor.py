"""`aios doctor`: whether everything is in order, and what to do where it is not."""

from __future__ import annotations

import os
import platform
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from aios.cli.face import COMPLETED, FAILED, Face, clean, command

if TYPE_CHECKING:
    from aios.config import Config

DISK_BYTES_LOW = 1024**3
DISK_BYTES_LEAST = 100 * 1024**2
READY_TIMEOUT_S = 5.0
COLORS = {"ok": "green", "warn": "yellow", "fail": "red"}


class Finding(NamedTuple):
    """What one check found."""

    check: str
    state: str
    """ok, warn or fail."""
    words: str
    advice: str = ""


@click.group()
def doctoring() -> None:
    """Hold the command until the root takes it."""


@command(doctoring, "doctor", example="aios doctor")
async def doctor(face: Face) -> int:
    """Check Python, disk, data folder, configuration, the daemon and its store.

    Exits with 0 if nothing is broken, else with 1.
    """
    from aios.config import load
    from aios.errors import AiosError

    findings = [_python(), _version()]
    try:
        config = load(environ=os.environ, flags={"store.folder": face.data})
    except AiosError as error:
        findings.append(_fail("configuration", str(error), "see what is read with `aios config show`"))
    else:
        findings += [_ok("configuration", f"settings that are not the defaults: {len(config.origins)}")]
        findings += [_folder(config), _disk(config), _token(config)]
    findings += await _daemon(face)
    face.show(
        {"healthy": not any(each.state == "fail" for each in findings), "checks": [_shown(each) for each in findings]},
        lambda: "\n".join(_line(each) for each in findings),
    )
    return FAILED if any(each.state == "fail" for each in findings) else COMPLETED


def _shown(finding: Finding) -> dict[str, str]:
    return {name: getattr(finding, name) for name in finding._fields if getattr(finding, name)}


def _line(finding: Finding) -> str:
    mark = click.style(f"{finding.state:<5}", fg=COLORS[finding.state])
    advice = f"\n      → {finding.advice}" if finding.advice else ""
    return clean(f"{finding.check:<14} {finding.words}{advice}").join([f"{mark} ", ""])


def _ok(check: str, words: str) -> Finding:
    return Finding(check=check, state="ok", words=words)


def _warn(check: str, words: str, advice: str) -> Finding:
    return Finding(check=check, state="warn", words=words, advice=advice)


def _fail(check: str, words: str, advice: str) -> Finding:
    return Finding(check=check, state="fail", words=words, advice=advice)


def _python() -> Finding:
    words = (
        f"{platform.python_implementation()} {platform.python_version()} on {platform.system()} {platform.machine()}"
    )
    return _ok("python", words)


def _version() -> Finding:
    from importlib.metadata import version

    return _ok("aios", f"version {version('aiosd')}")


def _folder(config: Config) -> Finding:
    folder = config.folder
    try:
        mode = folder.stat().st_mode
    except FileNotFoundError:
        return _warn("data folder", f"{folder} is not there yet", "the daemon makes it when it starts: aios serve")
    except OSError as error:
        return _fail("data folder", f"{folder}: {error.strerror or error}", "choose another with --data or AIOS_DATA")
    if not stat.S_ISDIR(mode):
        return _fail("data folder", f"{folder} is no folder", "choose another with --data or AIOS_DATA")
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return _fail("data folder", f"{folder} may not be written by this user", "run as its owner, or choose another")
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        return _warn("data folder", f"{folder} may be changed by other users", f"chmod go-w {folder}")
    return _ok("data folder", str(folder))


def _disk(config: Config) -> Finding:
    place = next((each for each in [config.folder, *config.folder.parents] if each.exists()), Path("/"))
    free = shutil.disk_usage(place).free
    words = f"{free / 1024**3:.1f} GiB free at {place}"
    if free < DISK_BYTES_LEAST:
        return _fail("disk", words, "make room: a daemon that cannot write takes no tasks")
    if free < DISK_BYTES_LOW:
        return _warn("disk", words, "make room before it runs out")
    return _ok("disk", words)


def _token(config: Config) -> Finding:
    path = config.folder / "token"
    try:
        mode = path.stat().st_mode
        path.read_bytes()
    except FileNotFoundError:
        return _warn("token", "there is none yet", "the daemon makes one when it starts: aios serve")
    except OSError as error:
        return _fail("token", f"{path}: {error.strerror or error}", "run as the daemon's user, or set AIOS_TOKEN")
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        return _fail("token", f"others can read {path}", f"chmod 600 {path}, and replace the token if anybody did")
    return _ok("token", str(path))


async def _daemon(face: Face) -> list[Finding]:
    from importlib.metadata import version

    from aios.client.discovery import data_folder, read_daemon_file
    from aios.errors import AiosError

    try:
        async with face.connect() as client:
            url = client.url
            capabilities = await client.capabilities()
    except AiosError as error:
        return [_fail("daemon", str(error), "start it with `aios serve`, or check AIOS_URL and AIOS_TOKEN")]
    note = read_daemon_file(face.data_folder() or data_folder())
    theirs = note.version if note is not None and note.url == url else None
    found = [_ok("daemon", f"answers at {url}, offers {len(capabilities)} capabilities")]
    if theirs and theirs != version("aiosd"):
        found.append(
            _warn("versions", f"the daemon is {theirs}, this is {version('aiosd')}", "restart it to have the same")
        )
    return [*found, *await _store(url)]


async def _store(url: str) -> list[Finding]:
    """Ask the daemon whether its store can write; only HTTP tells."""
    if not url.startswith("http"):
        return []
    import httpx2

    try:
        async with httpx2.AsyncClient(trust_env=False, timeout=READY_TIMEOUT_S) as http:
            answer = await http.get(f"{url.rstrip('/')}/readyz")
            reason = "" if answer.is_success else str(answer.json().get("reason", answer.status_code))
    except (httpx2.HTTPError, ValueError) as error:
        return [_warn("store", f"{url}/readyz cannot be read: {error}", "look at the daemon's log")]
    if reason:
        return [_fail("store", reason, "make room on its disk, or look at the daemon's log")]
    return [_ok("store", "can be written")]
