"""Calling what a server has, and answering what it asks meanwhile, in both eras.

    called = await converse(session, "tools/call", {"name": "greet", "arguments": {}})
    called.reply        the answer in the end
    called.asked        what the server asked before: elicitation, sampling, roots

In the legacy era the server asks by requests of its own, which the session answers; in the modern
era by results that are `input_required`, after which the request is sent again. How the session
answers is the same in both: `Session.answerers`.

`tried_tools` calls each tool that may be called once, with a sample of its schema, and remembers
for all checks what it does: whether it answers in time, and what it asks for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import attrs
import trio

from mcp_trio.harness.model import Failed, NotApplicable
from mcp_trio.harness.probe import ServerProbe
from mcp_trio.harness.samples import NoSample, sample
from mcp_trio.harness.session import Answerer, Reply, Session
from mcp_trio.protocol.methods import METHODS
from mcp_trio.wire.jsonrpc import JSON, JSONObject

ASKED: Final = tuple(name for name, row in METHODS.items() if row.input_request)
"""The methods by which a server asks its client."""

MOST_ROUNDS: Final = 8
"""How often a modern request is sent again."""
TRY_TIME: Final = 3.0
"""Seconds that a tool has when it is tried; who takes longer is left alone."""
QUICK: Final = 0.5
"""Seconds for a tool that may be called many times."""
TRYING_TIME: Final = 20.0
"""Seconds after which no more tools are tried."""


@attrs.frozen
class Asked:
    """One question of a server.

    Attributes:
        method: "elicitation/create", "sampling/createMessage" or "roots/list".
        params: Its parameters; empty if there are none.
        key: Under which it stands in `inputRequests`; None in the legacy era.
    """

    method: str
    params: JSONObject
    key: str | None = None


@attrs.frozen
class Called:
    """A request, and what came of it.

    Attributes:
        reply: The last answer. It may still be `input_required`: the server never had enough.
        asked: What was asked for, in order.
        rounds: All answers, the last one too.
    """

    reply: Reply
    asked: tuple[Asked, ...]
    rounds: tuple[Reply, ...]


async def converse(
    session: Session, method: str, params: Mapping[str, JSON], *, timeout: float | None = None
) -> Called:
    """Send a request, answer what the server asks, and wait for what it says in the end."""
    since = len(session.received)
    reply = await session.request(method, params, timeout=timeout)
    rounds, asked = [reply], []
    for _ in range(MOST_ROUNDS):
        if not asks(reply):
            break
        asked += questions(reply)
        reply = await session.request(method, retry(session, params, reply), timeout=timeout)
        rounds.append(reply)
    return Called(reply, (*sent_questions(session, since), *asked), tuple(rounds))


def asks(reply: Reply) -> bool:
    """Whether an answer is `input_required`."""
    return (reply.result or {}).get("resultType") == "input_required"


def questions(reply: Reply) -> list[Asked]:
    """What an `input_required` answer asks for, as far as it can be read."""
    requests = (reply.result or {}).get("inputRequests")
    return [
        Asked(str(request.get("method")), _object(request.get("params")), key)
        for key, request in (requests.items() if isinstance(requests, dict) else ())
        if isinstance(request, dict)
    ]


def sent_questions(session: Session, since: int = 0) -> list[Asked]:
    """What the server asked by requests of its own."""
    return [
        Asked(received.method, _object(received.object.get("params")))
        for received in session.received[since:]
        if received.method in ASKED and "id" in received.object
    ]


def retry(session: Session, params: Mapping[str, JSON], reply: Reply) -> JSONObject:
    """The parameters of a request again, with the answers to what its result asked for."""
    answers: JSONObject = {}
    for asked in questions(reply):
        request: JSONObject = {"method": asked.method, "params": asked.params, "id": asked.key}
        answerer = session.answerers.get(asked.method)
        answer = answerer(request).get("result") if answerer else None
        if answer is not None and asked.key is not None:
            answers[asked.key] = answer
    again: JSONObject = {**params, "inputResponses": answers}
    state = (reply.result or {}).get("requestState")
    return again if state is None else {**again, "requestState": state}


def accept(request: JSONObject) -> JSONObject:
    """Answer an elicitation as a user who fills in whatever the form accepts."""
    params = _object(request.get("params"))
    if params.get("mode") == "url":
        return {"result": {"action": "accept"}}
    try:
        content = sample(params.get("requestedSchema") or {})
    except NoSample:
        return {"result": {"action": "decline"}}
    return {"result": {"action": "accept", "content": content}}


def answering(result: JSON) -> Answerer:
    """An answerer that always gives the same result."""
    return lambda _: {"result": result}


@contextmanager
def answered(session: Session, answerers: Mapping[str, Answerer]) -> Iterator[None]:
    """Have a session answer some methods otherwise, for the length of a block."""
    before = dict(session.answerers)
    session.answerers.update(answerers)
    try:
        yield
    finally:
        session.answerers.clear()
        session.answerers.update(before)


def _object(value: JSON) -> JSONObject:
    return value if isinstance(value, dict) else {}


@attrs.frozen
class Tried:
    """A tool that answers a call with sample arguments in time.

    Attributes:
        tool: As it is listed.
        arguments: What it was called with.
        called: What came of it; forms were filled in with what they accept.
        seconds: How long that took.
    """

    tool: JSONObject
    arguments: JSONObject
    called: Called
    seconds: float

    @property
    def name(self) -> str:
        return str(self.tool.get("name"))

    @property
    def call(self) -> JSONObject:
        """The parameters of the call."""
        return {"name": self.tool.get("name"), "arguments": self.arguments}

    @property
    def is_quick(self) -> bool:
        return self.seconds < QUICK

    @property
    def may_write(self) -> bool:
        """Whether it does not say that it is read-only."""
        annotations = self.tool.get("annotations")
        return not (isinstance(annotations, dict) and annotations.get("readOnlyHint") is True)

    @property
    def asks(self) -> frozenset[str]:
        """The methods by which it asked its client."""
        return frozenset(asked.method for asked in self.called.asked)

    @property
    def result(self) -> JSONObject | None:
        """What it said in the end; None if that was an error, or still a question."""
        return None if asks(self.called.reply) else self.called.reply.result

    @property
    def worked(self) -> bool:
        """Whether it succeeded."""
        return self.result is not None and not self.result.get("isError")


async def tried_tools(probe: ServerProbe) -> tuple[Tried, ...]:
    """The tools that may be called and answer in time; tried once for all checks.

    Raises:
        NotApplicable: There is none.
    """
    await probe.callable_tools()
    tried = await probe.once("tried tools", lambda: _try_tools(probe))
    if not tried:
        raise NotApplicable("no tool answers in time when it is called with sample arguments")
    return tried


async def asking_tools(probe: ServerProbe, *methods: str) -> tuple[Tried, ...]:
    """The tools that ask the client, by one of `methods` if any are named.

    Raises:
        NotApplicable: There is none.
    """
    wanted = frozenset(methods)
    found = tuple(
        tried
        for tried in await tried_tools(probe)
        if (tried.asks & wanted if wanted else tried.asks or asks(tried.called.rounds[0]))
    )
    if not found:
        what = " or ".join(methods) or "anything"
        raise NotApplicable(f"no tool that may be called asks the client for {what}")
    return found


def arguments_for(tool: JSONObject) -> JSONObject | None:
    """Arguments that a tool's schema accepts; None if none were found."""
    schema = tool.get("inputSchema")
    try:
        found = sample(schema) if isinstance(schema, dict) else {}
    except NoSample:
        return None
    return found if isinstance(found, dict) else None


async def _try_tools(probe: ServerProbe) -> tuple[Tried, ...]:
    found = []
    end = trio.current_time() + TRYING_TIME
    async with probe.open_session() as session:
        session.answerers["elicitation/create"] = accept
        for tool in await probe.callable_tools():
            if trio.current_time() > end or session.ended is not None:
                break
            tried = await _try(session, tool)
            found += [] if tried is None else [tried]
    return tuple(found)


async def _try(session: Session, tool: JSONObject) -> Tried | None:
    arguments = arguments_for(tool)
    if arguments is None:
        return None
    params = {"name": tool.get("name"), "arguments": arguments}
    began = trio.current_time()
    try:
        called = await converse(session, "tools/call", params, timeout=TRY_TIME)
    except Failed:
        return None
    return Tried(tool, arguments, called, trio.current_time() - began)
