"""Fillings of the seam `aios.store`: SQLite for one machine."""
