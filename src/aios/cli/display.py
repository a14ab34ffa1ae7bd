"""What a person sees of a running task: a live bar on a terminal, else a line now and then; both on standard error."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any, Protocol

import click

from aios.cli.arguments import as_object
from aios.cli.face import clean, cut
from aios.model import EventKind, JsonObject, Status

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from aios.client import TaskEvent

PLAIN_INTERVAL_S = 2.0
"""Between two lines of progress where there is no terminal to draw on."""
ROOMY, NARROW = 100, 60
LEVEL_COLORS = {"debug": "bright_black", "info": None, "warning": "yellow", "error": "red"}


class Drawing(Protocol):
    """How progress is shown."""

    def progress(self, percent: float | None, message: str) -> None:
        """Show how far it is."""
        ...

    def begin(self) -> None:
        """Show that it works."""
        ...

    def line(self, text: str) -> None:
        """Show a line that stays."""
        ...

    def hide(self) -> None:
        """Take away what moves: something else is to be written."""
        ...


class Bar:
    """A bar that moves."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._percent: float | None = None
        self._message = ""

    def progress(self, percent: float | None, message: str) -> None:
        """See `Drawing.progress`."""
        self._percent, self._message = percent, message
        bar, task = self._shown()
        bar.update(task, completed=percent or 0, total=None if percent is None else 100, message=message)

    def begin(self) -> None:
        """See `Drawing.begin`."""
        self.progress(self._percent, self._message or "working")

    def line(self, text: str) -> None:
        """See `Drawing.line`."""
        self.hide()
        click.echo(text, err=True)

    def hide(self) -> None:
        """See `Drawing.hide`."""
        if self._bar is not None:
            self._bar.stop()

    def _shown(self) -> tuple[Progress, TaskID]:
        if self._bar is not None and self._task is not None:
            if not self._bar.live.is_started:
                self._bar.start()
            return self._bar, self._task
        from rich.console import Console
        from rich.progress import BarColumn, Progress, ProgressColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
        from rich.table import Column

        console = Console(stderr=True)
        # How far and what it does go first: the title gives way at 100 columns, the bar and the time at 60.
        columns: list[ProgressColumn] = [TaskProgressColumn()]
        if console.width >= ROOMY:
            columns = [TextColumn("{task.description}", markup=False), *columns]
        if console.width >= NARROW:
            columns += [BarColumn(bar_width=20), TimeElapsedColumn()]
        # It alone is cut where there is no room.
        message = Column(ratio=1, no_wrap=True, overflow="ellipsis")
        columns.append(TextColumn("{task.fields[message]}", markup=False, table_column=message))
        self._bar = Progress(*columns, console=console, transient=True, expand=True)
        self._task = self._bar.add_task(self._title, total=None, message="")
        self._bar.start()
        return self._bar, self._task


class Lines:
    """Plain lines: of progress one every two seconds, always the latest, and none is kept back for ever."""

    def __init__(self) -> None:
        self._last = ""
        self._held = ""
        self._timer: asyncio.TimerHandle | None = None

    def progress(self, percent: float | None, message: str) -> None:
        """See `Drawing.progress`."""
        self._held = " ".join(filter(None, ["" if percent is None else f"{percent:3.0f} %", message]))
        if self._timer is None:
            self._due()

    def begin(self) -> None:
        """See `Drawing.begin`."""
        self.line("working")

    def line(self, text: str) -> None:
        """See `Drawing.line`."""
        self._write_held()
        self._write(text)

    def hide(self) -> None:
        """See `Drawing.hide`."""
        self._write_held()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _due(self) -> None:
        """Show what is held, and no more of its kind for a while."""
        self._timer = None
        if self._write_held():
            self._timer = asyncio.get_running_loop().call_later(PLAIN_INTERVAL_S, self._due)

    def _write_held(self) -> bool:
        held, self._held = self._held, ""
        self._write(held)
        return bool(held)

    def _write(self, text: str) -> None:
        if text and text != self._last:
            self._last = text
            click.echo(text, err=True)


class Silence:
    """Nothing: a machine reads along."""

    def progress(self, percent: float | None, message: str) -> None:
        """See `Drawing.progress`."""

    def begin(self) -> None:
        """See `Drawing.begin`."""

    def line(self, text: str) -> None:
        """See `Drawing.line`."""

    def hide(self) -> None:
        """See `Drawing.hide`."""


def drawing(title: str, *, is_silent: bool) -> Drawing:
    """Choose what fits where standard error leads."""
    if is_silent:
        return Silence()
    return Bar(title) if sys.stderr.isatty() else Lines()


class Display:
    """Shows a task's events."""

    def __init__(self, draw: Drawing) -> None:
        self._draw = draw
        self._percent: float | None = None
        self._is_away = False

    def away(self, before: str = "") -> bool:
        """Say that the daemon has gone and is looked for: once, which is told."""
        was_away, self._is_away = self._is_away, True
        if not was_away:
            self._draw.line(f"{before}the daemon is away; trying to reach it again")
        return not was_away

    def see(self, event: TaskEvent) -> None:
        """Show one."""
        data = event.data
        self._is_away = False
        match event.kind:
            case EventKind.STATUS:
                self._status(data)
            case EventKind.PROGRESS:
                self._progress(data["progress"])
            case EventKind.LOG:
                level = str(data.get("level", "info"))
                words = clean(f"{level}: {data.get('message', '')}{_fields(data.get('fields'))}")
                self._draw.line(click.style(words, fg=LEVEL_COLORS.get(level)))
            case EventKind.ARTIFACT if not data.get("append"):
                artifact = data["artifact"]
                self._draw.line(
                    clean(f"artifact {artifact['id']}: {artifact.get('name', '')} ({artifact.get('type', '')})")
                )
            case EventKind.CHUNK:
                self._draw.hide()
                click.echo(clean(chunk_text(data.get("data"))), err=True, nl=False)
            case "task.snapshot":
                self._draw.line("(events that are no longer kept are left out)")
            case _:
                pass

    def hide(self) -> None:
        """Make room for other words."""
        self._draw.hide()

    def note(self, text: str) -> None:
        """Show a line of our own."""
        self._draw.line(text)

    def _status(self, data: JsonObject) -> None:
        reason = f" ({data['reason']})" if data.get("reason") else ""
        status = Status(data["status"])
        if status == Status.WORKING and not reason:
            self._draw.begin()
        elif status in {Status.WORKING, Status.PAUSED}:
            self._draw.line(clean(f"{status}{reason}", is_one_line=True))
        else:
            self._draw.hide()

    def _progress(self, progress: JsonObject) -> None:
        percent: Any = progress.get("percent")
        self._percent = percent if isinstance(percent, int | float) else None
        step, steps = progress.get("current_step"), progress.get("total_steps")
        of = f" [{step}/{steps}]" if step and steps else ""
        message = clean(str(progress.get("message") or "working"), is_one_line=True)
        self._draw.progress(self._percent, cut(message, 100) + of)


def _fields(fields: Any) -> str:
    return "".join(f" {name}={value}" for name, value in as_object(fields).items())


def chunk_text(data: Any) -> str:
    """The text of a chunk: itself, or its `text`; anything else has none to show."""
    if isinstance(data, str):
        return data
    text = as_object(data).get("text")
    return text if isinstance(text, str) else ""
