"""Multi round-trip requests: a server that needs something before it can answer.

A modern server never asks by itself. It answers that its result is not complete, and says what it
needs to know; the client finds out and sends the request again, as a new request with the answers
and with the server's `requestState`, which is none of its business, just as it came
(MCP 2026-07-28, basic/patterns/mrtr).
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import Protocol

import trio

from mcp_trio.client.questions import BadQuestion
from mcp_trio.exceptions import ProtocolError
from mcp_trio.protocol.methods import METHODS
from mcp_trio.wire.jsonrpc import JSONObject

#: The longest pause, in seconds, before a request is sent again that asked for nothing.
LONGEST_BACKOFF = 5.0


class Answering(Protocol):
    """Answers a server's questions; see `mcp_trio.client.questions.Answers`."""

    def refuse_unknown(self, method: object) -> None:
        """Refuse a question that is not answered here, by a `BadQuestion`."""

    async def answer(self, method: str, params: object) -> JSONObject:
        """Answer a question; what this raises is raised by `ask_in_rounds`."""


async def ask_in_rounds(
    send: Callable[[JSONObject], Awaitable[JSONObject]],
    method: str,
    params: JSONObject,
    answers: Answering,
    *,
    max_rounds: int,
    backoff: float,
    while_open: Callable[[], AbstractContextManager[object]],
) -> JSONObject:
    """Send a request until its result is complete.

    What a callback of the user raises is raised here.

    Args:
        send: Sends the request with these parameters, and gives its result.
        max_rounds: How many times the server may ask.
        backoff: Seconds before the first attempt that follows a result without questions; they
            double with each more of these in a row. Where a question was answered there is no
            pause.
        while_open: A context manager around what happens between two attempts.

    Raises:
        ProtocolError: The server asks too often, asks what it may not, or gives a result of a
            type that is not known.
    """
    attempt, pause = params, backoff
    for asked in range(max_rounds + 1):
        result = await send(attempt)
        kind = result.get("resultType", "complete")  # absent means complete
        if kind == "complete":
            return result
        if kind != "input_required":
            raise ProtocolError(f"{method}: the result is of the unknown type {kind!r}")
        if method not in METHODS or not METHODS[method].may_ask:
            raise ProtocolError(f"{method}: the server asks for input, which it may not do here")
        if asked == max_rounds:
            break
        attempt = _without_answers(params)
        if "requestState" in result:
            attempt["requestState"] = result["requestState"]
        with while_open():
            if questions := result.get("inputRequests"):
                attempt["inputResponses"] = await _answer_all(method, questions, answers)
                pause = backoff
            elif "requestState" in result:
                await trio.sleep(min(pause, LONGEST_BACKOFF))
                pause *= 2
            else:
                raise ProtocolError(f"{method}: the server asks for input but not for what")
    raise ProtocolError(
        f"{method}: the server has asked {max_rounds} times for input and asks again "
        "(max_rounds of open_client)"
    )


def _without_answers(params: JSONObject) -> JSONObject:
    """The parameters as they were before any round: each round's answers are for it alone."""
    return {
        name: value
        for name, value in params.items()
        if name not in ("inputResponses", "requestState")
    }


async def _answer_all(method: str, questions: object, answers: Answering) -> JSONObject:
    """Answer the questions one after the other: a person is asked one thing at a time.

    Nobody is asked anything if one of the questions may not be asked: the call will fail.
    """
    if not isinstance(questions, dict):
        raise ProtocolError(f"{method}: inputRequests must be an object")
    responses: JSONObject = {}
    try:
        for question in questions.values():
            answers.refuse_unknown(_field(question, "method"))
        for key, question in questions.items():
            params = _field(question, "params")
            responses[key] = await answers.answer(question["method"], params or {})
    except BadQuestion as error:
        raise ProtocolError(f"{method}: {error}") from error
    return responses


def _field(question: object, name: str) -> object:
    return question.get(name) if isinstance(question, dict) else None
