"""Calls to a legacy server that wait for a modern client: held, taken up, given up."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from mcp_trio.connection import memory_frame_pair
from mcp_trio.protocol import meta as keys
from mcp_trio.proxy import held, shared
from mcp_trio.proxy.app import Proxy
from tests.client.scripted import Answer, JSONObject, Scripted, Step, text_result
from tests.server.raw import MODERN_META, Raw, open_raw

from .kit import PATIENCE, Scripts

CAN_ASK: JSONObject = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
FORM: JSONObject = {
    "message": "Your name?",
    "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
}


def asking(*questions: tuple[str, JSONObject]) -> Step:
    """A step that asks all of these at once, and answers with what it was answered."""

    async def step(server: Scripted, request: JSONObject) -> Answer:
        ids = [await server.ask(method, params) for method, params in questions]
        answers = [await server.answer_to(id) for id in ids]
        return text_result(str([a.get("result", a.get("error", {}).get("code")) for a in answers]))

    return step


ASK_NAME = asking(("elicitation/create", FORM))


async def call(
    raw: Raw, name: str = "t", capabilities: JSONObject = CAN_ASK, **params: Any
) -> JSONObject:
    """Call a tool; the whole answer."""
    meta = {keys.CLIENT_CAPABILITIES: capabilities}
    return await raw.modern("tools/call", {"name": name, **params}, **meta)


def responses(result: JSONObject, *answers: JSONObject) -> JSONObject:
    """The params of the next round."""
    return {
        "inputResponses": dict(zip(result["inputRequests"], answers, strict=True)),
        "requestState": result["requestState"],
    }


@asynccontextmanager
async def served(*steps: Step, **options: Any) -> AsyncIterator[tuple[Raw, Scripts]]:
    """A modern client of a proxy whose legacy server follows these steps for tools."""
    scripts = Scripts("legacy", {"tools/call": list(steps) or [ASK_NAME]})
    with trio.fail_after(PATIENCE):
        async with open_raw(Proxy(scripts, mode="legacy", **options)) as raw:
            yield raw, scripts


async def test_a_question_becomes_a_result(autojump_clock: MockClock) -> None:
    """The server's question is in the result as it asked it, and so is the answer it gets."""
    async with served() as (raw, scripts):
        first = (await call(raw))["result"]
        assert first["resultType"] == "input_required"
        asked = list(first["inputRequests"].values())
        assert asked == [{"method": "elicitation/create", "params": FORM}]
        answer = {"action": "accept", "content": {"name": "Ada"}, "acme": [None]}
        second = (await call(raw, **responses(first, answer)))["result"]
        assert second["resultType"] == "complete"
        assert second["content"][0]["text"] == str([answer])
        assert len(scripts.latest.sent("tools/call")) == 1  # it is one call behind


async def test_the_server_does_not_see_the_modern_era(autojump_clock: MockClock) -> None:
    """What only modern requests carry does not reach a legacy server; the rest does."""
    async with served({"content": []}) as (raw, scripts):
        await call(raw, arguments={"a": 1}, acme=2)
        params = scripts.latest.sent("tools/call")[0]["params"]
        assert list(params.pop("_meta")) == ["progressToken"]
        assert params == {"name": "t", "arguments": {"a": 1}, "acme": 2}


async def test_several_questions_at_once(autojump_clock: MockClock) -> None:
    """What is asked at the same time is one round; what stays unanswered is asked again."""
    step = asking(("roots/list", {}), ("sampling/createMessage", {"messages": [], "maxTokens": 1}))
    async with served(step) as (raw, _):
        first = (await call(raw))["result"]
        assert len(first["inputRequests"]) == 2
        roots, model = first["inputRequests"]
        second = await call(
            raw, inputResponses={roots: {"roots": []}}, requestState=first["requestState"]
        )
        assert list(second["result"]["inputRequests"]) == [model]
        sampled = {"role": "assistant", "content": {"type": "text", "text": "x"}, "model": "m"}
        third = await call(raw, **responses(second["result"], sampled))
        assert third["result"]["content"][0]["text"] == str([{"roots": []}, sampled])


async def test_a_call_nobody_comes_back_for(autojump_clock: MockClock) -> None:
    """After the hold time the server's call is cancelled, and its handle opens nothing."""
    async with served(hold_time=60) as (raw, scripts):
        first = (await call(raw))["result"]
        await trio.sleep(59)
        assert scripts.latest.sent("notifications/cancelled") == []
        await trio.sleep(2)
        cancelled = scripts.latest.sent("notifications/cancelled")
        request = scripts.latest.sent("tools/call")[0]
        assert [note["params"]["requestId"] for note in cancelled] == [request["id"]]
        late = await call(raw, **responses(first, {"action": "decline"}))
        assert late["error"]["code"] == -32602
        assert "nobody came back" in late["error"]["message"]


async def test_coming_back_stops_the_clock(autojump_clock: MockClock) -> None:
    """Only the time in which nobody waits for the call counts."""

    async def slow(server: Scripted, request: JSONObject) -> Answer:
        for _ in range(2):
            await server.answer_to(await server.ask("roots/list"))
            await trio.sleep(1000)
        return text_result("at last")

    async with served(slow, hold_time=60) as (raw, _):
        result = (await call(raw))["result"]
        for _ in range(2):
            await trio.sleep(50)
            result = (await call(raw, **responses(result, {"roots": []})))["result"]
        assert result["content"][0]["text"] == "at last"


async def test_a_result_waits_for_its_client(autojump_clock: MockClock) -> None:
    """A server that gives up waiting answers; the client finds the answer when it comes back."""

    async def impatient(server: Scripted, request: JSONObject) -> Answer:
        id = await server.ask("roots/list")
        await trio.sleep(5)
        await server.notify("notifications/cancelled", {"requestId": id})
        return text_result("without")

    async with served(impatient) as (raw, _):
        first = (await call(raw))["result"]
        await trio.sleep(10)
        second = await call(raw, **responses(first, {"roots": []}))
        assert second["result"]["content"][0]["text"] == "without"


@pytest.mark.parametrize(
    "change",
    [
        {"name": "other"},
        {"arguments": {"a": 2}},
        {"requestState": "nonsense"},
        {"requestState": 5},
    ],
)
async def test_a_handle_opens_one_call_only(change: JSONObject, autojump_clock: MockClock) -> None:
    """Not for another tool, other arguments, or whoever made something up."""
    async with served() as (raw, _):
        first = (await call(raw))["result"]
        again = {"name": "t", **responses(first, {"action": "decline"}), **change}
        answer = await call(raw, **again)
        assert answer["error"]["code"] == -32602


async def test_a_handle_opens_once(autojump_clock: MockClock) -> None:
    """A call that is over, or that a request waits for already, cannot be taken up."""
    async with served() as (raw, _):
        first = (await call(raw))["result"]
        again = responses(first, {"action": "decline"})
        assert "result" in await call(raw, **again)
        assert (await call(raw, **again))["error"]["code"] == -32602


async def test_one_request_at_a_time_waits_for_a_call(autojump_clock: MockClock) -> None:
    """A second one with the same handle is refused while the first is waiting."""

    async def slow(server: Scripted, request: JSONObject) -> Answer:
        await server.answer_to(await server.ask("roots/list"))
        await trio.sleep(10)
        return text_result("slow")

    async with served(slow) as (raw, _):
        first = (await call(raw))["result"]
        meta = {keys.PROTOCOL_VERSION: "2026-07-28", keys.CLIENT_CAPABILITIES: CAN_ASK}
        params = {"name": "t", **responses(first, {"roots": []}), "_meta": meta}
        await raw.send(*(raw.request_message("tools/call", params, id=id) for id in ("a", "b")))
        answers = [await raw.answer_to(id) for id in ("a", "b")]
        assert sorted("error" in answer for answer in answers) == [False, True]


async def test_cancelling_takes_the_call_along(autojump_clock: MockClock) -> None:
    """A request that is cancelled while it waits ends the server's call, in whatever round."""

    async def stalls(server: Scripted, request: JSONObject) -> Answer:
        await server.answer_to(await server.ask("roots/list"))
        await trio.sleep_forever()
        return None

    async with served(stalls) as (raw, scripts):
        first = (await call(raw))["result"]
        params = {"name": "t", **responses(first, {"roots": []})}
        params["_meta"] = {
            keys.PROTOCOL_VERSION: "2026-07-28",
            keys.CLIENT_CAPABILITIES: CAN_ASK,
        }
        await raw.send(raw.request_message("tools/call", params, id="x"))
        await wait_all_tasks_blocked()
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
        await raw.send({**cancel, "params": {"requestId": "x"}})
        await wait_all_tasks_blocked()
        assert len(scripts.latest.sent("notifications/cancelled")) == 1


async def test_progress_of_each_round(autojump_clock: MockClock) -> None:
    """Progress has the token of the request that waits now, and is not sent while none does."""

    async def reports(server: Scripted, request: JSONObject) -> Answer:
        await server.progress(request, 1)
        id = await server.ask("roots/list")
        await trio.sleep(1)
        await server.progress(request, 2)
        await server.answer_to(id)
        await server.progress(request, 3)
        return text_result()

    async with served(reports) as (raw, _):
        meta = {keys.CLIENT_CAPABILITIES: CAN_ASK, "progressToken": "one"}
        first = (await raw.modern("tools/call", {"name": "t"}, **meta))["result"]
        await trio.sleep(2)
        meta["progressToken"] = "two"
        params = {"name": "t", **responses(first, {"roots": []})}
        await raw.modern("tools/call", params, **meta)
        seen = [
            (note["params"]["progressToken"], note["params"]["progress"]) for note in raw.received
        ]
        assert seen == [("one", 1), ("two", 3)]


async def test_too_many_held(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Held calls are bounded: the one that waited longest is given up."""
    monkeypatch.setattr(held, "MOST_HELD", 2)
    async with served() as (raw, _):
        states = [(await call(raw))["result"] for _ in range(3)]
        await wait_all_tasks_blocked()
        answers = [await call(raw, **responses(state, {"action": "decline"})) for state in states]
        assert ["error" in answer for answer in answers] == [True, False, False]


async def test_the_server_dies_while_held(autojump_clock: MockClock) -> None:
    """Who comes back hears that the server has gone; the next call finds a new one."""

    async def dies(server: Scripted, request: JSONObject) -> Answer:
        await server.ask("roots/list")
        await trio.sleep(5)
        await server.close()
        return None

    async with served(dies) as (raw, scripts):
        first = (await call(raw))["result"]
        await trio.sleep(10)
        gone = await call(raw, **responses(first, {"roots": []}))
        assert gone["error"]["code"] == -32603
        assert "is gone" in gone["error"]["message"]
        await call(raw)
        assert len(scripts.connections) == 2


@pytest.mark.parametrize(
    ("method", "params", "declared", "code"),
    [
        ("elicitation/create", FORM, {}, -32601),
        ("elicitation/create", FORM, {"sampling": {}}, -32601),
        ("elicitation/create", {"mode": "url", "url": "https://x"}, {"elicitation": {}}, -32602),
        ("sampling/createMessage", {"messages": []}, {"elicitation": {}}, -32601),
        ("sampling/createMessage", {"messages": [], "tools": [{}]}, {"sampling": {}}, -32602),
        ("roots/list", {}, {"sampling": {}}, -32601),
        ("acme/question", {}, CAN_ASK, -32601),
    ],
)
async def test_what_was_not_declared_is_refused(
    method: str, params: JSONObject, declared: JSONObject, code: int, autojump_clock: MockClock
) -> None:
    """The legacy server, which was told of everything, hears what this client cannot do."""
    async with served(asking((method, params))) as (raw, _):
        answer = await call(raw, capabilities=declared)
        assert answer["result"]["content"][0]["text"] == str([code])


async def test_a_question_out_of_nowhere(autojump_clock: MockClock) -> None:
    """What is asked when no call is open is refused, and a ping is answered."""
    async with served({"content": []}) as (raw, scripts):
        await call(raw)
        server = scripts.latest
        refused = await server.answer_to(await server.ask("roots/list"))
        assert refused["error"]["code"] == -32600
        assert (await server.answer_to(await server.ask("ping")))["result"] == {}


async def test_pages_to_visit_first(autojump_clock: MockClock) -> None:
    """The error of 2025-11-25 that names pages becomes the question whether to visit them."""
    from mcp_trio.protocol.errors import url_elicitation_required

    page = {"mode": "url", "message": "Sign", "url": "https://x", "elicitationId": "1"}
    error = url_elicitation_required([page], "Sign first.")
    async with served(error, {"content": []}) as (raw, scripts):
        first = (await call(raw))["result"]
        (question,) = first["inputRequests"].values()
        assert question["params"] == {"mode": "url", "message": "Sign", "url": "https://x"}
        again: JSONObject = {
            "inputResponses": {key: {"action": "accept"} for key in first["inputRequests"]}
        }
        assert (await call(raw, **again))["result"]["content"] == []
        assert "inputResponses" not in scripts.latest.sent("tools/call")[-1]["params"]


@asynccontextmanager
async def two_clients(proxy: Proxy) -> AsyncIterator[tuple[Raw, Raw]]:
    """Two modern clients that share one server."""
    async with proxy.running(), trio.open_nursery() as nursery:
        raws = []
        for _ in range(2):
            near, far = memory_frame_pair()
            nursery.start_soon(proxy.serve_frames, far)
            raws.append(Raw(near))
        yield raws[0], raws[1]
        nursery.cancel_scope.cancel()


async def test_a_question_waits_until_it_is_clear_whose_it_is(autojump_clock: MockClock) -> None:
    """With calls of two clients open it is not guessed: the question waits for one to end."""

    async def short(server: Scripted, request: JSONObject) -> Answer:
        await trio.sleep(10)
        return text_result("short")

    scripts = Scripts("legacy", {"tools/call": [short, ASK_NAME]})
    async with two_clients(Proxy(scripts, mode="legacy")) as (one, other):
        answers: list[JSONObject] = []

        async def call_one() -> None:
            answers.append(await call(one))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(call_one)
            await wait_all_tasks_blocked()
            asked = await call(other)
        assert asked["result"]["resultType"] == "input_required"
        assert answers[0]["result"]["content"][0]["text"] == "short"
        assert trio.current_time() >= 10
        assert len(scripts.connections) == 1


async def test_a_question_of_nobody_knows_whose_call(autojump_clock: MockClock) -> None:
    """Where it stays unclear the server is refused; neither client sees the other's question."""
    scripts = Scripts("legacy", {"tools/call": ASK_NAME})
    async with two_clients(Proxy(scripts, mode="legacy")) as clients:
        answers: list[JSONObject] = []

        async def call_it(raw: Raw) -> None:
            answers.append(await call(raw))

        async with trio.open_nursery() as nursery:
            for raw in clients:
                nursery.start_soon(call_it, raw)
        assert trio.current_time() >= shared.PATIENCE
        texts = [answer["result"].get("content", [{}])[0].get("text") for answer in answers]
        assert texts[0] == "[-32600]"


async def test_log_messages_of_another_client(autojump_clock: MockClock) -> None:
    """A message that may belong to another client's call is shown to nobody."""

    async def logs(server: Scripted, request: JSONObject) -> Answer:
        await trio.sleep(request["params"]["arguments"]["seconds"])
        await server.notify("notifications/message", {"level": "error", "data": "secret"})
        return text_result()

    scripts = Scripts("legacy", {"tools/call": logs})
    async with two_clients(Proxy(scripts, mode="legacy")) as (one, other):
        wants = {keys.LOG_LEVEL: "debug"}

        async def long() -> None:
            params = {"name": "t", "arguments": {"seconds": 10}}
            await one.modern("tools/call", params, **wants)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(long)
            await wait_all_tasks_blocked()
            params = {"name": "t", "arguments": {"seconds": 1}}
            await other.modern("tools/call", params, **wants)
        assert other.received == []  # its own, but that was not clear
        assert [note["params"]["data"] for note in one.received] == ["secret"]  # it was alone


async def test_log_messages_of_a_server_that_sends_few(autojump_clock: MockClock) -> None:
    """A legacy server is asked for all messages, since a modern client may want any."""
    async with served({"content": []}) as (raw, scripts):
        await call(raw)
        (level,) = scripts.latest.sent("logging/setLevel")
        assert level["params"] == {"level": "debug"}


async def test_results_name_the_server(autojump_clock: MockClock) -> None:
    """A legacy server's results say to a modern client whose they are: not the proxy's."""
    async with served({"content": [], "_meta": {"acme/x": 1}}) as (raw, _):
        meta = (await call(raw))["result"]["_meta"]
        assert meta == {"acme/x": 1, keys.SERVER_INFO: {"name": "scripted", "version": "1"}}
    scripts = Scripts("modern", {"tools/call": {"resultType": "complete", "content": []}})
    async with open_raw(Proxy(scripts)) as raw:
        assert (await call(raw))["result"]["_meta"] == {}  # who does not say stays unnamed


async def test_a_subscription_ends_with_the_input(autojump_clock: MockClock) -> None:
    """Nobody waits for a subscription when a client has closed its end."""
    near, far = memory_frame_pair()
    proxy = Proxy(Scripts("legacy"), mode="legacy")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(proxy.serve_frames, far)
        raw = Raw(near)
        listen = {"notifications": {"toolsListChanged": True}}
        params = {**listen, "_meta": {**MODERN_META}}
        await raw.send(raw.request_message("subscriptions/listen", params))
        assert (await raw.receive())["method"] == "notifications/subscriptions/acknowledged"
        began = trio.current_time()
        near._outgoing.close()
    assert trio.current_time() - began < 0.5
