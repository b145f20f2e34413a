"""What a server asks its client: checks of elicitation, sampling, roots, and of repeated requests.

In the legacy era a question is a request of the server; in the modern era it stands in a result,
and the answer comes with the request that is made again. `asked` hides the difference.
"""

from functools import partial
from typing import Final

import attrs
import trio

from mcp_trio.harness.checks import LEGACY, MODERN, check, having
from mcp_trio.harness.client_probe import ClientProbe, goes_on
from mcp_trio.harness.healthy import (
    ELICIT,
    SAMPLE,
    STATE,
    client_capabilities,
    elicit_params,
)
from mcp_trio.harness.http_scripted import HTTPRequest, open_http
from mcp_trio.harness.model import NotApplicable
from mcp_trio.harness.probe import expect, require
from mcp_trio.harness.scripted import HOLD, Call, Scene, usual
from mcp_trio.protocol.json_schema import compile_schema
from mcp_trio.protocol.revisions import supports
from mcp_trio.wire.jsonrpc import JSON, JSONObject

client_check = partial(check, role="client")

MOMENT: Final = 0.2
SLOW: Final = 1.0
"""Seconds for an answer that should not come."""
REPEATED: Final = ("tools/call", "prompts/get", "resources/read")
"""Requests whose result may ask for something."""
KINDS: Final = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}
"""What can be asked, and the capability that a client declares for it."""


@attrs.frozen
class Reaction:
    """What a client made of a question.

    Attributes:
        result: Its answer; None if it refused.
        code: The code of its refusal; None for an answer, and for modern clients, which have no
            way to say it.
    """

    result: JSONObject | None
    code: int | None


async def asked(probe: ClientProbe, method: str, params: JSONObject) -> Reaction:
    """Ask a client something, in the way of its revision."""
    if probe.revision in MODERN:
        return await _asked_by_result(probe, method, params)
    async with probe.play_held() as (_, call):
        reply = await call.ask(method, params)
        await call.answer()
    return Reaction(reply.result, reply.code)


async def _asked_by_result(probe: ClientProbe, method: str, params: JSONObject) -> Reaction:
    held = await _repeatable(probe)
    async with probe.play({held: [HOLD, usual]}) as scene:
        call = await scene.call(held)
        await call.result(_input({"question": {"method": method, "params": params}}))
        answer = await _next_responses(scene, call)
    found = answer.get("question") if answer is not None else None
    return Reaction(found if isinstance(found, dict) else None, None)


def _input(requests: JSONObject | None, state: str | None = STATE) -> JSONObject:
    found: JSONObject = {"resultType": "input_required"}
    if requests is not None:
        found["inputRequests"] = requests
    if state is not None:
        found["requestState"] = state
    return found


async def _repeatable(probe: ClientProbe) -> str:
    """The method of a request that the client makes, and whose result may ask for something."""
    made = {call.method for call in (await probe.recording()).calls}
    for method in REPEATED:
        if method in made:
            return method
    raise NotApplicable("the client makes no request that could ask for something")


async def _next_responses(scene: Scene, call: Call) -> JSONObject | None:
    """The answers that come with the repeated request; None if it is not repeated."""
    try:
        again = await scene.call(call.method, 2)
    except NotApplicable:
        return None
    found = again.params.get("inputResponses")
    return found if isinstance(found, dict) else None


async def declared(probe: ClientProbe) -> JSONObject:
    """What the client says that it can do."""
    scene = await probe.recording()
    require(scene.calls, "the client makes no requests")
    return client_capabilities(scene)


async def _needs(probe: ClientProbe, capability: str) -> JSONObject:
    """What is declared of a capability, which has to be there."""
    found = (await declared(probe)).get(capability)
    require(isinstance(found, dict), f"the client does not declare {capability}")
    assert isinstance(found, dict)
    return found


async def _needs_form(probe: ClientProbe) -> None:
    modes = await _needs(probe, "elicitation")
    require(not modes or "form" in modes, "the client fills in no forms")


def _params_for(method: str, revision: str) -> JSONObject:
    if method == "elicitation/create":
        return elicit_params(revision)
    return dict(SAMPLE) if method == "sampling/createMessage" else {}


# Capabilities


REQUIRED: Final = {
    "elicitation": {"legacy": "elicitation-48", "modern": "elicitation-4"},
    "sampling": {"legacy": "sampling-20", "modern": "sampling-5"},
    "roots": {"legacy": "roots-6", "modern": "roots-2"},
}


@client_check(
    "client-declares-what-it-answers",
    "sampling-20",
    "sampling-5",
    "roots-6",
    "roots-2",
    "elicitation-48",
    "elicitation-4",
    meaning="What the client answers is what it declares: elicitation, sampling, roots.",
)
async def client_declares_what_it_answers(probe: ClientProbe) -> None:
    offered = await declared(probe)
    era = "modern" if probe.revision in MODERN else "legacy"
    for method, capability in KINDS.items():
        if capability in offered or (
            capability == "elicitation" and not supports("elicitation", probe.revision)
        ):
            continue
        reaction = await asked(probe, method, _params_for(method, probe.revision))
        expect(
            reaction.result is None,
            f"the client answers {method} and does not declare {capability}",
            REQUIRED[capability][era],
        )


@client_check(
    "client-elicitation-has-a-mode",
    "elicitation-5",
    meaning="Who declares elicitation declares forms or URLs; an empty object stands for forms.",
    revisions=having("elicitation_url"),
)
async def client_elicitation_has_a_mode(probe: ClientProbe) -> None:
    modes = await _needs(probe, "elicitation")
    known = not modes or {"form", "url"} & modes.keys()
    expect(known, f"elicitation is declared with {sorted(modes)} only")


# Elicitation


@client_check(
    "client-takes-no-mode-for-a-form",
    "elicitation-8",
    meaning="An elicitation without a mode is a form.",
    revisions=having("elicitation_url"),
)
async def client_takes_no_mode_for_a_form(probe: ClientProbe) -> None:
    await _needs_form(probe)
    reaction = await asked(probe, "elicitation/create", dict(ELICIT))
    action = None if reaction.result is None else reaction.result.get("action")
    known = action in ("accept", "decline", "cancel")
    expect(known, f"an elicitation without a mode is answered with {reaction.result}")


PICKY: Final[JSONObject] = {
    "type": "object",
    "properties": {
        "age": {"type": "integer", "minimum": 18, "maximum": 99},
        "color": {"type": "string", "enum": ["red", "green"]},
        "mail": {"type": "string", "format": "email", "minLength": 3},
        "sure": {"type": "boolean"},
    },
    "required": ["age", "color"],
}


@client_check(
    "client-form-values-fit-the-form",
    "elicitation-43",
    meaning="The values of an accepted form fit its schema.",
    revisions=having("elicitation"),
)
async def client_form_values_fit_the_form(probe: ClientProbe) -> None:
    await _needs_form(probe)
    params = {**elicit_params(probe.revision), "requestedSchema": PICKY}
    reaction = await asked(probe, "elicitation/create", params)
    require(reaction.result is not None, "the client refuses the form")
    assert reaction.result is not None
    require(reaction.result.get("action") == "accept", "the client does not accept the form")
    content: JSON = reaction.result.get("content")
    faults = compile_schema(PICKY).violations(content)
    expect(not faults, f"the form's values {content} do not fit its schema: {faults[:1]}")


@client_check(
    "client-refuses-undeclared-modes",
    "elicitation-57",
    meaning="An elicitation in a mode that the client did not declare gets an error, -32602.",
    revisions=("2025-11-25",),
)
async def client_refuses_undeclared_modes(probe: ClientProbe) -> None:
    modes = await _needs(probe, "elicitation")
    params: JSONObject = {"message": "Listen!", "mode": "harness"}
    if "url" not in modes:
        params |= {"mode": "url", "url": "https://example.org/", "elicitationId": "e1"}
    reaction = await asked(probe, "elicitation/create", params)
    expect(reaction.result is None, f"the mode {params['mode']!r} is answered: {reaction.result}")
    # A mode that nobody knows may be refused by whoever reads the request, with a code of its own.
    good = reaction.code == -32602 or "url" in modes
    expect(good, f"the mode {params['mode']!r} gets error {reaction.code}")


@client_check(
    "client-does-not-open-urls-unasked",
    "elicitation-33",
    "elicitation-34",
    meaning="The URL of an elicitation is not visited before the user has agreed.",
    revisions=having("elicitation_url"),
    transports=("stdio", "http"),
)
async def client_does_not_open_urls_unasked(probe: ClientProbe) -> None:
    modes = await _needs(probe, "elicitation")
    require("url" in modes, "the client does not declare the mode url")
    visits: list[HTTPRequest] = []

    async def handle(request: HTTPRequest) -> None:
        visits.append(request)
        await request.reply.whole(200, b"Hello", "text/plain")

    async with open_http(handle, lambda: 0) as origin:
        params: JSONObject = {
            "mode": "url",
            "message": "Please visit this page.",
            "url": f"{origin}/page",
        }
        if probe.revision not in MODERN:
            params["elicitationId"] = "page"
        reaction = await asked(probe, "elicitation/create", params)
        answered = trio.current_time()
        agreed = reaction.result is not None and reaction.result.get("action") == "accept"
        early = [visit for visit in visits if visit.at < answered - MOMENT]
        bad = visits if not agreed else early
        expect(not bad, f"the client visited {bad[0].target if bad else ''} unasked")


@client_check(
    "client-ignores-unknown-completions-of-elicitations",
    "elicitation-51",
    meaning="That an unknown elicitation is complete is ignored.",
    revisions=having("elicitation_id"),
)
async def client_ignores_unknown_completions_of_elicitations(probe: ClientProbe) -> None:
    async with probe.play_held() as (scene, call):
        for id in ("unknown", "unknown"):
            await call.notify("notifications/elicitation/complete", {"elicitationId": id})
        await call.answer()
        await goes_on(scene, "after the completion of an elicitation that nobody asked for")


# Roots


@client_check(
    "client-roots-are-files",
    "roots-3",
    "roots-4",
    meaning="Each root has a valid file:// URI without steps upwards.",
)
async def client_roots_are_files(probe: ClientProbe) -> None:
    await _needs(probe, "roots")
    reaction = await asked(probe, "roots/list", {})
    require(reaction.result is not None, "the client refuses to list its roots")
    assert reaction.result is not None
    roots = reaction.result.get("roots")
    expect(isinstance(roots, list), f"the roots are {roots!r}")
    assert isinstance(roots, list)
    for root in roots:
        uri = root.get("uri") if isinstance(root, dict) else None
        expect(isinstance(uri, str) and uri.startswith("file://"), f"a root has the URI {uri!r}")
        assert isinstance(uri, str)
        expect(".." not in uri.split("/"), f"a root leads upwards: {uri!r}", "roots-4")


@client_check(
    "client-tells-when-its-roots-change",
    "roots-7",
    meaning="Roots that are others than before were announced by a notification.",
    revisions=LEGACY,
)
async def client_tells_when_its_roots_change(probe: ClientProbe) -> None:
    offered = await _needs(probe, "roots")
    require(offered.get("listChanged"), "the client does not declare roots.listChanged")
    async with probe.play_held() as (scene, call):
        before = (await call.ask("roots/list")).result
        await scene.pause(MOMENT)
        after = (await call.ask("roots/list")).result
        told = scene.messages("notifications/roots/list_changed")
        await call.answer()
        expect(before == after or told, "the roots changed, and the server was not told")


@client_check(
    "client-refuses-roots-it-does-not-have",
    "roots-8",
    meaning="A client without roots refuses to list them, with -32601.",
    revisions=LEGACY,
)
async def client_refuses_roots_it_does_not_have(probe: ClientProbe) -> None:
    require("roots" not in await declared(probe), "the client declares roots")
    reaction = await asked(probe, "roots/list", {})
    expect(reaction.code == -32601, f"roots/list gets {reaction.result or reaction.code}")


# Sampling


TOOL: Final[JSONObject] = {
    "name": "weather",
    "description": "Tells the weather.",
    "inputSchema": {"type": "object", "properties": {}},
}


def _blocks(result: JSONObject) -> list[JSONObject]:
    content = result.get("content")
    blocks = content if isinstance(content, list) else [content]
    return [block for block in blocks if isinstance(block, dict)]


@client_check(
    "client-declares-tools-in-sampling",
    "sampling-3",
    meaning="Sampling with tools is refused unless the client declares it.",
    revisions=having("sampling_tools"),
)
async def client_declares_tools_in_sampling(probe: ClientProbe) -> None:
    offered = await _needs(probe, "sampling")
    reaction = await asked(probe, "sampling/createMessage", {**SAMPLE, "tools": [TOOL]})
    taken = reaction.result is not None and "tools" not in offered
    expect(not taken, "sampling with tools is answered, and sampling.tools is not declared")


@client_check(
    "client-obeys-the-tool-choice",
    "sampling-9",
    "sampling-10",
    meaning="The model uses a tool when it has to, and none when it must not.",
    revisions=having("sampling_tools"),
)
async def client_obeys_the_tool_choice(probe: ClientProbe) -> None:
    offered = await _needs(probe, "sampling")
    require("tools" in offered, "the client does not declare sampling.tools")
    for mode, wanted in (("required", True), ("none", False)):
        params = {**SAMPLE, "tools": [TOOL], "toolChoice": {"mode": mode}}
        result = (await asked(probe, "sampling/createMessage", params)).result
        require(result is not None, "the client refuses to sample with tools")
        assert result is not None
        used = any(block.get("type") == "tool_use" for block in _blocks(result))
        requirement = "sampling-9" if wanted else "sampling-10"
        expect(used == wanted, f"toolChoice {mode!r} gets {result.get('content')}", requirement)


@client_check(
    "client-sampled-messages-are-whole",
    "sampling-11",
    "sampling-13",
    meaning="A sampled message has a role and content, no longer than was asked for.",
    revisions=MODERN,
)
async def client_sampled_messages_are_whole(probe: ClientProbe) -> None:
    await _needs(probe, "sampling")
    result = (await asked(probe, "sampling/createMessage", {**SAMPLE, "maxTokens": 5})).result
    require(result is not None, "the client refuses to sample")
    assert result is not None
    role = result.get("role")
    expect(role in ("user", "assistant"), f"a sampled message has the role {role!r}")
    blocks = _blocks(result)
    good = blocks and all(isinstance(block.get("type"), str) for block in blocks)
    expect(good, f"a sampled message has the content {result.get('content')!r}")
    words = sum(len(str(block.get("text", "")).split()) for block in blocks)
    expect(words <= 5, f"5 tokens were asked for, and {words} words came", "sampling-13")


@client_check(
    "client-refuses-malformed-messages",
    "sampling-14",
    "sampling-21",
    meaning="Messages without legible content are not given to the model.",
)
async def client_refuses_malformed_messages(probe: ClientProbe) -> None:
    await _needs(probe, "sampling")
    messages: list[JSON] = [{"role": "nobody", "content": {"type": "harness"}}]
    reaction = await asked(probe, "sampling/createMessage", {**SAMPLE, "messages": messages})
    expect(reaction.result is None, f"a message without legible content gets {reaction.result}")


@client_check(
    "client-stops-answering-when-cancelled",
    "cancellation-20",
    meaning="A question that is cancelled gets no answer any more.",
    revisions=LEGACY,
)
async def client_stops_answering_when_cancelled(probe: ClientProbe) -> None:
    question = (await _question(probe))["question"]
    async with probe.play_held() as (scene, call):
        id = scene.next_id()
        message = {"jsonrpc": "2.0", "id": id, **question}
        await call.send(message)
        await call.notify("notifications/cancelled", {"requestId": id})
        # What comes before the answer to a later ping may have crossed with the cancellation.
        await call.ask("ping")
        await scene.pause(MOMENT)
        require(not scene.answers_to(id), "the client answers before it can be cancelled")
        await scene.pause(SLOW)
        expect(not scene.answers_to(id), f"{question['method']} was cancelled, and then answered")
        await call.answer()


# Requests that are made again


async def repeated(probe: ClientProbe, result: JSONObject) -> tuple[Call, Call]:
    """A request whose result asks for something, and the same when it is made again."""
    held = await _repeatable(probe)
    async with probe.play({held: [HOLD, usual]}) as scene:
        call = await scene.call(held)
        await call.result(result)
        again = await scene.call(held, 2)
        await scene.pause(MOMENT)
    require(_same_request(call, again), "the client does not make the request again")
    return call, again


def _same_request(one: Call, other: Call) -> bool:
    keys = ("name", "uri", "arguments")
    return all(one.params.get(key) == other.params.get(key) for key in keys)


async def _question(probe: ClientProbe) -> JSONObject:
    """A question that the client can answer.

    Raises:
        NotApplicable: It declares nothing that can be asked.
    """
    offered = await declared(probe)
    for method, capability in KINDS.items():
        if capability in offered:
            params = _params_for(method, probe.revision)
            return {"question": {"method": method, "params": params}}
    raise NotApplicable("the client declares nothing that it could be asked")


@client_check(
    "client-answers-before-it-repeats",
    "mrtr-15",
    meaning="The repeated request has an answer to each question.",
    revisions=MODERN,
)
async def client_answers_before_it_repeats(probe: ClientProbe) -> None:
    question = await _question(probe)
    requests = {"one": question["question"], "two": question["question"]}
    _, again = await repeated(probe, _input(requests))
    answers = again.params.get("inputResponses")
    expect(isinstance(answers, dict), f"the request is repeated with inputResponses {answers!r}")
    assert isinstance(answers, dict)
    for key in requests:
        expect(isinstance(answers.get(key), dict), f"the question {key!r} has no answer")


@client_check(
    "client-repeats-under-a-new-id",
    "mrtr-19",
    "tools-6",
    meaning="The repeated request has an id of its own.",
    revisions=MODERN,
)
async def client_repeats_under_a_new_id(probe: ClientProbe) -> None:
    call, again = await repeated(probe, _input(await _question(probe)))
    same = type(call.id) is type(again.id) and call.id == again.id
    expect(not same, f"the request is repeated under the same id {call.id!r}")


@client_check(
    "client-returns-the-state-unchanged",
    "mrtr-16",
    "mrtr-3",
    "mrtr-17",
    meaning="The `requestState` comes back exactly as it was.",
    revisions=MODERN,
)
async def client_returns_the_state_unchanged(probe: ClientProbe) -> None:
    question = await _question(probe)
    for state in (STATE, "", '{"a": 1}', "e30="):
        _, again = await repeated(probe, _input(question, state))
        came = again.params.get("requestState")
        expect(came == state, f"the requestState {state!r} came back as {came!r}")


@client_check(
    "client-invents-no-state",
    "mrtr-18",
    meaning="Where there was no `requestState`, none comes back.",
    revisions=MODERN,
)
async def client_invents_no_state(probe: ClientProbe) -> None:
    _, again = await repeated(probe, _input(await _question(probe), None))
    came = again.params.get("requestState")
    expect("requestState" not in again.params, f"there was no requestState, and {came!r} came back")


@client_check(
    "client-keeps-requests-apart",
    "mrtr-20",
    meaning="Answers and states go with the request that they are for, and with no other.",
    revisions=MODERN,
)
async def client_keeps_requests_apart(probe: ClientProbe) -> None:
    scene = await probe.recording()
    for call in scene.calls:
        extra = [key for key in ("inputResponses", "requestState") if key in call.params]
        before = scene.calls[: scene.calls.index(call)]
        same = [one for one in before if one.method == call.method and _same_request(one, call)]
        expect(same or not extra, f"{call.method} {call.name} has {extra} and was not asked")
    asking = any("inputResponses" in call.params for call in scene.calls)
    require(asking, "the client makes no request again")
