"""Procrastinate's side of the bench: the same task, and what tells clients of its end: a trigger that notifies."""

from __future__ import annotations

import asyncio
import json
import os

from procrastinate import App, PsycopgConnector

CONCURRENCY = 32
DONE = "bench_done"
PROGRESS = "bench_progress"
_TRIGGER = f"""
CREATE OR REPLACE FUNCTION bench_tell() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM pg_notify('{DONE}', NEW.id || ' ' || NEW.status); RETURN NEW; END $$;
CREATE OR REPLACE TRIGGER bench_tell AFTER UPDATE OF status ON procrastinate_jobs
FOR EACH ROW WHEN (NEW.status IN ('succeeded', 'failed')) EXECUTE FUNCTION bench_tell();
"""


def make_app(connections: int) -> App:
    """Make an app on the PostgreSQL that the environment names."""
    connector = PsycopgConnector(conninfo=os.environ["BENCH_POSTGRES"], min_size=2, max_size=connections)
    return App(connector=connector, import_paths=["bench.peers.procrastinate_app"])


app = make_app(CONCURRENCY + 4)


@app.task(name="bench.once")
async def once(number: int, query: str, sites: list[str], limit: int = 10) -> dict[str, object]:
    """Report once, and end."""
    told = json.dumps({"number": number, "percent": 50, "message": "half of it"})
    await app.connector.execute_query_async("SELECT pg_notify(%(channel)s, %(told)s)", channel=PROGRESS, told=told)
    return {"query": query, "found": len(sites), "limit": limit}


async def work() -> None:
    """Run tasks until killed."""
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        await app.connector.execute_query_async(_TRIGGER.replace("%", "%%"))
        print("ready", flush=True)
        await app.run_worker_async(
            concurrency=CONCURRENCY, listen_notify=True, install_signal_handlers=False, delete_jobs="never"
        )


if __name__ == "__main__":
    asyncio.run(work())
