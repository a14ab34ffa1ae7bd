"""`aios/capability.*` (protocol.md §8): what can be asked for, and tasks in fewer words."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from aios.adapter import Capability
from aios.engine.orders import NewTask
from aios.errors import AiosError, InputRequired, InvalidRequest, TaskTimeout, UserCanceled
from aios.errors.wire import from_wire
from aios.model import AuthRequest, InputRequest, JsonObject, SessionId, Status, Task, wire_time
from aios.protocol.capability import (
    CapabilitiesListed,
    CapabilityCancel,
    CapabilityDetails,
    CapabilityInfo,
    CapabilityInvoke,
    CapabilityList,
    CapabilityState,
    CapabilityStatus,
    CapabilitySummary,
    Invoked,
    PermissionView,
)
from aios.protocol.params import WAIT_MAX_MS, Done, refuse
from aios.rules import events
from aios.service import access, stream, views
from aios.service.access import Act
from aios.service.call import Call, handles
from aios.service.task import is_settled


@handles(CapabilityList)
async def list_(call: Call, params: CapabilityList) -> CapabilitiesListed:
    """List what can be asked for."""
    namespace = "compat" if params.namespace == "app" else params.namespace
    found = call.engine.registry.capabilities(namespace=namespace, category=params.category)
    return CapabilitiesListed(capabilities=[_summary(each) for each in found])


@handles(CapabilityInfo)
async def info(call: Call, params: CapabilityInfo) -> CapabilityDetails:
    """Tell all about a capability."""
    found = call.engine.registry.capability(params.capability_id)
    return CapabilityDetails(
        id=found.id,
        name=found.name,
        description=found.description,
        namespace=found.namespace,
        version=found.version,
        permission=PermissionView(level=found.permission_level, scope=found.scope, permission_id=found.permission_id),
        input=found.input,
        output=found.output,
        category=found.category,
        adapter_id=found.adapter_id,
        timeout_ms=found.timeout_ms,
        estimated_duration_ms=await call.engine.estimate(found.id),
        streaming=found.is_streaming,
        examples=found.examples,
    )


@handles(CapabilityInvoke)
async def invoke(call: Call, params: CapabilityInvoke) -> Invoked:
    """Run a capability as a foreground task and answer with what came of it."""
    access.check_create(call.principal)
    options = params.options
    send = call.connection.send
    if options.stream and send is None:
        raise refuse(
            "/options/stream", "nothing can be sent before the answer here: ask with Accept: text/event-stream"
        )
    order = NewTask(
        capability_id=params.capability_id,
        principal=call.principal.user,
        arguments=params.arguments,
        session_id=await _session_id(call, params.context.session_id),
        timeout_ms=options.timeout_ms,
        default_timeout_ms=call.engine.limits.invoke_timeout_ms,
        idempotency_key=options.idempotency_key,
    )
    if options.stream and send is not None:
        async with call.engine.followed(order) as task:
            return await stream.tell(call, task, send=send, outcome=_outcome)
    return await _outcome(call, await call.engine.run(order, is_settled, WAIT_MAX_MS))


async def _outcome(call: Call, task: Task) -> Invoked:
    """Say what came of an invocation.

    Raises:
        AiosError: The task's own error; `UserCanceled`; `InputRequired` where it waits for someone, and goes on waiting.
    """
    if task.status is Status.COMPLETED:
        lasted = (task.ended_at or task.updated_at) - (task.started_at or task.spec.created_at)
        return Invoked(
            success=True,
            message=_message(task),
            data=views.result(task),
            task_id=task.task_id,
            execution_time_ms=lasted // timedelta(milliseconds=1),
        )
    if task.status is Status.FAILED:
        raise _failure(task)
    if task.status is Status.CANCELED:
        history = await call.engine.transitions(task)
        reason: Any = history[-1].get("reason") if history else None
        raise UserCanceled("the task was canceled", task_id=task.task_id, reason=reason)
    raise _waiting(task)


@handles(CapabilityStatus)
async def status(call: Call, params: CapabilityStatus) -> CapabilityState:
    """Say how far a task is."""
    task = await access.reach_task(call.engine, call.principal, params.task_id, Act.READ)
    return CapabilityState(
        task_id=task.task_id,
        status="running" if task.status is Status.WORKING else task.status,
        progress=_percent(task),
        message=_message(task),
        started_at=None if task.started_at is None else wire_time(task.started_at),
        error=views.error(task),
        **({"result": views.result(task)} if task.status is Status.COMPLETED else {}),
    )


@handles(CapabilityCancel)
async def cancel(call: Call, params: CapabilityCancel) -> Done:
    """Cancel a task."""
    task = await access.reach_task(call.engine, call.principal, params.task_id, Act.STEER)
    await call.engine.cancel(task.task_id)
    return Done(success=True)


async def _session_id(call: Call, named: str | None) -> SessionId:
    """Say in which session to run; the params may name it where neither header nor handshake does.

    Raises:
        InvalidRequest: They name another one than the connection's.
    """
    if named is None or named == call.session_id:
        return call.session_id
    if call.connection.session is not None or call.connection.session_id is not None:
        raise InvalidRequest("context.session_id is not the session of this connection")
    return (await call.service.sessions.use(named, call.principal)).session_id


def _summary(capability: Capability) -> CapabilitySummary:
    return CapabilitySummary(
        id=capability.id,
        name=capability.name,
        namespace=capability.namespace,
        version=capability.version,
        permission_level=capability.permission_level,
        description=capability.description,
        category=capability.category,
    )


def _message(task: Task) -> str:
    return (task.progress.message if task.progress else None) or ""


def _percent(task: Task) -> int:
    if task.status is Status.COMPLETED:
        return 100
    return int((task.progress.percent if task.progress else None) or 0)


def _failure(task: Task) -> AiosError:
    """Make the call's error of the task's, which says for itself which task it was."""
    error = from_wire(task.error or {})
    error.data["task_id"] = task.task_id
    if isinstance(error, TaskTimeout):
        error.title = TaskTimeout.title
    return error


def _waiting(task: Task) -> AiosError:
    data: JsonObject = {"task_id": task.task_id}
    match task.request:
        case InputRequest() as request:
            return InputRequired("answer with aios/task.input", **data, **events.input_request_to_wire(request))
        case AuthRequest() as request:
            shown = events.auth_request_to_wire(request)
            return InputRequired("sign in with aios/task.authenticate", **data, auth_request=shown)
        case None:
            return TaskTimeout("the task has not ended yet; follow it with aios/task.subscribe", **data)
