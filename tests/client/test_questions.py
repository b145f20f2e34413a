"""Questions of a server: what the callbacks get, and what their answers become."""

from collections.abc import Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import mcp_trio
from mcp_trio.client.questions import Answers, BadQuestion
from mcp_trio.exceptions import MCPError
from mcp_trio.protocol import meta as keys

from .scripted import LEGACY_START, Answer, JSONObject, Scripted, text_of, text_result

FORM: JSONObject = {
    "message": "Who?",
    "requestedSchema": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "land": {"type": "string", "default": "Norway"},
            "age": {"type": "integer", "default": 0},
            "vip": {"type": "boolean", "default": False},
            "tags": {"type": "array", "items": {"type": "string"}, "default": []},
        },
        "required": ["name"],
    },
}
DEFAULTS = {"land": "Norway", "age": 0, "vip": False, "tags": []}
PAGE: JSONObject = {"mode": "url", "message": "Log in", "url": "https://example.com/"}


async def answer_of(on_elicit: Callable[..., Any], params: JSONObject) -> JSONObject:
    return await Answers(on_elicit=on_elicit).answer("elicitation/create", params)


# Elicitation


@pytest.mark.parametrize(
    ("given", "wire"),
    [
        ({"name": "Ada"}, {"action": "accept", "content": {**DEFAULTS, "name": "Ada"}}),
        (
            {"name": "Ada", "land": "UK", "vip": True},
            {"action": "accept", "content": {**DEFAULTS, "name": "Ada", "land": "UK", "vip": True}},
        ),
        ({}, {"action": "accept", "content": DEFAULTS}),
        (mcp_trio.ElicitResult("accept"), {"action": "accept", "content": DEFAULTS}),
        (mcp_trio.ElicitResult("decline"), {"action": "decline"}),
        (mcp_trio.ElicitResult("cancel"), {"action": "cancel"}),
        (None, {"action": "cancel"}),
    ],
)
async def test_what_on_elicit_may_return(
    given: Any, wire: JSONObject, autojump_clock: MockClock
) -> None:
    """A dict accepts, None cancels, a result is itself; defaults fill in what was left out."""
    assert await answer_of(lambda request: given, FORM) == wire


async def test_defaults_of_a_form_are_only_for_what_is_accepted(autojump_clock: MockClock) -> None:
    """A null default is none, and a field that is no object has none; nothing else is added."""
    schema = {"type": "object", "properties": {"a": {"default": None}, "b": True, "c": {}}}
    answer = await answer_of(lambda _: {}, {"message": "?", "requestedSchema": schema})
    assert answer == {"action": "accept", "content": {}}
    answer = await answer_of(lambda _: {}, {"message": "?", "requestedSchema": {"type": "object"}})
    assert answer == {"action": "accept", "content": {}}


@pytest.mark.parametrize("default", [{}, {"a": 1}, [1], ["a", None], [[]]])
async def test_a_default_that_no_form_can_hold_is_none(
    default: Any, autojump_clock: MockClock
) -> None:
    """A server's odd default must not become an answer of ours that breaks the protocol."""
    schema = {"type": "object", "properties": {"a": {"default": default}, "b": {"default": "x"}}}
    answer = await answer_of(lambda _: {}, {"message": "?", "requestedSchema": schema})
    assert answer == {"action": "accept", "content": {"b": "x"}}


async def test_what_on_elicit_gets(autojump_clock: MockClock) -> None:
    """A form or a page, as its class; a form may leave its mode out."""
    got: list[Any] = []

    async def remember(request: Any) -> None:
        got.append(request)

    for params in (FORM, {**FORM, "mode": "form"}, PAGE):
        await answer_of(remember, params)
    assert [type(request).__name__ for request in got] == [
        "ElicitRequestFormParams",
        "ElicitRequestFormParams",
        "ElicitRequestURLParams",
    ]
    assert got[0].requested_schema == FORM["requestedSchema"]
    assert got[2].url == "https://example.com/"


async def test_pages_are_accepted_without_values(autojump_clock: MockClock) -> None:
    """Visiting a page has no form to fill in."""
    accept = mcp_trio.ElicitResult("accept")
    assert await answer_of(lambda _: accept, PAGE) == {"action": "accept"}
    assert await answer_of(lambda _: None, PAGE) == {"action": "cancel"}
    with pytest.raises(TypeError, match="the server asks to visit a page"):
        await answer_of(lambda _: {"name": "Ada"}, PAGE)


@pytest.mark.parametrize("answer", ["yes", True, 3, []])
async def test_answers_that_make_no_sense(answer: Any, autojump_clock: MockClock) -> None:
    """A callback that returns the wrong thing is told what it may return."""
    with pytest.raises(TypeError, match="an ElicitResult, a dict or None"):
        await answer_of(lambda _: answer, FORM)
    with pytest.raises(TypeError, match="a CreateMessageResult or a str"):
        await Answers(on_sample=lambda _: 5).answer(  # type: ignore[arg-type,return-value]  # wrong
            "sampling/createMessage", {"messages": [], "maxTokens": 1}
        )


# Sampling and roots


@pytest.mark.parametrize(
    ("declared", "answered"),
    [
        ({}, ["form", "url"]),
        ({"elicitation": {}}, ["form"]),
        ({"elicitation": {"form": {}}}, ["form"]),
        ({"elicitation": {"url": {}}}, ["url"]),
    ],
)
async def test_modes_of_elicitation_have_to_be_declared(
    declared: JSONObject, answered: list[str], autojump_clock: MockClock
) -> None:
    """What a client did not declare it refuses, though its callback could answer."""
    server = Scripted(start=LEGACY_START)
    asked = {"form": {"message": "Who?", "requestedSchema": {"type": "object"}}}
    asked["url"] = {**PAGE, "elicitationId": "1"}
    async with server.connect(on_elicit=lambda _: None, capabilities=declared):
        for mode, params in asked.items():
            answer = await server.answer_to(await server.ask("elicitation/create", params))
            if mode in answered:
                assert answer["result"] == {"action": "cancel"}
            else:
                assert answer["error"]["code"] == -32602


async def test_tools_for_the_model_have_to_be_declared(autojump_clock: MockClock) -> None:
    """A server may not give tools to the model of a client that did not say it takes them."""
    words = {"role": "user", "content": {"type": "text", "text": "Hello"}}
    params = {"messages": [words], "maxTokens": 5, "toolChoice": {"mode": "auto"}}
    with pytest.raises(BadQuestion, match=r"sampling\.tools"):
        await Answers(on_sample=lambda _: "x").answer("sampling/createMessage", params)
    willing = Answers(on_sample=lambda _: "x", model_tools=True)
    assert (await willing.answer("sampling/createMessage", params))["content"]["text"] == "x"


async def test_what_on_sample_may_return(autojump_clock: MockClock) -> None:
    """A text is what the model said; a result is itself."""
    params = {
        "messages": [{"role": "user", "content": {"type": "text", "text": "capital?"}}],
        "maxTokens": 10,
        "systemPrompt": "Be brief.",
    }

    async def model(request: mcp_trio.CreateMessageRequestParams) -> str:
        assert request.system_prompt == "Be brief."
        await trio.lowlevel.checkpoint()
        return "Paris"

    assert await Answers(on_sample=model).answer("sampling/createMessage", params) == {
        "role": "assistant",
        "content": {"type": "text", "text": "Paris"},
        "model": "unknown",
    }
    result = mcp_trio.CreateMessageResult(
        role="assistant", content=mcp_trio.TextContent("x"), model="m", stop_reason="endTurn"
    )
    answered = await Answers(on_sample=lambda _: result).answer("sampling/createMessage", params)
    assert (answered["model"], answered["stopReason"]) == ("m", "endTurn")


async def test_what_on_list_roots_may_return(autojump_clock: MockClock) -> None:
    """Roots or URIs, none at all too."""
    root = mcp_trio.Root("file:///b", name="b")
    answers = Answers(on_list_roots=lambda _: ["file:///a", root])
    assert await answers.answer("roots/list", {}) == {
        "roots": [{"uri": "file:///a"}, {"uri": "file:///b", "name": "b"}]
    }
    assert await Answers(on_list_roots=lambda _: ()).answer("roots/list", {}) == {"roots": []}


# Which questions


def test_capabilities_follow_from_the_callbacks() -> None:
    """What there is a callback for is declared, and nothing else."""
    assert Answers().capabilities() == {}
    assert Answers(on_sample=lambda _: "x").capabilities() == {"sampling": {}}
    everything = Answers(lambda _: None, lambda _: "", lambda _: ()).capabilities()
    assert everything == {
        "elicitation": {"form": {}, "url": {}},
        "sampling": {},
        "roots": {"listChanged": True},
    }


@pytest.mark.parametrize(
    ("version", "elicitation"),
    [
        ("2024-11-05", None),
        ("2025-03-26", None),
        ("2025-06-18", {}),
        ("2025-11-25", {"form": {}, "url": {}}),
        ("2026-07-28", {"form": {}, "url": {}}),
    ],
)
async def test_capabilities_on_the_wire_by_revision(
    version: str, elicitation: JSONObject | None, autojump_clock: MockClock
) -> None:
    """A revision is told only of what it has."""
    server = Scripted(
        {"initialize": {"protocolVersion": version, "capabilities": {}, "serverInfo": _info()}}
    )
    options: dict[str, Any] = {"on_elicit": print, "on_list_roots": print}
    async with server.connect(mode=version, **options):
        pass
    params = server.received[0]["params"]
    modern = version == "2026-07-28"
    told = params["_meta"][keys.CLIENT_CAPABILITIES] if modern else params["capabilities"]
    assert told.get("elicitation") == elicitation
    assert told["roots"] == ({} if modern else {"listChanged": True})


async def test_capabilities_of_the_caller_replace_ours(autojump_clock: MockClock) -> None:
    """An application may declare more than callbacks, or less than they could do."""
    server = Scripted()
    declared: JSONObject = {"extensions": {"com.example/x": {}}, "elicitation": {"form": {}}}
    async with server.connect(on_elicit=print, on_sample=print, capabilities=declared):
        pass
    told = server.received[0]["params"]["_meta"][keys.CLIENT_CAPABILITIES]
    assert told == {**declared, "sampling": {}}


@pytest.mark.parametrize("method", ["elicitation/create", "sampling/createMessage", "roots/list"])
async def test_questions_without_a_callback_are_refused(
    method: str, autojump_clock: MockClock
) -> None:
    """By the client, as not declared."""
    with pytest.raises(BadQuestion, match=f"{method}.*did not declare"):
        await Answers().answer(method, {})


# Legacy: the same questions as requests


async def ask_legacy(method: str, params: JSONObject | None = None, **options: Any) -> JSONObject:
    """What a legacy server gets for a question that it asks during a call."""
    got: list[JSONObject] = []

    async def step(server: Scripted, request: JSONObject) -> Answer:
        got.append(await server.answer_to(await server.ask(method, params)))
        return text_result()

    async with Scripted({"tools/call": step}, start=LEGACY_START).connect(**options) as client:
        assert text_of(await client.call_tool("t")) == "done"
    return got[0]


async def test_a_legacy_server_asks_by_a_request(autojump_clock: MockClock) -> None:
    """The same callbacks answer it."""
    answer = await ask_legacy("elicitation/create", FORM, on_elicit=lambda _: {"name": "Ada"})
    assert answer["result"] == {"action": "accept", "content": {**DEFAULTS, "name": "Ada"}}
    answer = await ask_legacy("roots/list", on_list_roots=lambda _: ["file:///a"])
    assert answer["result"] == {"roots": [{"uri": "file:///a"}]}
    assert (await ask_legacy("ping"))["result"] == {}


@pytest.mark.parametrize(
    ("method", "params", "options", "code"),
    [
        ("elicitation/create", FORM, {}, -32601),
        ("roots/list", None, {"on_elicit": print}, -32601),
        ("acme/question", None, {"on_elicit": print}, -32601),
        ("tools/call", {"name": "t"}, {"on_elicit": print}, -32601),
        ("elicitation/create", {"message": 3}, {"on_elicit": print}, -32602),
        ("sampling/createMessage", {}, {"on_sample": print}, -32602),
    ],
)
async def test_legacy_questions_that_are_refused(
    method: str,
    params: JSONObject | None,
    options: dict[str, Any],
    code: int,
    autojump_clock: MockClock,
) -> None:
    """What cannot be answered is an error for the server, and none for the call."""
    answer = await ask_legacy(method, params, **options)
    assert answer["error"]["code"] == code


async def test_a_question_that_the_server_takes_back(autojump_clock: MockClock) -> None:
    """A cancelled question frees the person who is asked, and is not answered."""
    released = trio.Event()

    async def person(request: object) -> None:
        try:
            await trio.sleep_forever()
        finally:
            released.set()

    async def step(server: Scripted, request: JSONObject) -> Answer:
        id = await server.ask("elicitation/create", FORM)
        await trio.sleep(1)
        await server.notify("notifications/cancelled", {"requestId": id})
        await released.wait()
        return text_result()

    server = Scripted({"tools/call": step}, start=LEGACY_START)
    async with server.connect(on_elicit=person) as client:
        await client.call_tool("t")
    assert [message for message in server.received if "method" not in message] == []


async def test_questions_outside_of_any_call(
    caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    """A legacy server may ask at any time; what the callback raises is logged, not lost."""

    def fail(request: object) -> tuple[str, ...]:
        raise KeyError("mine")

    server = Scripted(start=LEGACY_START)
    async with server.connect(on_list_roots=fail):
        answer = await server.answer_to(await server.ask("roots/list"))
    assert answer["error"]["code"] == -32603
    assert "mine" not in str(answer)
    assert "KeyError: 'mine'" in caplog.text


async def test_a_callback_may_answer_with_an_error_of_its_own(autojump_clock: MockClock) -> None:
    """An MCPError outside of any call is what the server hears."""

    def reject(request: object) -> str:
        raise MCPError(-1, "User rejected sampling request")

    server = Scripted(start=LEGACY_START)
    async with server.connect(on_sample=reject):
        id = await server.ask("sampling/createMessage", {"messages": [], "maxTokens": 1})
        answer = await server.answer_to(id)
    assert answer["error"] == {"code": -1, "message": "User rejected sampling request"}


def _info() -> JSONObject:
    return {"name": "scripted", "version": "1"}
