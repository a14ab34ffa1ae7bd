"""What tests of capabilities, adapters and the house itself share. It is shipped, and nothing in the house imports it."""

from __future__ import annotations

from aios.testing.adapters import ScriptedAdapter
from aios.testing.clock import ManualClock
from aios.testing.running import run

__all__ = ["ManualClock", "ScriptedAdapter", "run"]
