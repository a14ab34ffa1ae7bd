"""`python -m bench`: measures, and prints tables or JSON."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from typing import TextIO

import msgspec

from bench.figures import Report, table
from bench.parts import PARTS, Plan, measure

EPILOG = """
parts:
{parts}

Peers run in `.venv-bench`, which `make bench` makes. Compare ratios of one run: absolute figures are this machine's, and change
with whatever else it does; say so when you quote them.
"""


def main(arguments: list[str] | None = None, *, out: TextIO = sys.stdout) -> int:
    """Measure what was asked for."""
    listed = "\n".join(f"  {name:12}{(part.__doc__ or '').splitlines()[0]}" for name, part in PARTS.items())
    reader = argparse.ArgumentParser(
        "bench",
        description="Measure the daemon, beside what one would use instead and beside what the machine can do.",
        epilog=EPILOG.format(parts=listed),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    reader.add_argument("parts", nargs="*", metavar="PART", help="which parts; default all")
    reader.add_argument("--runs", type=int, default=3, help="how often each is measured (default %(default)s)")
    reader.add_argument("--seconds", type=float, default=5.0, help="how long each time (default %(default)s)")
    reader.add_argument("--no-peers", action="store_true", help="measure the daemon alone")
    reader.add_argument("--output", choices=["text", "json"], default="text", help="default %(default)s")
    given = reader.parse_args(arguments)
    if unknown := [name for name in given.parts if name not in PARTS]:
        reader.error(f"there is no part {unknown[0]}; parts are {', '.join(PARTS)}")
    if given.runs < 1 or given.seconds <= 0:
        reader.error("--runs and --seconds must be greater than 0")
    begun = time.monotonic()

    def say(text: str) -> None:
        print(f"[{time.monotonic() - begun:5.0f} s] {text}", file=sys.stderr, flush=True)

    plan = Plan(runs=given.runs, seconds=given.seconds, has_peers=not given.no_peers, say=say)
    sheet = measure(given.parts or list(PARTS), plan)
    report = Report(machine=_machine(), figures=sheet.figures(), missing=sheet.missing)
    if given.output == "json":
        out.write(msgspec.json.format(msgspec.json.encode(report)).decode() + "\n")
        return 0
    out.write(", ".join(f"{name} {value}" for name, value in report.machine.items()) + "\n")
    out.write(table(report.figures) + "\n")
    out.writelines(
        f"\nnot measured: {missing.part}, {missing.system}: {missing.reason}\n" for missing in report.missing
    )
    return 0


def _machine() -> dict[str, str]:
    return {
        "cores": str(os.cpu_count()),
        "load": f"{os.getloadavg()[0]:.1f}",
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


if __name__ == "__main__":
    sys.exit(main())
