"""The systems that are measured: how each is started, and how so many clients give it work for so long."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from bench.load import Done, Order
from bench.processes import PEERS, ROOT, NotThere, load, peer_load, running
from bench.talks import ARGUMENTS, Where

AIOS = Path(sys.executable).with_name("aios")
WARM_UP_S = 1.0

Work = Callable[[int, float], Done]
"""Gives work for so many clients and seconds."""


class Running(NamedTuple):
    """A system that has been started."""

    pid: int
    where: Where
    """Only of those that speak HTTP."""
    works: dict[str, Work]
    """By the way in which clients ask; its name is added to the system's."""


class System(NamedTuple):
    """One system."""

    name: str
    is_durable: bool
    """Whether what was acknowledged outlives a crash of the machine."""
    start: Callable[[Path], AbstractContextManager[Running]]


def _http_works(where: Where, **talks: str) -> dict[str, Work]:
    def make(talk: str) -> Work:
        return lambda clients, seconds: load(
            Order(talk=talk, where=where, clients=clients, seconds=seconds, warm_up_s=WARM_UP_S)
        )

    return {name: make(talk) for name, talk in talks.items()}


def _place(url: str, token: str = "") -> Where:
    parts = urlsplit(url)
    return Where(host=parts.hostname or "", port=parts.port or 0, token=token)


@contextmanager
def aios(folder: Path) -> Generator[Running]:
    """Start the daemon as it comes, with the bench's capabilities."""
    data = folder / "data"
    command = [
        str(AIOS),
        "serve",
        "--data",
        str(data),
        "--port",
        "0",
        "--adapter",
        str(ROOT / "bench" / "capabilities.py"),
    ]
    with running(command, folder, ready=r"http://[\d.]+:\d+") as (process, url):
        where = _place(url, (data / "token").read_text().strip())
        yield Running(process.pid, where, _http_works(where, sync="sync", stream="stream", follow="follow"))


def _a2a(store: str) -> Callable[[Path], AbstractContextManager[Running]]:
    @contextmanager
    def start(folder: Path) -> Generator[Running]:
        _check_peers()
        command = [str(PEERS), "-m", "bench.peers.a2a_server", "--store", store, "--folder", str(folder)]
        with running(command, folder, ready=r"ready (http://[\d.]+:\d+)") as (process, url):
            where = _place(url)
            yield Running(process.pid, where, _http_works(where, stream="a2a"))

    return start


def _celery(service: str) -> Callable[[Path], AbstractContextManager[Running]]:
    @contextmanager
    def start(folder: Path) -> Generator[Running]:
        _check_peers()
        serving = [str(PEERS), "-m", "bench.peers.services", service, str(folder)]
        with running(serving, folder, ready=r"ready (redis\S+)") as (_, url):
            environment = {"BENCH_REDIS": url}
            working = [str(PEERS), "-m", "celery", "-A", "bench.peers.celery_app", "worker", "--pool=prefork"]
            working += [
                "--concurrency=2",
                "--loglevel=INFO",
                "--without-gossip",
                "--without-mingle",
                "--without-heartbeat",
            ]
            with running(working, folder, ready=r"celery@\S+ ready", environment=environment) as (process, _):
                yield Running(process.pid, Where("", 0), {"": _client("bench.peers.celery_load", environment)})

    return start


@contextmanager
def _procrastinate(folder: Path) -> Generator[Running]:
    _check_peers()
    serving = [str(PEERS), "-m", "bench.peers.services", "postgres", str(folder)]
    with running(serving, folder, ready=r"ready (postgresql\S+)") as (_, url):
        environment = {"BENCH_POSTGRES": url}
        working = [str(PEERS), "-m", "bench.peers.procrastinate_app"]
        with running(working, folder, ready=r"(?m)^ready$", environment=environment) as (process, _):
            yield Running(process.pid, Where("", 0), {"": _client("bench.peers.procrastinate_load", environment)})


def _client(module: str, environment: dict[str, str]) -> Work:
    return lambda clients, seconds: peer_load(
        module,
        {"clients": clients, "seconds": seconds, "warm_up_s": WARM_UP_S, "arguments": ARGUMENTS},
        environment,
    )


def _check_peers() -> None:
    if not PEERS.exists():
        raise NotThere("`.venv-bench` is not there; `make bench` makes it")


OURS = System("aiosd", True, aios)
PEER_SYSTEMS = [
    System("a2a-sdk, memory", False, _a2a("memory")),
    System("a2a-sdk, SQLite", True, _a2a("sqlite")),
    System("Celery, Redis", False, _celery("redis")),
    System("Celery, Redis synced", True, _celery("redis-always")),
    System("Procrastinate, PostgreSQL", True, _procrastinate),
]
