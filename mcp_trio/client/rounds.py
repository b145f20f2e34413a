"""Multi round-trip requests: a server that needs something before it can answer.

A modern server never asks by itself. It answers that its result is not complete, and says what it
needs to know; the client finds out and sends the request again, as a new request with the answers
and with the server's `requestState`, which is none of its business, just as it came
(MCP 2026-07-28, basic/patterns/mrtr).
"""

from collections.abc import Awaitable, Callable

import trio

from mcp_trio.client.questions import Answers
from mcp_trio.exceptions import ProtocolError
from mcp_trio.protocol.methods import METHODS
from mcp_trio.wire.jsonrpc import JSONObject

#: The longest pause, in seconds, before a request is sent again that asked for nothing.
LONGEST_BACKOFF = 5.0


async def ask_in_rounds(
    send: Callable[[JSONObject], Awaitable[JSONObject]],
    method: str,
    params: JSONObject,
    answers: Answers,
    *,
    max_rounds: int,
    backoff: float,
) -> JSONObject:
    """Send a request until its result is complete.

    What a callback of the user raises is raised here.

    Args:
        send: Sends the request with these parameters, and gives its result.
        max_rounds: How many times the server may ask.
        backoff: Seconds before the first attempt that follows a result without questions; they
            double each time. Where a question was answered there is no pause.

    Raises:
        ProtocolError: The server asks too often, asks what it may not, or gives a result of a
            type that is not known.
    """
    attempt = params
    for asked in range(max_rounds + 1):
        result = await send(attempt)
        kind = result.get("resultType", "complete")  # absent means complete
        if kind == "complete":
            return result
        if kind != "input_required":
            raise ProtocolError(f"{method}: the result is of the unknown type {kind!r}")
        if method not in METHODS or not METHODS[method].may_ask:
            raise ProtocolError(f"{method}: the server asks for input, which it may not do here")
        if asked < max_rounds:
            attempt = await _next_attempt(method, params, result, answers, backoff * 2**asked)
    raise ProtocolError(
        f"{method}: the server has asked {max_rounds} times for input and asks again "
        "(max_rounds of open_client)"
    )


async def _next_attempt(
    method: str, params: JSONObject, result: JSONObject, answers: Answers, pause: float
) -> JSONObject:
    attempt = {
        name: value
        for name, value in params.items()
        if name not in ("inputResponses", "requestState")
    }
    questions = result.get("inputRequests")
    if "requestState" in result:
        attempt["requestState"] = result["requestState"]
    if questions:
        attempt["inputResponses"] = await _answer_all(method, questions, answers)
    elif "requestState" in result:
        await trio.sleep(min(pause, LONGEST_BACKOFF))
    else:
        raise ProtocolError(f"{method}: the server asks for input but does not say for what")
    return attempt


async def _answer_all(method: str, questions: object, answers: Answers) -> JSONObject:
    """Answer the questions one after the other: a person is asked one thing at a time."""
    if not isinstance(questions, dict):
        raise ProtocolError(f"{method}: inputRequests must be an object")
    responses: JSONObject = {}
    declared = answers.methods
    for key, question in questions.items():
        asked = question.get("method") if isinstance(question, dict) else None
        if asked not in declared:
            text = f"{method}: the server asks {asked!r}, which this client did not declare"
            raise ProtocolError(text)
        responses[key] = await answers.answer(asked, question.get("params") or {})
    return responses
