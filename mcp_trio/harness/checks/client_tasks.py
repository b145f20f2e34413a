"""Tasks: checks of clients, which may start tasks and may run them (experimental, 2025-11-25).

A client that starts tasks is played a server whose tools run as tasks. A client that runs tasks is
asked for something as a task, and then looked at as a server with tasks is (`checks.tasks`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import pairwise
from typing import Any, Final

import attrs
import trio

from mcp_trio.harness.checks import check, having
from mcp_trio.harness.checks.tasks import ISO_8601, NOWHERE
from mcp_trio.harness.client_probe import ClientProbe
from mcp_trio.harness.model import Failed, NotApplicable
from mcp_trio.harness.probe import expect
from mcp_trio.harness.scripted import Answer, Call, Refusal, Scene
from mcp_trio.harness.session import Reply
from mcp_trio.harness.tasking import FINISHED, STEPS, TTL, Watched, related
from mcp_trio.protocol.errors import INVALID_PARAMS, METHOD_NOT_FOUND
from mcp_trio.protocol.meta import META, RELATED_TASK
from mcp_trio.wire.jsonrpc import JSON, JSONObject

client_check = partial(check, role="client", revisions=having("tasks"))

POLL: Final = 300  # milliseconds
FORM: Final[JSONObject] = {"type": "object", "properties": {"name": {"type": "string"}}}
SAMPLING: Final[JSONObject] = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "Say a word."}}],
    "maxTokens": 50,
}
ASKED: Final[dict[str, JSONObject]] = {
    "elicitation/create": {"mode": "form", "message": "Your name?", "requestedSchema": FORM},
    "sampling/createMessage": SAMPLING,
}
"""What a client can be asked for as a task, and how."""


# Clients that start tasks -------------------------------------------------------------------------


@attrs.define(eq=False)
class Script:
    """A server with tasks, for the answers of a scene.

    Attributes:
        declares: Whether it declares its tasks.
        asks: The tasks ask for something before they finish.
        looks: How often a task is still working when it is looked at.
        calls: The requests of the client, in order, each with the time at which it came.
    """

    declares: bool = True
    asks: bool = False
    looks: int = 2
    calls: list[tuple[float, Call]] = attrs.field(factory=list)
    _left: dict[str, int] = attrs.field(factory=dict)
    _asked: set[str] = attrs.field(factory=set)
    _replies: list[Reply] = attrs.field(factory=list)

    @property
    def answers(self) -> dict[str, Callable[[Call], Any]]:
        return {
            "initialize": self._initialize,
            "tools/list": self._list,
            "tools/call": self._noted(self._call),
            "tasks/get": self._noted(self._get),
            "tasks/result": self._noted(self._result),
            "tasks/list": self._noted(lambda _: {"tasks": []}),
            "tasks/cancel": self._noted(self._get),
        }

    def of(self, method: str) -> list[Call]:
        """The requests of one method."""
        return [call for _, call in self.calls if call.method == method]

    def times(self, method: str, task: JSON) -> list[float]:
        return [
            at
            for at, call in self.calls
            if call.method == method and call.params.get("taskId") == task
        ]

    def _noted(self, step: Callable[[Call], Any]) -> Callable[[Call], Any]:
        def note(call: Call) -> Any:
            self.calls.append((trio.current_time(), call))
            return step(call)

        return note

    async def _initialize(self, call: Call) -> Answer:
        answer = await call.scene.healthy_answer(call)
        assert isinstance(answer, dict)
        if not self.declares:
            return answer
        tasks: JSONObject = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
        return {**answer, "capabilities": {**answer["capabilities"], "tasks": tasks}}

    def _list(self, _: Call) -> Answer:
        supports = {"plain": None, "maybe": "optional", "task": "required"}
        if not self.declares:
            del supports["task"]
        return {"tools": [_tool(name, support) for name, support in supports.items()]}

    def _call(self, call: Call) -> Answer:
        if "task" not in call.params:
            if call.name == "task":
                return Refusal(METHOD_NOT_FOUND, "task runs as a task only")
            return _text(f"{call.name} is done")
        id = f"harness-{call.name}-{len(self._left)}-2f9c71"
        self._left[id] = self.looks
        return {"task": self._state(id)}

    def _state(self, id: str) -> JSONObject:
        waits = self.asks and id not in self._asked
        status = "working" if self._left[id] > 0 else "input_required" if waits else "completed"
        return {
            "taskId": id,
            "status": status,
            "createdAt": "2026-01-01T00:00:00Z",
            "lastUpdatedAt": "2026-01-01T00:00:00Z",
            "ttl": TTL,
            "pollInterval": POLL,
        }

    def _get(self, call: Call) -> Answer:
        id = str(call.params.get("taskId"))
        if id not in self._left:
            return Refusal(INVALID_PARAMS, "there is no such task")
        self._left[id] -= 1
        return self._state(id)

    async def _result(self, call: Call) -> Answer:
        id = str(call.params.get("taskId"))
        if id not in self._left:
            return Refusal(INVALID_PARAMS, "there is no such task")
        if self.asks and id not in self._asked:
            self._asked.add(id)
            params = {**ASKED["elicitation/create"], META: {RELATED_TASK: {"taskId": id}}}
            self._replies.append(await call.ask("elicitation/create", params))
        while self._left[id] > 0:
            await trio.sleep(POLL / 1000)
            self._left[id] -= 1
        return {**_text("done"), META: {RELATED_TASK: {"taskId": id}}}

    def replies(self) -> list[Reply]:
        """What the client answered to what its tasks asked for."""
        return self._replies


def _tool(name: str, support: str | None) -> JSONObject:
    tool: JSONObject = {"name": name, "inputSchema": {"type": "object"}}
    return tool if support is None else {**tool, "execution": {"taskSupport": support}}


def _text(words: str) -> JSONObject:
    return {"content": [{"type": "text", "text": words}], "isError": False}


async def played(probe: ClientProbe, script: Script) -> Script:
    """Let the client use a server with tasks."""
    async with probe.play(script.answers) as scene:
        await scene.over(timeout=scene.deadline)
    return script


async def started(probe: ClientProbe, script: Script | None = None) -> tuple[Script, list[str]]:
    """A script that the client started tasks of, and their ids.

    Raises:
        NotApplicable: It starts none.
    """
    script = await played(probe, script or Script())
    if not (ids := list(script._left)):
        raise NotApplicable("the client starts no tasks")
    return script, ids


@client_check(
    "client-starts-tasks-where-it-has-to",
    "tasks-7",
    meaning="A tool that requires a task is called as one, or not at all.",
)
async def client_starts_tasks_where_it_has_to(probe: ClientProbe) -> None:
    script = await played(probe, Script())
    calls = [call for call in script.of("tools/call") if call.name == "task"]
    if not calls:
        raise NotApplicable("the client does not call the tool that requires a task")
    expect("task" in calls[0].params, "a tool that requires a task was called without one")


@client_check(
    "client-starts-no-forbidden-tasks",
    "tasks-5",
    meaning="A tool that says nothing of tasks is called without one.",
)
async def client_starts_no_forbidden_tasks(probe: ClientProbe) -> None:
    script = await played(probe, Script())
    calls = [call for call in script.of("tools/call") if call.name == "plain"]
    if not calls:
        raise NotApplicable("the client does not call the tool")
    expect("task" not in calls[0].params, "a tool that says nothing of tasks was called as one")


@client_check(
    "client-starts-no-undeclared-tasks",
    "tasks-4",
    "tasks-2",
    "tasks-3",
    meaning="A server that declares no tasks is asked for none.",
)
async def client_starts_no_undeclared_tasks(probe: ClientProbe) -> None:
    script = await played(probe, Script(declares=False))
    calls = script.of("tools/call")
    if not calls:
        raise NotApplicable("the client calls no tool")
    asked = [call.name for call in calls if "task" in call.params]
    expect(not asked, f"{asked} was called as a task, and the server declares none")


@client_check(
    "client-polls-as-it-is-told",
    "tasks-10",
    "tasks-33",
    meaning="A client polls no more often than pollInterval says.",
)
async def client_polls_as_it_is_told(probe: ClientProbe) -> None:
    script, ids = await started(probe)
    gaps = [b - a for id in ids for a, b in pairwise(script.times("tasks/get", id))]
    if not gaps:
        raise NotApplicable("the client does not poll more than once")
    told = f"polled again after {min(gaps) * 1000:.0f} ms; pollInterval is {POLL}"
    expect(min(gaps) * 1000 >= POLL * 0.8, told)


@client_check(
    "client-follows-a-task-to-its-end",
    "tasks-11",
    "tasks-12",
    "tasks-14",
    "tasks-15",
    "tasks-44",
    meaning="A client polls its task, or waits for the result, without being told of changes.",
)
async def client_follows_a_task_to_its_end(probe: ClientProbe) -> None:
    script, ids = await started(probe)
    for id in ids:
        polled, got = script.times("tasks/get", id), script.times("tasks/result", id)
        expect(polled or got, f"nothing was asked about {id} after it was created")
        expect(got, f"the result of {id} was never asked for")


@client_check(
    "client-finds-tasks-by-id-alone",
    "tasks-41",
    "tasks-42",
    "tasks-55",
    meaning="A client names its task in taskId, and nowhere else.",
)
async def client_finds_tasks_by_id_alone(probe: ClientProbe) -> None:
    script, ids = await started(probe)
    for method in ("tasks/get", "tasks/result", "tasks/cancel"):
        for call in script.of(method):
            named = call.params.get("taskId")
            expect(named in ids, f"{method} is for {named!r}; the tasks are {ids}")
            again = method == "tasks/result" or related(call.params) is None
            expect(again, f"{method} names its task again in _meta", "tasks-42")


@client_check(
    "client-fetches-what-is-asked",
    "tasks-28",
    meaning="A client asks for the result of a task that is input_required, and so is asked.",
)
async def client_fetches_what_is_asked(probe: ClientProbe) -> None:
    script, ids = await started(probe, Script(asks=True))
    for id in ids:
        expect(script.times("tasks/result", id), f"{id} waits for input, which nobody fetches")


@client_check(
    "client-answers-of-tasks-name-them",
    "tasks-39",
    "tasks-54",
    meaning="The answer to what a task asks for names the task in _meta.",
)
async def client_answers_of_tasks_name_them(probe: ClientProbe) -> None:
    script, ids = await started(probe, Script(asks=True))
    results = [reply.result for reply in script.replies() if reply.result is not None]
    if not results:
        raise NotApplicable("the client answers nothing that a task asks for")
    for result in results:
        named = related(result)
        expect(named in ids, f"the answer to a task's question names {named!r}, not {ids}")


# Clients that run tasks ---------------------------------------------------------------------------


@attrs.frozen
class Client:
    """A client that can be asked, behind a scene.

    Attributes:
        via: The request of the client over which it is asked.
        method: What it can be asked for as a task.
        capability: Its `tasks` capability; None if it declares none.
    """

    scene: Scene
    via: Call
    method: str
    capability: JSONObject | None

    @property
    def deadline(self) -> float:
        return self.scene.deadline

    async def request(
        self,
        method: str,
        params: JSONObject | None = None,
        *,
        meta: JSONObject | None = None,
        timeout: float | None = None,
    ) -> Reply:
        given = {**(params or {}), META: meta} if meta else params
        return await self.via.ask(method, given)

    async def start(self, **params: JSON) -> Watched:
        """Ask for something as a task.

        Raises:
            Failed: The answer is no new task.
        """
        given = {**ASKED[self.method], "task": {"ttl": TTL}, **params}
        reply = await self.request(self.method, given)
        task = reply.expect_result("tasks-34").get("task")
        if not isinstance(task, dict) or "taskId" not in task:
            raise Failed(f"{self.method} as a task is answered with no task: {reply.brief()}")
        return Watched(self, task["taskId"], reply)

    def has(self, operation: str) -> bool:
        return operation in (self.capability or {})


@asynccontextmanager
async def client_with_tasks(probe: ClientProbe, *operations: str) -> AsyncIterator[Client]:
    """A client that declares tasks for what it can be asked for, and waits for an answer.

    Raises:
        NotApplicable: It declares none, or not these operations.
    """
    async with asked_client(probe) as client:
        if client.capability is None:
            raise NotApplicable("the client declares no tasks")
        for operation in operations:
            if not client.has(operation):
                raise NotApplicable(f"the client does not declare tasks.{operation}")
        yield client


@asynccontextmanager
async def asked_client(probe: ClientProbe) -> AsyncIterator[Client]:
    """A client that waits for an answer and can be asked for something, as a task if it can."""
    async with probe.play_held() as (scene, call):
        declared = scene.requests_of("initialize")[0].params.get("capabilities") or {}
        tasks = declared.get("tasks")
        requests = (tasks or {}).get("requests") or {}
        for method in ASKED:
            feature, _, action = method.partition("/")
            if action in (requests.get(feature) or {}):
                yield Client(scene, call, method, tasks)
                return
        for method in ASKED:
            if method.partition("/")[0] in declared:
                yield Client(scene, call, method, None)
                return
        raise NotApplicable("the client can be asked neither its user nor its model")


@client_check(
    "client-ignores-undeclared-tasks",
    "tasks-16",
    "tasks-1",
    meaning="A client that declares no tasks answers at once, as if none had been asked for.",
)
async def client_ignores_undeclared_tasks(probe: ClientProbe) -> None:
    async with asked_client(probe) as client:
        if client.capability is not None:
            raise NotApplicable("the client declares tasks")
        params = {**ASKED[client.method], "task": {"ttl": TTL}}
        reply = await client.request(client.method, params)
        result = reply.expect_result()
        expect("task" not in result, "the client started a task without declaring any", "tasks-1")


@client_check(
    "client-creates-tasks",
    "tasks-34",
    "tasks-35",
    "tasks-20",
    meaning="Asked for something as a task, the client answers at once with a task at work.",
)
async def client_creates_tasks(probe: ClientProbe) -> None:
    async with client_with_tasks(probe) as client:
        task = await client.start()
        expect(task.status == "working", f"the new task is {task.status!r}", "tasks-20")


@client_check(
    "client-task-ids-are-unique-strings",
    "tasks-17",
    "tasks-18",
    "tasks-19",
    "tasks-64",
    meaning="The client makes a string of its own for each task, which cannot be guessed.",
)
async def client_task_ids_are_unique_strings(probe: ClientProbe) -> None:
    async with client_with_tasks(probe) as client:
        chosen = {"ttl": TTL, "taskId": "harness-chooses-this"}
        ids = [(await client.start(task=chosen)).id for _ in range(2)]
    strings = all(isinstance(id, str) and id for id in ids)
    expect(strings, f"task ids have to be strings, not {ids!r}")
    expect("harness-chooses-this" not in ids, "the server chose the id", "tasks-18")
    expect(ids[0] != ids[1], f"two tasks have one id: {ids[0]!r}", "tasks-19")
    differing = sum(a != b for a, b in zip(str(ids[0]), str(ids[1]), strict=False))
    expect(differing >= 8, f"ids of tasks differ too little: {ids!r}", "tasks-64")


@client_check(
    "client-returns-tasks",
    "tasks-30",
    "tasks-31",
    "tasks-32",
    "tasks-43",
    "tasks-55",
    meaning="tasks/get of a client's task returns its state, with times and ttl.",
)
async def client_returns_tasks(probe: ClientProbe) -> None:
    async with client_with_tasks(probe) as client:
        task = await client.start()
        state = await task.look()
    for field, requirement in (("createdAt", "tasks-30"), ("lastUpdatedAt", "tasks-31")):
        value = state.get(field)
        good = isinstance(value, str) and ISO_8601.fullmatch(value) is not None
        expect(good, f"{field} is {value!r}, no time of ISO 8601", requirement)
    ttl = state.get("ttl", "absent")
    expect(ttl is None or isinstance(ttl, int), f"ttl is {ttl!r}", "tasks-32")
    expect(related(state) is None, "tasks/get names its task again in _meta", "tasks-43")


@client_check(
    "client-task-status-moves-forward",
    "tasks-21",
    "tasks-22",
    meaning="A client's task moves from working to its end, and stays there.",
)
async def client_task_status_moves_forward(probe: ClientProbe) -> None:
    async with client_with_tasks(probe) as client:
        task = await client.start()
        await task.watch()
        for _ in range(2):
            await task.look()
    seen = [str(task.task.get("status")), *(str(look.get("status")) for look in task.looks)]
    for before, after in pairwise(seen):
        requirement = "tasks-22" if before in FINISHED else "tasks-21"
        expect(before in STEPS, f"there is no status {before!r}")
        expect(after in STEPS[before], f"the task went from {before} to {after}", requirement)


@client_check(
    "client-task-results-are-answers",
    "tasks-36",
    "tasks-37",
    "tasks-38",
    "tasks-61",
    meaning="tasks/result waits for the end of the task, and returns the answer, each time.",
)
async def client_task_results_are_answers(probe: ClientProbe) -> None:
    async with client_with_tasks(probe) as client:
        task = await client.start()
        first = (await task.ask("tasks/result")).expect_result()
        status = (await task.look()).get("status")
        second = (await task.ask("tasks/result")).expect_result()
    expect(status in FINISHED, f"the result was there while the task was {status!r}", "tasks-37")
    field = "action" if client.method == "elicitation/create" else "content"
    expect(field in first, f"the result of {client.method} has no `{field}`: {sorted(first)}")
    expect(first == second, "asked twice, a finished task gave two results", "tasks-38")


@client_check(
    "client-task-results-name-their-task",
    "tasks-56",
    "tasks-39",
    "tasks-54",
    meaning="The result of a client's task names the task in _meta.",
)
async def client_task_results_name_their_task(probe: ClientProbe) -> None:
    async with client_with_tasks(probe) as client:
        task = await client.start()
        named = related((await task.ask("tasks/result")).expect_result())
    expect(named == task.id, f"the result of task {task.id!r} names {named!r} as its task")


@client_check(
    "client-tasks-are-found-by-their-id-alone",
    "tasks-41",
    "tasks-72",
    meaning="taskId says which of the client's tasks is meant, whatever the metadata says.",
)
async def client_tasks_are_found_by_their_id_alone(probe: ClientProbe) -> None:
    async with client_with_tasks(probe) as client:
        one, other = await client.start(), await client.start()
        for named in (other.id, NOWHERE):
            reply = await one.ask("tasks/get", **{RELATED_TASK: {"taskId": named}})
            found = reply.expect_result("tasks-72").get("taskId")
            expect(found == one.id, f"asked for {one.id!r}, got {found!r}")


@client_check(
    "client-refuses-unknown-tasks",
    "tasks-57",
    "tasks-58",
    meaning="tasks/get and tasks/result of a task that the client does not have get -32602.",
)
async def client_refuses_unknown_tasks(probe: ClientProbe) -> None:
    async with client_with_tasks(probe) as client:
        for method in ("tasks/get", "tasks/result"):
            reply = await client.request(method, {"taskId": NOWHERE})
            error = reply.expect_error(INVALID_PARAMS)
            expect(error.get("message"), f"{method}: the error has no message", "tasks-58")


@client_check(
    "client-lists-its-tasks",
    "tasks-49",
    "tasks-47",
    meaning="A task that tasks/get finds is on some page of the client's tasks/list.",
)
async def client_lists_its_tasks(probe: ClientProbe) -> None:
    async with client_with_tasks(probe, "list") as client:
        tasks = [await client.start() for _ in range(3)]
        listed: list[JSON] = []
        params: JSONObject = {}
        for _ in range(20):
            result = (await client.request("tasks/list", params)).expect_result()
            listed += [task.get("taskId") for task in result.get("tasks") or ()]
            if "nextCursor" not in result:
                break
            params = {"cursor": result["nextCursor"]}
    for task in tasks:
        expect(task.id in listed, f"{task.id!r} is on no page of tasks/list")


@client_check(
    "client-cancels-its-tasks",
    "tasks-73",
    "tasks-52",
    "tasks-50",
    meaning="A cancelled task of a client stays so; a finished one cannot be cancelled.",
)
async def client_cancels_its_tasks(probe: ClientProbe) -> None:
    async with client_with_tasks(probe, "cancel") as client:
        task, done = await client.start(), await client.start()
        reply = await task.ask("tasks/cancel")
        if reply.code != INVALID_PARAMS:
            status = reply.expect_result().get("status")
            expect(status == "cancelled", f"tasks/cancel was answered with {status!r}")
            reply = await task.ask("tasks/get")
            gone = reply.code == INVALID_PARAMS
            now = (reply.result or {}).get("status")
            expect(gone or now == "cancelled", f"the cancelled task is {now} now", "tasks-52")
        await done.watch()
        if (await done.ask("tasks/cancel")).code != INVALID_PARAMS:
            raise Failed("a finished task could be cancelled", requirement="tasks-50")


@client_check(
    "client-limits-the-life-of-tasks",
    "tasks-69",
    meaning="A client does not promise to keep a task for as long as anybody asks.",
)
async def client_limits_the_life_of_tasks(probe: ClientProbe) -> None:
    asked = 1000 * 365 * 24 * 3600 * 1000  # a thousand years
    async with client_with_tasks(probe) as client:
        ttl = (await client.start(task={"ttl": asked})).task.get("ttl")
    kept = isinstance(ttl, int | float) and ttl >= asked
    expect(not kept, "asked to keep a task for a thousand years, the client agreed")
