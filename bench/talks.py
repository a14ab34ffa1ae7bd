"""How a client speaks with each HTTP server: one task from asking to its end, and what must have come on the way."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from bench.wire import Broken, Wire, post

STREAM = "text/event-stream"
ARGUMENTS = {
    "query": "a light notebook with a long battery life, below a kilogram",
    "sites": ["https://one.example/search", "https://two.example/search", "https://three.example/search"],
    "limit": 10,
}
RPC = "/aios/rpc"
A2A = "A2A-Version: 1.0\r\n"

Talk = Callable[[Wire], Awaitable[None]]


class Where(msgspec.Struct):
    """A server's place."""

    host: str
    port: int
    token: str = ""

    @property
    def name(self) -> str:
        """As in a request's header."""
        return f"{self.host}:{self.port}"


def call(method: str, params: object, number: int = 1) -> bytes:
    """Make the body of a JSON-RPC request."""
    return msgspec.json.encode({"jsonrpc": "2.0", "id": number, "method": method, "params": params})


def expect(body: bytes, *signs: bytes) -> None:
    """Raises: Broken, where one of the signs is missing."""
    for sign in signs:
        if sign not in body:
            raise Broken(f"{sign.decode()} is missing in {body[-600:]!r}")


def create(*, is_async: bool) -> bytes:
    """Make the body that creates the task of the bench."""
    return call(
        "aios/task.create", {"capability_id": "bench.once", "arguments": ARGUMENTS, "options": {"async": is_async}}
    )


def sync(where: Where) -> Talk:
    """Create, and wait for the end in the same request."""
    request = post(RPC, create(is_async=False), host=where.name, token=where.token)

    async def talk(wire: Wire) -> None:
        expect(await wire.ask(request), b'"status":"completed"', b'"found":3')

    return talk


def stream(where: Where) -> Talk:
    """Invoke, with progress pushed before the answer, in one request."""
    body = call(
        "aios/capability.invoke", {"capability_id": "bench.once", "arguments": ARGUMENTS, "options": {"stream": True}}
    )
    request = post(RPC, body, host=where.name, token=where.token, accept=STREAM)

    async def talk(wire: Wire) -> None:
        expect(await wire.ask(request), b"aios/stream.progress", b'"success":true')

    return talk


def follow(where: Where) -> Talk:
    """Create, then subscribe: the whole log as events, in a second request."""
    creating = post(RPC, create(is_async=True), host=where.name, token=where.token)
    head, sign = b'"task_id":"', b'"'

    async def talk(wire: Wire) -> None:
        created = await wire.ask(creating)
        start = created.index(head) + len(head)
        task_id = created[start : created.index(sign, start)].decode()
        body = call("aios/task.subscribe", {"task_id": task_id, "from": "start"})
        events = await wire.ask(post(RPC, body, host=where.name, token=where.token, accept=STREAM))
        expect(events, b"id: evt-001\n", b"event: task.progress\n", b"id: evt-004\n", b'"found":3')

    return talk


def bare(where: Where) -> Talk:
    """Ask the bare server."""
    request = post("/", create(is_async=False), host=where.name)

    async def talk(wire: Wire) -> None:
        expect(await wire.ask(request), b"bench.once")

    return talk


def a2a(where: Where) -> Talk:
    """Send a message with the answer as a stream of events."""
    message = {
        "message": {
            "messageId": "m-1",
            "role": "ROLE_USER",
            "parts": [{"data": ARGUMENTS}],
        }
    }
    request = post("/", call("SendStreamingMessage", message), host=where.name, accept=STREAM, more=A2A)

    async def talk(wire: Wire) -> None:
        expect(await wire.ask(request), b"half of it", b"TASK_STATE_COMPLETED")

    return talk


TALKS: dict[str, Callable[[Where], Talk]] = {
    "sync": sync,
    "stream": stream,
    "follow": follow,
    "bare": bare,
    "a2a": a2a,
}
