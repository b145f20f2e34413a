"""Tasks: checks of servers that let tool calls go on after their first answer (2025-11-25).

A task is a state machine on the server: `working`, perhaps `input_required`, and in the end
`completed`, `failed` or `cancelled`. Nearly all that the specification asks for can be seen by
starting one, looking at it until it is finished, and asking for its result twice.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

import trio

from mcp_trio.harness.calling import accept, arguments_for, asking_tools
from mcp_trio.harness.checks import check, having
from mcp_trio.harness.model import Failed, NotApplicable
from mcp_trio.harness.probe import ServerProbe, expect, list_all
from mcp_trio.harness.session import Session
from mcp_trio.harness.tasking import (
    FINISHED,
    LONG_TASK,
    STEPS,
    Watched,
    answered,
    asking_task,
    failing_task,
    finished_task,
    question_as_task,
    related,
    start,
    task_call,
    task_support,
    task_tools,
)
from mcp_trio.protocol.convert import StructureError, structure
from mcp_trio.protocol.errors import INVALID_PARAMS, METHOD_NOT_FOUND
from mcp_trio.protocol.meta import RELATED_TASK
from mcp_trio.protocol.types.tasks import CreateTaskResult, GetTaskResult

TASKS: Final = having("tasks")
NOWHERE: Final = "harness-no-such-task"
ISO_8601: Final = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)", re.ASCII
)


# Starting ---------------------------------------------------------------------------------------


@check(
    "task-tools-are-declared",
    "tasks-1",
    meaning="A server with tools that run as tasks declares tasks.requests.tools.call.",
    revisions=TASKS,
)
async def task_tools_are_declared(probe: ServerProbe) -> None:
    inventory = await probe.inventory()
    tools = [tool for tool in inventory.tools if task_support(tool) in ("required", "optional")]
    if not tools:
        raise NotApplicable("no tool says that it can run as a task")
    declared = inventory.has("tasks.requests.tools.call")
    expect(declared, f"{tools[0]['name']} can run as a task, but the server does not declare tasks")


@check(
    "undeclared-tasks-are-ignored",
    "tasks-16",
    meaning="A server without tasks answers a call that asks for one like any other call.",
    revisions=TASKS,
)
async def undeclared_tasks_are_ignored(probe: ServerProbe) -> None:
    if (await probe.inventory()).has("tasks.requests.tools.call"):
        raise NotApplicable("the server declares tasks for tool calls")
    tool = (await probe.callable_tools())[0]
    session = await probe.session()
    reply = await session.request("tools/call", task_call(tool))
    plain = await session.request(
        "tools/call", {"name": tool["name"], "arguments": arguments_for(tool) or {}}
    )
    got_task = "task" in (reply.result or {}) and "task" not in (plain.result or {})
    expect(not got_task, "the server declares no tasks, and yet it started one")
    expect(
        (reply.result is None) == (plain.result is None),
        f"with `task` the call got {reply.brief()}, without it {plain.brief()}",
    )


@check(
    "tools-that-forbid-tasks-refuse-them",
    "tasks-6",
    meaning="A call as a task of a tool that does not allow it gets -32601.",
    revisions=TASKS,
)
async def tools_that_forbid_tasks_refuse_them(probe: ServerProbe) -> None:
    tools = await task_tools(probe, "forbidden")
    session = await probe.session()
    reply = await session.request("tools/call", task_call(tools[0]))
    reply.expect_error(METHOD_NOT_FOUND)


@check(
    "tools-that-require-tasks-refuse-plain-calls",
    "tasks-8",
    meaning="A plain call of a tool that requires a task gets -32601.",
    revisions=TASKS,
)
async def tools_that_require_tasks_refuse_plain_calls(probe: ServerProbe) -> None:
    tools = await task_tools(probe, "required")
    params = task_call(tools[0])
    del params["task"]
    session = await probe.session()
    reply = await session.request("tools/call", params)
    reply.expect_error(METHOD_NOT_FOUND)


@check(
    "task-call-creates-a-task",
    "tasks-34",
    "tasks-35",
    meaning="A call as a task is answered at once, with a CreateTaskResult.",
    revisions=TASKS,
)
async def task_call_creates_a_task(probe: ServerProbe) -> None:
    tools = await task_tools(probe)
    session = await probe.session()
    task = await start(session, tools[0])
    try:
        structure(task.created.result, CreateTaskResult)
    except StructureError as exc:
        raise Failed(f"the answer is no CreateTaskResult: {exc}") from exc
    expect("content" not in (task.created.result or {}), "the new task comes with its result")


@check(
    "new-tasks-are-working",
    "tasks-20",
    meaning="A task begins in the status working.",
    revisions=TASKS,
)
async def new_tasks_are_working(probe: ServerProbe) -> None:
    tools = await task_tools(probe)
    task = await start(await probe.session(), tools[0])
    expect(task.status == "working", f"the new task has the status {task.status!r}")


@check(
    "task-ids-are-unique-strings",
    "tasks-17",
    "tasks-18",
    "tasks-19",
    meaning="The server makes a string of its own for each task.",
    revisions=TASKS,
)
async def task_ids_are_unique_strings(probe: ServerProbe) -> None:
    tools = await task_tools(probe)
    session = await probe.session()
    params = task_call(tools[0])
    params["task"]["taskId"] = "harness-chooses-this"
    first = (await session.request("tools/call", params)).expect_result("tasks-34")
    ids = [(first.get("task") or {}).get("taskId")]
    ids += [(await start(session, tools[0])).id for _ in range(2)]
    strings = all(isinstance(id, str) and id for id in ids)
    expect(strings, f"task ids have to be strings, not {ids!r}")
    expect("harness-chooses-this" not in ids, "the client chose the id", requirement="tasks-18")
    expect(len(set(ids)) == len(ids), f"two tasks have one id: {ids!r}", requirement="tasks-19")


@check(
    "task-ids-cannot-be-guessed",
    "tasks-64",
    meaning="Who knows the id of one task cannot tell that of the next.",
    revisions=TASKS,
)
async def task_ids_cannot_be_guessed(probe: ServerProbe) -> None:
    tools = await task_tools(probe)
    session = await probe.session()
    ids = [str((await start(session, tools[0])).id) for _ in range(3)]
    # A time or a counter in the id is fine as long as the rest of it is long and differs.
    least = min(_differing(one, other) for one, other in pairwise(ids))
    expect(least >= 8, f"ids of tasks differ in {least} characters only: {ids[0]!r}, {ids[1]!r}")


def _differing(one: str, other: str) -> int:
    return sum(a != b for a, b in zip(one, other, strict=False)) + abs(len(one) - len(other))


# Looking ----------------------------------------------------------------------------------------


@check(
    "tasks-get-returns-the-task",
    "tasks-30",
    "tasks-31",
    "tasks-32",
    meaning="tasks/get returns the state of the task, with its times and its real ttl.",
    revisions=TASKS,
)
async def tasks_get_returns_the_task(probe: ServerProbe) -> None:
    tools = await task_tools(probe)
    task = await start(await probe.session(), tools[0])
    for where, state in (("the new task", task.task), ("tasks/get", await task.look())):
        for field, requirement in (("createdAt", "tasks-30"), ("lastUpdatedAt", "tasks-31")):
            value = state.get(field)
            good = isinstance(value, str) and ISO_8601.fullmatch(value) is not None
            expect(good, f"{where}: {field} is {value!r}, no time of ISO 8601", requirement)
    ttl = task.looks[0].get("ttl", "absent")
    good = ttl is None or (isinstance(ttl, int | float) and not isinstance(ttl, bool))
    expect(good, f"ttl is {ttl!r}, neither a number nor null", requirement="tasks-32")
    expect(task.looks[0].get("taskId") == task.id, "tasks/get returns another task")
    try:
        structure(task.looks[0], GetTaskResult)
    except StructureError as exc:
        raise Failed(f"the answer to tasks/get is no GetTaskResult: {exc}") from exc


@check(
    "task-status-moves-forward",
    "tasks-21",
    "tasks-22",
    meaning="A task moves from working to its end, and stays there.",
    revisions=TASKS,
)
async def task_status_moves_forward(probe: ServerProbe) -> None:
    task = await finished_task(probe)
    for _ in range(2):
        await task.look()
    seen = [task.task.get("status"), *(look.get("status") for look in task.looks)]
    for before, after in pairwise(seen):
        expect(before in STEPS, f"there is no status {before!r}")
        requirement = "tasks-22" if before in FINISHED else "tasks-21"
        moved = f"the task went from {before} to {after}"
        expect(after in STEPS[str(before)], moved, requirement)


@check(
    "tasks-are-found-by-their-id-alone",
    "tasks-41",
    "tasks-72",
    meaning="taskId says which task is meant, whatever the related-task metadata says.",
    revisions=TASKS,
)
async def tasks_are_found_by_their_id_alone(probe: ServerProbe) -> None:
    tools = await task_tools(probe)
    session = await probe.session()
    one, other = await start(session, tools[0]), await start(session, tools[0])
    for named in (other.id, NOWHERE):
        reply = await one.ask("tasks/get", **{RELATED_TASK: {"taskId": named}})
        found = reply.expect_result("tasks-72").get("taskId")
        expect(found == one.id, f"asked for {one.id!r}, got {found!r}")


@check(
    "task-states-name-no-related-task",
    "tasks-43",
    "tasks-55",
    meaning="Results of tasks/get and tasks/list carry no related-task metadata.",
    revisions=TASKS,
)
async def task_states_name_no_related_task(probe: ServerProbe) -> None:
    tools = await task_tools(probe)
    session = await probe.session()
    task = await start(session, tools[0])
    results = {"tasks/get": await task.look()}
    if (await probe.inventory()).has("tasks.list"):
        results["tasks/list"] = (await session.request("tasks/list")).result or {}
    for method, result in results.items():
        expect(related(result) is None, f"the result of {method} names its task again in _meta")


@check(
    "unknown-tasks-are-refused",
    "tasks-57",
    meaning="tasks/get, tasks/result and tasks/cancel of an unknown task get -32602.",
    revisions=TASKS,
)
async def unknown_tasks_are_refused(probe: ServerProbe) -> None:
    await task_tools(probe)
    session = await probe.session()
    methods = ["tasks/get", "tasks/result"]
    if (await probe.inventory()).has("tasks.cancel"):
        methods.append("tasks/cancel")
    for method in methods:
        reply = await session.request(method, {"taskId": NOWHERE})
        if reply.code != INVALID_PARAMS:
            raise Failed(f"{method} of an unknown task: expected -32602, got {reply.brief()}")


@check(
    "task-errors-say-what-is-wrong",
    "tasks-58",
    meaning="The error for an unknown task has a message.",
    revisions=TASKS,
)
async def task_errors_say_what_is_wrong(probe: ServerProbe) -> None:
    await task_tools(probe)
    session = await probe.session()
    error = (await session.request("tasks/get", {"taskId": NOWHERE})).expect_error()
    message = error.get("message")
    told = isinstance(message, str) and message.strip()
    expect(told, "the error for an unknown task has no message")


# Results ----------------------------------------------------------------------------------------


@check(
    "task-results-wait",
    "tasks-37",
    meaning="tasks/result is answered when the task is finished, not before.",
    revisions=TASKS,
)
async def task_results_wait(probe: ServerProbe) -> None:
    tools = await task_tools(probe)
    session = await probe.session()
    task = await start(session, tools[0])
    patience = session.deadline * LONG_TASK
    reply = await session.request("tasks/result", {"taskId": task.id}, timeout=patience)
    reply.expect_result("tasks-36")
    status = (await task.look()).get("status")
    expect(status in FINISHED, f"the result was there while the task was still {status!r}")


@check(
    "task-results-are-those-of-the-call",
    "tasks-36",
    "tasks-38",
    "tasks-61",
    meaning="tasks/result returns what the call would have returned, each time it is asked.",
    revisions=TASKS,
)
async def task_results_are_those_of_the_call(probe: ServerProbe) -> None:
    task = await finished_task(probe)
    if task.status != "completed":
        raise NotApplicable(f"the task ended {task.status}")
    results = [(await task.ask("tasks/result")).expect_result() for _ in range(2)]
    listed = isinstance(results[0].get("content"), list)
    expect(listed, f"the result of a tool call has no list `content`: {sorted(results[0])}")
    expect(results[0] == results[1], "asked twice, a finished task gave two results")


@check(
    "task-results-name-their-task",
    "tasks-56",
    "tasks-39",
    "tasks-54",
    meaning="The result of tasks/result names its task in _meta.",
    revisions=TASKS,
)
async def task_results_name_their_task(probe: ServerProbe) -> None:
    task = await finished_task(probe)
    reply = await task.ask("tasks/result")
    if reply.result is None:
        raise NotApplicable(f"the task ended in {reply.brief()}")
    named = related(reply.result)
    expect(named == task.id, f"the result of task {task.id!r} names {named!r} as its task")


@check(
    "failed-tasks-give-their-failure",
    "tasks-60",
    "tasks-61",
    "tasks-36",
    meaning="tasks/result of a failed task gives the error, or the result, that it ended in.",
    revisions=TASKS,
)
async def failed_tasks_give_their_failure(probe: ServerProbe) -> None:
    async with failing_task(probe) as task:
        replies = [await task.ask("tasks/result") for _ in range(2)]
    for reply in replies:
        failed = reply.error is not None or (reply.result or {}).get("isError") is True
        expect(failed, f"the task failed, and its result is {reply.brief()}")
    one, other = ([reply.result, reply.error] for reply in replies)
    expect(one == other, "asked twice, a failed task gave two answers")


@check(
    "failed-tasks-say-why",
    "tasks-59",
    meaning="tasks/get of a failed task has a statusMessage.",
    revisions=TASKS,
)
async def failed_tasks_say_why(probe: ServerProbe) -> None:
    async with failing_task(probe) as task:
        message = (await task.look()).get("statusMessage")
    expect(isinstance(message, str) and message, "the failed task has no statusMessage")


# Lists ------------------------------------------------------------------------------------------


async def _listing(probe: ServerProbe) -> Session:
    await task_tools(probe)
    if not (await probe.inventory()).has("tasks.list"):
        raise NotApplicable("the server does not declare tasks.list")
    return await probe.session()


@check(
    "tasks-are-listed",
    "tasks-49",
    "tasks-47",
    meaning="A task that tasks/get finds is on some page of tasks/list.",
    revisions=TASKS,
)
async def tasks_are_listed(probe: ServerProbe) -> None:
    session = await _listing(probe)
    tools = await task_tools(probe)
    started = [await start(session, tools[0]) for _ in range(3)]
    listed = [task.get("taskId") for task in await list_all(session, "tasks/list", "tasks")]
    for task in started:
        await task.look()
        expect(task.id in listed, f"{task.id!r} can be got, but is on no page of tasks/list")


@check(
    "unknown-task-cursors-are-refused",
    "tasks-57",
    meaning="tasks/list with a cursor that it never gave out gets -32602.",
    revisions=TASKS,
)
async def unknown_task_cursors_are_refused(probe: ServerProbe) -> None:
    session = await _listing(probe)
    reply = await session.request("tasks/list", {"cursor": "harness-no-such-cursor"})
    reply.expect_error(INVALID_PARAMS)


# Cancelling -------------------------------------------------------------------------------------


async def _cancellable(probe: ServerProbe) -> Watched:
    tools = await task_tools(probe)
    if not (await probe.inventory()).has("tasks.cancel"):
        raise NotApplicable("the server does not declare tasks.cancel")
    return await start(await probe.session(), tools[0])


@check(
    "cancelled-tasks-are-cancelled",
    "tasks-73",
    "tasks-52",
    "tasks-55",
    meaning="tasks/cancel answers with a cancelled task, and it stays cancelled.",
    revisions=TASKS,
)
async def cancelled_tasks_are_cancelled(probe: ServerProbe) -> None:
    task = await _cancellable(probe)
    reply = await task.ask("tasks/cancel")
    if reply.code == INVALID_PARAMS and (await task.look()).get("status") in FINISHED:
        raise NotApplicable("the task was finished before it could be cancelled")
    result = reply.expect_result()
    status = result.get("status")
    expect(status == "cancelled", f"tasks/cancel was answered with the status {status!r}")
    expect(related(result) is None, "tasks/cancel names its task again in _meta", "tasks-55")
    for _ in range(3):
        reply = await task.ask("tasks/get")
        if reply.code == INVALID_PARAMS:
            return  # it may be forgotten at once
        status = reply.expect_result().get("status")
        expect(status == "cancelled", f"the cancelled task is {status} now", "tasks-52")
        await trio.sleep(0.1)


@check(
    "finished-tasks-cannot-be-cancelled",
    "tasks-50",
    "tasks-57",
    meaning="tasks/cancel of a finished task gets -32602.",
    revisions=TASKS,
)
async def finished_tasks_cannot_be_cancelled(probe: ServerProbe) -> None:
    task = await _cancellable(probe)
    await answered(task.session, task)
    (await task.ask("tasks/cancel")).expect_error(INVALID_PARAMS)


@check(
    "long-lives-of-tasks-are-limited",
    "tasks-69",
    meaning="A server does not promise to keep a task for as long as anybody asks.",
    revisions=TASKS,
)
async def long_lives_of_tasks_are_limited(probe: ServerProbe) -> None:
    tools = await task_tools(probe)
    session = await probe.session()
    asked = 1000 * 365 * 24 * 3600 * 1000  # a thousand years
    params = {**task_call(tools[0]), "task": {"ttl": asked}}
    reply = await session.request("tools/call", params)
    ttl = ((reply.result or {}).get("task") or {}).get("ttl")
    kept = ttl is not None and isinstance(ttl, int | float) and ttl >= asked
    expect(not kept, "asked to keep a task for a thousand years, the server agreed")


# What tasks send --------------------------------------------------------------------------------


@check(
    "task-questions-name-their-task",
    "tasks-27",
    "tasks-39",
    "tasks-40",
    meaning="A request that a task needs answered names the task in _meta.",
    revisions=TASKS,
)
async def task_questions_name_their_task(probe: ServerProbe) -> None:
    async with asking_task(probe) as (task, questions):
        await answered(task.session, task)
    for question in questions:
        named = related(question.get("params") or {})
        method = question["method"]
        expect(named == task.id, f"{method} of task {task.id!r} names {named!r} as its task")


@check(
    "tasks-that-ask-are-input-required",
    "tasks-26",
    "tasks-29",
    meaning="A task is input_required while it waits for an answer, and then no longer.",
    revisions=TASKS,
)
async def tasks_that_ask_are_input_required(probe: ServerProbe) -> None:
    async with asking_task(probe) as (task, _):
        await answered(task.session, task)
    seen = [look.get("status") for look in task.looks]
    expect("input_required" in seen, f"the task asked for input, but its statuses were {seen}")
    expect(task.status in FINISHED, f"with all input the task is still {task.status!r}", "tasks-29")


@check(
    "status-notifications-name-no-related-task",
    "tasks-45",
    meaning="notifications/tasks/status has a task's state, and does not name it again in _meta.",
    revisions=TASKS,
)
async def status_notifications_name_no_related_task(probe: ServerProbe) -> None:
    await finished_task(probe)
    told = [
        received.object.get("params") or {}
        for received in (await probe.session()).received
        if received.method == "notifications/tasks/status"
    ]
    if not told:
        raise NotApplicable("the server sends no notifications/tasks/status")
    expect(
        all(related(params) is None for params in told),
        "notifications/tasks/status names its task again in _meta",
    )


@check(
    "task-states-are-no-streams",
    "tasks-24",
    meaning="tasks/get is answered with JSON, not with a stream.",
    revisions=TASKS,
    transports=("http",),
)
async def task_states_are_no_streams(probe: ServerProbe) -> None:
    tools = await task_tools(probe)
    async with probe.open_session() as session:
        task = await start(session, tools[0])
        await task.look()
    labels = [entry.label for entry in probe.exchange.entries if b'"lastUpdatedAt"' in entry.data]
    streamed = bool(labels) and "event-stream" in labels[-1]
    expect(not streamed, "tasks/get was answered with an event stream")


# Servers that ask by tasks of their own ---------------------------------------------------------


@check(
    "servers-ask-by-tasks-only-if-allowed",
    "tasks-2",
    "tasks-3",
    meaning="A client that declares no tasks is asked for none.",
    revisions=TASKS,
)
async def servers_ask_by_tasks_only_if_allowed(probe: ServerProbe) -> None:
    tools = [tried.tool for tried in await asking_tools(probe)]
    asked = False
    async with probe.open_session() as session:
        session.answerers["elicitation/create"] = accept
        for tool in tools:
            params = {"name": tool["name"], "arguments": arguments_for(tool) or {}}
            try:
                await session.request("tools/call", params, timeout=session.deadline)
            except Failed:
                if session.ended is not None:
                    raise
        for received in session.received:
            if received.method is None or "id" not in received.object:
                continue
            asked = True
            found = received.object.get("params") or {}
            expect("task" not in found, f"{received.method} asks for a task, undeclared")
    if not asked:
        raise NotApplicable("no tool that may be called asks its client for anything")


@check(
    "servers-poll-as-they-are-told",
    "tasks-10",
    "tasks-33",
    meaning="A server polls a client's task no more often than its pollInterval says.",
    revisions=TASKS,
)
async def servers_poll_as_they_are_told(probe: ServerProbe) -> None:
    async with question_as_task(probe) as client:
        times = client.times("tasks/get")
    if len(times) < 2:
        raise NotApplicable("the server does not poll more than once")
    shortest = min(after - before for before, after in pairwise(times))
    told = f"polled again after {shortest * 1000:.0f} ms; pollInterval is {client.POLL}"
    expect(shortest * 1000 >= client.POLL * 0.8, told)


@check(
    "servers-follow-a-task-to-its-end",
    "tasks-11",
    "tasks-14",
    "tasks-44",
    "tasks-12",
    "tasks-15",
    meaning="A server that asked by a task polls it, or waits for its result, without being told.",
    revisions=TASKS,
)
async def servers_follow_a_task_to_its_end(probe: ServerProbe) -> None:
    async with question_as_task(probe) as client:
        got = client.times("tasks/result")
        polled = client.times("tasks/get")
    expect(got or polled, "after the task was created, nothing was asked about it any more")
    expect(got, "the task was finished, and its result was never asked for", "tasks-11")


@check(
    "servers-name-tasks-once",
    "tasks-42",
    "tasks-55",
    meaning="A server's tasks/get and tasks/result carry no related-task metadata.",
    revisions=TASKS,
)
async def servers_name_tasks_once(probe: ServerProbe) -> None:
    async with question_as_task(probe) as client:
        pass
    for _, request in client.asked:
        if request["method"] in ("tasks/get", "tasks/cancel", "tasks/list"):
            named = related(request.get("params") or {})
            expect(named is None, f"{request['method']} names its task again in _meta")
