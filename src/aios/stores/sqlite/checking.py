"""Looking for damage while the store already works: for databases that are too big to be checked before."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread

import apsw
import structlog

from aios.stores.sqlite.connections import DISK_ERRORS, Database, explain
from aios.stores.sqlite.opening import check, damaged

_log = structlog.get_logger("aios.stores.sqlite")


class BackgroundCheck:
    """A check in a thread and on a connection of its own, that can be broken off."""

    def __init__(self, open_connection: Callable[[], Database]) -> None:
        self.damage = ""
        """A sentence about what is wrong, once something was found."""
        self._database = open_connection()
        self._thread = Thread(target=self._run, name="aios-check", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Break off."""
        self._database.interrupt()
        self._thread.join()
        self._database.close()

    def _run(self) -> None:
        try:
            wrong = check(self._database)
            self.damage = damaged(wrong).detail if wrong else ""
        except apsw.InterruptError:
            return
        except DISK_ERRORS as error:
            self.damage = explain(error)
        if self.damage:
            _log.error("database damaged", reason=self.damage)
