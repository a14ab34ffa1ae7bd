"""Everything that can go wrong, as one tree.

```
AiosError
├── ParseError · InvalidRequest · MethodNotFound · InvalidParams · InternalError    JSON-RPC's own
├── PermissionDenied ── AuthenticationRequired
├── InputRequired · UserCanceled
├── CapabilityNotFound · AdapterUnavailable · PlatformUnsupported
├── TaskTimeout
├── QueueFull · RateLimited
├── ResourceBusy ── StoreUnavailable
├── VersionMismatch · NotInitialized · AlreadyInitialized
├── SandboxViolation · FileMissing
├── SessionExpired · SessionNotFound
├── NotFound ── TaskNotFound · ArtifactNotFound · SubscriptionNotFound
├── TaskFinal · InvalidTaskState
├── ValidationFailed ── InvalidInput
├── CapabilityFailed                what a capability raises to fail its task in its own words
├── WorkerLost · CapabilityChanged · StepNameRepeated
├── DaemonUnreachable · AnswerLost  raised by the client, never sent: nothing was done; nobody knows whether it was
└── Conflict                        inside the house only: somebody wrote first
```

On the wire an error is `{code, message, data}` (protocol.md §11): `message` is the table's short text (`title`), the sentence
that says what was wrong and what to do is `data.detail`, and `data.error_id` names the class, by which `errors/wire.py`
raises the same class again.
"""

from __future__ import annotations

from typing import Any, ClassVar


class AiosError(Exception):
    """Any failure that is told to a caller.

    Args:
        detail: A sentence that says what was wrong, where, and what to do about it.
        data: Facts beside it, values that are JSON. They travel in `error.data`.
    """

    code: ClassVar[int] = -32603
    error_id: ClassVar[str] = "JSONRPC-INTERNAL-ERROR"
    title: str = "Internal error"
    is_retryable: bool = False
    number: int | None = None
    """The code of this one instance, where it is not its class's."""

    def __init__(self, detail: str = "", **data: Any) -> None:
        super().__init__(detail or self.title)
        self.detail = detail
        self.data = data

    @property
    def wire_code(self) -> int:
        """The number on the wire; a class has one, a `CapabilityFailed` may choose its own."""
        return self.code if self.number is None else self.number

    def to_wire(self) -> dict[str, Any]:
        """Give the error object of JSON-RPC, which is also a failed task's `error` (protocol.md §11)."""
        data: dict[str, Any] = {**self.data, "error_id": self.error_id}
        if self.detail and self.detail != self.title:
            data["detail"] = self.detail
        if self.is_retryable:
            data["retryable"] = True
        return {"code": self.wire_code, "message": self.title, "data": data}


class ParseError(AiosError):
    """The bytes are not the JSON this protocol accepts."""

    code = -32700
    error_id = "JSONRPC-PARSE-ERROR"
    title = "Parse error"


class InvalidRequest(AiosError):
    """The JSON is not a JSON-RPC request."""

    code = -32600
    error_id = "JSONRPC-INVALID-REQUEST"
    title = "Invalid Request"


class MethodNotFound(AiosError):
    """No method has this name."""

    code = -32601
    error_id = "JSONRPC-METHOD-NOT-FOUND"
    title = "Method not found"


class InvalidParams(AiosError):
    """The params have a wrong type, range or size; `data.errors` says where."""

    code = -32602
    error_id = "JSONRPC-INVALID-PARAMS"
    title = "Invalid params"


class InternalError(AiosError):
    """The daemon or a capability failed in a way nobody foresaw; `data.trace_id` finds it in the log."""


class PermissionDenied(AiosError):
    """The caller, or the task, may not do this."""

    code = -32001
    error_id = "AIOS-PERM-DENIED"
    title = "Permission denied"


class AuthenticationRequired(PermissionDenied):
    """No credential was presented, or one that is not valid; `data.authentication_required` tells the two apart."""

    def __init__(self, detail: str = "", **data: Any) -> None:
        super().__init__(detail, **{"authentication_required": True, **data})


class InputRequired(AiosError):
    """The task waits for a person; the call cannot be answered with a result."""

    code = -32002
    error_id = "AIOS-INPUT-REQUIRED"
    title = "Input required"


class UserCanceled(AiosError):
    """The task was canceled before it had a result."""

    code = -32002
    error_id = "AIOS-USER-CANCELLED"
    title = "User cancelled"


class CapabilityNotFound(AiosError):
    """No adapter offers this capability."""

    code = -32003
    error_id = "AIOS-CAP-NOT-FOUND"
    title = "Capability not found"


class AdapterUnavailable(AiosError):
    """The adapter is known but cannot work now."""

    code = -32004
    error_id = "AIOS-ADAPTER-UNAVAIL"
    title = "Adapter not available"
    is_retryable = True


class TaskTimeout(AiosError):
    """An attempt, a question or a wait took longer than it may."""

    code = -32005
    error_id = "AIOS-TIMEOUT"
    title = "Task timeout"


class QueueFull(AiosError):
    """The queue has no room for another pending task."""

    code = -32006
    error_id = "AIOS-QUEUE-FULL"
    title = "Task queue full"
    is_retryable = True


class RateLimited(AiosError):
    """The caller asks too often."""

    code = -32006
    error_id = "AIOS-RATE-LIMITED"
    title = "Rate limited"
    is_retryable = True


class ResourceBusy(AiosError):
    """Something the call needs is in use or out of order; trying again later may help."""

    code = -32007
    error_id = "AIOS-RESOURCE-BUSY"
    title = "Resource busy"
    is_retryable = True


class StoreUnavailable(ResourceBusy):
    """The store could not write or read (disk full, read-only, failing); nothing was changed."""


class PlatformUnsupported(AiosError):
    """This machine lacks what the capability needs."""

    code = -32008
    error_id = "AIOS-PLATFORM-UNSUPPORTED"
    title = "Platform not supported"


class VersionMismatch(AiosError):
    """Client and server share no protocol version, or a required extension is unknown."""

    code = -32009
    error_id = "AIOS-VERSION-MISMATCH"
    title = "Version mismatch"


class NotInitialized(AiosError):
    """The connection has not been opened by `aios/initialize`."""

    code = -32009
    error_id = "AIOS-LIFECYCLE"
    title = "Not initialized"


class AlreadyInitialized(AiosError):
    """The connection was initialized before."""

    code = -32009
    error_id = "AIOS-LIFECYCLE"
    title = "Already initialized"


class SandboxViolation(AiosError):
    """A path or an action leaves the root it was given."""

    code = -32010
    error_id = "AIOS-SANDBOX-VIOLATION"
    title = "Sandbox violation"


class FileMissing(AiosError):
    """The file or folder does not exist."""

    code = -32102
    error_id = "AIOS-FILE-NOT-FOUND"
    title = "File not found"


class SessionExpired(AiosError):
    """The session's time is over."""

    code = -32104
    error_id = "AIOS-SESSION-EXPIRED"
    title = "Session expired"


class SessionNotFound(AiosError):
    """There is no such session, or it is somebody else's."""

    code = -32105
    error_id = "AIOS-SESSION-NOT-FOUND"
    title = "Session not found"


class NotFound(AiosError):
    """There is no such thing, or it is somebody else's: the answer is the same."""

    code = -32106
    error_id = "AIOS-NOT-FOUND"
    title = "Not found"


class TaskNotFound(NotFound):
    """There is no such task for this caller."""

    error_id = "AIOS-TASK-NOT-FOUND"
    title = "Task not found"


class ArtifactNotFound(NotFound):
    """There is no such artifact for this caller."""

    error_id = "AIOS-ARTIFACT-NOT-FOUND"
    title = "Artifact not found"


class SubscriptionNotFound(NotFound):
    """There is no such subscription for this caller."""

    error_id = "AIOS-SUBSCRIPTION-NOT-FOUND"
    title = "Subscription not found"


class TaskFinal(AiosError):
    """The task has reached a terminal status and nothing moves it any more.

    Args:
        status: The terminal status, one of the wire words; it completes the title.
    """

    code = -32107
    error_id = "AIOS-TASK-FINAL"
    title = "Task already completed"

    def __init__(self, detail: str = "", *, status: str = "completed", **data: Any) -> None:
        super().__init__(detail, status=status, **data)
        self.title = f"Task already {status}"


class InvalidTaskState(AiosError):
    """The task's status does not allow this; `data` has `status`, `requested` and `allowed`."""

    code = -32108
    error_id = "AIOS-INVALID-STATE"
    title = "Invalid task state"


class ValidationFailed(AiosError):
    """Arguments or values break the rules they are held to; `data.errors` says where."""

    code = -32108
    error_id = "AIOS-VALIDATION-FAILED"
    title = "Validation failed"


class InvalidInput(ValidationFailed):
    """The answer does not fit the question; the task still waits. `data.errors` says where."""

    title = "Invalid input"


class CapabilityFailed(AiosError):
    """Raised by a capability to fail its attempt in its own words (design.md §9).

    Args:
        message: What went wrong, as the task's `error.message`.
        code: The error's number; -32603 if the capability has none of its own.
        data: More facts, values that are JSON, added to `error.data`.
        retryable: Whether another attempt may help. `False` marks the error final.
    """

    error_id = "AIOS-CAPABILITY-FAILED"

    def __init__(
        self, message: str, *, code: int = -32603, data: dict[str, Any] | None = None, retryable: bool = True
    ) -> None:
        super().__init__(message, **(data or {}))
        self.title = message
        self.number = code
        self.is_retryable = retryable


class WorkerLost(AiosError):
    """The worker that ran the task vanished too often, or the capability may not run again after that."""

    error_id = "AIOS-WORKER-LOST"
    title = "Worker lost"


class CapabilityChanged(AiosError):
    """A re-run came to a recorded step with another function or other arguments."""

    error_id = "AIOS-CAPABILITY-CHANGED"
    title = "capability changed"


class StepNameRepeated(AiosError):
    """Two steps of one name are open at once, so their records could not be told apart; give each a `key`."""

    error_id = "AIOS-STEP-NAME-REPEATED"
    title = "Step name repeated"


class DaemonUnreachable(AiosError):
    """No daemon answers there, or what answers is none; nothing was asked of it. Raised by the client, never sent."""

    error_id = "AIOS-UNREACHABLE"
    title = "Daemon unreachable"
    is_retryable = True


class AnswerLost(AiosError):
    """The connection ended between a call and its answer: it may have been carried out or not. Raised by the client."""

    error_id = "AIOS-ANSWER-LOST"
    title = "Answer lost"


class Conflict(AiosError):
    """Somebody else changed the record first. Never leaves the engine: the command is decided anew."""

    error_id = "AIOS-CONFLICT"
    title = "Conflict"
    is_retryable = True
