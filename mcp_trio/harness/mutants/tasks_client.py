"""A small healthy client with tasks, for mutants: the library's own client has none.

It speaks 2025-11-25 over a stream of frames. It calls each tool that it finds, as a task where that
is possible, and follows the task to its end; what it is asked for meanwhile, it answers, as a task
if it is asked so.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

import attrs
import trio

from mcp_trio.connection import FrameStream, open_private_nursery
from mcp_trio.protocol.errors import INVALID_PARAMS, METHOD_NOT_FOUND, MCPError
from mcp_trio.protocol.meta import META, RELATED_TASK
from mcp_trio.wire.jsonrpc import JSONObject

WORK_TIME: Final = 0.5
POLL_INTERVAL: Final = 200  # milliseconds
LONGEST_TTL: Final = 3_600_000  # milliseconds
PAGE: Final = 2
FINISHED: Final = ("completed", "failed", "cancelled")
CAPABILITIES: Final[JSONObject] = {
    "elicitation": {"form": {}},
    "tasks": {"list": {}, "cancel": {}, "requests": {"elicitation": {"create": {}}}},
}


async def play_with_tasks(target: Any, **_: Any) -> None:
    """Use a server."""
    async with open_private_nursery() as nursery:
        await _Client(target, nursery).play()


@attrs.define(eq=False)
class _Task:
    ttl: int
    status: str = "working"
    id: str = attrs.field(factory=lambda: str(uuid.uuid4()))
    over: trio.Event = attrs.field(factory=trio.Event)

    def end(self, status: str) -> None:
        if self.status not in FINISHED:
            self.status = status
            self.over.set()

    def state(self) -> JSONObject:
        return {
            "taskId": self.id,
            "status": self.status,
            "createdAt": "2026-01-01T00:00:00Z",
            "lastUpdatedAt": "2026-01-01T00:00:01Z",
            "ttl": self.ttl,
            "pollInterval": POLL_INTERVAL,
        }


class _Client:
    def __init__(self, stream: FrameStream, nursery: trio.Nursery) -> None:
        self._stream = stream
        self._nursery = nursery
        self._tasks: dict[str, _Task] = {}
        self._waiting: dict[int, Callable[[JSONObject], None]] = {}
        self._last_id = 0

    async def play(self) -> None:
        self._nursery.start_soon(self._read)
        params = {
            "protocolVersion": "2025-11-25",
            "capabilities": CAPABILITIES,
            "clientInfo": {"name": "tasks-client", "version": "1"},
        }
        server = await self._request("initialize", params)
        await self._send({"method": "notifications/initialized"})
        declared = (server.get("capabilities") or {}).get("tasks") or {}
        runs = "call" in (declared.get("requests") or {}).get("tools", {})
        for tool in (await self._request("tools/list", {})).get("tools", ()):
            support = (tool.get("execution") or {}).get("taskSupport", "forbidden")
            call = {"name": tool["name"], "arguments": {}}
            if runs and support in ("required", "optional"):
                await self._follow(await self._request("tools/call", {**call, "task": {}}))
            else:
                await self._request("tools/call", call)

    async def _follow(self, result: JSONObject) -> None:
        task = result.get("task") or {}
        named = {"taskId": task.get("taskId")}
        while task.get("status") == "working":
            await trio.sleep(task.get("pollInterval", POLL_INTERVAL) / 1000)
            task = await self._request("tasks/get", named)
        if task:
            await self._request("tasks/result", named)

    # Messages

    async def _send(self, message: JSONObject) -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await self._stream.send([json.dumps({"jsonrpc": "2.0", **message}).encode()])

    async def _request(self, method: str, params: JSONObject) -> JSONObject:
        self._last_id += 1
        id, arrived, answer = self._last_id, trio.Event(), dict[str, Any]()

        def arrive(message: JSONObject) -> None:
            answer.update(message)
            arrived.set()

        self._waiting[id] = arrive
        await self._send({"id": id, "method": method, "params": params})
        await arrived.wait()
        return answer.get("result") or {}

    async def _read(self) -> None:
        while frames := await self._stream.receive():
            for frame in frames:
                message = json.loads(frame)
                if "method" not in message:
                    if waiting := self._waiting.pop(message.get("id"), None):
                        waiting(message)
                elif "id" in message:
                    self._nursery.start_soon(self._answer, message)

    async def _answer(self, request: JSONObject) -> None:
        handlers: dict[str, Callable[[JSONObject], Awaitable[JSONObject]]] = {
            "elicitation/create": self._elicit,
            "tasks/get": self._get,
            "tasks/result": self._result,
            "tasks/list": self._list,
            "tasks/cancel": self._cancel,
        }
        try:
            handler = handlers.get(request["method"])
            if handler is None:
                raise MCPError(METHOD_NOT_FOUND, f"no method {request['method']!r}")
            outcome = {"result": await handler(request.get("params") or {})}
        except MCPError as exc:
            outcome = {"error": {"code": exc.code, "message": str(exc)}}
        await self._send({"id": request["id"], **outcome})

    # Being asked

    async def _elicit(self, params: JSONObject) -> JSONObject:
        if "task" not in params:
            related = (params.get(META) or {}).get(RELATED_TASK)
            return _accept() if related is None else _accept({RELATED_TASK: related})
        task = _Task(min(params["task"].get("ttl", LONGEST_TTL), LONGEST_TTL))
        self._tasks[task.id] = task
        self._nursery.start_soon(self._run, task)
        return {"task": task.state()}

    async def _run(self, task: _Task) -> None:
        await trio.sleep(WORK_TIME)
        task.end("completed")

    def _found(self, params: JSONObject) -> _Task:
        task = self._tasks.get(str(params.get("taskId")))
        if task is None:
            raise MCPError(INVALID_PARAMS, "there is no such task")
        return task

    async def _get(self, params: JSONObject) -> JSONObject:
        return self._found(params).state()

    async def _result(self, params: JSONObject) -> JSONObject:
        task = self._found(params)
        await task.over.wait()
        return _accept({RELATED_TASK: {"taskId": task.id}})

    async def _list(self, params: JSONObject) -> JSONObject:
        cursor = params.get("cursor", "0")
        if not cursor.isdecimal():
            raise MCPError(INVALID_PARAMS, "there is no such cursor")
        tasks, start = list(self._tasks.values()), int(cursor)
        result: JSONObject = {"tasks": [task.state() for task in tasks[start : start + PAGE]]}
        if start + PAGE < len(tasks):
            result["nextCursor"] = str(start + PAGE)
        return result

    async def _cancel(self, params: JSONObject) -> JSONObject:
        task = self._found(params)
        if task.status in FINISHED:
            raise MCPError(INVALID_PARAMS, f"the task is {task.status} already")
        task.end("cancelled")
        return task.state()


def _accept(meta: JSONObject | None = None) -> JSONObject:
    result: JSONObject = {"action": "accept", "content": {"name": "word"}}
    return result if meta is None else {**result, META: meta}
