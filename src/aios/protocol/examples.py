"""One example of params and result for each method, for documents; a test reads them with the methods' own types."""

from __future__ import annotations

from typing import Any, Final

from aios.model import JsonObject

_TASK: Final = "task-2f8kq0w3zrm5c7x1n9d4hb6tvy"
_SUBSCRIPTION: Final = "sub-2f8kq0w3zrm5c7x1n9d4hb6tvy"
_CREATED: Final = "2026-01-05T10:00:00.000Z"
_CAPABILITY: Final = "compat.browser.search_and_compare"
_QUERY: Final[JsonObject] = {"query": "无线耳机", "sites": ["jd.com", "taobao.com"]}
_PROGRESS: Final[JsonObject] = {"percent": 45, "message": "正在搜索淘宝...", "current_step": 2, "total_steps": 4}
_SUMMARY: Final[JsonObject] = {
    "task_id": _TASK,
    "status": "working",
    "created_at": _CREATED,
    "capability_id": _CAPABILITY,
    "progress": _PROGRESS,
}
_ARTIFACT: Final[JsonObject] = {
    "id": "art-2f8kq0w3zrm5c7x1n9d4hb6tvy",
    "name": "价格对比报告",
    "type": "report",
    "mime_type": "application/json",
    "created_at": "2026-01-05T10:01:00.000Z",
    "parts": [
        {"type": "text", "text": "## 价格对比结果"},
        {"type": "data", "data": {"jd": {"price": 299}, "taobao": {"price": 289}}},
    ],
    "metadata": {"source_task": _TASK, "version": 1},
}
_WALLPAPER: Final = "system.desktop.set_wallpaper"
_MOVED: Final[JsonObject] = {"task_id": _TASK, "status": "working", "updated_at": "2026-01-05T10:00:30.000Z"}

_CONNECTION: Final[dict[str, tuple[JsonObject, Any]]] = {
    "aios/initialize": (
        {
            "protocol_version": "0.3.0",
            "supported_versions": ["0.3.0", "0.2.0"],
            "client_info": {"name": "aios-client", "version": "1.0.0", "platform": "linux"},
            "capabilities": {"streaming": True, "batch": True, "notifications": True},
            "extensions": {"supported": ["urn:aios:ext:priority:1.0"], "required": []},
        },
        {
            "protocol_version": "0.3.0",
            "server_info": {"name": "aios-daemon", "version": "1.0.0"},
            "capabilities": {"streaming": True, "batch": True, "limits": {"max_concurrent_tasks": 100}},
            "session": {"session_id": "sess-001", "expires_at": "2026-01-05T12:00:00.000Z"},
        },
    ),
    "aios/initialized": ({}, {}),
    "aios/shutdown": (
        {"reason": "client_exit", "timeout_ms": 5000},
        {"success": True, "pending_tasks_cancelled": 2, "session_duration_ms": 60_000},
    ),
    "aios/ping": (
        {"timestamp": _CREATED},
        {"timestamp": _CREATED, "server_time": "2026-01-05T10:00:00.050Z"},
    ),
    "aios/pong": ({"timestamp": _CREATED, "server_time": "2026-01-05T10:00:00.050Z"}, {}),
}

_TASKS: Final[dict[str, tuple[JsonObject, Any]]] = {
    "aios/task.create": (
        {
            "capability_id": _CAPABILITY,
            "arguments": _QUERY,
            "options": {
                "async": True,
                "priority": "normal",
                "timeout_ms": 120_000,
                "retry": {"max_attempts": 3, "delay_ms": 1000},
            },
            "metadata": {"user_request": "比较京东和淘宝的耳机价格", "tags": ["shopping", "comparison"]},
        },
        {"task_id": _TASK, "status": "pending", "created_at": _CREATED, "estimated_duration_ms": 30_000},
    ),
    "aios/task.get": (
        {"task_id": _TASK, "include_history": True},
        {
            **_SUMMARY,
            "arguments": _QUERY,
            "artifacts": [],
            "state_history": [
                {"state": "pending", "timestamp": _CREATED},
                {"state": "working", "timestamp": "2026-01-05T10:00:01.000Z"},
            ],
        },
    ),
    "aios/task.list": (
        {
            "filter": {"status": ["pending", "working"], "capability_id": "compat.browser.*"},
            "pagination": {"limit": 10, "offset": 0},
            "sort": {"field": "created_at", "order": "desc"},
        },
        {"tasks": [_SUMMARY], "total": 1, "has_more": False},
    ),
    "aios/task.history": (
        {
            "filter": {
                "start_time": "2026-01-05T00:00:00Z",
                "end_time": "2026-01-05T23:59:59Z",
                "status": ["completed", "failed"],
            },
            "pagination": {"limit": 50, "offset": 0},
        },
        {"tasks": [], "total": 0, "has_more": False},
    ),
    "aios/task.cancel": (
        {"task_id": _TASK, "reason": "user_request"},
        {"task_id": _TASK, "status": "canceled", "canceled_at": "2026-01-05T10:01:00.000Z"},
    ),
    "aios/task.pause": ({"task_id": _TASK}, {**_MOVED, "status": "paused"}),
    "aios/task.resume": ({"task_id": _TASK}, _MOVED),
    "aios/task.input": (
        {"task_id": _TASK, "input": {"selected_product": "product-123", "confirm_purchase": True}},
        _MOVED,
    ),
    "aios/task.authenticate": (
        {
            "task_id": _TASK,
            "auth_response": {"type": "oauth2", "authorization_code": "...", "state": "..."},
        },
        _MOVED,
    ),
    "aios/task.subscribe": (
        {"task_id": _TASK, "events": ["status", "progress", "artifact", "log"]},
        {"subscription_id": _SUBSCRIPTION, "task_id": _TASK},
    ),
    "aios/task.unsubscribe": ({"subscription_id": _SUBSCRIPTION}, {"success": True}),
    "aios/task.resubscribe": (
        {"task_id": _TASK, "last_event_id": "evt-003"},
        {
            "subscription_id": _SUBSCRIPTION,
            "task_id": _TASK,
            "missed_events": [
                {"id": "evt-004", "event": "task.artifact", "data": {"task_id": _TASK, "artifact": _ARTIFACT}}
            ],
        },
    ),
    "aios/artifact.get": ({"artifact_id": _ARTIFACT["id"]}, {"artifact": _ARTIFACT}),
    "aios/artifact.list": ({"task_id": _TASK}, {"artifacts": [_ARTIFACT]}),
}

_CAPABILITIES: Final[dict[str, tuple[JsonObject, Any]]] = {
    "aios/capability.list": (
        {"namespace": "system", "category": "desktop"},
        {
            "capabilities": [
                {
                    "id": _WALLPAPER,
                    "name": "设置壁纸",
                    "namespace": "system",
                    "version": "1.0.0",
                    "permission_level": "low",
                }
            ]
        },
    ),
    "aios/capability.info": (
        {"capability_id": _WALLPAPER},
        {
            "id": _WALLPAPER,
            "name": "设置壁纸",
            "description": "设置桌面壁纸",
            "namespace": "system",
            "version": "1.0.0",
            "permission": {"level": "low", "scope": "system.desktop"},
            "input": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
        },
    ),
    "aios/capability.invoke": (
        {
            "capability_id": _WALLPAPER,
            "arguments": {"path": "/home/user/wallpaper.jpg", "mode": "fill"},
            "options": {"timeout_ms": 30_000, "stream": False},
        },
        {
            "success": True,
            "message": "壁纸已更换",
            "data": {"current_path": "/home/user/wallpaper.jpg"},
            "task_id": _TASK,
            "execution_time_ms": 150,
        },
    ),
    "aios/capability.status": (
        {"task_id": _TASK},
        {"task_id": _TASK, "status": "running", "progress": 75, "message": "正在处理...", "started_at": _CREATED},
    ),
    "aios/capability.cancel": ({"task_id": _TASK}, {"success": True}),
}

EXAMPLES: Final[dict[str, tuple[JsonObject, Any]]] = {**_CONNECTION, **_TASKS, **_CAPABILITIES}
"""Params and result by method."""
