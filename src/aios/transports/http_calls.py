"""The shortest way of a call: `POST /aios/rpc` with one body in and one body out does without ASGI.

Everything else on the door, and a call that wants events, comes ahead of its turn, or waits for `100 Continue`, goes through
uvicorn's cycle; the guard before both is the same. What is left out here is half of what a call costs in the door.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from aios.failpoints import failpoint
from aios.service.call import Principal
from aios.transports.admission import Headers, Refused
from aios.transports.http import GRACE_MS, JSON, RPC, failed, wants_stream
from aios.transports.http_guard import Gate, GuardedHttp, Incoming, answer_of

if TYPE_CHECKING:
    from aios.transports.http import HttpDoor

_RPC = RPC.encode()


class _Silent:
    """Stands where uvicorn has an event that somebody waits for."""

    def set(self) -> None:
        """Nobody waits."""


_SILENT = _Silent()


class Call:
    """One call on its way: stands where uvicorn has its cycle."""

    __slots__ = ("caller", "disconnected", "keep_alive", "message_event", "parts", "request", "response_complete")

    def __init__(self, *, caller: Principal, request: Incoming, keep_alive: bool) -> None:
        self.caller = caller
        self.request = request
        self.parts: list[bytes] = []
        # What uvicorn's protocol looks at.
        self.keep_alive = keep_alive
        self.disconnected = False
        self.response_complete = False
        self.message_event = _SILENT


class CallingHttp(GuardedHttp):
    """A guarded connection that brings calls to the door by itself."""

    def __init__(self, *, config: Config, gate: Gate, door: HttpDoor) -> None:
        super().__init__(config=config, gate=gate)
        self._calls = door
        self._call: Call | None = None
        """The one whose body is being read."""

    def _begin(self, request: Incoming) -> None:
        self._call = self._taken(request)
        if self._call is None:
            super()._begin(request)
        else:
            self.cycle: Any = self._call

    def _taken(self, request: Incoming) -> Call | None:
        """Take a request that is a plain call; None: the application is to have it."""
        parser: Any = self.parser
        if self.url != _RPC or parser.get_method() != b"POST" or request.refused is not None:
            return None
        if self._is_busy or self.expect_100_continue or wants_stream(request.fields):
            return None
        try:
            caller = self._calls.admit_call(request.fields)
        except Refused:
            # The application finds out the same, and says so.
            return None
        is_kept = parser.should_keep_alive() and parser.get_http_version() != "1.0"
        return Call(caller=caller, request=request, keep_alive=is_kept)

    def _keep(self, body: bytes) -> None:
        if self._call is None:
            super()._keep(body)
        else:
            self._call.parts.append(body)

    def on_message_complete(self) -> None:
        call = self._call
        if call is None or call.response_complete:
            super().on_message_complete()
            return
        self._in_message = False
        self._unseen = 0
        self._rest()
        task = self.loop.create_task(self._carry_out(call))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        self.on_lost = lambda: self.loop.call_later(GRACE_MS / 1000, task.cancel)

    async def _carry_out(self, call: Call) -> None:
        body = call.parts[0] if len(call.parts) == 1 else b"".join(call.parts)
        try:
            status, answer = await self._calls.call(call.caller, call.request.fields, body)
        except Exception:
            call.keep_alive = False
            self._answer(call, *answer_of(failed(RPC)))
        else:
            headers = [JSON, (b"content-length", b"%d" % len(answer))] if answer else [(b"content-length", b"0")]
            self._answer(call, status, headers, answer)

    def _tell_refused(self) -> None:
        if self._call is None:
            super()._tell_refused()
        elif self._call.request.refused is not None:
            self._answer(self._call, *answer_of(self._call.request.refused))

    def _answer(self, call: Call, status: int, headers: Headers, body: bytes) -> None:
        """Write the whole answer at once."""
        if call.response_complete or self.transport.is_closing():
            call.response_complete = True
            return
        call.response_complete = True
        fields = [
            *self.server_state.default_headers,
            *headers,
            *self._calls.headers(call.request.fields),
        ]
        last = b"\r\n" if call.keep_alive else b"connection: close\r\n\r\n"
        failpoint("reply.ready")
        self.out.write_now(b"".join([STATUS_LINE[status], *[b"%b: %b\r\n" % field for field in fields], last, body]))
        failpoint("reply.written")
        if not call.keep_alive:
            self.transport.close()
        self.on_response_complete()
