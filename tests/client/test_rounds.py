"""Requests in several rounds: what a server needs to know before it can answer."""

import itertools
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

import mcp_trio
from mcp_trio.client.rounds import LONGEST_BACKOFF
from mcp_trio.exceptions import ConnectionClosed, MCPError, ProtocolError

from .scripted import (
    LEGACY_START,
    MODERN_START,
    Answer,
    JSONObject,
    Scripted,
    Step,
    text_of,
    text_result,
)

Start = dict[str, Step | list[Step]]


def question(method: str = "elicitation/create", **params: Any) -> JSONObject:
    """A question as it stands in inputRequests; a form without fields unless told otherwise."""
    form = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
    return {"method": method, "params": params or form}


def ask(state: Any = ..., **questions: Any) -> JSONObject:
    """A result that asks."""
    result: JSONObject = {"resultType": "input_required"}
    if questions:
        result["inputRequests"] = questions
    if state is not ...:
        result["requestState"] = state
    return result


def accept(request: object) -> JSONObject:
    return {}


# What goes back


@pytest.mark.parametrize("state", ["opaque", "", " \n\u2028é=", "a" * 10_000, {"odd": 1}, None])
async def test_the_state_is_echoed_exactly(state: object, autojump_clock: MockClock) -> None:
    """requestState is the server's: not a byte of it changes, whatever it is."""
    server = Scripted({"tools/call": [ask(state, q=question()), text_result()]})
    async with server.connect(on_elicit=accept) as client:
        await client.call_tool("t", {"a": 1})
    first, second = server.sent("tools/call")
    assert "requestState" not in first["params"]
    assert second["params"]["requestState"] == state
    assert second["params"]["arguments"] == {"a": 1}


async def test_a_state_that_did_not_come_is_not_sent(autojump_clock: MockClock) -> None:
    """Each round sends what that round brought: no state of an earlier one, none of its answers."""
    rounds: list[Step] = [
        ask("one", a=question()),
        ask(b=question(), c=question()),
        ask("three"),
        text_result(),
    ]
    server = Scripted({"tools/call": rounds})
    async with server.connect(on_elicit=accept) as client:
        await client.call_tool("t")
    sent = [message["params"] for message in server.sent("tools/call")]
    assert [params.get("requestState", "absent") for params in sent] == [
        "absent",
        "one",
        "absent",
        "three",
    ]
    answered = [sorted(params.get("inputResponses", {})) for params in sent]
    assert answered == [[], ["a"], ["b", "c"], []]
    assert "inputResponses" not in sent[3]


async def test_each_attempt_is_a_new_request(autojump_clock: MockClock) -> None:
    """A new id and a new progress token for each attempt, and progress of all of them."""

    async def step(server: Scripted, request: JSONObject) -> Answer:
        attempt = len(server.sent("tools/call"))
        await server.progress(request, attempt)
        return text_result() if attempt == 3 else ask(q=question())

    server = Scripted({"tools/call": step})
    seen: list[float] = []
    async with server.connect(on_elicit=accept) as client:
        await client.call_tool("t", on_progress=lambda p: seen.append(p.progress))
    assert len({message["id"] for message in server.sent("tools/call")}) == 3
    assert seen == [1, 2, 3]


async def test_answers_go_under_their_questions_names(autojump_clock: MockClock) -> None:
    """Several questions in one round, of all kinds: asked one by one, answered by key."""
    asked: list[str] = []

    async def elicit(request: mcp_trio.ElicitRequestFormParams) -> JSONObject:
        asked.append("elicit")
        await trio.sleep(1)
        asked.append("elicited")
        return {"name": "Ada"}

    def sample(request: object) -> str:
        asked.append("sample")
        return "Paris"

    rounds: list[Step] = [
        ask(
            who=question(),
            where=question("sampling/createMessage", messages=[], maxTokens=5),
            roots={"method": "roots/list"},
        ),
        text_result(),
    ]
    server = Scripted({"tools/call": rounds})
    async with server.connect(
        on_elicit=elicit, on_sample=sample, on_list_roots=lambda _: ["file:///a"]
    ) as client:
        await client.call_tool("t")
    responses = server.received[-1]["params"]["inputResponses"]
    assert responses["who"] == {"action": "accept", "content": {"name": "Ada"}}
    assert responses["where"]["content"] == {"type": "text", "text": "Paris"}
    assert responses["roots"] == {"roots": [{"uri": "file:///a"}]}
    assert asked == ["elicit", "elicited", "sample"]


@pytest.mark.parametrize(
    ("method", "result"),
    [
        ("prompts/get", {"messages": []}),
        ("resources/read", {"contents": []}),
        ("tools/call", {"content": []}),
    ],
)
async def test_where_a_server_may_ask(
    method: str, result: JSONObject, autojump_clock: MockClock
) -> None:
    """The three requests of the specification, also when sent by hand."""
    server = Scripted({method: [ask("s", q=question()), result]})
    async with server.connect(on_elicit=accept) as client:
        assert await client.request(method, {"name": "x", "uri": "a:b"}) == result


async def test_rounds_that_a_caller_goes_on_with_by_hand(autojump_clock: MockClock) -> None:
    """Answers and a state in the caller's own parameters are for the first attempt only."""
    server = Scripted({"tools/call": [ask("two", q=question()), text_result()]})
    params = {"name": "t", "requestState": "mine", "inputResponses": {"x": {}}}
    async with server.connect(on_elicit=accept) as client:
        await client.request("tools/call", params)
    first, second = [message["params"] for message in server.sent("tools/call")]
    assert (first["requestState"], first["inputResponses"]) == ("mine", {"x": {}})
    assert (second["requestState"], list(second["inputResponses"])) == ("two", ["q"])
    assert params["requestState"] == "mine"


# Bounds


async def test_the_number_of_rounds_is_limited(autojump_clock: MockClock) -> None:
    """A server that never stops asking meets max_rounds; the person is not asked once more."""
    asked: list[object] = []
    server = Scripted({"tools/call": ask("s", q=question())})
    async with server.connect(
        max_rounds=3, on_elicit=lambda request: asked.append(request)
    ) as client:
        with pytest.raises(ProtocolError, match="has asked 3 times"):
            await client.call_tool("t")
        assert not client.closed
    assert len(server.sent("tools/call")) == 4
    assert len(asked) == 3


async def test_repeating_without_questions_backs_off(autojump_clock: MockClock) -> None:
    """A server that only says "again" is not hammered: the pauses double, up to a limit."""
    times: list[float] = []

    async def step(server: Scripted, request: JSONObject) -> Answer:
        times.append(trio.current_time())
        return text_result() if len(times) == 9 else ask("s")

    async with Scripted({"tools/call": step}).connect(round_backoff=0.1) as client:
        await client.call_tool("t")
    pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert pauses == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, LONGEST_BACKOFF, LONGEST_BACKOFF])


async def test_questions_do_not_back_off(autojump_clock: MockClock) -> None:
    """A person who has just answered does not wait, and the first pause after is a short one."""
    times: list[float] = []

    async def step(server: Scripted, request: JSONObject) -> Answer:
        times.append(trio.current_time())
        return [ask("s"), ask(q=question()), ask(q=question()), ask("s"), text_result()][
            len(times) - 1
        ]

    async with Scripted({"tools/call": step}).connect(round_backoff=1, on_elicit=accept) as client:
        await client.call_tool("t")
    pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert pauses == pytest.approx([1, 0, 0, 1])


# What a server may not


async def test_a_question_that_was_not_declared_is_an_error(autojump_clock: MockClock) -> None:
    """A server may only ask what the client declared; nobody is asked anything then."""
    asked: list[object] = []
    server = Scripted({"tools/call": ask(a=question(), b=question("roots/list"))})
    async with server.connect(on_elicit=lambda request: asked.append(request)) as client:
        with pytest.raises(ProtocolError, match=r"tools/call: .*'roots/list'.*did not declare"):
            await client.call_tool("t")
        assert not client.closed
    assert asked == []
    assert len(server.sent("tools/call")) == 1


@pytest.mark.parametrize(
    "result",
    [
        ask(),
        ask(q={}),
        ask(q="who?"),
        ask(q={"method": ["elicitation/create"]}),
        ask(q=question("elicitation/create", message=3)),
        ask(q=question("elicitation/create", message="?", requestedSchema={"properties": []})),
        {**ask(), "inputRequests": ["q"]},
        {**ask(), "inputRequests": "q"},
    ],
)
async def test_malformed_questions_are_protocol_errors(
    result: JSONObject, autojump_clock: MockClock
) -> None:
    """They end the call with an error that says so, never with one of ours."""
    async with Scripted({"tools/call": result}).connect(on_elicit=accept) as client:
        with pytest.raises(ProtocolError, match="tools/call"):
            await client.call_tool("t")
        assert not client.closed


@pytest.mark.parametrize("method", ["tools/list", "acme/x"])
async def test_where_a_server_may_not_ask(method: str, autojump_clock: MockClock) -> None:
    """Only three requests may be answered by questions."""
    async with Scripted({method: ask(q=question())}).connect(on_elicit=accept) as client:
        with pytest.raises(ProtocolError, match=f"{method}: the server asks for input, which"):
            await client.request(method)


# What callbacks raise


def ask_by_request(server_sees: list[JSONObject]) -> Step:
    async def step(server: Scripted, request: JSONObject) -> Answer:
        id = await server.ask("elicitation/create", question()["params"])
        server_sees.append(await server.answer_to(id))
        await trio.sleep(5)
        return text_result("never mind")

    return step


@pytest.mark.parametrize("start", [MODERN_START, LEGACY_START], ids=["modern", "legacy"])
@pytest.mark.parametrize("error", [KeyError("mine"), MCPError(-1, "rejected")])
async def test_what_a_callback_raises_leaves_the_call(
    start: Start, error: Exception, autojump_clock: MockClock
) -> None:
    """In both eras: the very exception, out of the call; the connection goes on."""
    seen: list[JSONObject] = []
    modern: Step = ask(q=question())
    steps: Start = {
        "tools/call": [modern if start is MODERN_START else ask_by_request(seen), text_result()]
    }

    async def fail(request: object) -> JSONObject:
        await trio.sleep(1)
        raise error

    server = Scripted(steps, start=start)
    async with server.connect(on_elicit=fail) as client:
        with pytest.raises(type(error)) as caught:
            await client.call_tool("t")
        assert caught.value is error
        assert text_of(await client.call_tool("t")) == "done"
    if start is LEGACY_START:
        assert seen[0]["error"]["code"] == (-1 if isinstance(error, MCPError) else -32603)
        assert "mine" not in str(seen)  # what goes wrong here is none of the server's business
        (cancelled,) = server.sent("notifications/cancelled")
        assert cancelled["params"]["requestId"] == server.sent("tools/call")[0]["id"]


async def test_a_legacy_question_that_fails_during_several_calls(
    caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    """Nobody knows whose question it was: no call is failed by a guess, but it is not lost."""
    seen: list[JSONObject] = []
    server = Scripted({"tools/call": ask_by_request(seen)}, start=LEGACY_START)

    def fail(request: object) -> JSONObject:
        raise KeyError("mine")

    async def call(client: mcp_trio.Client) -> None:
        assert text_of(await client.call_tool("t")) == "never mind"

    async with server.connect(on_elicit=fail) as client, trio.open_nursery() as nursery:
        nursery.start_soon(call, client)
        nursery.start_soon(call, client)
    assert [answer["error"]["code"] for answer in seen] == [-32603, -32603]
    assert "failed to answer elicitation/create" in caplog.text
    assert "KeyError: 'mine'" in caplog.text


# Ending


@pytest.mark.parametrize("result", [ask(q=question()), ask("s")])
async def test_death_ends_a_call_between_two_attempts(
    result: JSONObject, autojump_clock: MockClock
) -> None:
    """No person is left in front of a question whose server is dead; no pause is slept out."""
    released: list[str] = []

    async def person(request: object) -> JSONObject:
        try:
            await trio.sleep(9000)
        finally:
            released.append("released")
        return {}

    server = Scripted({"tools/call": result})

    async def die() -> None:
        await trio.sleep(2)
        await server.close()

    async with (
        server.connect(on_elicit=person, round_backoff=5000) as client,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(die)
        began = trio.current_time()
        with pytest.raises(ConnectionClosed):
            await client.call_tool("t")
        assert trio.current_time() - began < 3
    assert released == (["released"] if "inputRequests" in result else [])


async def test_nobody_is_asked_for_a_server_that_is_dead(autojump_clock: MockClock) -> None:
    """A question that arrives with the end of the connection is not put to a person."""
    server = Scripted()
    async with server.connect() as client:
        await server.close()
        await wait_all_tasks_blocked()
        with pytest.raises(ConnectionClosed), client._calls._while_open():
            raise AssertionError("unreachable")


async def test_a_call_can_be_cancelled_between_two_attempts(autojump_clock: MockClock) -> None:
    """No request is open then, so there is nothing to cancel at the server."""

    async def person(request: object) -> None:
        await trio.sleep_forever()

    server = Scripted({"tools/call": ask(q=question())})
    async with server.connect(on_elicit=person) as client:
        with trio.move_on_after(3) as scope:
            await client.call_tool("t")
        assert scope.cancelled_caught
    assert server.methods == ["server/discover", "tools/call"]


@pytest.mark.parametrize("start", [MODERN_START, LEGACY_START], ids=["modern", "legacy"])
async def test_callbacks_may_call_the_server(start: Start, autojump_clock: MockClock) -> None:
    """A callback that needs the server to answer the server's question gets it, in both eras."""
    seen: list[JSONObject] = []
    modern: list[Step] = [ask(q=question()), text_result()]
    steps: Start = {
        "tools/call": modern if start is MODERN_START else ask_by_request(seen),
        "prompts/list": {"prompts": [{"name": "p"}]},
    }
    listed: list[str] = []
    async with Scripted(steps, start=start).connect(on_elicit=lambda request: look_up()) as client:

        async def look_up() -> JSONObject:
            listed.extend(prompt.name for prompt in await client.list_prompts())
            return {}

        await client.call_tool("t")
    assert listed == ["p"]
