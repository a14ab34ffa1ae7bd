"""The composition root: configuration becomes store, engine, service and doors, and all of it ends in order."""

from __future__ import annotations

from aios.daemon.composition import Daemon
from aios.daemon.process import run, serve

__all__ = ["Daemon", "run", "serve"]
