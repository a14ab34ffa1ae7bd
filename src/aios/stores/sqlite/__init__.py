"""The store on SQLite: one writing thread with group commit, readers beside it, contents of artifacts in a folder."""

from __future__ import annotations

from aios.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
