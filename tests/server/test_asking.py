"""Asking the client, in both eras: what the handler sees, and what travels."""

from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from mcp_trio.exceptions import ConnectionClosed, ProtocolError
from mcp_trio.protocol.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    MISSING_CAPABILITY,
    MCPError,
)
from mcp_trio.protocol.revisions import REVISIONS
from mcp_trio.server.asking import CannotAsk, run_asking
from mcp_trio.server.context import Context
from mcp_trio.server.questions import (
    Accepted,
    Elicit,
    ElicitURL,
    ListRoots,
    Question,
    Refused,
    Sample,
)
from mcp_trio.server.state import StateKeys
from tests.server.fakes import FakePeer, FakeServer, make_context, peer_of

LEGACY = "2025-11-25"
FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
ADA = {"action": "accept", "content": {"name": "Ada"}}
ROOTS = {"roots": [{"uri": "file:///a"}]}
MODEL = {"role": "assistant", "content": {"type": "text", "text": "4"}, "model": "m"}
ANSWERS: dict[str, dict[str, Any]] = {
    "elicitation/create": ADA,
    "roots/list": ROOTS,
    "sampling/createMessage": MODEL,
}

JSONObject = dict[str, Any]
Handler = Callable[[Context], Awaitable[JSONObject]]


async def answer_anything(method: str, params: JSONObject | None) -> JSONObject:
    await trio.lowlevel.checkpoint()
    return ANSWERS[method]


class Client:
    """A modern client: sends a request, and again with answers for as long as it is asked."""

    def __init__(self, handler: Handler, **context: Any) -> None:
        self.handler = handler
        self.keys = StateKeys()
        self.context = {"server": FakeServer(), **context}
        self.params: JSONObject = {"name": "t", "arguments": {"n": 1}}
        self.rounds: list[list[str]] = []

    async def send(self, **more: Any) -> JSONObject:
        ctx = make_context(params={**self.params, **more}, **self.context)

        async def work() -> JSONObject:
            return await self.handler(ctx)

        return await run_asking(ctx, ctx.params, work, self.keys)

    async def call(self, answers: JSONObject) -> JSONObject:
        """Answer by key, or else by method, until there is a result."""
        more: JSONObject = {}
        while True:
            result = await self.send(**more)
            if result.get("resultType") != "input_required":
                return result
            requests = result["inputRequests"]
            self.rounds.append(list(requests))
            given = {k: answers.get(k, ANSWERS[r["method"]]) for k, r in requests.items()}
            more = {"inputResponses": given, "requestState": result["requestState"]}


async def run_legacy(handler: Handler, peer: FakePeer, **context: Any) -> JSONObject:
    ctx = make_context(peer=peer, **{"version": LEGACY, **context})

    async def work() -> JSONObject:
        return await handler(ctx)

    return await run_asking(ctx, ctx.params, work, StateKeys())


# What the handler sees, in both eras


async def ask_one_after_another(ctx: Context) -> JSONObject:
    who = await ctx.elicit("who", "Your name?", FORM)
    page = await ctx.elicit_url("page", "Look here.", "https://example.com/")
    model = await ctx.sample("sum", "2 + 2?", max_tokens=5)
    roots = await ctx.list_roots()
    again = await ctx.elicit("who", "Your name?", FORM)
    return {
        "who": who.content,
        "page": page.action,
        "model": model.model,
        "roots": [root.uri for root in roots],
        "same": again == who,
    }


async def ask_at_once(ctx: Context) -> JSONObject:
    answers = await ctx.ask(
        {
            "who": Elicit("Your name?", FORM),
            "page": ElicitURL("Look here.", "https://example.com/"),
            "sum": Sample("2 + 2?", max_tokens=5),
            "roots": ListRoots(),
        }
    )
    return {
        "who": answers["who"].content,
        "page": answers["page"].action,
        "model": answers["sum"].model,
        "roots": [root.uri for root in answers["roots"]],
        "same": list(answers) == ["who", "page", "sum", "roots"],
    }


EXPECTED = {
    "who": {"name": "Ada"},
    "page": "accept",
    "model": "m",
    "roots": ["file:///a"],
    "same": True,
}


@pytest.mark.parametrize("handler", [ask_one_after_another, ask_at_once])
async def test_a_handler_sees_the_same_in_both_eras(handler: Handler) -> None:
    """Protects the promise of one API: each kind of question, its answer, and the same twice."""
    assert await Client(handler).call({}) == EXPECTED
    peer = FakePeer(answer_anything)
    assert await run_legacy(handler, peer) == EXPECTED
    assert len(peer.asked) == 4


async def test_each_question_costs_a_round_and_all_at_once_cost_one() -> None:
    """Protects the reason for `ask`: how often the client has to come back."""
    one_by_one, together = Client(ask_one_after_another), Client(ask_at_once)
    await one_by_one.call({})
    await together.call({})
    assert one_by_one.rounds == [["who"], ["page"], ["sum"], ["roots"]]
    assert together.rounds == [["who", "page", "sum", "roots"]]


@attrs.frozen
class Name:
    name: str
    nickname: str | None = None


@pytest.mark.parametrize("version", ["2025-06-18", LEGACY, REVISIONS[-1]])
async def test_a_form_gives_an_instance_of_its_class(version: str) -> None:
    """Protects typed answers: the class draws the form and is what comes back."""

    async def handler(ctx: Context) -> JSONObject:
        answer = await ctx.elicit("who", "Your name?", Name)
        assert answer.action == "accept"
        return {"is": answer.content == Name("Ada")}

    client = Client(handler, version=version, peer=FakePeer(answer_anything))
    assert await client.call({}) == {"is": True}


async def test_what_is_no_form_is_told_in_every_era() -> None:
    """Protects authors: a nested class cannot be shown to a person, and nothing is asked."""

    @attrs.frozen
    class Nested:
        name: Name

    async def handler(ctx: Context) -> JSONObject:
        return {"answer": await ctx.elicit("who", "?", Nested)}

    for version in (LEGACY, REVISIONS[-1]):
        with pytest.raises(TypeError, match="name"):
            await Client(handler, version=version).send()


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_refusal_is_an_answer(action: str) -> None:
    """Protects users who say no: it is neither an error nor a form, and nobody asks again."""

    async def handler(ctx: Context) -> JSONObject:
        answer = await ctx.elicit("who", "Your name?", FORM)
        assert answer == Refused(answer.action)  # type: ignore[arg-type]  # it is no "accept"
        return {"action": answer.action, "content": answer.content}

    said = {"action": action, "content": {"name": "half a n"}}
    assert await Client(handler).call({"who": said}) == {"action": action, "content": None}

    async def refuse(method: str, params: JSONObject | None) -> JSONObject:
        return said

    assert await run_legacy(handler, FakePeer(refuse)) == {"action": action, "content": None}


@pytest.mark.parametrize("version", [LEGACY, REVISIONS[-1]])
async def test_one_key_is_one_question(version: str) -> None:
    """Protects against an answer to something else, in both eras alike."""

    async def handler(ctx: Context) -> JSONObject:
        await ctx.list_roots("k")
        await ctx.elicit_url("k", "Look.", "https://example.com/")
        return {}

    client = Client(handler, version=version, peer=FakePeer(answer_anything))
    with pytest.raises(ValueError, match="'k' has been asked before"):
        await client.call({})


# On the wire


async def test_the_modern_wire_form() -> None:
    """Protects `inputRequests` against the schema of 2026-07-28."""
    result = await Client(ask_at_once).send()
    assert result["resultType"] == "input_required"
    assert isinstance(result["requestState"], str)
    assert result["inputRequests"] == {
        "who": {
            "method": "elicitation/create",
            "params": {"mode": "form", "message": "Your name?", "requestedSchema": FORM},
        },
        "page": {
            "method": "elicitation/create",
            "params": {"mode": "url", "message": "Look here.", "url": "https://example.com/"},
        },
        "sum": {
            "method": "sampling/createMessage",
            "params": {
                "messages": [{"role": "user", "content": {"type": "text", "text": "2 + 2?"}}],
                "maxTokens": 5,
            },
        },
        "roots": {"method": "roots/list"},
    }


async def test_the_legacy_wire_form() -> None:
    """Protects older clients: no `mode` before there were two, an id for pages in 2025-11-25."""

    async def handler(ctx: Context) -> JSONObject:
        await ctx.elicit("who", "Your name?", FORM)
        if ctx.protocol_version == LEGACY:
            await ctx.elicit_url("made up", "Look.", "https://example.com/")
            await ctx.elicit_url("mine", "Look.", "https://example.com/", elicitation_id="e1")
        return {}

    old, new = FakePeer(answer_anything), FakePeer(answer_anything)
    await run_legacy(handler, old, version="2025-06-18", capabilities={"elicitation": {}})
    await run_legacy(handler, new)
    assert old.asked == [
        ("elicitation/create", {"message": "Your name?", "requestedSchema": FORM}),
    ]
    (_, form), (_, made_up), (_, mine) = new.asked
    assert form is not None
    assert form["mode"] == "form"
    assert made_up is not None
    assert len(made_up["elicitationId"]) == 36
    assert mine is not None
    assert mine["elicitationId"] == "e1"


# Who can be asked what


KINDS: dict[str, tuple[Question[Any], JSONObject]] = {
    "form": (Elicit("?", FORM), {"elicitation": {"form": {}}}),
    "url": (ElicitURL("?", "https://example.com/"), {"elicitation": {"url": {}}}),
    "sample": (Sample("?", max_tokens=1), {"sampling": {}}),
    "tools": (Sample("?", max_tokens=1, tools=[]), {"sampling": {"tools": {}}}),
    "roots": (ListRoots(), {"roots": {}}),
}


async def ask_all(ctx: Context) -> JSONObject:
    await ctx.ask({kind: question for kind, (question, _) in KINDS.items()})
    return {}


@pytest.mark.parametrize("kind", KINDS)
async def test_a_missing_capability_is_an_error_that_names_it(kind: str) -> None:
    """Protects clients from what they do not know: -32021 in the modern era, clear before."""
    question, needed = KINDS[kind]

    async def handler(ctx: Context) -> JSONObject:
        return await ctx.ask({"k": question})

    with pytest.raises(CannotAsk) as caught:
        await Client(handler, capabilities={}).send()
    assert caught.value.code == MISSING_CAPABILITY
    assert caught.value.data == {"requiredCapabilities": needed}
    peer = FakePeer()
    with pytest.raises(CannotAsk, match=next(iter(needed))) as caught:
        await run_legacy(handler, peer, capabilities={})
    assert caught.value.code == INVALID_REQUEST
    assert peer.asked == []
    assert (await Client(handler, capabilities=needed).send())["inputRequests"]


async def test_all_missing_capabilities_are_named_and_nothing_is_asked() -> None:
    """Protects "all or none": the client learns in one error what it lacks."""
    with pytest.raises(CannotAsk) as caught:
        await Client(ask_all, capabilities={"roots": {}, "elicitation": {}}).send()
    assert caught.value.data["requiredCapabilities"] == {
        "elicitation": {"url": {}},
        "sampling": {"tools": {}},
    }
    peer = FakePeer()
    with pytest.raises(CannotAsk):
        await run_legacy(ask_all, peer, capabilities={"roots": {}})
    assert peer.asked == []


@pytest.mark.parametrize(
    ("declared", "form", "url"),
    [
        ({}, True, False),
        ({"form": {}}, True, False),
        ({"url": {}}, False, True),
        ({"form": {}, "url": {}}, True, True),
        (None, False, False),
        (True, False, False),
    ],
)
def test_an_empty_elicitation_capability_means_forms(declared: Any, form: bool, url: bool) -> None:
    """Protects clients of 2025-06-18, who declared forms before they had a name."""
    capabilities = {"elicitation": declared}
    assert (not KINDS["form"][0].missing(capabilities)) == form
    assert (not KINDS["url"][0].missing(capabilities)) == url


@pytest.mark.parametrize("version", REVISIONS[:-1])
async def test_what_the_revision_lacks_cannot_be_asked(version: str) -> None:
    """Protects older clients: each kind of question starts in some revision."""
    since = {"form": "2025-06-18", "url": "2025-11-25", "tools": "2025-11-25"}
    for kind, (question, _) in KINDS.items():

        async def handler(ctx: Context, question: Any = question) -> JSONObject:
            return await ctx.ask({"k": question})

        peer = FakePeer(answer_anything)
        if version >= since.get(kind, ""):
            await run_legacy(handler, peer, version=version)
            assert len(peer.asked) == 1
        else:
            with pytest.raises(CannotAsk, match=f"{version} cannot ask"):
                await run_legacy(handler, peer, version=version)
            assert peer.asked == []


async def test_a_legacy_client_is_asked_within_its_session_only() -> None:
    """Protects the handshake, and stateless HTTP, where nobody could answer."""

    async def handler(ctx: Context) -> JSONObject:
        ctx.info.session.ready = trio.Event()
        with pytest.raises(CannotAsk, match="notifications/initialized"):
            await ctx.list_roots()
        ctx.info.session.ready.set()
        ctx.info.session.stateless = True
        with pytest.raises(CannotAsk, match="session"):
            await ctx.list_roots()
        return {}

    await run_legacy(handler, FakePeer())


async def test_modern_requests_that_may_not_ask_say_so() -> None:
    """Protects the rule that only three methods may be answered with questions."""
    ctx = make_context("completion/complete")
    with pytest.raises(CannotAsk, match="not completion/complete") as caught:
        await ctx.list_roots()
    assert caught.value.code == INTERNAL_ERROR


# How a modern handler ends when it asks


async def test_it_is_cancelled_and_cleans_up() -> None:
    """Protects `finally`, and shows that `except Exception` cannot swallow a question."""
    log = []

    async def handler(ctx: Context) -> JSONObject:
        try:
            await ctx.list_roots()
            log.append("answered")
        except Exception:
            log.append("swallowed")
        finally:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + 1):
                await trio.lowlevel.checkpoint()
                log.append("cleaned up")
        return {}

    client = Client(handler)
    assert (await client.send())["inputRequests"] == {"roots": {"method": "roots/list"}}
    assert log == ["cleaned up"]
    assert await client.call({}) == {}
    assert log == ["cleaned up"] * 2 + ["answered", "cleaned up"]


async def test_tasks_that_ask_at_once_ask_in_one_round() -> None:
    """Protects handlers with a nursery: every task's question is recorded."""

    async def handler(ctx: Context) -> JSONObject:
        found: JSONObject = {}

        async def ask(key: str) -> None:
            found[key] = (await ctx.elicit(key, f"{key}?", FORM)).action

        async with trio.open_nursery() as nursery:
            for key in ("a", "b", "c"):
                nursery.start_soon(ask, key)
        return found

    client = Client(handler)
    expected = {"a": "accept", "b": "decline", "c": "accept"}
    assert await client.call({"b": {"action": "decline"}}) == expected
    assert [sorted(keys) for keys in client.rounds] == [["a", "b", "c"]]


async def test_answers_that_are_not_needed_yet_are_kept() -> None:
    """Protects the user from being asked twice when the handler takes another order."""
    rounds = []

    async def handler(ctx: Context) -> JSONObject:
        rounds.append(1)
        if len(rounds) == 1:
            await ctx.ask({"a": ListRoots(), "b": ListRoots()})
        await ctx.list_roots("a")
        await ctx.list_roots("c")
        await ctx.list_roots("b")
        return {"done": len(rounds)}

    client = Client(handler)
    assert await client.call({}) == {"done": 3}
    assert client.rounds == [["a", "b"], ["c"]]


async def test_the_state_holds_the_answers_and_nothing_else() -> None:
    """Protects both: what was answered without a state is kept, what nobody asked for is not."""

    async def handler(ctx: Context) -> JSONObject:
        return {"n": len(await ctx.list_roots("a")) + len(await ctx.list_roots("b"))}

    client = Client(handler)
    first = await client.send(inputResponses={"a": ROOTS, "junk": "x" * 1000})
    assert list(first["inputRequests"]) == ["b"]
    assert len(first["requestState"]) < 500
    more = {"inputResponses": {"b": ROOTS}, "requestState": first["requestState"]}
    assert await client.send(**more) == {"n": 2}


async def test_what_is_not_answered_is_asked_again() -> None:
    """Protects the SHOULD of the spec: a missing answer is no error, an unknown one no matter."""
    client = Client(ask_at_once)
    first = await client.send()
    given = {"roots": ROOTS, "unknown": 5, "": None}
    second = await client.send(inputResponses=given, requestState=first["requestState"])
    assert list(second["inputRequests"]) == ["who", "page", "sum"]
    rest = {"who": ADA, "page": {"action": "accept"}, "sum": MODEL}
    third = await client.send(inputResponses=rest, requestState=second["requestState"])
    assert third == EXPECTED


async def test_the_state_is_optional() -> None:
    """Protects clients that send the answers and nothing else."""

    async def handler(ctx: Context) -> JSONObject:
        return {"n": len(await ctx.list_roots())}

    assert await Client(handler).send(inputResponses={"roots": ROOTS}) == {"n": 1}


@pytest.mark.parametrize(
    "given",
    [
        {"who": 5, "page": {"action": "accept"}},
        {"who": {"action": "maybe"}},
        {"who": {}},
        {"who": {"action": "accept", "content": {"name": 5}}},
        {"who": {"action": "accept"}},
        {"sum": {"role": "assistant"}},
        {"roots": {"roots": [{}]}},
    ],
)
async def test_a_malformed_answer_is_an_error(given: JSONObject) -> None:
    """Protects handlers from answers that are none; the error names the key."""
    answers = {"who": ADA, "page": {"action": "accept"}, "sum": MODEL, "roots": ROOTS}
    with pytest.raises(MCPError, match=f"inputResponses.{next(iter(given))}") as caught:
        await Client(ask_at_once).send(inputResponses={**answers, **given})
    assert caught.value.code == INVALID_PARAMS


@pytest.mark.parametrize("params", [{"inputResponses": []}, {"requestState": 5}])
async def test_malformed_params_are_an_error(params: JSONObject) -> None:
    """Protects the parser of both fields, whether or not the handler would ask."""

    async def handler(ctx: Context) -> JSONObject:
        return {}

    with pytest.raises(MCPError) as caught:
        await Client(handler).send(**params)
    assert caught.value.code == INVALID_PARAMS


async def test_a_state_of_another_request_is_refused() -> None:
    """Protects against replaying answers on other arguments, and as another user."""
    client = Client(ask_at_once, principal="alice")
    state = (await client.send())["requestState"]
    for change in ({"arguments": {"n": 2}}, {"name": "other"}):
        with pytest.raises(MCPError, match="requestState"):
            await client.send(**change, requestState=state)
    client.context["principal"] = "bob"
    with pytest.raises(MCPError, match="requestState"):
        await client.send(requestState=state)


async def test_a_shield_in_between_is_a_mistake_that_is_told() -> None:
    """Protects against a question that could never leave: nothing is cancelled, nothing hangs."""

    async def handler(ctx: Context) -> JSONObject:
        with trio.CancelScope(shield=True), pytest.raises(RuntimeError, match="out of reach"):
            await ctx.list_roots()
        await trio.lowlevel.checkpoint()
        return {"fine": True}

    assert await Client(handler).send() == {"fine": True}


async def test_a_task_from_elsewhere_cannot_ask() -> None:
    """Protects the same for a task that the handler's cancellation does not reach."""
    async with trio.open_nursery() as outer:

        async def ask(ctx: Context, done: trio.Event) -> None:
            with pytest.raises(RuntimeError, match="nurseries"):
                await ctx.list_roots()
            done.set()

        async def handler(ctx: Context) -> JSONObject:
            done = trio.Event()
            outer.start_soon(ask, ctx, done)
            await done.wait()
            return {"fine": True}

        assert await Client(handler).send() == {"fine": True}


async def test_an_error_beside_the_question_wins() -> None:
    """Protects errors: one that is raised on the way out is not hidden behind the question."""

    async def in_cleanup(ctx: Context) -> JSONObject:
        try:
            await ctx.list_roots()
        finally:
            raise KeyError("cleanup failed")

    with pytest.raises(KeyError, match="cleanup failed"):
        await Client(in_cleanup).send()

    async def in_a_sibling(ctx: Context) -> JSONObject:
        async def fail() -> None:
            try:
                await trio.sleep_forever()
            finally:
                raise KeyError("sibling failed")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail)
            await wait_all_tasks_blocked()
            await ctx.list_roots()
        return {}

    with pytest.raises(ExceptionGroup) as caught:
        await Client(in_a_sibling).send()
    assert str(caught.value.exceptions[0]) == "'sibling failed'"


async def test_a_result_made_without_the_answer_is_dropped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Protects the question from a handler that swallows Cancelled, and says so in the log."""

    async def handler(ctx: Context) -> JSONObject:
        try:
            await ctx.list_roots()
        except trio.Cancelled:
            return {"wrong": True}
        return {"right": True}

    client = Client(handler)
    assert await client.call({}) == {"right": True}
    assert client.rounds == [["roots"]]
    assert "went on" in caplog.text


async def test_a_task_that_lost_its_race_asks_nothing() -> None:
    """Protects handlers that give up on asking by a scope of their own."""

    async def handler(ctx: Context) -> JSONObject:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ctx.list_roots, "a")
            nursery.start_soon(cancel, nursery.cancel_scope)
        await ctx.list_roots("b")
        return {"went": "on"}

    async def cancel(scope: trio.CancelScope) -> None:
        scope.cancel()

    for _ in range(20):  # whichever task the scheduler takes first
        client = Client(handler)
        assert await client.call({}) == {"went": "on"}
        assert client.rounds == [["b"]]


async def test_cancelling_the_request_is_stronger_than_the_question() -> None:
    """Protects cancellation: a request that was given up is not answered, not even by asking."""

    async def handler(ctx: Context) -> JSONObject:
        try:
            await ctx.list_roots()
        finally:
            scope.cancel()
        return {}

    result = None
    with trio.CancelScope() as scope:
        result = await Client(handler).send()
    assert result is None
    assert scope.cancelled_caught


# How a legacy handler fails when it asks


async def test_the_clients_error_is_the_questions_error() -> None:
    """Protects error handling in handlers: what the client answered arrives as itself."""

    async def refuse(method: str, params: JSONObject | None) -> JSONObject:
        raise MCPError(-1, "User rejected sampling request")

    with pytest.raises(MCPError, match="rejected") as caught:
        await run_legacy(ask_one_after_another, FakePeer(refuse))
    assert caught.value.code == -1


async def test_the_first_failure_withdraws_the_other_questions() -> None:
    """Protects users from questions whose answers nobody waits for any more."""
    withdrawn = []

    async def answer(method: str, params: JSONObject | None) -> JSONObject:
        if method == "roots/list":
            await wait_all_tasks_blocked()
            raise ConnectionClosed("gone")
        try:
            await trio.sleep_forever()
        finally:
            withdrawn.append(method)
        raise AssertionError("unreachable")

    with pytest.raises(ConnectionClosed):
        await run_legacy(ask_at_once, FakePeer(answer))
    assert sorted(withdrawn) == [
        "elicitation/create",
        "elicitation/create",
        "sampling/createMessage",
    ]


async def test_a_malformed_legacy_answer_is_the_clients_fault() -> None:
    """Protects handlers: such an answer is a `ProtocolError` that names the question."""

    async def answer(method: str, params: JSONObject | None) -> JSONObject:
        return {"action": "perhaps"}

    with pytest.raises(ProtocolError, match=r"elicitation/create \('who'\).*perhaps"):
        await run_legacy(ask_one_after_another, FakePeer(answer))


async def test_two_tasks_may_ask_the_same_question_at_once() -> None:
    """Protects the key as the question's name: the user is asked once, whoever gives up."""
    gate = trio.Event()

    async def answer(method: str, params: JSONObject | None) -> JSONObject:
        await gate.wait()
        return ROOTS

    async def handler(ctx: Context) -> JSONObject:
        found = []

        async def ask() -> None:
            found.append(await ctx.list_roots())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            nursery.start_soon(ask)
            await wait_all_tasks_blocked()
            assert len(peer_of(ctx).asked) == 1
            gate.set()
        return {"same": found[0] is found[1]}

    assert await run_legacy(handler, FakePeer(answer)) == {"same": True}


# Questions


def message(*blocks: JSONObject, role: str = "user") -> JSONObject:
    return {"role": role, "content": list(blocks)}


USE = {"type": "tool_use", "id": "1", "name": "t", "input": {}}
RESULT = {"type": "tool_result", "toolUseId": "1", "content": []}
TEXT = {"type": "text", "text": "x"}


@pytest.mark.parametrize(
    ("messages", "fault"),
    [
        ([message(USE, role="assistant"), message(RESULT)], None),
        ([message(USE, role="assistant"), message(RESULT, TEXT)], r"messages\[1\] mixes"),
        ([message(USE, role="assistant"), message(TEXT)], r"messages\[1\] must answer"),
        ([message(USE, role="assistant")], "have no results"),
        ([message(RESULT)], r"messages\[0\] must answer"),
        ([{"role": "user", "content": TEXT}], None),
    ],
)
def test_tool_uses_and_results_pair_up(messages: list[JSONObject], fault: str | None) -> None:
    """Protects clients' models, whose interfaces refuse anything else."""
    question = Sample(messages, max_tokens=1)
    if fault is None:
        assert question.params(LEGACY)["messages"] == messages
    else:
        with pytest.raises(ValueError, match=fault):
            question.params(LEGACY)


def test_lists_of_content_and_audio_need_their_revisions() -> None:
    """Protects older clients from content that their schema has no place for."""
    audio = {"type": "audio", "data": "", "mimeType": "audio/wav"}
    assert list(Sample([message(TEXT)], max_tokens=1).features()) == ["sampling_tools"]
    assert list(Sample([{"role": "user", "content": TEXT}], max_tokens=1).features()) == []
    assert list(Sample([{"role": "user", "content": audio}], max_tokens=1).features()) == ["audio"]


def test_a_page_needs_a_url() -> None:
    """Protects users from a link that nothing can open."""
    with pytest.raises(ValueError, match="no URL"):
        ElicitURL("Look.", "example.com").params(LEGACY)


def test_accepted_answers_compare() -> None:
    """Protects handlers' tests: an answer is a value."""
    assert Accepted(1) == Accepted(1)
    assert Accepted(1).action == "accept"
