"""Clients that keep a daemon busy: each chooses by its own seeded dice, and writes down what it asked and was told."""

from __future__ import annotations

import asyncio
import random
from typing import Any, Self

from tests.faults.driver.daemon import Daemon
from tests.faults.driver.followers import PAUSE_S, TERMINAL, WAYS, Follower
from tests.faults.driver.record import Json, Operation, Record
from tests.faults.driver.wire import Http, Lost, Refused, Unsent

SETTLE_S = 60.0
SETTLE_EVERY_S = 0.02
ASKING = ("input_required", "auth_required")
UNFINISHED = ["pending", "working", "paused", *ASKING]
FOLLOWERS_MAX = 12
"""At once."""
THINK_S = 0.01
LATELY = 15
"""Of so many tasks that were made last one is steered: older ones have mostly ended."""

MENU: tuple[tuple[str, int], ...] = (
    ("plain", 6),
    ("stepped", 6),
    ("flaky", 4),
    ("asking", 5),
    ("signing", 2),
    ("family", 3),
    ("making", 4),
    ("blocking", 2),
    ("sleeping", 1),
    ("endless", 2),
    ("once", 1),
)


def order(dice: random.Random, op: int) -> tuple[str, Json, Json]:
    """Choose a capability, its arguments, and options that go with it."""
    name = dice.choices([name for name, _ in MENU], [weight for _, weight in MENU])[0]
    arguments: Json = {"op": op}
    options: Json = {"priority": dice.choice(["low", "normal", "high", "urgent"])}
    work_ms = dice.choice([0, 0, 10, 50, 200])
    match name:
        case "stepped" | "blocking":
            arguments |= {"steps": dice.randint(1, 4), "work_ms": work_ms}
        case "flaky":
            arguments |= {"fails": dice.randint(1, 3), "work_ms": work_ms // 4}
            backoff = dice.choice(["fixed", "linear", "exponential", "exponential_jitter"])
            options["retry"] = {
                "max_attempts": dice.choice([2, 4]),
                "delay_ms": dice.choice([0, 1, 20]),
                "backoff": backoff,
            }
        case "asking":
            arguments["questions"] = dice.randint(1, 2)
        case "family":
            arguments |= {"children": dice.randint(1, 3), "work_ms": work_ms}
        case "plain" | "once":
            arguments["work_ms"] = work_ms
            if dice.random() < 0.1:
                options["delay_ms"] = 30
        case _:
            pass
    if dice.random() < 0.5:
        options["idempotency_key"] = f"key-{op}"
    return f"test.faults.{name}", arguments, options


PARADE: tuple[tuple[str, Json, Json], ...] = (
    ("plain", {"work_ms": 4}, {}),
    ("stepped", {"steps": 3}, {}),
    ("flaky", {"fails": 1}, {"retry": {"max_attempts": 2, "delay_ms": 1}}),
    ("asking", {"questions": 2}, {}),
    ("signing", {}, {}),
    ("family", {"children": 2}, {}),
    ("making", {}, {}),
    ("blocking", {"steps": 2}, {}),
    ("endless", {}, {}),
    ("once", {}, {"delay_ms": 1}),
)
"""One task of each kind."""


class Load:
    """All clients together, and what they have written down."""

    def __init__(self, daemon: Daemon, *, seed: str, clients: int = 6) -> None:
        self.daemon = daemon
        self.record = Record(pids=daemon.pids)
        self.tasks: list[tuple[str, str]] = []
        """Ids and capabilities of tasks that are known and not yet known to have ended."""
        self._running: list[asyncio.Task[None]] = []
        self._follower_dice = random.Random(f"{seed}-followers")
        self._followers: list[asyncio.Task[None]] = []
        self._clients = [Client(self, f"c{number}", random.Random(f"{seed}-{number}")) for number in range(clients)]

    def start(self) -> None:
        """Let the clients begin."""
        self._running = [asyncio.create_task(client.run()) for client in self._clients]

    async def stop(self) -> None:
        """Let the clients end what they are at, and begin nothing more; the daemon must be up."""
        for client in self._clients:
            client.is_stopping = True
        await _all(self._running)

    def follow(self, task_id: str) -> None:
        """Follow a task, if there is room for one more follower."""
        if sum(not task.done() for task in self._followers) < FOLLOWERS_MAX:
            follower = Follower(self.daemon, task_id, self._follower_dice.choice(WAYS))
            self.record.followed.append(follower.followed)
            self._followers.append(asyncio.create_task(follower.run()))

    def look(self) -> None:
        """Raise what a client or a follower has failed of: a test must not go on without them."""
        for task in (*self._running, *self._followers):
            if task.done():
                task.result()

    async def parade(self) -> None:
        """Ask for one task of each kind and follow them, whatever happens to the daemon meanwhile."""
        with Client(self, "clerk", random.Random(0)) as clerk:
            for name, arguments, options in PARADE:
                await clerk.insist(name, arguments, options)

    async def settle(self) -> None:
        """Answer, resume and cancel until nothing is left to do, however often the daemon dies; then wait for the followers."""
        with Client(self, "clerk", random.Random(0)) as clerk:
            async with asyncio.timeout(SETTLE_S):
                await clerk.settle()
                await _all(self._followers)

    async def abandon(self) -> None:
        """Stop at once, because the test has failed."""
        tasks = [*self._running, *self._followers]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Client:
    """One client, who does one thing after the other."""

    def __init__(self, load: Load, name: str, dice: random.Random) -> None:
        self._load = load
        self._daemon = load.daemon
        self._record = load.record
        self._name = name
        self._dice = dice
        self._http: Http | None = None
        self._life = 0
        self._again: list[Json] = []
        """Creations with a key of whose answer nobody knows."""
        self.is_stopping = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def _close(self) -> None:
        if self._http is not None:
            self._http.close()
            self._http = None

    async def run(self) -> None:
        """Do things while there is a daemon to ask, and at last ask again for what was left unknown."""
        with self:
            while not self.is_stopping or self._again:
                await self._daemon.up.wait()
                try:
                    await self._act()
                except (Lost, Unsent):
                    await asyncio.sleep(PAUSE_S)
                else:
                    await asyncio.sleep(self._dice.uniform(0, THINK_S))

    async def _act(self) -> None:
        if self._again:
            await self._create(self._again[-1])
            self._again.pop()
            return
        acts: list[tuple[Any, int]] = [
            (self._create_new, 6),
            (self._invoke, 1),
            (self._steer, 5),
            (self._attend, 5),
            (self._look, 1),
        ]
        await self._dice.choices([act for act, _ in acts], [weight for _, weight in acts])[0]()

    # Calls

    async def _call(self, method: str, params: Json) -> Any:
        if self._http is None or self._life != self._daemon.starts:
            self._close()
            self._http, self._life = Http(self._daemon.port, self._daemon.token), self._daemon.starts
        return await self._http.call(method, params)

    async def _do(self, kind: str, method: str, params: Json, /, **facts: Any) -> Operation:
        """Make a call and note what came of it. Raises: Lost, Unsent."""
        operation = self._record.begin(self._name, kind, life=self._daemon.starts, **facts)
        try:
            operation.end("ok", await self._call(method, params))
        except Refused as refused:
            operation.end("fail", refused.error)
        except Unsent:
            self._record.drop(operation)
            raise
        except BaseException:
            operation.end("unknown")
            raise
        return operation

    # What a client does

    async def _create_new(self) -> None:
        capability_id, arguments, options = order(self._dice, len(self._record.operations))
        is_async = self._dice.random() < 0.8
        options |= {"async": is_async} if is_async else {"wait_ms": 200}
        params = {
            "capability_id": capability_id,
            "arguments": arguments,
            "options": options,
            "metadata": {"op": arguments["op"]},
        }
        try:
            await self._create(params)
        except Lost:
            if "idempotency_key" in options:
                self._again.append(params)
            raise

    async def _create(self, params: Json) -> None:
        op, capability_id = params["arguments"]["op"], params["capability_id"]
        operation = await self._do("create", "aios/task.create", params, op=op)
        if operation.outcome == "ok":
            self._record.see(operation.value)
            self._got(operation.value, capability_id)

    async def _invoke(self) -> None:
        op = len(self._record.operations)
        params = {"capability_id": "test.faults.plain", "arguments": {"op": op, "work_ms": self._dice.choice([0, 20])}}
        operation = await self._do("invoke", "aios/capability.invoke", params, op=op)
        if operation.outcome == "ok":
            self._record.see({"task_id": operation.value["task_id"], "status": "completed"})

    def _got(self, task: Json, capability_id: str) -> None:
        if task["status"] not in TERMINAL:
            self._load.tasks.append((task["task_id"], capability_id))
        if self._dice.random() < 0.25:
            self._load.follow(task["task_id"])

    async def _steer(self) -> None:
        """Pause, resume or cancel some task."""
        if not self._load.tasks:
            return
        task_id, capability_id = self._dice.choice(self._load.tasks[-LATELY:])
        kind = self._dice.choices(["pause", "resume", "cancel"], [4, 5, 2 if capability_id.endswith("endless") else 1])[
            0
        ]
        await self._do(kind, f"aios/task.{kind}", {"task_id": task_id}, task_id=task_id)

    async def _attend(self) -> None:
        """Look at some task and give it what it waits for."""
        if not self._load.tasks:
            return
        chosen = self._dice.choice(self._load.tasks)
        await self._help_on(await self._get(chosen[0]), is_gentle=True)

    async def _get(self, task_id: str) -> Json:
        operation = await self._do("get", "aios/task.get", {"task_id": task_id}, task_id=task_id)
        if operation.outcome != "ok":
            # An acknowledged task must be there; the checker will say so.
            return {"task_id": task_id, "status": "missing"}
        self._record.see(operation.value)
        if operation.value["status"] in TERMINAL:
            self._load.tasks[:] = [each for each in self._load.tasks if each[0] != task_id]
        return operation.value

    async def _look(self) -> None:
        operation = await self._do("list", "aios/task.list", {"pagination": {"limit": 20}})
        for task in operation.value["tasks"]:
            self._record.see(task)

    async def _help_on(self, task: Json, *, is_gentle: bool) -> None:
        task_id = task["task_id"]
        about: Json = {"task_id": task_id}
        match task["status"]:
            case "input_required":
                value = len(self._record.operations)
                await self._do("input", "aios/task.input", about | {"input": value}, task_id=task_id, value=value)
            case "auth_required":
                given = {"type": "api_key", "api_key": "k" * 20}
                await self._do(
                    "authenticate", "aios/task.authenticate", about | {"auth_response": given}, task_id=task_id
                )
            case "paused" if not is_gentle:
                await self._do("resume", "aios/task.resume", about, task_id=task_id)
            case "working" if task["capability_id"].endswith("endless"):
                # Else those that never end would soon have taken all slots.
                kind = "cancel" if is_gentle or self._is_steered(task_id) else "pause"
                await self._do(kind, f"aios/task.{kind}", about, task_id=task_id)
            case _:
                pass

    def _is_steered(self, task_id: str) -> bool:
        """Whether some command to the task is known or may be."""
        return any(
            operation.kind in {"pause", "resume"} and operation.facts["task_id"] == task_id
            for operation in self._record.operations
        )

    # What the clerk does

    async def insist(self, name: str, arguments: Json, options: Json) -> None:
        """Create a task, and ask again with the same key until there is an answer; then follow it."""
        op = len(self._record.operations)
        params: Json = {
            "capability_id": f"test.faults.{name}",
            "arguments": {"op": op, **arguments},
            "options": {"async": True, "idempotency_key": f"key-{op}", **options},
            "metadata": {"op": op},
        }
        is_made = False
        while not is_made:
            await self._daemon.up.wait()
            try:
                await self._create(params)
                is_made = True
            except (Lost, Unsent):
                await asyncio.sleep(PAUSE_S)
        self._load.follow(self._load.tasks[-1][0])

    async def settle(self) -> None:
        """Help until all tasks have ended."""
        is_settled = False
        while not is_settled:
            await self._daemon.up.wait()
            is_settled = await self._settles()
            await asyncio.sleep(SETTLE_EVERY_S)

    async def _settles(self) -> bool:
        """Bring every task nearer to its end; say whether all have ended."""
        asked = {"filter": {"status": UNFINISHED}, "pagination": {"limit": 1000}}
        try:
            left = (await self._call("aios/task.list", asked))["tasks"]
            for task in left:
                if task["status"] != "pending":
                    await self._help_on(task, is_gentle=False)
        except (Lost, Unsent):
            return False
        return not left


async def _all(tasks: list[asyncio.Task[None]]) -> None:
    """Wait for all; the first that failed is raised."""
    if tasks:
        await asyncio.gather(*tasks)
