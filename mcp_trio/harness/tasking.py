"""Tasks of 2025-11-25, as the harness has them: started and watched on a server, or its own.

`Watched` is a task that a check started by calling a tool; the functions below it find tools whose
tasks finish, fail or ask for something. `TaskClient` is the other direction: it makes tasks of what
a server asks its client.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol

import attrs
import trio

from mcp_trio.harness.calling import accept, arguments_for, asking_tools
from mcp_trio.harness.model import Failed, NotApplicable
from mcp_trio.harness.probe import ServerProbe
from mcp_trio.harness.samples import NoSample, outside
from mcp_trio.harness.session import Reply, Session, capabilities_for
from mcp_trio.protocol.meta import META, RELATED_TASK
from mcp_trio.wire.jsonrpc import JSON, JSONObject

FINISHED: Final = frozenset({"completed", "failed", "cancelled"})
STEPS: Final = {
    "working": FINISHED | {"input_required", "working"},
    "input_required": FINISHED | {"working", "input_required"},
    "completed": frozenset({"completed"}),
    "failed": frozenset({"failed"}),
    "cancelled": frozenset({"cancelled"}),
}
"""From each status of a task, those it may be in when it is looked at again."""

TTL: Final = 60_000
"""Milliseconds for which tasks of the harness are to be kept."""
LONG_TASK: Final = 6.0
"""How many deadlines of a single answer a whole task may take."""
SHORTEST_POLL: Final = 0.05
LONGEST_POLL: Final = 1.0
"""Seconds between two looks at a task, whatever the server would like."""


async def task_tools(probe: ServerProbe, *supports: str) -> list[JSONObject]:
    """The tools that may be called and say this of tasks.

    Raises:
        NotApplicable: There is none, or the server does not declare tasks.
    """
    if not (await probe.inventory()).has("tasks.requests.tools.call"):
        raise NotApplicable("the server does not declare tasks.requests.tools.call")
    wanted = supports or ("required", "optional")
    found = [tool for tool in await probe.callable_tools() if task_support(tool) in wanted]
    if not found:
        raise NotApplicable(f"no tool that may be called says taskSupport {' or '.join(wanted)}")
    return found


def task_support(tool: JSONObject) -> str:
    """What a tool says of tasks."""
    execution = tool.get("execution")
    found = execution.get("taskSupport") if isinstance(execution, dict) else None
    return found if isinstance(found, str) else "forbidden"


def task_call(tool: JSONObject, arguments: JSONObject | None = None) -> JSONObject:
    """The parameters of a call as a task."""
    chosen = arguments_for(tool) if arguments is None else arguments
    return {"name": tool["name"], "arguments": chosen or {}, "task": {"ttl": TTL}}


class Asker(Protocol):
    """Who can be asked about tasks: a `Session` with a server, or a client behind a scene."""

    @property
    def deadline(self) -> float:
        """Seconds that an answer may take."""

    async def request(
        self,
        method: str,
        params: JSONObject | None = None,
        *,
        meta: JSONObject | None = None,
        timeout: float | None = None,
    ) -> Reply:
        """Send a request and wait for its answer."""


@attrs.define
class Watched:
    """A task and what was seen of it.

    Attributes:
        id: As the server gave it.
        created: The answer to the call.
        looks: The answers to `tasks/get`, in order.
    """

    session: Asker
    id: JSON
    created: Reply
    looks: list[JSONObject] = attrs.field(factory=list)

    @property
    def task(self) -> JSONObject:
        """The task in the answer to the call."""
        found = (self.created.result or {}).get("task")
        return found if isinstance(found, dict) else {}

    @property
    def status(self) -> JSON:
        """The newest that is known."""
        return (self.looks[-1] if self.looks else self.task).get("status")

    async def ask(self, method: str, **meta: JSON) -> Reply:
        """Send a request about it."""
        return await self.session.request(method, {"taskId": self.id}, meta=meta)

    async def look(self) -> JSONObject:
        """Ask for its state."""
        self.looks.append((await self.ask("tasks/get")).expect_result("tasks-57"))
        return self.looks[-1]

    async def watch(self, *until: str) -> JSON:
        """Look at it until it has one of some statuses (by default, until it is finished)."""
        wanted = frozenset(until) or FINISHED
        with trio.move_on_after(self.session.deadline * LONG_TASK):
            while self.status not in wanted:
                pause = (self.looks[-1] if self.looks else self.task).get("pollInterval")
                seconds = pause / 1000 if isinstance(pause, int | float) else 0.2
                await trio.sleep(min(max(seconds, SHORTEST_POLL), LONGEST_POLL))
                await self.look()
            return self.status
        raise NotApplicable(f"the task is still {self.status!r} after a long while")


async def start(session: Session, tool: JSONObject, arguments: JSONObject | None = None) -> Watched:
    """Call a tool as a task.

    Raises:
        Failed: The answer is no new task.
    """
    reply = await session.request("tools/call", task_call(tool, arguments))
    result = reply.expect_result("tasks-34")
    task = result.get("task")
    if not isinstance(task, dict) or "taskId" not in task:
        raise Failed(
            f"a call as a task is answered with no task: {reply.brief()}", requirement="tasks-34"
        )
    return Watched(session, task["taskId"], reply)


async def finished_task(probe: ServerProbe) -> Watched:
    """A task that has come to its end."""
    tools = await task_tools(probe)
    session = await probe.session()
    found = await start(session, tools[0])
    await answered(session, found)
    return found


async def answered(session: Asker, task: Watched) -> None:
    """Watch a task to its end, answering what it asks for meanwhile."""
    if await task.watch(*FINISHED, "input_required") == "input_required":
        # A task that waits hands out its questions with the answer to tasks/result.
        await session.request("tasks/result", {"taskId": task.id}, timeout=session.deadline * 3)
        await task.watch()


def related(message: JSONObject) -> JSON:
    """The id in the related-task metadata of params or of a result; None if there is none."""
    meta = message.get(META)
    found = meta.get(RELATED_TASK) if isinstance(meta, dict) else None
    return found.get("taskId") if isinstance(found, dict) else None


@asynccontextmanager
async def failing_task(probe: ServerProbe) -> AsyncIterator[Watched]:
    """A task that failed: its tool was called with arguments that its schema refuses."""
    session = await probe.session()
    for tool in await task_tools(probe):
        try:
            wrong = [out.value for out in outside(tool.get("inputSchema") or {})]
        except NoSample:
            continue
        for arguments in wrong[:4]:
            reply = await session.request("tools/call", task_call(tool, arguments))
            task = (reply.result or {}).get("task")
            if not isinstance(task, dict):
                continue  # refused before it became a task, which is as good
            found = Watched(session, task.get("taskId"), reply)
            await answered(session, found)
            if found.status == "failed":
                yield found
                return
    raise NotApplicable("no task of this server fails because of its arguments")


@asynccontextmanager
async def asking_task(probe: ServerProbe) -> AsyncIterator[tuple[Watched, list[JSONObject]]]:
    """A task that asks for something, and the requests that it sends; the block has to watch it."""
    tools = await task_tools(probe)
    async with probe.open_session() as session:
        questions: list[JSONObject] = []

        def remember(request: JSONObject) -> JSONObject:
            questions.append(request)
            return accept(request)

        sampled = session.answerers["sampling/createMessage"]

        def remember_sampling(request: JSONObject) -> JSONObject:
            questions.append(request)
            return sampled(request)

        session.answerers["elicitation/create"] = remember
        session.answerers["sampling/createMessage"] = remember_sampling
        for tool in tools:
            task = await start(session, tool)
            await answered(session, task)
            if questions:
                break
        else:
            raise NotApplicable("no task of this server asks its client for anything")
        questions.clear()
        yield await start(session, tool), questions


# Tasks of the client ------------------------------------------------------------------------------


class TaskClient:
    """The client's side of tasks that a server makes of its questions."""

    def __init__(self, looks_until_done: int = 2) -> None:
        self.asked: list[tuple[float, JSONObject]] = []
        self._left = looks_until_done
        self._result: JSONObject = {}

    #: Declares that questions may be tasks.
    CAPABILITY: Final[JSONObject] = {
        "list": {},
        "cancel": {},
        "requests": {"elicitation": {"create": {}}, "sampling": {"createMessage": {}}},
    }
    POLL: Final = 400
    ID: Final = "harness-task-7f3a9c"

    def install(self, session: Session) -> None:
        for method in ("elicitation/create", "sampling/createMessage"):
            session.answerers[method] = self._taking(session.answerers[method])
        session.answerers["tasks/get"] = self._get
        session.answerers["tasks/result"] = self._give

    def _taking(self, answerer: Any) -> Any:
        def take(request: JSONObject) -> JSONObject:
            if "task" not in (request.get("params") or {}):
                answer: JSONObject = answerer(request)
                return answer
            self._note(request)
            self._result = answerer(request).get("result") or {}
            return {"result": {"task": self._state()}}

        return take

    def _get(self, request: JSONObject) -> JSONObject:
        self._note(request)
        self._left -= 1
        return {"result": self._state()}

    def _give(self, request: JSONObject) -> JSONObject:
        self._note(request)
        self._left = 0
        meta = {RELATED_TASK: {"taskId": self.ID}}
        return {"result": {**self._result, META: meta}}

    def _note(self, request: JSONObject) -> None:
        self.asked.append((trio.current_time(), request))

    def _state(self) -> JSONObject:
        return {
            "taskId": self.ID,
            "status": "working" if self._left > 0 else "completed",
            "createdAt": "2026-01-01T00:00:00Z",
            "lastUpdatedAt": "2026-01-01T00:00:00Z",
            "ttl": TTL,
            "pollInterval": self.POLL,
        }

    def times(self, method: str) -> list[float]:
        return [at for at, request in self.asked if request["method"] == method]


@asynccontextmanager
async def question_as_task(probe: ServerProbe) -> AsyncIterator[TaskClient]:
    """A question that the server made a task of, from its start to its end.

    Raises:
        NotApplicable: No tool that may be called does that.
    """
    tools = [tried.tool for tried in await asking_tools(probe)]
    offered = {**capabilities_for(probe.revision), "tasks": TaskClient.CAPABILITY}
    async with probe.open_session(capabilities=offered) as session:
        session.answerers["elicitation/create"] = accept
        client = TaskClient()
        client.install(session)
        for tool in tools:
            params = {"name": tool["name"], "arguments": arguments_for(tool) or {}}
            try:
                await session.request("tools/call", params, timeout=session.deadline)
            except Failed:
                if session.ended is not None:
                    raise
            if client.asked:
                yield client
                return
    raise NotApplicable("no tool that may be called asks its client by a task")
