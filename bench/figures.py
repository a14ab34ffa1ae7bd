"""Figures of several runs: their medians, and how ours stand to the others'."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

import msgspec


class Figure(msgspec.Struct, kw_only=True):
    """One thing that was measured of one system, run by run."""

    part: str
    name: str
    system: str
    unit: str
    runs: list[float]
    median: float = 0.0
    is_ours: bool = False
    more_is_better: bool = False
    times_ours: float | None = None
    """The median as a multiple of ours."""


class Missing(msgspec.Struct, kw_only=True):
    """What could not be measured here."""

    part: str
    system: str
    reason: str


class Report(msgspec.Struct, kw_only=True):
    """All of it."""

    machine: dict[str, str]
    figures: list[Figure]
    missing: list[Missing]


def percentile(values: Sequence[float], percent: float) -> float:
    """Give the value below which so many percent lie; NaN of nothing."""
    if not values:
        return math.nan
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


class Sheet:
    """Where parts write down what they measure."""

    def __init__(self) -> None:
        self._figures: dict[tuple[str, str, str], Figure] = {}
        self.missing: list[Missing] = []

    def add(
        self, part: str, name: str, system: str, value: float, unit: str, *, ours: bool = False, more: bool = False
    ) -> None:
        """Write down the value of one run."""
        key = (part, name, system)
        if key not in self._figures:
            self._figures[key] = Figure(
                part=part, name=name, system=system, unit=unit, runs=[], is_ours=ours, more_is_better=more
            )
        self._figures[key].runs.append(value)

    def miss(self, part: str, system: str, reason: str) -> None:
        """Write down that something could not be measured, once."""
        found = Missing(part=part, system=system, reason=reason)
        if found not in self.missing:
            self.missing.append(found)

    def figures(self) -> list[Figure]:
        """Give all with their medians, and as multiples of ours (of several of ours, the first)."""
        figures = list(self._figures.values())
        for figure in figures:
            figure.median = median(figure.runs)
        for figure in figures:
            ours = next(
                (each for each in figures if each.is_ours and (each.part, each.name) == (figure.part, figure.name)),
                None,
            )
            if ours is not None and ours.median:
                figure.times_ours = figure.median / ours.median
        return figures


def shown(value: float) -> str:
    """Write a number with three digits that count."""
    if math.isnan(value):
        return "-"
    return f"{value:,.0f}".replace(",", " ") if value >= 100 else f"{value:.3g}"


def table(figures: Sequence[Figure]) -> str:
    """Draw what was measured, part by part, as a table in Markdown."""
    lines: list[str] = []
    headings = list(dict.fromkeys((figure.part, figure.name, figure.unit) for figure in figures))
    for part, name, unit in headings:
        rows = [figure for figure in figures if (figure.part, figure.name) == (part, name)]
        lines += [
            f"\n{part}: {name} ({unit})",
            "",
            "| system | median | lowest | highest | times ours |",
            "|---|---:|---:|---:|---:|",
        ]
        for row in rows:
            times = "" if row.times_ours is None else f"{row.times_ours:.2f}"
            lines.append(
                f"| {row.system} | {shown(row.median)} | {shown(min(row.runs))} | {shown(max(row.runs))} | {times} |"
            )
    return "\n".join(lines)
