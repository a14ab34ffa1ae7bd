"""The capabilities that come with the daemon."""

from __future__ import annotations

from aios.adapter import Adapter


def adapters() -> list[Adapter]:
    """Give all of them, by their adapters."""
    from aios.builtin.command import command
    from aios.builtin.files import files
    from aios.builtin.info import info

    return [info, files, command]
