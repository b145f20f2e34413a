"""Tasks (experimental, 2025-11-25): mutants of servers."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import attrs

from mcp_trio.harness.mutants import Mutant
from mcp_trio.harness.mutants.frames import Back, Fault, Frame, frame_mutant
from mcp_trio.harness.mutants.plain_http import open_over_http
from mcp_trio.harness.mutants.tasks_server import TasksServer
from mcp_trio.harness.targets import ServerTarget, server_target, url_target
from mcp_trio.protocol.meta import META, RELATED_TASK
from mcp_trio.wire.jsonrpc import JSONObject


class _Remembering(Fault):
    """Remembers which method each request had, so that its answer can be told."""

    def __init__(self) -> None:
        self._asked: dict[Any, JSONObject] = {}

    def received(self, frame: Frame) -> Iterable[Frame | Back]:
        if isinstance(frame, dict) and "method" in frame and "id" in frame:
            self._asked[frame["id"]] = frame
        yield frame

    def sent(self, frame: Frame) -> Iterable[Frame | Back]:
        if isinstance(frame, dict) and "method" not in frame and frame.get("id") in self._asked:
            yield self.answered(self._asked[frame["id"]], frame)
        else:
            yield frame

    def answered(self, request: JSONObject, answer: JSONObject) -> JSONObject:
        """The answer that is sent in place of the right one."""
        return answer


def _result(answer: JSONObject, **changes: Any) -> JSONObject:
    return {"jsonrpc": "2.0", "id": answer["id"], "result": {**answer.get("result", {}), **changes}}


def states(*methods: str, **changes: Any) -> Callable[[], Fault]:
    """A fault that changes the task in the answers of some methods; None takes a field away."""

    class Changed(_Remembering):
        def answered(self, request: JSONObject, answer: JSONObject) -> JSONObject:
            if request["method"] not in methods or "result" not in answer:
                return answer
            if "task" in answer["result"]:
                return _result(answer, task=_changed(answer["result"]["task"], changes))
            return {**answer, "result": _changed(answer["result"], changes)}

    return Changed


def _changed(state: JSONObject, changes: JSONObject) -> JSONObject:
    changed = {**state, **changes}
    return {key: value for key, value in changed.items() if value is not ...}


def answers(
    method: str, make: Callable[[JSONObject, JSONObject], JSONObject]
) -> Callable[[], Fault]:
    """A fault that makes other answers to the requests of one method."""

    class Made(_Remembering):
        def answered(self, request: JSONObject, answer: JSONObject) -> JSONObject:
            return make(request, answer) if request["method"] == method else answer

    return Made


class NotDeclared(_Remembering):
    def answered(self, request: JSONObject, answer: JSONObject) -> JSONObject:
        if request["method"] != "initialize":
            return answer
        capabilities = {**answer["result"]["capabilities"]}
        del capabilities["tasks"]
        return _result(answer, capabilities=capabilities)


class Numbered(_Remembering):
    """Makes a task of each call, with the ids that `ids` gives."""

    ids: Callable[[JSONObject, int], Any] = staticmethod(lambda _task, number: number)

    def __init__(self) -> None:
        super().__init__()
        self._count = itertools.count(1)
        self._real: dict[Any, str] = {}

    def received(self, frame: Frame) -> Iterable[Frame | Back]:
        if isinstance(frame, dict) and isinstance(frame.get("params"), dict):
            params = frame["params"]
            real = self._real.get(params.get("taskId"), params.get("taskId"))
            if real is not None:
                frame = {**frame, "params": {**params, "taskId": real}}
        return super().received(frame)

    def answered(self, request: JSONObject, answer: JSONObject) -> JSONObject:
        result = answer.get("result") or {}
        if "task" in result:
            other = self.ids(request, next(self._count))
            self._real[other] = result["task"]["taskId"]
            return _result(answer, task={**result["task"], "taskId": other})
        return answer


class ChosenByTheClient(Numbered):
    ids = staticmethod(lambda request, n: request["params"]["task"].get("taskId", f"own-{n}-{n}"))


class AllTheSame(Numbered):
    ids = staticmethod(lambda _request, _number: "the-task")


class Counted(Numbered):
    ids = staticmethod(lambda _request, number: f"task-{number}")


class MovesBack(_Remembering):
    """Says that a finished task is working again."""

    def __init__(self) -> None:
        super().__init__()
        self._finished = False

    def answered(self, request: JSONObject, answer: JSONObject) -> JSONObject:
        if request["method"] != "tasks/get" or "result" not in answer:
            return answer
        if self._finished:
            return _result(answer, status="working")
        self._finished = answer["result"]["status"] == "completed"
        return answer


class CancelledComesBack(_Remembering):
    """Says that a cancelled task was completed after all."""

    def answered(self, request: JSONObject, answer: JSONObject) -> JSONObject:
        status = (answer.get("result") or {}).get("status")
        if request["method"] == "tasks/get" and status == "cancelled":
            return _result(answer, status="completed")
        return answer


class BelievesMetadata(_Remembering):
    """Takes the task from the related-task metadata in place of taskId."""

    def received(self, frame: Frame) -> Iterable[Frame | Back]:
        if isinstance(frame, dict) and frame.get("method") == "tasks/get":
            named = (frame["params"].get(META) or {}).get(RELATED_TASK)
            if named:
                frame = {**frame, "params": {**frame["params"], "taskId": named["taskId"]}}
        return super().received(frame)


class AnswersEarly(_Remembering):
    """Gives an empty result at once, whatever the task is doing."""

    def received(self, frame: Frame) -> Iterable[Frame | Back]:
        if isinstance(frame, dict) and frame.get("method") == "tasks/result":
            yield Back({"jsonrpc": "2.0", "id": frame["id"], "result": {"content": []}})
        else:
            yield from super().received(frame)


class OtherResults(_Remembering):
    """Gives another result each time."""

    def __init__(self) -> None:
        super().__init__()
        self._count = itertools.count()

    def answered(self, request: JSONObject, answer: JSONObject) -> JSONObject:
        if request["method"] != "tasks/result" or "result" not in answer:
            return answer
        return _result(answer, content=[{"type": "text", "text": str(next(self._count))}])


class ForgetsTasks(_Remembering):
    """Lists one task fewer than there are, and no further page."""

    def answered(self, request: JSONObject, answer: JSONObject) -> JSONObject:
        if request["method"] != "tasks/list" or "result" not in answer:
            return answer
        return {**answer, "result": {"tasks": answer["result"]["tasks"][:1]}}


class Requests(Fault):
    """Changes the requests that the server sends."""

    method = "elicitation/create"

    def sent(self, frame: Frame) -> Iterable[Frame | Back]:
        if isinstance(frame, dict) and frame.get("method") == self.method:
            yield {**frame, "params": self.changed(dict(frame.get("params") or {}))}
        else:
            yield frame

    def changed(self, params: JSONObject) -> JSONObject:
        return params


class UnrelatedQuestions(Requests):
    def changed(self, params: JSONObject) -> JSONObject:
        return {key: value for key, value in params.items() if key != META}


class AsksByTask(Requests):
    def changed(self, params: JSONObject) -> JSONObject:
        return {**params, "task": {"ttl": 1000}}


class RelatesPolls(Requests):
    method = "tasks/get"

    def changed(self, params: JSONObject) -> JSONObject:
        return {**params, META: {RELATED_TASK: {"taskId": params["taskId"]}}}


class Impatient(Fault):
    """Polls without a pause: it reads every pollInterval as 1."""

    def received(self, frame: Frame) -> Iterable[Frame | Back]:
        if isinstance(frame, dict) and "result" in frame:
            result = dict(frame["result"])
            if isinstance(result.get("task"), dict):
                result["task"] = {**result["task"], "pollInterval": 1}
            if "pollInterval" in result:
                result["pollInterval"] = 1
            frame = {**frame, "result": result}
        yield frame


class LosesInterest(Fault):
    """Asks nothing more about a task that its client made."""

    def sent(self, frame: Frame) -> Iterable[Frame | Back]:
        if not (isinstance(frame, dict) and str(frame.get("method")).startswith("tasks/")):
            yield frame


class TellsTwice(Requests):
    """Sends status notifications, with the task named again in _meta."""

    method = "notifications/tasks/status"

    def changed(self, params: JSONObject) -> JSONObject:
        return {**params, META: {RELATED_TASK: {"taskId": params["taskId"]}}}


def succeeds(_request: JSONObject, answer: JSONObject) -> JSONObject:
    """An unknown task is answered like a known one."""
    if "error" not in answer:
        return answer
    return {"jsonrpc": "2.0", "id": answer["id"], "result": {"status": "working"}}


def _internal(_request: JSONObject, answer: JSONObject) -> JSONObject:
    if "error" not in answer:
        return answer
    return {**answer, "error": {**answer["error"], "code": -32603}}


def _wordless(_request: JSONObject, answer: JSONObject) -> JSONObject:
    if "error" not in answer:
        return answer
    return {**answer, "error": {"code": answer["error"]["code"], "message": " "}}


def _instead(_request: JSONObject, answer: JSONObject) -> JSONObject:
    """What was refused succeeds with a result of its own."""
    if "error" not in answer:
        return answer
    result = {"content": [{"type": "text", "text": "done"}], "isError": False}
    return {"jsonrpc": "2.0", "id": answer["id"], "result": result}


def _at_once(_request: JSONObject, answer: JSONObject) -> JSONObject:
    if "task" not in (answer.get("result") or {}):
        return answer
    return {"jsonrpc": "2.0", "id": answer["id"], "result": {"content": []}}


def related_again(_request: JSONObject, answer: JSONObject) -> JSONObject:
    return _result(answer, _meta={RELATED_TASK: {"taskId": "x"}}) if "result" in answer else answer


def unrelated(_request: JSONObject, answer: JSONObject) -> JSONObject:
    return _result(answer, _meta={}) if "result" in answer else answer


def _all_well(_request: JSONObject, answer: JSONObject) -> JSONObject:
    return _result(answer, isError=False) if "result" in answer else answer


def for_ever(request: JSONObject, answer: JSONObject) -> JSONObject:
    task = (answer.get("result") or {}).get("task")
    if task is None:
        return answer
    return _result(answer, task={**task, "ttl": request["params"]["task"].get("ttl")})


class _Undeclaring(_Remembering):
    """Starts a task although it declares none: the task of a call without one."""

    def answered(self, request: JSONObject, answer: JSONObject) -> JSONObject:
        params = request.get("params") or {}
        if request["method"] != "tools/call" or "task" not in params or "result" not in answer:
            return answer
        return {**answer, "result": {"task": {"taskId": "1", "status": "working"}}}


def _tasks(id: str, fault: str, catches: Sequence[str], make: Callable[[], Fault]) -> Mutant:
    return attrs.evolve(frame_mutant(id, make, catches, TasksServer), fault=fault)


@asynccontextmanager
async def _open_hasty() -> AsyncIterator[ServerTarget]:
    yield server_target(TasksServer(asks_while_working=True), "never-input-required")


def _over_http(id: str, fault: str, catches: Sequence[str], *, streams: bool) -> Mutant:
    """The healthy server over HTTP; one that answers by streams, if it is at fault."""

    @asynccontextmanager
    async def opened(streams: bool) -> AsyncIterator[ServerTarget]:
        async with open_over_http(TasksServer(), streams=streams) as url:
            yield url_target(url)

    return Mutant(id, fault, tuple(catches), partial(opened, streams), partial(opened, False))


MUTANTS: Final[tuple[Mutant, ...]] = (
    _tasks(
        "tasks-undeclared",
        "Has tools that run as tasks and declares no tasks.",
        ["task-tools-are-declared"],
        NotDeclared,
    ),
    frame_mutant("tasks-anyway", _Undeclaring, ["undeclared-tasks-are-ignored"]),
    _tasks(
        "forbidden-tasks-run",
        "Runs a tool as a task that does not allow it.",
        ["tools-that-forbid-tasks-refuse-them", "tools-that-require-tasks-refuse-plain-calls"],
        answers("tools/call", _instead),
    ),
    _tasks(
        "task-calls-finish",
        "Answers a call as a task with its result.",
        ["task-call-creates-a-task"],
        answers("tools/call", _at_once),
    ),
    _tasks(
        "tasks-start-submitted",
        "Creates tasks with a status that does not exist.",
        ["new-tasks-are-working"],
        states("tools/call", status="submitted"),
    ),
    _tasks("task-ids-are-numbers", "Numbers tasks.", ["task-ids-are-unique-strings"], Numbered),
    _tasks(
        "task-ids-from-clients",
        "Lets the client choose the id of its task.",
        ["task-ids-are-unique-strings"],
        ChosenByTheClient,
    ),
    _tasks(
        "one-task-id",
        "Gives all tasks one id.",
        ["task-ids-are-unique-strings", "task-ids-cannot-be-guessed"],
        AllTheSame,
    ),
    _tasks("task-ids-counted", "Counts tasks.", ["task-ids-cannot-be-guessed"], Counted),
    _tasks(
        "task-times-for-people",
        "Writes times as people do.",
        ["tasks-get-returns-the-task"],
        states("tasks/get", createdAt="yesterday"),
    ),
    _tasks(
        "task-without-ttl",
        "Does not say for how long a task is kept.",
        ["tasks-get-returns-the-task"],
        states("tasks/get", ttl=...),
    ),
    _tasks(
        "tasks-move-back",
        "Says that a finished task is working again.",
        ["task-status-moves-forward"],
        MovesBack,
    ),
    _tasks(
        "tasks-by-metadata",
        "Takes the task from the related-task metadata in place of taskId.",
        ["tasks-are-found-by-their-id-alone"],
        BelievesMetadata,
    ),
    _tasks(
        "states-name-tasks",
        "Names the task again in _meta of tasks/get.",
        ["task-states-name-no-related-task"],
        answers("tasks/get", related_again),
    ),
    _tasks(
        "unknown-tasks-work",
        "Answers for tasks that do not exist.",
        ["unknown-tasks-are-refused"],
        answers("tasks/get", succeeds),
    ),
    _tasks(
        "unknown-tasks-are-our-fault",
        "Calls an unknown task an internal error.",
        ["unknown-tasks-are-refused"],
        answers("tasks/result", _internal),
    ),
    _tasks(
        "wordless-task-errors",
        "Gives no reason for an error.",
        ["task-errors-say-what-is-wrong"],
        answers("tasks/get", _wordless),
    ),
    _tasks(
        "results-before-the-end",
        "Answers tasks/result while the task is working.",
        ["task-results-wait"],
        AnswersEarly,
    ),
    _tasks(
        "results-differ",
        "Gives another result each time it is asked.",
        ["task-results-are-those-of-the-call", "failed-tasks-give-their-failure"],
        OtherResults,
    ),
    _tasks(
        "results-without-task",
        "Does not name the task in its result.",
        ["task-results-name-their-task"],
        answers("tasks/result", unrelated),
    ),
    _tasks(
        "failures-look-well",
        "Says that a failed task went well.",
        ["failed-tasks-give-their-failure"],
        answers("tasks/result", _all_well),
    ),
    _tasks(
        "failures-without-reason",
        "Does not say why a task failed.",
        ["failed-tasks-say-why"],
        states("tasks/get", statusMessage=...),
    ),
    _tasks("tasks-missing", "Lists not all tasks.", ["tasks-are-listed"], ForgetsTasks),
    _tasks(
        "any-task-cursor",
        "Takes any cursor.",
        ["unknown-task-cursors-are-refused"],
        answers("tasks/list", succeeds),
    ),
    _tasks(
        "cancel-says-working",
        "Answers tasks/cancel before the task is cancelled.",
        ["cancelled-tasks-are-cancelled"],
        states("tasks/cancel", status="working"),
    ),
    _tasks(
        "cancelled-comes-back",
        "Says that a cancelled task was completed after all.",
        ["cancelled-tasks-are-cancelled"],
        CancelledComesBack,
    ),
    _tasks(
        "finished-is-cancelled",
        "Lets finished tasks be cancelled.",
        ["finished-tasks-cannot-be-cancelled"],
        answers("tasks/cancel", succeeds),
    ),
    _tasks(
        "tasks-for-ever",
        "Keeps tasks for as long as anybody asks.",
        ["long-lives-of-tasks-are-limited"],
        answers("tools/call", for_ever),
    ),
    _tasks(
        "questions-without-task",
        "Does not name the task in what it asks.",
        ["task-questions-name-their-task"],
        UnrelatedQuestions,
    ),
    attrs.evolve(
        _tasks(
            "never-input-required",
            "Says that a task is working while it waits for an answer.",
            ["tasks-that-ask-are-input-required"],
            Fault,
        ),
        open=_open_hasty,
    ),
    _tasks(
        "notifications-name-tasks",
        "Names the task again in _meta of status notifications.",
        ["status-notifications-name-no-related-task"],
        TellsTwice,
    ),
    _tasks(
        "asks-by-task-anyway",
        "Asks its client by tasks though that declares none.",
        ["servers-ask-by-tasks-only-if-allowed"],
        AsksByTask,
    ),
    _tasks(
        "polls-too-often",
        "Does not heed the pollInterval of its client.",
        ["servers-poll-as-they-are-told"],
        Impatient,
    ),
    _tasks(
        "loses-interest",
        "Never asks about the task that its client made.",
        ["servers-follow-a-task-to-its-end"],
        LosesInterest,
    ),
    _tasks(
        "polls-name-tasks",
        "Names the task again in _meta of tasks/get.",
        ["servers-name-tasks-once"],
        RelatesPolls,
    ),
    _over_http(
        "states-are-streams",
        "Answers tasks/get by a stream of events.",
        ["task-states-are-no-streams"],
        streams=True,
    ),
)
