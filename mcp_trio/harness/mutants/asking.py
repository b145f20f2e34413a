"""Asking the client: mutants of servers."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from mcp_trio.harness.checks.asking import MARK
from mcp_trio.harness.mutants import Mutant
from mcp_trio.harness.mutants.changing import (
    Remembering,
    asking,
    fails,
    notices,
    replies,
    replies_to,
    succeeds,
)
from mcp_trio.harness.mutants.frames import Back, Fault, Frame, frame_mutant
from mcp_trio.harness.mutants.workshop import workshop
from mcp_trio.harness.session import capabilities_for
from mcp_trio.protocol.meta import CLIENT_CAPABILITIES, META
from mcp_trio.wire.jsonrpc import JSON, JSONObject

ELICIT: Final = "elicitation/create"
SAMPLE: Final = "sampling/createMessage"


def is_question(answer: JSONObject) -> bool:
    """Whether an answer is `input_required`."""
    return bool(answer.get("result", {}).get("resultType") == "input_required")


# Results that ask


@replies("tools/call")
def requires_nothing(answer: JSONObject) -> None:
    """Requires input, and does not say what."""
    if is_question(answer):
        answer["result"] = {"resultType": "input_required"}


@replies("tools/call")
def asks_for_pings(answer: JSONObject) -> None:
    """Asks for what no client can be asked for."""
    if is_question(answer):
        answer["result"]["inputRequests"]["ping"] = {"method": "ping"}


class KeysTwice(Fault):
    """Asks twice under one key."""

    def sent(self, frame: Frame) -> Iterable[Frame | Back]:
        if isinstance(frame, dict) and is_question(frame):
            requests = frame["result"]["inputRequests"]
            pairs = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in requests.items()] * 2
            text = json.dumps({**frame, "result": {**frame["result"], "inputRequests": "HERE"}})
            yield text.replace('"HERE"', "{" + ", ".join(pairs) + "}").encode()
        else:
            yield frame


@replies("resources/templates/list")
def lists_ask(answer: JSONObject) -> None:
    """Asks for input before it lists anything."""
    answer["result"] = {"resultType": "input_required", "requestState": "x"}


@replies("tools/call")
def asks_by_requests(answer: JSONObject) -> list[JSONObject] | None:
    """Asks by a request of its own, in the modern era too."""
    if not is_question(answer):
        return None
    request = {"jsonrpc": "2.0", "id": "mutant", "method": "roots/list"}
    return [request, answer]


# Capabilities


class AsksEverybody(Fault):
    """Takes every client for one that can do everything."""

    def received(self, frame: Frame) -> Iterable[Frame | Back]:
        params = frame.get("params") if isinstance(frame, dict) else None
        if isinstance(params, dict) and "capabilities" in params:
            params["capabilities"] = capabilities_for(str(params.get("protocolVersion")))
        meta = params.get(META) if isinstance(params, dict) else None
        if isinstance(meta, dict) and CLIENT_CAPABILITIES in meta:
            meta[CLIENT_CAPABILITIES] = capabilities_for("2026-07-28")
        yield frame


@replies("tools/call")
def missing_is_internal(answer: JSONObject) -> JSONObject | None:
    """Takes a capability that is missing for an error of its own."""
    return fails(answer, -32603) if answer.get("error", {}).get("code") == -32021 else None


# Elicitation


@asking(ELICIT)
def no_message(params: JSONObject) -> None:
    """Asks without saying what."""
    params.pop("message", None)


@asking(ELICIT)
def no_form(params: JSONObject) -> None:
    """Shows a form without a schema."""
    params.pop("requestedSchema", None)


@asking(ELICIT)
def bad_url(params: JSONObject) -> None:
    """Sends the user to what is no URL."""
    params["url"] = "to the bank"


@asking(ELICIT)
def no_id(params: JSONObject) -> None:
    """Sends the user to a page, and gives that no id."""
    params.pop("elicitationId", None)


@asking(ELICIT)
def deep_form(params: JSONObject) -> None:
    """Shows a form with a form inside."""
    params["requestedSchema"]["properties"]["deep"] = {"type": "object", "properties": {}}


@asking(ELICIT)
def form_for_secrets(params: JSONObject) -> None:
    """Asks for an API key by a form."""
    params["requestedSchema"]["properties"]["apiKey"] = {"type": "string"}


@asking(ELICIT)
def form_with_link(params: JSONObject) -> None:
    """Has a link in the description of a field."""
    for part in params["requestedSchema"]["properties"].values():
        part["description"] = "See https://example.org/."


@asking(ELICIT)
def page_without_tls(params: JSONObject) -> None:
    """Sends the user to a page without encryption."""
    params["url"] = "http://example.org/pay"


@notices("notifications/elicitation/complete")
def another_is_complete(params: JSONObject) -> None:
    """Says that another elicitation is complete."""
    params["elicitationId"] = "mutant"


@replies("tools/call")
def required_is_not_listed(answer: JSONObject) -> None:
    """Requires elicitations, and does not list them."""
    if answer.get("error", {}).get("code") == -32042:
        answer["error"]["data"] = {"elicitations": []}


@replies("tools/call")
def required_by_form(answer: JSONObject) -> None:
    """Requires elicitations by form."""
    if answer.get("error", {}).get("code") == -32042:
        answer["error"]["data"]["elicitations"][0].pop("mode")


class _Deaf(Fault):
    """Does not hear some answers of the client."""

    def hears(self, answer: JSON) -> bool:
        raise NotImplementedError

    def received(self, frame: Frame) -> Iterable[Frame | Back]:
        answers: list[Any] = []
        if isinstance(frame, dict) and "method" not in frame:
            answers = [frame.get("result", frame.get("error"))]
        elif isinstance(frame, dict):
            given = (frame.get("params") or {}).get("inputResponses")
            answers = list(given.values()) if isinstance(given, dict) else []
        if all(self.hears(answer) for answer in answers):
            yield frame


class WaitsForAcceptance(_Deaf):
    """Waits until the user accepts, for ever."""

    def hears(self, answer: JSON) -> bool:
        return not isinstance(answer, dict) or answer.get("action") in (None, "accept")


class WaitsForSuccess(_Deaf):
    """Does not notice that the client answers with an error."""

    def hears(self, answer: JSON) -> bool:
        return not isinstance(answer, dict) or "code" not in answer


class WaitsForRoots(_Deaf):
    """Waits until there are roots, for ever."""

    def hears(self, answer: JSON) -> bool:
        return not isinstance(answer, dict) or answer.get("roots") != []


class TakesAnyContent(Remembering):
    """Goes on with whatever the user is said to have filled in."""

    def __init__(self) -> None:
        super().__init__()
        self._marked = False

    def received(self, frame: Frame) -> Iterable[Frame | Back]:
        self._marked = MARK in json.dumps(frame) if isinstance(frame, dict) else False
        return super().received(frame)

    def answered(self, answer: JSONObject, request: JSONObject) -> Iterable[Frame | Back]:
        if self._marked and request.get("method") == "tools/call" and not is_question(answer):
            return [succeeds(answer, content=[{"type": "text", "text": f"Hello, {MARK}!"}])]
        return [answer]


# Retries


class TakesOffence(Remembering):
    """Refuses a call that was left unfinished before."""

    def __init__(self) -> None:
        super().__init__()
        self._asked: set[str] = set()

    def answered(self, answer: JSONObject, request: JSONObject) -> Iterable[Frame | Back]:
        name = str(request.get("params", {}).get("name"))
        if is_question(answer):
            if name in self._asked:
                return [fails(answer, -32603)]
            self._asked.add(name)
        return [answer]


@replies_to("tools/call")
def asks_only_once(answer: JSONObject, params: JSONObject) -> JSONObject | None:
    """Refuses a retry that does not bring all the input."""
    return fails(answer, -32602) if is_question(answer) and "inputResponses" in params else None


@replies_to("tools/call")
def wants_nothing_else(answer: JSONObject, params: JSONObject) -> JSONObject | None:
    """Refuses a retry that brings more input than it asked for."""
    return fails(answer, -32602) if "harness-unknown" in json.dumps(params) else None


@replies_to("tools/call")
def reads_no_responses(answer: JSONObject, params: JSONObject) -> JSONObject | None:
    """Succeeds with input that is none."""
    given = params.get("inputResponses", {})
    fine = isinstance(given, dict) and all(isinstance(value, dict) for value in given.values())
    return None if fine else succeeds(answer, content=[])


@replies_to("tools/call")
def trusts_any_state(answer: JSONObject, params: JSONObject) -> JSONObject | None:
    """Succeeds with a state that is not the one it gave for this call."""
    failed = "error" in answer or answer["result"].get("isError") or is_question(answer)
    return succeeds(answer, content=[]) if failed and "requestState" in params else None


# Sampling


@asking(SAMPLE)
def samples_without_limit(params: JSONObject) -> None:
    """Samples without saying how much."""
    params.pop("maxTokens", None)


@asking(SAMPLE)
def samples_with_tools(params: JSONObject) -> None:
    """Samples with tools, whoever the client is."""
    params["tools"] = []


@asking(SAMPLE)
def samples_with_context(params: JSONObject) -> None:
    """Wants the context of all servers, whoever the client is."""
    params["includeContext"] = "allServers"


@asking(SAMPLE)
def forgets_a_result(params: JSONObject) -> None:
    """Leaves out the result of one of several tools."""
    for message in params["messages"]:
        if isinstance(message["content"], list) and "toolUseId" in message["content"][0]:
            message["content"].pop()


@asking(SAMPLE)
def mixes_results(params: JSONObject) -> None:
    """Puts text among the results of tools."""
    for message in params["messages"]:
        if isinstance(message["content"], list) and "toolUseId" in message["content"][0]:
            message["content"].append({"type": "text", "text": "Here they are."})


@asking(SAMPLE)
def leaves_uses_open(params: JSONObject) -> None:
    """Goes on after tool uses without any result."""
    params["messages"] = [
        message
        for message in params["messages"]
        if "toolUseId" not in json.dumps(message["content"])
    ]


MUTANTS: Final[tuple[Mutant, ...]] = (
    frame_mutant("requires-nothing", requires_nothing, ["input-required-says-what-is-required"]),
    frame_mutant("asks-for-pings", asks_for_pings, ["input-required-says-what-is-required"]),
    frame_mutant("keys-twice", KeysTwice, ["keys-of-questions-are-unique"]),
    frame_mutant("lists-ask", lists_ask, ["only-some-requests-may-ask"]),
    frame_mutant("asks-by-requests", asks_by_requests, ["modern-servers-send-no-requests"]),
    frame_mutant(
        "asks-everybody",
        AsksEverybody,
        [
            "questions-need-the-capability",
            "input-needs-the-capability",
            "elicitations-need-the-mode",
        ],
    ),
    frame_mutant("missing-is-internal", missing_is_internal, ["missing-capability-is-named"]),
    frame_mutant("no-message", no_message, ["elicitations-are-well-formed"]),
    frame_mutant("no-form", no_form, ["elicitations-are-well-formed", "forms-are-flat"]),
    frame_mutant("bad-url", bad_url, ["elicitations-are-well-formed"], workshop),
    frame_mutant("no-id", no_id, ["elicitations-are-well-formed"], workshop),
    frame_mutant("deep-form", deep_form, ["forms-are-flat"]),
    frame_mutant("form-for-secrets", form_for_secrets, ["forms-ask-for-no-secrets"]),
    frame_mutant("form-with-link", form_with_link, ["forms-have-no-links"]),
    frame_mutant("page-without-tls", page_without_tls, ["elicitations-lead-to-https"], workshop),
    frame_mutant(
        "another-is-complete", another_is_complete, ["completed-elicitations-are-known"], workshop
    ),
    frame_mutant(
        "required-is-not-listed",
        required_is_not_listed,
        ["required-elicitations-are-listed"],
        workshop,
    ),
    frame_mutant(
        "required-by-form", required_by_form, ["required-elicitations-are-listed"], workshop
    ),
    frame_mutant(
        "waits-for-acceptance",
        WaitsForAcceptance,
        ["declining-is-coped-with", "refused-questions-are-coped-with"],
    ),
    frame_mutant("waits-for-success", WaitsForSuccess, ["refused-questions-are-coped-with"]),
    frame_mutant("waits-for-roots", WaitsForRoots, ["missing-roots-are-coped-with"]),
    frame_mutant("takes-any-content", TakesAnyContent, ["content-of-forms-is-checked"]),
    frame_mutant("takes-offence", TakesOffence, ["abandoned-questions-do-no-harm"]),
    frame_mutant("asks-only-once", asks_only_once, ["missing-input-is-asked-for-again"]),
    frame_mutant("wants-nothing-else", wants_nothing_else, ["unknown-input-is-ignored"]),
    frame_mutant("reads-no-responses", reads_no_responses, ["malformed-input-is-refused"]),
    frame_mutant(
        "trusts-any-state",
        trusts_any_state,
        ["tampered-state-is-refused", "state-belongs-to-its-request"],
    ),
    frame_mutant(
        "samples-without-limit", samples_without_limit, ["sampling-messages-are-well-formed"]
    ),
    frame_mutant("samples-with-tools", samples_with_tools, ["sampling-tools-need-the-capability"]),
    frame_mutant(
        "samples-with-context", samples_with_context, ["sampling-tools-need-the-capability"]
    ),
    frame_mutant(
        "forgets-a-result",
        forgets_a_result,
        ["tool-uses-are-followed-by-their-results"],
        workshop,
    ),
    frame_mutant(
        "mixes-results", mixes_results, ["tool-uses-are-followed-by-their-results"], workshop
    ),
    frame_mutant(
        "leaves-uses-open", leaves_uses_open, ["tool-uses-are-followed-by-their-results"], workshop
    ),
)
