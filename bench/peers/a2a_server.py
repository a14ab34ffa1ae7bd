"""A stock server of the A2A SDK: its own request handler, its own stores, and an agent that does what the bench's task does."""

from __future__ import annotations

import argparse
import asyncio
import logging
import socket
import time
from pathlib import Path
from typing import Any

import uvicorn
import uvloop
from a2a.helpers.proto_helpers import new_data_part, new_task_from_user_message, new_text_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_jsonrpc_routes
from a2a.server.tasks import DatabaseTaskStore, InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, Role, TaskState
from google.protobuf.json_format import MessageToDict
from sqlalchemy import event
from sqlalchemy.ext.asyncio import create_async_engine
from starlette.applications import Starlette

HEAD_START_S = 2.0
"""How long the talking agent waits for its followers."""


class Agent(AgentExecutor):
    """Reports once and ends; or says a line at a steady pace."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Run one task."""
        assert context.message is not None
        task = context.current_task or new_task_from_user_message(context.message)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        asked: dict[str, Any] = MessageToDict(context.message.parts[0].data)
        await updater.start_work()
        if "lines" in asked:
            await self._talk(updater, int(asked["lines"]), asked["every_ms"] / 1000)
        else:
            await updater.update_status(
                TaskState.TASK_STATE_WORKING, new_text_message("half of it", role=Role.ROLE_AGENT)
            )
            await updater.add_artifact([new_data_part({"query": asked["query"], "found": len(asked["sites"])})])
        await updater.complete()

    async def _talk(self, updater: TaskUpdater, lines: int, every_s: float) -> None:
        await asyncio.sleep(HEAD_START_S)
        begun = time.monotonic()
        for number in range(lines):
            await asyncio.sleep(max(0.0, begun + number * every_s - time.monotonic()))
            text = f'"number":{number},"said_ns":{time.time_ns()}'
            await updater.update_status(TaskState.TASK_STATE_WORKING, new_text_message(text, role=Role.ROLE_AGENT))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Nobody asks."""
        raise NotImplementedError


def _database(folder: Path) -> DatabaseTaskStore:
    """Open its SQL store, with the settings that are best for it: a log that is appended to, every commit synced."""
    engine = create_async_engine(f"sqlite+aiosqlite:///{folder / 'a2a.db'}")

    @event.listens_for(engine.sync_engine, "connect")
    def _settings(connection: Any, _: Any) -> None:
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "busy_timeout=30000"):
            connection.execute(f"PRAGMA {pragma}")

    return DatabaseTaskStore(engine)


async def serve(store: str, folder: Path) -> None:
    """Serve until killed."""
    # With its protocol named: else no event loop tells it to send at once, and every answer waits for an acknowledgement.
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.bind(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{bound.getsockname()[1]}/"
    card = AgentCard(
        name="bench",
        description="the bench's task",
        version="1",
        capabilities=AgentCapabilities(streaming=True),
        supported_interfaces=[AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version="1.0")],
        default_input_modes=["application/json"],
        default_output_modes=["application/json"],
    )
    tasks = _database(folder) if store == "sqlite" else InMemoryTaskStore()
    if isinstance(tasks, DatabaseTaskStore):
        await tasks.initialize()
    handler = DefaultRequestHandler(agent_executor=Agent(), task_store=tasks, agent_card=card)
    app = Starlette(routes=create_jsonrpc_routes(handler, "/"))
    config = uvicorn.Config(app, loop="uvloop", http="httptools", log_level="error", access_log=False)
    print(f"ready {url}", flush=True)
    await uvicorn.Server(config).serve(sockets=[bound])


if __name__ == "__main__":
    reader = argparse.ArgumentParser()
    reader.add_argument("--store", choices=["memory", "sqlite"], required=True)
    reader.add_argument("--folder", type=Path, required=True)
    given = reader.parse_args()
    logging.disable(logging.ERROR)
    uvloop.run(serve(given.store, given.folder))
