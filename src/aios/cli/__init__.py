"""The `aios` command."""

from aios.cli.root import main

__all__ = ["main"]
