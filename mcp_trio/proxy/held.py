"""Legacy calls that are held open while a modern client finds out what the server asks.

A legacy server asks in the middle of a call, and waits. A modern client is asked by the answer to
its request, and sends the request again with what it found out. So the call to the server outlives
the request that began it, and each further request takes it up where it is:

    client            proxy                              legacy server
      │ tools/call ───▶ begins the call ─────────────────▶ │
      │                                ◀── elicitation ─── │
      │ ◀─── input_required, requestState ─┤               │   held: nobody waits for it
      │ tools/call, answer, state ───────▶ ├── answer ───▶ │
      │ ◀────────────────────── result ──── ◀── result ─── │

A request that is cancelled while it waits takes the call with it. One that does not come back does
so, too, after a while. The `requestState` is a sealed handle: it opens nothing but this one call,
for the same request of the same principal.
"""

import logging
import math
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import trio

from mcp_trio.exceptions import MCPError
from mcp_trio.protocol.errors import INTERNAL_ERROR, INVALID_PARAMS
from mcp_trio.proxy.calls import OpenCall
from mcp_trio.server.context import Context
from mcp_trio.server.params import invalid, optional
from mcp_trio.server.state import StateKeys, request_digest
from mcp_trio.wire.jsonrpc import JSONObject

logger = logging.getLogger("mcp_trio")

#: Seconds that a call waits for its client to come back: as long as a person may take to answer.
HOLD_TIME = 600.0
#: Seconds in which a server may ask more, so that it is all asked in one round.
GATHERING_TIME = 0.02
#: Calls that may wait so. Beyond it, the one that has waited longest is given up.
MOST_HELD = 1000


@attrs.define(eq=False)
class Question:
    """Something that the server wants to know."""

    request: JSONObject
    answer: JSONObject | None = None
    answered: trio.Event = attrs.field(factory=trio.Event)


class HeldCall(OpenCall):
    """A call to a legacy server, and the requests of a modern client that have to do with it.

    Attributes:
        questions: Those that have no answer yet, by the key that the client knows them by.
    """

    def __init__(self, ctx: Context, nursery: trio.Nursery) -> None:
        super().__init__(ctx, nursery)
        self.id = secrets.token_urlsafe(16)
        self.questions: dict[str, Question] = {}
        self._asked = 0
        self._outcome: JSONObject | MCPError | None = None
        self._scope = trio.CancelScope()
        self._news = trio.lowlevel.ParkingLot()
        self._collected = trio.Event()

    @property
    def given_up(self) -> bool:
        """Whether nobody may take it up any more."""
        return self._scope.cancel_called or self._collected.is_set()

    # For the server

    async def run(self, work: Callable[[], Awaitable[JSONObject]]) -> None:
        """The task of the call: work on it, and keep what comes of it until somebody takes it."""
        with self._scope:
            try:
                self._outcome = await work()
            except MCPError as error:
                self._outcome = error
            except Exception:
                logger.exception("passing on %s failed", self.method)
                self._outcome = MCPError(INTERNAL_ERROR, "The request failed inside the proxy.")
            self._news.unpark_all()
            await self._collected.wait()

    async def ask(self, method: str, params: JSONObject) -> JSONObject:
        """Ask the client, and wait for its answer."""
        self._asked += 1
        key = f"question-{self._asked}"
        request: JSONObject = {"method": method, **({"params": params} if params else {})}
        question = self.questions[key] = Question(request)
        self._news.unpark_all()
        try:
            await question.answered.wait()
        finally:
            self.questions.pop(key, None)
        assert question.answer is not None
        return question.answer

    # For the client

    def give_up(self) -> None:
        """Cancel the call: nobody will come for what it results in."""
        self._scope.cancel()

    def answer(self, responses: JSONObject) -> None:
        """Take the client's answers; those to what is not asked (any more) do no harm."""
        for key, response in responses.items():
            question = self.questions.get(key)
            if question is None:
                continue
            if not isinstance(response, dict):
                raise invalid(f"inputResponses.{key}", "an object", response)
            question.answer = response
            question.answered.set()
            del self.questions[key]

    async def attend(self, ctx: Context) -> JSONObject | None:
        """Wait on behalf of a request: for the result, or None where there are questions first.

        Raises:
            MCPError: The server's error.
        """
        self.ctx = ctx
        self._scope.deadline = math.inf
        try:
            await trio.lowlevel.checkpoint()
            while self._outcome is None and not self.questions:
                await self._news.park()
                if self._outcome is None:
                    await trio.sleep(GATHERING_TIME)
        except BaseException:
            self.give_up()
            raise
        self.ctx = None
        if self._outcome is None:
            return None
        self._collected.set()
        if isinstance(self._outcome, MCPError):
            raise self._outcome
        return self._outcome

    def hold(self, seconds: float) -> None:
        """Give it up unless somebody comes for it in time."""
        self._scope.deadline = trio.current_time() + seconds


class HeldCalls:
    """The calls of all modern clients of one legacy server.

    Args:
        nursery: Where they run.
        keys: Seal the handles.
        hold_time: Seconds that a call waits for its client to come back.
    """

    def __init__(self, nursery: trio.Nursery, keys: StateKeys, hold_time: float) -> None:
        self._nursery = nursery
        self._keys = keys
        self._hold_time = hold_time
        self._calls: dict[str, HeldCall] = {}  # the one that was taken up latest comes last

    def __len__(self) -> int:
        return len(self._calls)

    def begin(self, ctx: Context, work: Callable[[HeldCall], Awaitable[JSONObject]]) -> HeldCall:
        """Begin a call; `work` is done in a task of its own."""
        call = HeldCall(ctx, self._nursery)
        self._calls[call.id] = call
        self._nursery.start_soon(self._run, call, work)
        return call

    async def _run(self, call: HeldCall, work: Callable[[HeldCall], Awaitable[JSONObject]]) -> None:
        try:
            await call.run(lambda: work(call))
        finally:
            del self._calls[call.id]

    def find(self, ctx: Context, params: JSONObject) -> HeldCall:
        """The call that a request takes up, with the client's answers handed over.

        Raises:
            MCPError: -32602, there is none: not any more, or not for this request and principal.
        """
        state = self._keys.open(params["requestState"], **_binding(ctx, params))
        call = self._calls.get(state.get("call", ""))
        if call is None or call.given_up or call.ctx is not None:
            text = "the call has ended, or nobody came back for too long"
            hint = "send the request again without it"
            raise MCPError(INVALID_PARAMS, f"Invalid params: 'requestState': {text}; {hint}.")
        call.answer(optional(params, "inputResponses", dict) or {})
        return call

    async def result(self, call: HeldCall, ctx: Context, params: JSONObject) -> JSONObject:
        """The result for the request that waits for a call, which may be its open questions."""
        result = await call.attend(ctx)
        if result is not None:
            return result
        call.hold(self._hold_time)
        self._calls[call.id] = self._calls.pop(call.id)
        self._make_room()
        return {
            "resultType": "input_required",
            "inputRequests": {key: asked.request for key, asked in call.questions.items()},
            "requestState": self._keys.seal(
                {"call": call.id}, **_binding(ctx, params), lifetime=self._hold_time
            ),
        }

    def _make_room(self) -> None:
        waiting = [call for call in self._calls.values() if call.ctx is None]
        if len(waiting) > MOST_HELD:
            logger.warning("%d calls are held: giving up the oldest", len(waiting))
            waiting[0].give_up()


def _binding(ctx: Context, params: JSONObject) -> dict[str, Any]:
    return {
        "principal": ctx.principal,
        "request_digest": request_digest(ctx.method, params),
    }
