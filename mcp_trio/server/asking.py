"""Asking the client in the middle of answering it, in both eras.

A handler writes ``answer = await ctx.elicit(...)`` and goes on with the answer. Underneath there
are two ways, and nothing in the handler tells them apart:

**Legacy** is what it looks like. The server sends a request of its own on the same connection,
and the handler waits for the response.

**Modern** servers may not ask. They may only answer, and one kind of answer is "I need to know
this first; send the request again with it". So a question ends the handler:

    round 1   the handler runs ── elicit("who") ─▶ recorded; the handler is cancelled
              answer: input_required, question "who", requestState
    round 2   the handler runs again from its start ── elicit("who") ─▶ returns the answer
              it goes on to its end, or to its next question

The way out of the handler is cancellation, because cancellation is the one way out that code
already has to respect: ``finally`` blocks run, nurseries wait for their tasks, and no ``except
Exception`` swallows it. What is cancelled is a scope around the handler and nothing else.

Tasks of one handler that ask at the same time ask in the same round. A task that would have to
wait for something before it can ask does so in the next one.

What follows from all this, and is therefore the rule in both eras: **the key names the question**.
Asking again under the same key gives the same answer, and code before the first question runs
once per round, so what must happen only once belongs after the last question.

(MCP 2026-07-28, basic/patterns/mrtr; MCP 2025-11-25, client/elicitation)
"""

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import trio

from mcp_trio.protocol.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    MISSING_CAPABILITY,
    MCPError,
    ProtocolError,
    missing_capability,
)
from mcp_trio.protocol.revisions import supports
from mcp_trio.server.params import optional
from mcp_trio.server.state import StateKeys, request_digest
from mcp_trio.wire.jsonrpc import JSONObject

if TYPE_CHECKING:
    from mcp_trio.server.context import Context
    from mcp_trio.server.questions import Question

logger = logging.getLogger("mcp_trio")


class CannotAsk(MCPError):
    """The client cannot be asked this, here; the message says why.

    A handler that has another way to go on catches this. Otherwise it is the answer to the
    request: -32021 with the capabilities that are missing in the modern era, else -32600 for what
    the client lacks and -32603 for what this server does wrong.
    """


async def run_asking(
    ctx: "Context", params: JSONObject, work: Callable[[], Awaitable[JSONObject]], keys: StateKeys
) -> JSONObject:
    """Run ``work``, the handler of a request that may ask, and turn its questions into a result.

    In the modern era the result may be one that asks for input. What else can come out of a
    handler that has asked and is on its way out:

    - An error that it raises, in a ``finally`` block or in a task beside the one that asked, is
      its answer. The question is dropped: errors win over cancellation here as everywhere.
    - A result that it returns, having swallowed the cancellation, is discarded in favour of the
      question, with a warning in the log: it was made without the answer.

    Raises:
        MCPError: -32602 for a `requestState` or `inputResponses` that cannot be accepted.
    """
    if not ctx.info.modern:
        return await work()
    round_ = Round(ctx, params, keys)
    ctx.dialogue = round_
    result: JSONObject | None = None
    with round_.scope:
        result = await work()
    if round_.scope.cancel_called:
        if result is not None:
            text = "%s was cancelled to ask the client, but went on; what it returned is dropped"
            logger.warning(text, ctx.method)
        return round_.input_required()
    assert result is not None
    return result


async def ask(ctx: "Context", questions: "Mapping[str, Question[Any]]") -> dict[str, Any]:
    """Ask all of the questions, or none; see `Context.ask`."""
    await trio.lowlevel.checkpoint_if_cancelled()
    if ctx.dialogue is None:
        if ctx.info.modern:
            text = "In this revision only tools/call, prompts/get and resources/read may ask"
            raise CannotAsk(INTERNAL_ERROR, f"{text}, not {ctx.method}.")
        ctx.dialogue = Interview(ctx)
    return await ctx.dialogue.ask(questions)


class Dialogue(ABC):
    """What has been asked in the course of one request."""

    def __init__(self, ctx: "Context") -> None:
        self.ctx = ctx
        self.version = ctx.info.version
        self.asked: dict[str, Question[Any]] = {}

    async def ask(self, questions: "Mapping[str, Question[Any]]") -> dict[str, Any]:
        """The answers to all of the questions, by key and in the same order."""
        for key, question in questions.items():
            if not key:
                raise ValueError("the key of a question must not be empty")
            if self.asked.get(key, question) != question:
                text = f"{key!r} has been asked before, and it was another question"
                raise ValueError(f"{text}; a key names one question in all rounds of a request")
            check_feasible(self.version, question)
        self.check_client(questions)
        requests = {key: as_request(q, self.version) for key, q in questions.items()}
        self.asked.update(questions)
        return await self.answers(questions, requests)

    def check_client(self, questions: "Mapping[str, Question[Any]]") -> None:
        """Raise `CannotAsk` for a capability that the client has not declared."""
        missing: JSONObject = {}
        for question in questions.values():
            _merge(missing, question.missing(self.ctx.info.client_capabilities))
        if missing:
            error = missing_capability(missing)
            if self.ctx.info.modern:
                raise CannotAsk(MISSING_CAPABILITY, error.message, error.data)
            raise CannotAsk(INVALID_REQUEST, f"{error.message} in initialize for this.")

    @abstractmethod
    async def answers(
        self, questions: "Mapping[str, Question[Any]]", requests: Mapping[str, JSONObject]
    ) -> dict[str, Any]:
        """Get the answers; ``requests`` are the questions in wire form."""


class Interview(Dialogue):
    """The legacy way: send requests and wait for the responses."""

    def __init__(self, ctx: "Context") -> None:
        super().__init__(ctx)
        self._answers: dict[str, Any] = {}
        self._locks: dict[str, trio.Lock] = {}

    def check_client(self, questions: "Mapping[str, Question[Any]]") -> None:
        session = self.ctx.info.session
        if session.stateless:
            text = "A client can be asked within a session only, and this request belongs to none."
            raise CannotAsk(INVALID_REQUEST, text)
        if not session.initialized:
            text = "The client cannot be asked before it has sent notifications/initialized."
            raise CannotAsk(INVALID_REQUEST, text)
        super().check_client(questions)

    async def answers(
        self, questions: "Mapping[str, Question[Any]]", requests: Mapping[str, JSONObject]
    ) -> dict[str, Any]:
        found: dict[str, Any] = {}
        failures: list[Exception] = []

        async def answer(key: str, question: "Question[Any]") -> None:
            try:
                found[key] = await self._answer(key, question, requests[key])
            except Exception as exc:
                failures.append(exc)
                nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            for key, question in questions.items():
                nursery.start_soon(answer, key, question)
        if failures:  # outside the nursery, so that it is no group
            raise failures[0]
        return {key: found[key] for key in questions}

    async def _answer(self, key: str, question: "Question[Any]", request: JSONObject) -> Any:
        async with self._locks.setdefault(key, trio.Lock()):  # two tasks may ask the same
            if key not in self._answers:
                params = request.get("params")
                result = await self.ctx.incoming.request(question.method, params)
                try:
                    self._answers[key] = question.read(result)
                except ValueError as exc:
                    text = f"the client's answer to {question.method} ({key!r}) makes no sense"
                    raise ProtocolError(f"{text}: {exc}") from exc
            return self._answers[key]


class Round(Dialogue):
    """The modern way: one of the rounds in which the handler runs.

    Attributes:
        scope: Around the handler; cancelled when a question has no answer yet.
    """

    def __init__(self, ctx: "Context", params: JSONObject, keys: StateKeys) -> None:
        super().__init__(ctx)
        self.scope = trio.CancelScope()
        self._keys = keys
        self._params = params
        given = optional(params, "inputResponses", dict) or {}
        earlier = self._open_state(params.get("requestState"))
        expected = earlier.get("asked", ())
        #: Answers that the handler may come to ask for, as they came.
        self._given: JSONObject = {**given, **earlier.get("answers", {})}
        #: Of these, the keys that this server did ask for; nothing else is carried on.
        self._kept = {*earlier.get("answers", ()), *(key for key in expected if key in given)}
        #: The questions of each task that waits for an answer, in wire form.
        self._open: list[Mapping[str, JSONObject]] = []

    def _open_state(self, state: Any) -> JSONObject:
        return {} if state is None else self._keys.open(state, **self._binding())

    def _binding(self) -> dict[str, Any]:
        return {
            "principal": self.ctx.principal,
            "request_digest": request_digest(self.ctx.method, self._params),
        }

    async def answers(
        self, questions: "Mapping[str, Question[Any]]", requests: Mapping[str, JSONObject]
    ) -> dict[str, Any]:
        missing = {key: requests[key] for key in questions if key not in self._given}
        if missing:
            await self._stop_for(missing)
        await trio.lowlevel.checkpoint()
        return {key: self._read(key, question) for key, question in questions.items()}

    def _read(self, key: str, question: "Question[Any]") -> Any:
        try:
            answer = question.read(self._given[key])
        except ValueError as exc:
            text = f"Invalid params: 'inputResponses.{key}' does not answer {question.method}"
            raise MCPError(INVALID_PARAMS, f"{text}: {exc}") from exc
        self._kept.add(key)
        return answer

    async def _stop_for(self, questions: Mapping[str, JSONObject]) -> NoReturn:
        """Record the questions and leave the handler by cancelling it."""
        if not self._is_in_reach():
            raise RuntimeError(
                "A question ends the handler by cancelling it, but this task is out of reach: "
                "ask outside of shielded scopes, and from tasks of the handler's own nurseries "
                "only, not from threads."
            )
        self._open.append(questions)
        try:
            await trio.lowlevel.checkpoint()  # tasks beside this one get to ask as well
        except trio.Cancelled:
            if not self.scope.cancel_called:  # something else ended this task: it asks no more
                self._open.remove(questions)
            raise
        self.scope.cancel()
        await trio.lowlevel.checkpoint()
        raise AssertionError("unreachable")

    def _is_in_reach(self) -> bool:
        """Whether cancelling the scope would cancel this task.

        Without cancelling anything: a deadline reaches exactly as far as a cancellation does.
        """
        deadline = self.scope.deadline
        self.scope.deadline = -math.inf
        try:
            return trio.current_effective_deadline() == -math.inf
        finally:
            self.scope.deadline = deadline

    def input_required(self) -> JSONObject:
        """The result that asks for what is missing, with all answers so far sealed into it."""
        requests = {key: request for asked in self._open for key, request in asked.items()}
        answers = {key: self._given[key] for key in self._given if key in self._kept}
        content = {"answers": answers, "asked": list(requests)}
        return {
            "resultType": "input_required",
            "inputRequests": requests,
            "requestState": self._keys.seal(content, **self._binding()),
        }


def check_feasible(version: str, question: "Question[Any]") -> None:
    """Raise `CannotAsk` for what a revision does not have."""
    for feature in question.features():
        if not supports(feature, version):
            text = f"Protocol version {version} cannot ask this by {question.method}"
            raise CannotAsk(INVALID_REQUEST, f"{text}: it has no {feature.replace('_', ' ')}.")


def as_request(question: "Question[Any]", version: str) -> JSONObject:
    """A question in wire form, as it stands in `inputRequests`."""
    params = question.params(version)
    return {"method": question.method, **({} if params is None else {"params": params})}


def _merge(into: JSONObject, other: JSONObject) -> None:
    for name, value in other.items():
        if isinstance(into.get(name), dict) and isinstance(value, dict):
            _merge(into[name], value)
        else:
            into.setdefault(name, value)
