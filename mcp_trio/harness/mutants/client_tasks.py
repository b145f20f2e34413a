"""Tasks (experimental, 2025-11-25): mutants of clients.

What a task does wrong is the same on both sides, so most of these faults are those of servers
(`mutants.tasks`), put before a client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import attrs

from mcp_trio.harness.mutants import ClientMutant
from mcp_trio.harness.mutants.client_faults import ClientFault, client_mutant
from mcp_trio.harness.mutants.frames import Back, Fault, Frame
from mcp_trio.harness.mutants.tasks import (
    AllTheSame,
    AnswersEarly,
    BelievesMetadata,
    CancelledComesBack,
    ForgetsTasks,
    Impatient,
    MovesBack,
    Numbered,
    Requests,
    answers,
    for_ever,
    related_again,
    states,
    succeeds,
    unrelated,
)
from mcp_trio.harness.mutants.tasks_client import play_with_tasks
from mcp_trio.protocol.meta import META, RELATED_TASK
from mcp_trio.wire.jsonrpc import JSONObject


class _Turned(ClientFault):
    """The fault of a server, in a client."""

    def __init__(self, fault: Fault) -> None:
        self._fault = fault

    def hears(self, frame: Frame) -> Iterable[Frame | Back]:
        return self._fault.received(frame)

    def says(self, frame: Frame) -> Iterable[Frame | Back]:
        return self._fault.sent(frame)


def _mutant(id: str, fault: str, make: Callable[[], Fault], *catches: str) -> ClientMutant:
    made = client_mutant(id, lambda: _Turned(make()), catches, client=play_with_tasks)
    return attrs.evolve(made, fault=fault)


ELICIT: Final = "elicitation/create"


class CallsPlainly(Requests):
    method = "tools/call"

    def changed(self, params: JSONObject) -> JSONObject:
        return {key: value for key, value in params.items() if key != "task"}


class CallsAllAsTasks(Requests):
    method = "tools/call"

    def changed(self, params: JSONObject) -> JSONObject:
        return {**params, "task": {}}


class NamesAgain(Requests):
    method = "tasks/get"

    def changed(self, params: JSONObject) -> JSONObject:
        return {**params, META: {RELATED_TASK: {"taskId": params["taskId"]}}}


class NeverFetches(Fault):
    def sent(self, frame: Frame) -> Iterable[Frame | Back]:
        if not (isinstance(frame, dict) and frame.get("method") == "tasks/result"):
            yield frame


def _as_task(request: JSONObject, answer: JSONObject) -> JSONObject:
    if "task" not in request["params"]:
        return answer
    task = {"taskId": "1", "status": "working"}
    return {"jsonrpc": "2.0", "id": answer["id"], "result": {"task": task}}


class FromServers(Numbered):
    ids = staticmethod(lambda request, n: request["params"]["task"].get("taskId", f"own-{n}-{n}"))


MUTANTS: Final[tuple[ClientMutant, ...]] = (
    _mutant(
        "client-calls-plainly",
        "Calls tools that require a task without one.",
        CallsPlainly,
        "client-starts-tasks-where-it-has-to",
    ),
    _mutant(
        "client-calls-all-as-tasks",
        "Calls every tool as a task.",
        CallsAllAsTasks,
        "client-starts-no-forbidden-tasks",
        "client-starts-no-undeclared-tasks",
    ),
    _mutant(
        "client-polls-too-often",
        "Does not heed the pollInterval.",
        Impatient,
        "client-polls-as-it-is-told",
    ),
    _mutant(
        "client-never-fetches",
        "Never asks for the result of a task.",
        NeverFetches,
        "client-follows-a-task-to-its-end",
        "client-fetches-what-is-asked",
    ),
    _mutant(
        "client-names-tasks-again",
        "Names the task again in _meta of tasks/get.",
        NamesAgain,
        "client-finds-tasks-by-id-alone",
    ),
    _mutant(
        "client-answers-unrelated",
        "Does not name the task in its answers.",
        answers(ELICIT, unrelated),
        "client-answers-of-tasks-name-them",
    ),
    attrs.evolve(
        client_mutant(
            "client-runs-undeclared",
            lambda: _Turned(answers(ELICIT, _as_task)()),
            ["client-ignores-undeclared-tasks"],
        ),
        fault="Runs tasks and does not declare them.",
    ),
    _mutant(
        "client-starts-completed",
        "Creates tasks that are completed already.",
        states(ELICIT, status="completed"),
        "client-creates-tasks",
    ),
    _mutant(
        "client-numbers-tasks",
        "Numbers its tasks.",
        Numbered,
        "client-task-ids-are-unique-strings",
    ),
    _mutant(
        "client-takes-ids",
        "Lets the server choose the id of its task.",
        FromServers,
        "client-task-ids-are-unique-strings",
    ),
    _mutant(
        "client-has-one-id",
        "Gives all tasks one id.",
        AllTheSame,
        "client-task-ids-are-unique-strings",
    ),
    _mutant(
        "client-times-for-people",
        "Writes times as people do.",
        states("tasks/get", createdAt="yesterday"),
        "client-returns-tasks",
    ),
    _mutant(
        "client-states-name-tasks",
        "Names the task again in _meta of its state.",
        answers("tasks/get", related_again),
        "client-returns-tasks",
    ),
    _mutant(
        "client-tasks-move-back",
        "Says that a finished task is working again.",
        MovesBack,
        "client-task-status-moves-forward",
    ),
    _mutant(
        "client-results-early",
        "Answers tasks/result while the task is working.",
        AnswersEarly,
        "client-task-results-are-answers",
    ),
    _mutant(
        "client-results-unrelated",
        "Does not name the task in its result.",
        answers("tasks/result", unrelated),
        "client-task-results-name-their-task",
    ),
    _mutant(
        "client-believes-metadata",
        "Takes the task from the related-task metadata in place of taskId.",
        BelievesMetadata,
        "client-tasks-are-found-by-their-id-alone",
    ),
    _mutant(
        "client-knows-all-tasks",
        "Answers for tasks that do not exist.",
        answers("tasks/get", succeeds),
        "client-refuses-unknown-tasks",
    ),
    _mutant("client-forgets-tasks", "Lists not all tasks.", ForgetsTasks, "client-lists-its-tasks"),
    _mutant(
        "client-cancelled-comes-back",
        "Says that a cancelled task was completed after all.",
        CancelledComesBack,
        "client-cancels-its-tasks",
    ),
    _mutant(
        "client-keeps-for-ever",
        "Keeps tasks for as long as anybody asks.",
        answers(ELICIT, for_ever),
        "client-limits-the-life-of-tasks",
    ),
)
