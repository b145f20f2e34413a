"""Asking the client: checks of input_required, elicitation, sampling and roots.

What a tool asks is seen when it is called. Tools that ask nothing, and servers without tools that
may be called, leave nothing to check here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from mcp_trio.harness.calling import (
    ASKED,
    Asked,
    Called,
    Tried,
    accept,
    answered,
    answering,
    asking_tools,
    asks,
    converse,
    questions,
    retry,
    sent_questions,
    tried_tools,
)
from mcp_trio.harness.checks import LEGACY, MODERN, check, having
from mcp_trio.harness.checks.listing import LISTS
from mcp_trio.harness.checks.tools import refused
from mcp_trio.harness.fields import is_uri, misfit
from mcp_trio.harness.model import Failed
from mcp_trio.harness.probe import ServerProbe, expect, require
from mcp_trio.harness.samples import NoSample, sample
from mcp_trio.harness.session import Answerer, Reply, Session
from mcp_trio.protocol.errors import MISSING_CAPABILITY, URL_ELICITATION_REQUIRED
from mcp_trio.protocol.json_schema import InvalidSchema, compile_schema
from mcp_trio.protocol.revisions import supports
from mcp_trio.wire.jsonrpc import JSON, JSONObject

ELICIT: Final = "elicitation/create"
SAMPLE: Final = "sampling/createMessage"
ROOTS: Final = "roots/list"

ACCEPTING: Final = {ELICIT: accept}
MODES: Final = having("elicitation_url")
"""The revisions in which elicitations have a mode."""
URL_ERROR: Final = having("url_elicitation_error")


async def calls(probe: ServerProbe, session: Session, *methods: str) -> list[tuple[Tried, Called]]:
    """Call the tools that ask, by one of `methods` if any are named, and accept what they ask."""
    tools = await asking_tools(probe, *methods)
    with answered(session, ACCEPTING):
        return [(tried, await converse(session, "tools/call", tried.call)) for tried in tools]


async def asked_for(probe: ServerProbe, method: str) -> list[tuple[str, JSONObject]]:
    """The parameters of what tools ask by a method, each with the tool's name."""
    session = await probe.session()
    return [
        (tried.name, asked.params)
        for tried, called in await calls(probe, session, method)
        for asked in called.asked
        if asked.method == method
    ]


# Results that ask -------------------------------------------------------------------------------


@check(
    "input-required-says-what-is-required",
    "mrtr-11",
    "mrtr-6",
    meaning="An input_required result has requests for input that a client can answer, or a state.",
    revisions=MODERN,
)
async def input_required_says_what_is_required(probe: ServerProbe) -> None:
    from mcp_trio.protocol.types.mrtr import InputRequiredResult

    for tried, called in await calls(probe, await probe.session()):
        for reply in filter(asks, called.rounds):
            result = reply.result or {}
            expect(
                "inputRequests" in result or "requestState" in result,
                f"{tried.name!r} requires input, and has neither requests nor a state: "
                f"{reply.brief()}",
                "mrtr-11",
            )
            unknown = [asked.method for asked in questions(reply) if asked.method not in ASKED]
            expect(not unknown, f"{tried.name!r} asks for {unknown}", "mrtr-6")
            if wrong := misfit(result, InputRequiredResult):
                raise Failed(
                    f"what {tried.name!r} asks for does not fit: {wrong}", requirement="mrtr-6"
                )


@check(
    "keys-of-questions-are-unique",
    "mrtr-5",
    meaning="No key stands twice in the inputRequests of a result.",
    revisions=MODERN,
)
async def keys_of_questions_are_unique(probe: ServerProbe) -> None:
    for tried, called in await calls(probe, await probe.session()):
        for reply in filter(asks, called.rounds):
            twice = doubled_keys(reply.received.raw)
            expect(not twice, f"{tried.name!r} asks twice under {', '.join(twice)}")


def doubled_keys(raw: bytes) -> list[str]:
    """The keys that stand more than once in `inputRequests` of a frame."""
    found: list[str] = []

    def keep(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        for key, value in pairs:
            if key == "inputRequests" and isinstance(value, _Pairs):
                found.extend(
                    sorted({k for k in value.keys_in_order if value.keys_in_order.count(k) > 1})
                )
        return _Pairs(pairs)

    json.loads(raw, object_pairs_hook=keep)
    return found


class _Pairs(dict[str, Any]):
    """An object that remembers the keys that it was written with."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.keys_in_order = [key for key, _ in pairs]


@check(
    "only-some-requests-may-ask",
    "mrtr-4",
    meaning="Nothing but tools/call, prompts/get and resources/read is answered by input_required.",
    revisions=MODERN,
)
async def only_some_requests_may_ask(probe: ServerProbe) -> None:
    session = await probe.session()
    reference = {"type": "ref/prompt", "name": "harness"}
    wanted: list[tuple[str, JSONObject]] = [
        ("server/discover", {}),
        *((name, {}) for name in LISTS),
    ]
    argument = {"name": "harness", "value": ""}
    wanted.append(("completion/complete", {"ref": reference, "argument": argument}))
    for method, params in wanted:
        reply = await session.request(method, params)
        expect(not asks(reply), f"{method} got {reply.brief()}")


@check(
    "modern-servers-send-no-requests",
    "mrtr-1",
    "base-59",
    meaning="A tool that needs input asks for it in its result, and by no request of the server.",
    revisions=MODERN,
)
async def modern_servers_send_no_requests(probe: ServerProbe) -> None:
    session = await probe.session()
    for tried, _ in await calls(probe, session):
        sent = [r.method for r in session.received if r.method and "id" in r.object]
        expect(not sent, f"{tried.name!r} made the server send {', '.join(map(str, sent))}")


# Capabilities -----------------------------------------------------------------------------------


async def undeclared(
    probe: ServerProbe, capabilities: JSONObject
) -> list[tuple[Tried, Reply, list[Asked]]]:
    """Call the tools that ask as a client of other capabilities; what they say and ask then."""
    tools, found = await asking_tools(probe), []
    async with probe.open_session(capabilities=capabilities) as session:
        for tried in tools:
            since = len(session.received)
            reply = await session.request("tools/call", tried.call)
            found.append((tried, reply, [*sent_questions(session, since), *questions(reply)]))
    return found


@check(
    "questions-need-the-capability",
    "lifecycle-14",
    "lifecycle-18",
    "roots-5",
    meaning="A client that declared no capabilities is asked nothing.",
    revisions=LEGACY,
)
async def questions_need_the_capability(probe: ServerProbe) -> None:
    for tried, _, asked in await undeclared(probe, {}):
        methods = ", ".join(question.method for question in asked)
        expect(not asked, f"{tried.name!r} sends {methods} to a client without capabilities")


@check(
    "input-needs-the-capability",
    "mrtr-12",
    "mrtr-13",
    "base-48",
    "roots-5",
    meaning="A client that declares no capabilities is asked for no input.",
    revisions=MODERN,
)
async def input_needs_the_capability(probe: ServerProbe) -> None:
    for tried, _, asked in await undeclared(probe, {}):
        methods = ", ".join(question.method for question in asked)
        broken = "mrtr-13" if ELICIT in methods else "mrtr-12"
        expect(
            not asked, f"{tried.name!r} asks a client without capabilities for {methods}", broken
        )


@check(
    "missing-capability-is-named",
    "base-49",
    meaning="A call that fails for want of a capability gets -32021, which names the capability.",
    revisions=MODERN,
)
async def missing_capability_is_named(probe: ServerProbe) -> None:
    judged = False
    for tried, reply, asked in await undeclared(probe, {}):
        if asked or reply.error is None:
            continue
        judged = True
        expect(
            reply.code == MISSING_CAPABILITY,
            f"{tried.name!r} got {reply.brief()} from a client without capabilities",
        )
        data = reply.error.get("data")
        named = data.get("requiredCapabilities") if isinstance(data, dict) else None
        expect(isinstance(named, dict) and named, f"-32021 names no capabilities: {data!r:.100}")
    require(judged, "no tool that asks the client fails without the capability")


@check(
    "elicitations-need-the-mode",
    "elicitation-6",
    meaning="A client that supports one mode of elicitation is not asked in the other.",
    revisions=MODES,
)
async def elicitations_need_the_mode(probe: ServerProbe) -> None:
    other: dict[str, JSONObject] = {"form": {"url": {}}, "url": {"form": {}}}
    for tools_mode, offered in other.items():
        seen = [
            mode_of(asked.params)
            for tried in await asking_tools(probe, ELICIT)
            for asked in tried.called.asked
            if asked.method == ELICIT
        ]
        if tools_mode not in seen:
            continue
        for tried, _, asked in await undeclared(probe, {"elicitation": offered}):
            wrong = [q for q in asked if q.method == ELICIT and mode_of(q.params) == tools_mode]
            expect(not wrong, f"{tried.name!r} asks by {tools_mode}, and the client has {offered}")


def mode_of(params: JSONObject) -> str:
    return str(params.get("mode", "form"))


# Elicitation ------------------------------------------------------------------------------------


@check(
    "elicitations-are-well-formed",
    "elicitation-9",
    "elicitation-7",
    "elicitation-11",
    "elicitation-12",
    meaning="An elicitation has a message, and a form or a valid URL; with an id in 2025-11-25.",
    revisions=MODES,
)
async def elicitations_are_well_formed(probe: ServerProbe) -> None:
    for name, params in await asked_for(probe, ELICIT):
        for requirement, fault in elicitation_faults(params, probe.revision):
            raise Failed(f"what {name!r} asks: {fault}", requirement=requirement)


def elicitation_faults(params: JSONObject, revision: str) -> Iterator[tuple[str, str]]:
    """What is wrong with an elicitation, each with the requirement that says so."""
    mode = params.get("mode", "form")
    if not isinstance(params.get("message"), str):
        yield "elicitation-7", f"the message is {params.get('message')!r}"
    if mode == "form":
        if not isinstance(params.get("requestedSchema"), dict):
            yield "elicitation-9", f"requestedSchema is {params.get('requestedSchema')!r:.60}"
    elif mode == "url":
        if not is_uri(params.get("url")):
            yield "elicitation-12", f"{params.get('url')!r} is no valid URL"
        named = isinstance(params.get("elicitationId"), str)
        if supports("elicitation_id", revision) and not named:
            yield "elicitation-11", "the elicitation by URL has no elicitationId"
    else:
        yield "elicitation-7", f"the mode is {mode!r}"


@check(
    "forms-are-flat",
    meaning="A form's schema is an object of strings, numbers, booleans and choices, no deeper.",
    revisions=having("elicitation"),
)
async def forms_are_flat(probe: ServerProbe) -> None:
    judged = False
    for name, params in await asked_for(probe, ELICIT):
        if mode_of(params) == "form":
            judged = True
            faults = list(form_faults(params.get("requestedSchema"), probe.revision))
            expect(not faults, f"the form of {name!r}: {'; '.join(faults)}")
    require(judged, "no tool that may be called asks by a form")


def form_faults(schema: JSON, revision: str) -> Iterator[str]:
    """What is wrong with the schema of a form."""
    from mcp_trio.protocol.types.elicitation import PrimitiveSchemaDefinition

    if not isinstance(schema, dict) or schema.get("type") != "object":
        yield f"it is no schema of an object: {schema!r:.60}"
        return
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        yield "it has no properties"
        return
    for key, part in properties.items():
        if wrong := misfit(part, PrimitiveSchemaDefinition):
            yield f"{key!r} is no field of a form: {wrong}"
        newer = isinstance(part, dict) and ("oneOf" in part or part.get("type") == "array")
        if newer and not supports("elicitation_enums", revision):
            yield f"{key!r} is a choice as {revision} has none"


def forms(asked: Iterable[tuple[str, JSONObject]]) -> list[tuple[str, str, JSONObject]]:
    """The fields of all forms: the tool, the name of the field, and its schema."""
    return [
        (name, key, part)
        for name, params in asked
        for key, part in ((params.get("requestedSchema") or {}).get("properties") or {}).items()
        if mode_of(params) == "form" and isinstance(part, dict)
    ]


SECRET: Final = re.compile(
    r"pass[ _-]?(?:word|phrase|code)|api[ _-]?key|secret|(?:access|bearer|auth)[ _-]?token|"
    r"private[ _-]?key|credential|credit[ _-]?card|card[ _-]?number|\bcvv\b|\bcvc\b|\bpin\b",
    re.IGNORECASE,
)


@check(
    "forms-ask-for-no-secrets",
    "elicitation-1",
    "elicitation-2",
    "elicitation-42",
    meaning="No field of a form is named as a password, a key, a token or a payment card is.",
    revisions=having("elicitation"),
)
async def forms_ask_for_no_secrets(probe: ServerProbe) -> None:
    fields = forms(await asked_for(probe, ELICIT))
    require(fields, "no tool that may be called asks by a form")
    for name, key, part in fields:
        for text in (key, str(part.get("title", ""))):
            plain = re.sub(r"([a-z])([A-Z])", r"\1_\2", text)
            expect(not SECRET.search(plain), f"the form of {name!r} has a field {text!r}")


@check(
    "forms-have-no-links",
    "elicitation-30",
    meaning="No text of a form has a URL to click on.",
    revisions=MODES,
)
async def forms_have_no_links(probe: ServerProbe) -> None:
    fields = forms(await asked_for(probe, ELICIT))
    require(fields, "no tool that may be called asks by a form")
    for name, key, part in fields:
        text = f"{part.get('title', '')} {part.get('description', '')}"
        expect(
            not re.search(r"https?://", text), f"{key!r} in the form of {name!r} has a link: {text}"
        )


@check(
    "elicitations-lead-to-https",
    "elicitation-31",
    meaning="The URL of an elicitation is an https URL, or one of this machine.",
    revisions=MODES,
)
async def elicitations_lead_to_https(probe: ServerProbe) -> None:
    asked = [(n, p) for n, p in await asked_for(probe, ELICIT) if mode_of(p) == "url"]
    require(asked, "no tool that may be called asks by a URL")
    for name, params in asked:
        url = str(params.get("url"))
        local = re.match(r"http://(?:localhost|127\.|\[::1\])", url)
        expect(url.startswith("https://") or local, f"{name!r} leads the user to {url}")


@check(
    "completed-elicitations-are-known",
    "elicitation-50",
    "elicitation-49",
    meaning="notifications/elicitation/complete names an elicitation that this client was sent.",
    revisions=having("elicitation_id"),
)
async def completed_elicitations_are_known(probe: ServerProbe) -> None:
    session = await probe.session()
    known = set()
    for _, called in await calls(probe, session, ELICIT):
        known |= {str(asked.params.get("elicitationId")) for asked in called.asked}
    await session.fence()
    completed = [
        received.object.get("params") or {}
        for received in session.received
        if received.method == "notifications/elicitation/complete"
    ]
    require(completed, "the server does not say that elicitations are complete")
    for params in completed:
        id = params.get("elicitationId")
        expect(isinstance(id, str), f"a completed elicitation is called {id!r}", "elicitation-50")
        expect(
            id in known, f"an elicitation is complete that was not sent: {id!r}", "elicitation-49"
        )


@check(
    "required-elicitations-are-listed",
    "elicitation-53",
    "elicitation-54",
    "elicitation-52",
    "elicitation-56",
    meaning="Error -32042 lists elicitations by URL, each with its id.",
    revisions=URL_ERROR,
)
async def required_elicitations_are_listed(probe: ServerProbe) -> None:
    session = await probe.session()
    tools = [t for t in await tried_tools(probe) if t.called.reply.code == URL_ELICITATION_REQUIRED]
    require(tools, "no tool that may be called fails with -32042")
    for tried in tools:
        called = await converse(session, "tools/call", tried.call)
        data = (called.reply.error or {}).get("data")
        listed = data.get("elicitations") if isinstance(data, dict) else None
        expect(
            listed and isinstance(listed, list),
            f"-32042 lists nothing: {data!r:.80}",
            "elicitation-53",
        )
        for item in listed or ():
            by_url = isinstance(item, dict) and item.get("mode") == "url"
            named = by_url and isinstance(item.get("elicitationId"), str)
            expect(named, f"-32042 lists {item!r:.100}", "elicitation-54")


# Answers that the server may not count on -------------------------------------------------------


DECLINED: Final[tuple[tuple[str, Answerer], ...]] = (
    ("declines", answering({"action": "decline"})),
    ("cancels", answering({"action": "cancel"})),
)
ERRORS: Final[Answerer] = lambda _: {"error": {"code": -32603, "message": "the harness fails"}}  # noqa: E731


async def survives(probe: ServerProbe, method: str, words: str, answerer: Answerer) -> None:
    """See to it that calls of tools that ask are answered, however the client answers."""
    session = await probe.session()
    for tried in await asking_tools(probe, method):
        with answered(session, {method: answerer}):
            try:
                await converse(session, "tools/call", tried.call)
                await session.fence()
            except Failed as exc:
                raise Failed(f"{tried.name!r} asks, the client {words}, and then: {exc}") from None


@check(
    "declining-is-coped-with",
    "elicitation-64",
    "elicitation-22",
    meaning="A tool whose elicitation is declined or cancelled gives an answer all the same.",
    revisions=MODERN,
)
async def declining_is_coped_with(probe: ServerProbe) -> None:
    for words, answerer in DECLINED:
        await survives(probe, ELICIT, words, answerer)


@check(
    "refused-questions-are-coped-with",
    meaning="A tool gives an answer all the same if the client declines, or answers with an error.",
    revisions=LEGACY,
)
async def refused_questions_are_coped_with(probe: ServerProbe) -> None:
    methods = {m for tried in await asking_tools(probe) for m in tried.asks}
    for method in sorted(methods):
        for words, answerer in (*(DECLINED if method == ELICIT else ()), ("fails", ERRORS)):
            await survives(probe, method, words, answerer)


@check(
    "missing-roots-are-coped-with",
    "roots-10",
    meaning="A tool that asks for roots gives an answer all the same if there are none.",
)
async def missing_roots_are_coped_with(probe: ServerProbe) -> None:
    await survives(probe, ROOTS, "has no roots", answering({"roots": []}))


@check(
    "content-of-forms-is-checked",
    "elicitation-44",
    meaning="A tool does not go on with the content of a form that its schema refuses.",
    revisions=having("elicitation"),
)
async def content_of_forms_is_checked(probe: ServerProbe) -> None:
    session = await probe.session()
    judged = False
    for tried in await asking_tools(probe, ELICIT):
        first = next(a for a in tried.called.asked if a.method == ELICIT)
        for key, content in misfilled(first.params.get("requestedSchema")):
            judged = True
            answer = answering({"action": "accept", "content": content})
            with answered(session, {ELICIT: answer}):
                called = await converse(session, "tools/call", tried.call)
            text = json.dumps((called.reply.result or {}).get("content"))
            expect(
                asks(called.reply) or refused(called.reply) or MARK not in text,
                f"{tried.name!r} went on with {content[key]!r} for {key!r}: {called.reply.brief()}",
            )
    require(judged, "no form has a field that refuses anything")


MARK: Final = "harness-was-here"


def misfilled(schema: JSON) -> Iterator[tuple[str, JSONObject]]:
    """Contents that a form refuses, each for one field, with a word that is found again."""
    try:
        judge = compile_schema(schema, formats={})
        good = sample(schema)
    except (InvalidSchema, NoSample):
        return
    for key in schema.get("properties") or ():
        wrong: tuple[JSON, ...] = (MARK, [MARK])
        for value in wrong:
            content = {**good, key: value}
            if not judge.is_valid(content):
                yield key, content
                break


# Answers and states of the modern era -----------------------------------------------------------


async def first_rounds(
    probe: ServerProbe, session: Session, *, state: bool = False
) -> list[tuple[Tried, Reply, JSONObject]]:
    """Tools that ask, what they ask first, and the parameters to send the call again with."""
    found = []
    with answered(session, ACCEPTING):
        for tried in await asking_tools(probe):
            reply = await session.request("tools/call", tried.call)
            has_state = isinstance((reply.result or {}).get("requestState"), str)
            if asks(reply) and (has_state or not state):
                found.append((tried, reply, retry(session, tried.call, reply)))
    require(found, f"no tool that may be called asks{' with a state' if state else ''}")
    return found


@check(
    "abandoned-questions-do-no-harm",
    "mrtr-14",
    meaning="A client that leaves a question unanswered can make the call again, and others.",
    revisions=MODERN,
)
async def abandoned_questions_do_no_harm(probe: ServerProbe) -> None:
    session = await probe.session()
    for tried, _, _ in await first_rounds(probe, session):
        await session.fence()
        again = await session.request("tools/call", tried.call)
        expect(asks(again), f"{tried.name!r} was called anew, and got {again.brief()}")


@check(
    "missing-input-is-asked-for-again",
    "mrtr-24",
    meaning="A retry without the input that was asked for is asked for it again.",
    revisions=MODERN,
)
async def missing_input_is_asked_for_again(probe: ServerProbe) -> None:
    session = await probe.session()
    for tried, reply, params in await first_rounds(probe, session):
        if questions(reply):
            again = await session.request("tools/call", {**params, "inputResponses": {}})
            expect(
                again.error is None,
                f"a retry of {tried.name!r} without the input got {again.brief()}",
            )


@check(
    "unknown-input-is-ignored",
    "mrtr-23",
    meaning="Input under a key that nobody asked for changes nothing.",
    revisions=MODERN,
)
async def unknown_input_is_ignored(probe: ServerProbe) -> None:
    session = await probe.session()
    for tried, _, params in await first_rounds(probe, session):
        extra = {**params["inputResponses"], "harness-unknown": {"action": "decline"}}
        plain = await session.request("tools/call", params)
        again = await session.request("tools/call", {**params, "inputResponses": extra})
        expect(
            plain.error is not None or again.error is None,
            f"a retry of {tried.name!r} with input beyond what was asked for got {again.brief()}",
        )


@check(
    "malformed-input-is-refused",
    "mrtr-21",
    "mrtr-22",
    meaning="A retry whose inputResponses are no object, or hold what is no answer, gets an error.",
    revisions=MODERN,
)
async def malformed_input_is_refused(probe: ServerProbe) -> None:
    session = await probe.session()
    for tried, _, params in await first_rounds(probe, session):
        whole: tuple[JSON, ...] = (7, "harness", [])
        wrong = [
            *whole,
            *({**params["inputResponses"], key: 7} for key in params["inputResponses"]),
        ]
        for responses in wrong:
            again = await session.request("tools/call", {**params, "inputResponses": responses})
            expect(
                asks(again) or refused(again),
                f"a retry of {tried.name!r} with {responses!r:.60} got {again.brief()}",
            )


@check(
    "tampered-state-is-refused",
    "mrtr-8",
    "mrtr-7",
    "mrtr-25",
    meaning="A retry with a changed or made-up requestState does not succeed.",
    revisions=MODERN,
)
async def tampered_state_is_refused(probe: ServerProbe) -> None:
    session = await probe.session()
    for tried, _, params in await first_rounds(probe, session, state=True):
        for words, state in tampered(params["requestState"]):
            again = await session.request("tools/call", {**params, "requestState": state})
            expect(
                asks(again) or refused(again),
                f"a retry of {tried.name!r} with {words} requestState got {again.brief()}",
            )


def tampered(state: str) -> Iterator[tuple[str, str]]:
    """A state with changes that no integrity check lets through."""
    for words, at in (("another beginning of the", 0), ("a changed", len(state) // 2)):
        if state:
            other = "B" if state[at] == "A" else "A"
            yield words, f"{state[:at]}{other}{state[at + 1 :]}"
    yield "half of the", state[: len(state) // 2]
    yield "a made-up", "harness"


@check(
    "state-belongs-to-its-request",
    "mrtr-9",
    meaning="The requestState of one call does not let another call succeed.",
    revisions=MODERN,
)
async def state_belongs_to_its_request(probe: ServerProbe) -> None:
    session = await probe.session()
    found = [(tried, params) for tried, _, params in await first_rounds(probe, session, state=True)]
    require(len(found) > 1, "there are no two tools that ask with a state")
    for (one, given), (other, _) in zip(found, [*found[1:], found[0]], strict=True):
        mixed = {**given, **other.call}
        reply = await session.request("tools/call", mixed)
        expect(
            asks(reply) or refused(reply),
            f"the state of {one.name!r} let {other.name!r} succeed: {reply.brief()}",
        )


# Sampling ---------------------------------------------------------------------------------------


@check(
    "sampling-messages-are-well-formed",
    "sampling-11",
    "sampling-14",
    meaning="A sampling request has maxTokens, and messages with a role and content.",
)
async def sampling_messages_are_well_formed(probe: ServerProbe) -> None:
    from mcp_trio.protocol.types.sampling import CreateMessageRequestParams

    for name, params in await asked_for(probe, SAMPLE):
        if wrong := misfit(params, CreateMessageRequestParams):
            raise Failed(f"the sampling request of {name!r} does not fit: {wrong}")
        several = any(isinstance(m["content"], list) for m in params["messages"])
        if several and not supports("sampling_tools", probe.revision):
            raise Failed(f"the sampling request of {name!r} has lists of content")


@check(
    "sampling-tools-need-the-capability",
    "sampling-4",
    "sampling-6",
    meaning="A client without sampling.tools and sampling.context gets no tools and no context.",
    revisions=having("sampling_tools"),
)
async def sampling_tools_need_the_capability(probe: ServerProbe) -> None:
    await asking_tools(probe, SAMPLE)
    for tried, _, asked in await undeclared(
        probe, {"sampling": {}, "elicitation": {}, "roots": {}}
    ):
        for params in (question.params for question in asked if question.method == SAMPLE):
            tools = "tools" in params or "toolChoice" in params
            expect(not tools, f"{tried.name!r} samples with tools, undeclared", "sampling-4")
            context = params.get("includeContext", "none")
            expect(context == "none", f"{tried.name!r} wants the context {context!r}", "sampling-6")


@check(
    "tool-uses-are-followed-by-their-results",
    "sampling-8",
    "sampling-7",
    "sampling-18",
    meaning="In sampling, tool uses are followed by a message with nothing but their results.",
    revisions=having("sampling_tools"),
)
async def tool_uses_are_followed_by_their_results(probe: ServerProbe) -> None:
    session = await probe.session()
    judged = False
    with answered(session, {SAMPLE: use_a_tool}):
        for tried, called in await calls(probe, session, SAMPLE):
            for asked in called.asked:
                if asked.method == SAMPLE:
                    kinds = [kinds_of(message) for message in asked.params.get("messages") or ()]
                    judged = judged or any("tool_use" in of or "tool_result" in of for of in kinds)
                    for requirement, fault in unbalanced(asked.params.get("messages") or []):
                        raise Failed(f"{tried.name!r} samples {fault}", requirement=requirement)
    require(judged, "no tool that may be called lets the model use tools")


def use_a_tool(request: JSONObject) -> JSONObject:
    """Answer a sampling request with tools by using the first, if nothing was used so far."""
    params = request.get("params") or {}
    tools = params.get("tools") or []
    used = any("tool_result" in kinds_of(m) for m in params.get("messages") or ())
    done = {"type": "text", "text": "A reply of the harness."}
    content: JSON = done
    if tools and not used:
        try:
            arguments = sample(tools[0].get("inputSchema") or {})
        except NoSample:
            arguments = {}
        use = {"type": "tool_use", "id": "harness-1", "name": tools[0].get("name")}
        content = [{**use, "input": arguments}, {**use, "id": "harness-2", "input": arguments}]
    reason = "toolUse" if content is not done else "endTurn"
    result = {"role": "assistant", "content": content, "model": "harness", "stopReason": reason}
    return {"result": result}


def blocks_of(message: JSON) -> list[JSONObject]:
    content = message.get("content") if isinstance(message, dict) else None
    return [block for block in (content if isinstance(content, list) else [content]) if block]


def kinds_of(message: JSON) -> set[str]:
    return {str(block.get("type")) for block in blocks_of(message)}


def unbalanced(messages: list[JSON]) -> Iterator[tuple[str, str]]:
    """What is wrong with the uses of tools, and their results, in the messages of a request."""
    for message, after in zip(messages, [*messages[1:], None], strict=True):
        kinds = kinds_of(message)
        if "tool_result" in kinds and kinds != {"tool_result"}:
            yield "sampling-7", f"a message with tool results and {sorted(kinds)}"
        uses = {block.get("id") for block in blocks_of(message) if block.get("type") == "tool_use"}
        if uses:
            results = {block.get("toolUseId") for block in blocks_of(after)}
            if kinds_of(after) != {"tool_result"}:
                yield "sampling-8", "tool uses that no message of results follows"
            elif results != uses:
                yield (
                    "sampling-18",
                    f"results of {sorted(map(str, results))} for {sorted(map(str, uses))}",
                )
