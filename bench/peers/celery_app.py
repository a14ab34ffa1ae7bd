"""Celery's side of the bench: the same task, its broker and results in Redis."""

from __future__ import annotations

import os
from typing import Any

from celery import Celery

PROGRESS = "PROGRESS"


def make_app() -> Celery:
    """Make an app on the Redis that the environment names; results ten minutes, no prefetched tasks lost, no logs."""
    url = os.environ["BENCH_REDIS"]
    app = Celery("bench", broker=url, backend=url)
    app.conf.update(
        result_expires=600,
        worker_prefetch_multiplier=4,
        worker_send_task_events=False,
        task_ignore_result=False,
        broker_connection_retry_on_startup=True,
        worker_hijack_root_logger=False,
    )
    return app


app = make_app()


@app.task(bind=True, name="bench.once")
def once(self: Any, query: str, sites: list[str], limit: int = 10) -> dict[str, object]:
    """Report once, and end."""
    self.update_state(state=PROGRESS, meta={"percent": 50, "message": "half of it"})
    return {"query": query, "found": len(sites), "limit": limit}
