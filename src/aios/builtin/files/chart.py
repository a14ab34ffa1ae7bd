"""A bar chart as SVG, drawn by hand: no style sheet, script or font of its own, so that it shows under any content policy."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from aios.builtin.files.names import to_label, to_size

BARS_MAX = 8
"""Bars in a panel; what is left over goes into one more, `other`."""

_WIDTH = 720
_LABEL_WIDTH = 220
_BAR_WIDTH = 380
_ROW = 26
_HEAD = 44
_COLORS = ("#2f6fb5", "#b5622f")
_FONT = 'font-family="system-ui, sans-serif"'


class Panel(NamedTuple):
    """One set of bars under a heading: names with bytes."""

    title: str
    amounts: Sequence[tuple[str, int]]


def draw(title: str, panels: Sequence[Panel]) -> str:
    """Draw the panels below each other, each with its biggest amounts first."""
    body: list[str] = []
    top = 40
    for number, panel in enumerate(panels):
        bars = _biggest(panel.amounts)
        body += _panel(panel.title, bars, top, _COLORS[number % len(_COLORS)])
        top += _HEAD + _ROW * len(bars)
    height = top + 12
    spoken = ". ".join(
        f"{panel.title}: "
        + ", ".join(f"{to_label(name, 40)} {to_size(amount)}" for name, amount in _biggest(panel.amounts))
        for panel in panels
    )
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        f'role="img" aria-labelledby="title description">'
    )
    return "\n".join(
        (
            head,
            f'<title id="title">{escape(title)}</title>',
            f'<desc id="description">{escape(spoken)}</desc>',
            f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
            _text(16, 28, title, size=18, weight="bold"),
            *body,
            "</svg>",
        )
    )


def _biggest(amounts: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    ranked = sorted(amounts, key=lambda bar: (-bar[1], bar[0]))
    rest = sum(amount for _, amount in ranked[BARS_MAX:])
    return ranked[:BARS_MAX] + ([("other", rest)] if rest else [])


def _panel(title: str, bars: Sequence[tuple[str, int]], top: int, color: str) -> list[str]:
    longest = max((amount for _, amount in bars), default=0)
    drawn = [_text(16, top + 24, title, size=14, weight="bold")]
    for number, (name, amount) in enumerate(bars):
        y = top + _HEAD - 8 + _ROW * number
        length = max(1, round(_BAR_WIDTH * amount / longest)) if longest else 1
        drawn += [
            _text(_LABEL_WIDTH, y + 14, to_label(name, 30), size=12, anchor="end"),
            f'<rect x="{_LABEL_WIDTH + 10}" y="{y}" width="{length}" height="{_ROW - 8}" rx="2" fill="{color}"/>',
            _text(_LABEL_WIDTH + 18 + length, y + 14, to_size(amount), size=12),
        ]
    return drawn


def _text(x: int, y: int, text: str, *, size: int, weight: str = "normal", anchor: str = "start") -> str:
    return (
        f'<text x="{x}" y="{y}" {_FONT} font-size="{size}" font-weight="{weight}" text-anchor="{anchor}" '
        f'fill="#1c2733">{escape(text)}</text>'
    )
