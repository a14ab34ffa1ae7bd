"""`aios/task.*` (protocol.md §4, §5)."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from aios.engine.orders import NewTask
from aios.model import Retry, Status, Task, TaskQuery, wire_time
from aios.protocol.params import Done, refuse
from aios.protocol.subscriptions import (
    EventView,
    Resubscribed,
    Subscribed,
    TaskResubscribe,
    TaskSubscribe,
    TaskUnsubscribe,
)
from aios.protocol.task import (
    HistoryFilter,
    Pagination,
    RetryOptions,
    Sort,
    TaskAuthenticate,
    TaskCancel,
    TaskCanceled,
    TaskCreate,
    TaskFilter,
    TaskGet,
    TaskHistory,
    TaskInput,
    TaskList,
    TaskMoved,
    TaskPause,
    TaskResume,
    TasksListed,
    TaskView,
)
from aios.service import access, positions, views
from aios.service.access import Act
from aios.service.call import Call, handles

MISSED_EVENTS_MAX = 1_000
MISSED_BYTES_MAX = 1024 * 1024


@handles(TaskCreate)
async def create(call: Call, params: TaskCreate) -> TaskView:
    """Accept a task; answer at once if it is `async`, else when it has ended or waits for someone."""
    options = params.options
    access.check_create(call.principal, options.priority)
    order = _order(call, params)
    if not options.is_async:
        return await _show(call, await call.engine.run(order, is_settled, options.wait_ms))
    task = await call.engine.create(order)
    return TaskView(
        task_id=task.task_id,
        status=Status.PENDING,
        created_at=wire_time(task.spec.created_at),
        estimated_duration_ms=await call.engine.estimate(task.spec.capability_id),
    )


@handles(TaskGet)
async def get(call: Call, params: TaskGet) -> TaskView:
    """Show a task."""
    task = await access.reach_task(call.engine, call.principal, params.task_id, Act.READ)
    return await _show(call, task, has_history=params.include_history)


@handles(TaskList)
async def list_(call: Call, params: TaskList) -> TasksListed:
    """List the caller's tasks; an operator's are everyone's."""
    query = _query(call, params.filter, params.pagination, params.sort)
    return await _page(call, query)


@handles(TaskHistory)
async def history(call: Call, params: TaskHistory) -> TasksListed:
    """List finished tasks."""
    asked: HistoryFilter = params.filter
    _check_order(asked.start_time, asked.end_time, "/filter/start_time")
    query = msgspec.structs.replace(
        _query(call, asked, params.pagination, params.sort),
        only_ended=True,
        ended_after=_instant(asked.start_time, "/filter/start_time"),
        ended_before=_instant(asked.end_time, "/filter/end_time"),
    )
    return await _page(call, query)


@handles(TaskCancel)
async def cancel(call: Call, params: TaskCancel) -> TaskCanceled:
    """Cancel a task at once."""
    task = await access.reach_task(call.engine, call.principal, params.task_id, Act.STEER)
    task = await call.engine.cancel(task.task_id, params.reason)
    return TaskCanceled(
        task_id=task.task_id, status=task.status, canceled_at=wire_time(task.ended_at or task.updated_at)
    )


@handles(TaskPause)
async def pause(call: Call, params: TaskPause) -> TaskMoved:
    """Pause a working task."""
    task = await access.reach_task(call.engine, call.principal, params.task_id, Act.STEER)
    return _moved(await call.engine.pause(task.task_id, params.reason))


@handles(TaskResume)
async def resume(call: Call, params: TaskResume) -> TaskMoved:
    """Let a paused task go on."""
    task = await access.reach_task(call.engine, call.principal, params.task_id, Act.STEER)
    return _moved(await call.engine.resume(task.task_id, params.reason))


@handles(TaskInput)
async def input_(call: Call, params: TaskInput) -> TaskMoved:
    """Answer a task's question."""
    task = await access.reach_task(call.engine, call.principal, params.task_id, Act.ANSWER)
    return _moved(await call.engine.give_input(task.task_id, params.input))


@handles(TaskAuthenticate)
async def authenticate(call: Call, params: TaskAuthenticate) -> TaskMoved:
    """Give a task its sign-in."""
    task = await access.reach_task(call.engine, call.principal, params.task_id, Act.ANSWER)
    return _moved(await call.engine.authenticate(task.task_id, params.auth_response))


@handles(TaskSubscribe)
async def subscribe(call: Call, params: TaskSubscribe) -> Subscribed:
    """Fix a cursor; the events follow the answer, or wait for a reader."""
    task = await access.reach_task(call.engine, call.principal, params.task_id, Act.READ)
    subscription = await call.service.subscriptions.open(
        call.principal,
        task,
        kinds=positions.kinds(params.events),
        after=positions.after(task, params.from_, path="/from"),
    )
    call.subscriptions.append(subscription)
    return Subscribed(subscription_id=subscription.subscription_id, task_id=task.task_id)


@handles(TaskUnsubscribe)
async def unsubscribe(call: Call, params: TaskUnsubscribe) -> Done:
    """End a subscription."""
    subscriptions = call.service.subscriptions
    subscriptions.end(subscriptions.find(call.principal, params.subscription_id))
    return Done(success=True)


@handles(TaskResubscribe)
async def resubscribe(call: Call, params: TaskResubscribe) -> Resubscribed:
    """Give what was missed, as far as it fits, and go on after it."""
    task = await access.reach_task(call.engine, call.principal, params.task_id, Act.READ)
    after = positions.event_number(task, params.last_event_id, path="/last_event_id")
    subscription = await call.service.subscriptions.open(
        call.principal, task, kinds=positions.kinds(params.events), after=after
    )
    missed = await call.service.subscriptions.missed(
        subscription, task, limit=MISSED_EVENTS_MAX, max_bytes=MISSED_BYTES_MAX
    )
    call.subscriptions.append(subscription)
    return Resubscribed(
        subscription_id=subscription.subscription_id,
        task_id=task.task_id,
        missed_events=[
            EventView(id=each.event_id, event=each.kind, data=msgspec.Raw(each.data)) for each in missed.events
        ],
        events_lost=missed.is_cut,
        task=await _show(call, task) if missed.is_cut else None,
    )


def is_settled(task: Task) -> bool:
    """Whether a caller that waits for the task is to be answered: it has ended, or somebody must do something."""
    return task.status.is_terminal or task.status in {Status.INPUT_REQUIRED, Status.AUTH_REQUIRED}


def _order(call: Call, params: TaskCreate) -> NewTask:
    options = params.options
    if options.delay_ms is not None and options.run_at is not None:
        raise refuse("/options/run_at", "cannot stand beside delay_ms: give one of them")
    return NewTask(
        capability_id=params.capability_id,
        principal=call.principal.user,
        arguments=params.arguments,
        metadata=params.metadata,
        session_id=call.session_id,
        priority=options.priority,
        timeout_ms=options.timeout_ms,
        retry=_ONCE if options.retry is None else _retry(options.retry),
        is_detached=options.is_async,
        delay_ms=options.delay_ms,
        run_at=_instant(options.run_at, "/options/run_at"),
        expires_in_ms=options.expires_in_ms,
        idempotency_key=options.idempotency_key,
    )


_ONCE = Retry()


def _retry(options: RetryOptions) -> Retry:
    return Retry(
        max_attempts=options.max_attempts,
        delay_ms=options.delay_ms,
        backoff=options.backoff,
        max_delay_ms=options.max_delay_ms,
    )


def _instant(instant: datetime | None, path: str) -> datetime | None:
    """Bring a caller's instant to UTC and milliseconds. Raises: InvalidParams at the ends of the calendar."""
    if instant is None:
        return None
    try:
        return instant.astimezone(UTC).replace(microsecond=instant.microsecond // 1000 * 1000)
    except OverflowError:
        raise refuse(path, "lies outside the years 1 to 9999 in UTC") from None


def _check_order(start: datetime | None, end: datetime | None, path: str) -> None:
    if start is not None and end is not None and start > end:
        raise refuse(path, "lies after the end of the span")


def _query(call: Call, asked: TaskFilter, pagination: Pagination, sort: Sort) -> TaskQuery:
    """Turn a filter into the store's words.

    Raises:
        InvalidParams: The span of time ends before it starts.
    """
    _check_order(asked.created_after, asked.created_before, "/filter/created_after")
    return TaskQuery(
        principal=None if access.sees_all(call.principal) else call.principal.user,
        statuses=tuple(dict.fromkeys(asked.status)),
        capability_glob=_glob(asked.capability_id),
        tags=tuple(asked.tags),
        session_id=asked.session_id,
        created_after=_instant(asked.created_after, "/filter/created_after"),
        created_before=_instant(asked.created_before, "/filter/created_before"),
        limit=pagination.limit,
        offset=pagination.offset,
        cursor=pagination.cursor,
        sort=sort.field,
        is_descending=sort.order == "desc",
    )


def _glob(asked: str | None) -> str | None:
    """Tasks are kept under a capability's own id, also where an alias was asked for."""
    return f"compat.{asked[4:]}" if asked is not None and asked.startswith("app.") else asked


async def _page(call: Call, query: TaskQuery) -> TasksListed:
    page = await call.engine.tasks(query)
    return TasksListed(
        tasks=[
            views.summary(each, shows_sign_ins=access.sees_sign_ins(call.principal, owner=each.spec.principal))
            for each in page.tasks
        ],
        total=page.total,
        has_more=page.has_more,
        next_cursor=page.next_cursor,
        total_is_estimate=page.total_is_estimate,
    )


async def _show(call: Call, task: Task, *, has_history: bool = False) -> TaskView:
    shows = access.sees_sign_ins(call.principal, owner=task.spec.principal)
    return await views.whole(call.engine, task, shows_sign_ins=shows, has_history=has_history)


def _moved(task: Task) -> TaskMoved:
    return TaskMoved(task_id=task.task_id, status=task.status, updated_at=wire_time(task.updated_at))
