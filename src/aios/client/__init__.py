"""The client: `Client` for asyncio, `SyncClient` for everybody else; both find the daemon by themselves."""

from aios.client.client import Client
from aios.client.discovery import Target, locate
from aios.client.streams import TaskEvent
from aios.client.sync import SyncClient
from aios.client.waiting import Question, SignIn

__all__ = ["Client", "Question", "SignIn", "SyncClient", "Target", "TaskEvent", "locate"]
