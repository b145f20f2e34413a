"""A small healthy server with tasks, for mutants: the library's own server has none.

It speaks 2025-11-25 only, keeps its tasks in memory for one client, and has one tool of each kind:

    research   runs as a task and nothing else; fails if its topic is no word
    either     runs as a task or not
    plain      runs at once
    ask        runs as a task that asks its client for a name
    consult    asks its client for a name by a task of the client
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

import attrs
import trio

from mcp_trio.connection import FrameStream
from mcp_trio.protocol.errors import INVALID_PARAMS, METHOD_NOT_FOUND, MCPError
from mcp_trio.protocol.meta import META, RELATED_TASK
from mcp_trio.wire.jsonrpc import JSONObject

WORK_TIME: Final = 1.0
POLL_INTERVAL: Final = 200  # milliseconds
LONGEST_TTL: Final = 3_600_000  # milliseconds
PAGE: Final = 2
FINISHED: Final = ("completed", "failed", "cancelled")
SUPPORT: Final = {
    "research": "required",
    "either": "optional",
    "plain": None,
    "ask": "required",
    "consult": None,
}
FORM: Final[JSONObject] = {"type": "object", "properties": {"name": {"type": "string"}}}
CAPABILITIES: Final[JSONObject] = {
    "tools": {},
    "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}},
}


@attrs.define(eq=False)
class _Task:
    status: str = "working"
    message: str | None = None
    ttl: int | None = None
    id: str = attrs.field(factory=lambda: str(uuid.uuid4()))
    outcome: JSONObject = attrs.field(factory=dict)
    changed: trio.lowlevel.ParkingLot = attrs.field(factory=trio.lowlevel.ParkingLot)
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    answers: int = 0

    def become(self, status: str, message: str | None = None) -> None:
        self.status, self.message = status, message
        self.changed.unpark_all()

    def state(self) -> JSONObject:
        state: JSONObject = {
            "taskId": self.id,
            "status": self.status,
            "createdAt": "2026-01-01T00:00:00Z",
            "lastUpdatedAt": "2026-01-01T00:00:01Z",
            "ttl": self.ttl,
            "pollInterval": POLL_INTERVAL,
        }
        return state if self.message is None else {**state, "statusMessage": self.message}


@attrs.frozen
class TasksServer:
    """The server; each client has its own tasks.

    Attributes:
        asks_while_working: The fault of a mutant: a task that asks is never `input_required`.
    """

    asks_while_working: bool = False

    async def serve_frames(self, stream: FrameStream) -> object:
        """Serve one client until it is gone."""
        async with trio.open_nursery() as nursery:
            await _Conversation(stream, nursery, self.asks_while_working).run()
            nursery.cancel_scope.cancel()
        return None


class _Conversation:
    def __init__(self, stream: FrameStream, nursery: trio.Nursery, hasty: bool) -> None:
        self._hasty = hasty
        self._stream = stream
        self._nursery = nursery
        self._tasks: dict[str, _Task] = {}
        self._client: JSONObject = {}
        self._waiting: dict[str, Callable[[JSONObject], None]] = {}
        self._sent = 0

    async def run(self) -> None:
        while frames := await self._stream.receive():
            for frame in frames:
                message = json.loads(frame)
                if "method" not in message:
                    if waiting := self._waiting.pop(message.get("id"), None):
                        waiting(message)
                elif "id" in message:
                    self._nursery.start_soon(self._answer, message)

    async def _send(self, message: JSONObject) -> None:
        frame = json.dumps({"jsonrpc": "2.0", **message}).encode()
        # The client may have gone.
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await self._stream.send([frame])

    async def _answer(self, request: JSONObject) -> None:
        handlers: dict[str, Callable[[JSONObject], Awaitable[JSONObject]]] = {
            "initialize": self._initialize,
            "ping": self._ping,
            "tools/list": self._list_tools,
            "tools/call": self._call,
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

    async def _initialize(self, params: JSONObject) -> JSONObject:
        self._client = params.get("capabilities") or {}
        return {
            "protocolVersion": "2025-11-25",
            "capabilities": CAPABILITIES,
            "serverInfo": {"name": "tasks", "version": "1"},
        }

    async def _ping(self, _: JSONObject) -> JSONObject:
        return {}

    async def _list_tools(self, _: JSONObject) -> JSONObject:
        return {"tools": [_tool(name, support) for name, support in SUPPORT.items()]}

    # Calls

    async def _call(self, params: JSONObject) -> JSONObject:
        name, asked = params.get("name"), params.get("task")
        if name not in SUPPORT:
            raise MCPError(INVALID_PARAMS, f"no tool {name!r}")
        support = SUPPORT[name]
        if asked is not None and support is None:
            raise MCPError(METHOD_NOT_FOUND, f"{name} does not run as a task")
        if asked is None and support == "required":
            raise MCPError(METHOD_NOT_FOUND, f"{name} runs as a task only")
        if asked is None:
            return await self._work(name, params.get("arguments") or {}, None)
        task = _Task(ttl=min(asked.get("ttl", LONGEST_TTL), LONGEST_TTL))
        self._tasks[task.id] = task
        self._nursery.start_soon(self._run, task, name, params.get("arguments") or {})
        return {"task": task.state()}

    async def _run(self, task: _Task, name: str, arguments: JSONObject) -> None:
        with task.scope:
            await trio.sleep(WORK_TIME / 2)
            result = await self._work(name, arguments, task)
            await trio.sleep(WORK_TIME / 2)
            task.outcome = {**result, META: {RELATED_TASK: {"taskId": task.id}}}
            failed = result.get("isError")
            task.become("failed" if failed else "completed", "bad topic" if failed else None)
            await self._send({"method": "notifications/tasks/status", "params": task.state()})

    async def _work(self, name: str, arguments: JSONObject, task: _Task | None) -> JSONObject:
        if not isinstance(arguments.get("topic"), str):
            return _text("topic has to be a word", is_error=True)
        if name == "ask" and task is not None and self._hasty:
            await self._ask({META: {RELATED_TASK: {"taskId": task.id}}})
        elif name == "ask" and task is not None:
            task.become("input_required")
            while not task.answers:  # whoever waits for the result is asked
                await task.changed.park()
            task.become("working")
        if name == "consult":
            await self._consult()
        return _text(f"{name} on {arguments['topic']}")

    # Tasks

    def _found(self, params: JSONObject) -> _Task:
        task = self._tasks.get(str(params.get("taskId")))
        if task is None:
            raise MCPError(INVALID_PARAMS, "there is no such task")
        return task

    async def _get(self, params: JSONObject) -> JSONObject:
        return self._found(params).state()

    async def _result(self, params: JSONObject) -> JSONObject:
        task = self._found(params)
        while task.status not in FINISHED:
            if task.status == "input_required" and not task.answers:
                await self._ask({META: {RELATED_TASK: {"taskId": task.id}}})
                task.answers += 1
                task.changed.unpark_all()
            await task.changed.park()
        return task.outcome

    async def _list(self, params: JSONObject) -> JSONObject:
        cursor = params.get("cursor", "0")
        if not cursor.isdecimal():
            raise MCPError(INVALID_PARAMS, "there is no such cursor")
        tasks = list(self._tasks.values())
        page = tasks[int(cursor) : int(cursor) + PAGE]
        result: JSONObject = {"tasks": [task.state() for task in page]}
        if int(cursor) + PAGE < len(tasks):
            result["nextCursor"] = str(int(cursor) + PAGE)
        return result

    async def _cancel(self, params: JSONObject) -> JSONObject:
        task = self._found(params)
        if task.status in FINISHED:
            raise MCPError(INVALID_PARAMS, f"the task is {task.status} already")
        task.scope.cancel()
        task.outcome = _text("cancelled", is_error=True)
        task.become("cancelled")
        return task.state()

    # Questions

    async def _request(self, method: str, params: JSONObject) -> JSONObject:
        self._sent += 1
        id, arrived, answer = f"s{self._sent}", trio.Event(), dict[str, Any]()

        def arrive(message: JSONObject) -> None:
            answer.update(message)
            arrived.set()

        self._waiting[id] = arrive
        await self._send({"id": id, "method": method, "params": params})
        await arrived.wait()
        return answer.get("result") or {}

    async def _ask(self, more: JSONObject) -> JSONObject:
        question = {"message": "What is your name?", "requestedSchema": FORM, **more}
        return await self._request("elicitation/create", question)

    async def _consult(self) -> None:
        tasks = self._client.get("tasks") or {}
        if "elicitation" not in (tasks.get("requests") or {}):
            await self._ask({})
            return
        task = (await self._ask({"task": {"ttl": 60_000}})).get("task") or {}
        while task.get("status") not in FINISHED:
            await trio.sleep(task.get("pollInterval", POLL_INTERVAL) / 1000)
            task = await self._request("tasks/get", {"taskId": task.get("taskId")})
        await self._request("tasks/result", {"taskId": task.get("taskId")})


def _tool(name: str, support: str | None) -> JSONObject:
    tool: JSONObject = {
        "name": name,
        "inputSchema": {
            "type": "object",
            "properties": {"topic": {"type": "string"}},
            "required": ["topic"],
        },
        "annotations": {"readOnlyHint": True},
    }
    return tool if support is None else {**tool, "execution": {"taskSupport": support}}


def _text(words: str, *, is_error: bool = False) -> JSONObject:
    return {"content": [{"type": "text", "text": words}], "isError": is_error}
