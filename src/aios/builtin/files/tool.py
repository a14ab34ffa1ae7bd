"""The adapter of the file capabilities, to which each module adds its own."""

from __future__ import annotations

from aios.adapters.functions import Adapter

files = Adapter("org.aios.system.files", name="Files")
