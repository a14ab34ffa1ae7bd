"""The capability that runs programs."""

from aios.builtin.command.running import command

__all__ = ["command"]
