"""The bare server: what uvicorn alone answers on this machine, JSON in and JSON out, nothing in between."""

from __future__ import annotations

import socket
from typing import Any

import msgspec
import uvicorn


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Read the body, decode it, and answer with a part of it."""
    body = b""
    while True:
        message = await receive()
        body += message["body"]
        if not message["more_body"]:
            break
    asked = msgspec.json.decode(body)
    answer = msgspec.json.encode({"jsonrpc": "2.0", "id": asked["id"], "result": asked["params"]})
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(answer))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


if __name__ == "__main__":
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    print(f"ready http://127.0.0.1:{bound.getsockname()[1]}", flush=True)
    config = uvicorn.Config(app, loop="uvloop", http="httptools", log_level="error", access_log=False, lifespan="off")
    uvicorn.Server(config).run(sockets=[bound])
