"""`system.info.read`: what kind of machine this is. Nothing about its users, its network or its environment."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from aios.adapters.functions import Adapter
from aios.builtin.files.names import to_text
from aios.errors import PlatformUnsupported
from aios.model import JsonObject, wire_time

DISKS_MAX = 100

info = Adapter("org.aios.system.info", name="System information")

Section = Literal["host", "os", "python", "cpu", "memory", "disks", "uptime"]


@info.capability(
    "system.info.read",
    name="Read system information",
    permission="public",
    permission_id="aios.permission.system.info.read",
    scope="system.info",
    timeout_ms=10_000,
    category="system",
    examples=[{}, {"sections": ["memory", "disks"]}],
)
def read(sections: list[Section] | None = None) -> JsonObject:
    """Tell what kind of machine the daemon runs on.

    Args:
        sections: Only these; all if left out.
    """
    return {name: _SECTIONS[name]() for name in dict.fromkeys(sections or _SECTIONS)}


def _host() -> JsonObject:
    return {"name": platform.node()}


def _os() -> JsonObject:
    described: JsonObject = {
        "name": platform.system(),
        "kernel": platform.release(),
        "version": platform.version(),
        "architecture": platform.machine(),
    }
    distribution = _first_field("/etc/os-release", "PRETTY_NAME", "=").strip('"')
    if distribution:
        described["distribution"] = distribution
    return described


def _python() -> JsonObject:
    return {"version": platform.python_version(), "implementation": platform.python_implementation()}


def _cpu() -> JsonObject:
    described: JsonObject = {"count": os.cpu_count() or 1, "usable": _usable_cpus()}
    model = _first_field("/proc/cpuinfo", "model name")
    if model:
        described["model"] = model
    one, five, fifteen = os.getloadavg()
    described["load_average"] = {"1m": round(one, 2), "5m": round(five, 2), "15m": round(fifteen, 2)}
    return described


def _usable_cpus() -> int:
    # A container or a service may be kept to some of them; not every system can tell.
    affinity: Callable[[int], set[int]] | None = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _memory() -> JsonObject:
    page = os.sysconf("SC_PAGE_SIZE")
    described: JsonObject = {"total_bytes": page * os.sysconf("SC_PHYS_PAGES")}
    for key, field in (
        ("available_bytes", "MemAvailable"),
        ("swap_total_bytes", "SwapTotal"),
        ("swap_free_bytes", "SwapFree"),
    ):
        value = _first_field("/proc/meminfo", field)
        if value:
            described[key] = int(value.split()[0]) * 1024
    return described


def _disks() -> JsonObject:
    """Give the file systems that lie on a disk of this machine; asking a network's could hang."""
    found: dict[int, JsonObject] = {}
    for mount in _mounts():
        try:
            device = os.stat(mount).st_dev
            free = os.statvfs(mount)
        except OSError:
            # Others' mounts may be closed to us.
            continue
        if free.f_blocks and device not in found:
            found[device] = {
                "mount": to_text(mount),
                "total_bytes": free.f_blocks * free.f_frsize,
                "free_bytes": free.f_bavail * free.f_frsize,
            }
    return {"file_systems": list(found.values())[:DISKS_MAX]}


def _mounts() -> list[bytes]:
    try:
        lines = Path("/proc/self/mounts").read_bytes().splitlines()
    except OSError:
        return [b"/"]
    fields = [line.split(b" ") for line in lines]
    # The kernel writes blanks and the like in a name as octal numbers.
    mounts = [_unescape(each[1]) for each in fields if len(each) > 1 and each[0].startswith(b"/dev/")]
    return [b"/", *(mount for mount in mounts if mount != b"/" and os.path.isdir(mount))]


def _unescape(name: bytes) -> bytes:
    for blank in (b" ", b"\t", b"\n", b"\\"):
        name = name.replace(b"\\%03o" % blank[0], blank)
    return name


def _uptime() -> JsonObject:
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    if clock is None:
        raise PlatformUnsupported(
            "This system does not tell since when it has been up; leave out the section `uptime`."
        )
    up_ms = int(time.clock_gettime(clock) * 1000)
    return {"uptime_ms": up_ms, "booted_at": wire_time(datetime.fromtimestamp(time.time() - up_ms / 1000, UTC))}


def _first_field(path: str, name: str, separator: str = ":") -> str:
    """Read a line `name: value` of a file that describes the system; empty where this one has none."""
    try:
        with open(path, encoding="utf-8", errors="replace") as lines:
            return next((line.partition(separator)[2].strip() for line in lines if line.startswith(name)), "")
    except OSError:
        return ""


_SECTIONS: dict[Section, Callable[[], JsonObject]] = {
    "host": _host,
    "os": _os,
    "python": _python,
    "cpu": _cpu,
    "memory": _memory,
    "disks": _disks,
    "uptime": _uptime,
}
