"""What a server asks its client: mutants."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

import httpx
import trio

from mcp_trio.harness.demo_client import play
from mcp_trio.harness.mutants import ClientMutant
from mcp_trio.harness.mutants.client_base import (
    dies_of,
    with_meta,
)
from mcp_trio.harness.mutants.client_faults import (
    Changing,
    ClientFault,
    client_mutant,
    faulty_stream,
    other_client,
)
from mcp_trio.harness.mutants.frames import Back, Frame
from mcp_trio.protocol import meta as keys
from mcp_trio.protocol.types.content import TextContent, ToolUseContent
from mcp_trio.protocol.types.elicitation import ElicitRequestFormParams, ElicitResult
from mcp_trio.protocol.types.sampling import CreateMessageResult
from mcp_trio.wire.jsonrpc import JSONObject


def in_answers(change: Callable[[JSONObject], JSONObject]) -> Callable[[JSONObject], JSONObject]:
    """Changes the answers to questions, in both eras."""

    def apply(message: JSONObject) -> JSONObject:
        if "method" not in message and isinstance(message.get("result"), dict):
            return {**message, "result": change(message["result"])}
        responses = message.get("params", {}).get("inputResponses")
        if isinstance(responses, dict):
            changed = {key: change(value) for key, value in responses.items()}
            return {**message, "params": {**message["params"], "inputResponses": changed}}
        return message

    return apply


def declares(capabilities: JSONObject) -> Callable[[JSONObject], JSONObject]:
    """Declares other capabilities than it has, in both eras."""

    def apply(message: JSONObject) -> JSONObject:
        if message.get("method") == "initialize":
            params = {**message["params"], "capabilities": capabilities}
            return {**message, "params": params}
        if keys.CLIENT_CAPABILITIES in message.get("params", {}).get(keys.META, {}):
            return with_meta(message, **{keys.CLIENT_CAPABILITIES: capabilities})
        return message

    return apply


class RefusesModeless(ClientFault):
    """Takes an elicitation without a mode for a mistake."""

    def hears(self, frame: Frame) -> Iterable[Frame | Back]:
        asks = isinstance(frame, dict) and frame.get("method") == "elicitation/create"
        if isinstance(frame, dict) and asks and "mode" not in frame["params"]:
            error = {"code": -32602, "message": "mode?"}
            yield Back({"jsonrpc": "2.0", "id": frame["id"], "error": error})
        else:
            yield frame


def old(result: JSONObject) -> JSONObject:
    """A form whose age is too low."""
    return {**result, "content": {"age": 1, "color": "blue"}} if "action" in result else result


class AcceptsAnyMode(ClientFault):
    """Accepts an elicitation in any mode."""

    def hears(self, frame: Frame) -> Iterable[Frame | Back]:
        if isinstance(frame, dict) and frame.get("method") == "elicitation/create":
            result = {"action": "accept", "content": {}}
            yield Back({"jsonrpc": "2.0", "id": frame["id"], "result": result})
        else:
            yield frame


async def visiting(target: Any, *, mode: str = "auto", **options: Any) -> None:
    """Opens the page of an elicitation and then declines it."""

    async def on_elicit(params: Any) -> ElicitResult:
        if not isinstance(params, ElicitRequestFormParams):
            async with httpx.AsyncClient() as web:
                await web.get(params.url)
        return ElicitResult("decline")

    await play(target, mode=mode, on_elicit=on_elicit, **options)


def at_home(result: JSONObject) -> JSONObject:
    """Roots that are no files."""
    return {"roots": [{"uri": "https://example.org/"}]} if "roots" in result else result


def upwards(result: JSONObject) -> JSONObject:
    """Roots with steps upwards."""
    return {"roots": [{"uri": "file:///home/../etc"}]} if "roots" in result else result


class ChangesRoots(ClientFault):
    """Has other roots each time, and does not say so."""

    def __init__(self) -> None:
        self._number = 0

    def says(self, frame: Frame) -> Iterable[Frame | Back]:
        if isinstance(frame, dict) and "roots" in (frame.get("result") or {}):
            self._number += 1
            yield {**frame, "result": {"roots": [{"uri": f"file:///{self._number}"}]}}
        else:
            yield frame


async def rootless(target: Any, *, mode: str = "auto", **options: Any) -> None:
    """The demo client without roots."""
    await play(target, mode=mode, on_list_roots=None, **options)


async def empty_handed(target: Any, *, mode: str = "auto", **options: Any) -> None:
    """Lists no roots where it has said that it has none, instead of refusing."""

    class NoRoots(ClientFault):
        def hears(self, frame: Frame) -> Iterable[Frame | Back]:
            if isinstance(frame, dict) and frame.get("method") == "roots/list":
                yield Back({"jsonrpc": "2.0", "id": frame["id"], "result": {"roots": []}})
            else:
                yield frame

    await rootless(faulty_stream(target, NoRoots()), mode=mode, **options)


def with_tools(obeys: Callable[[str], bool]) -> Callable[..., Any]:
    """A client whose model has tools, and uses them in some modes of toolChoice."""

    def on_sample(params: Any) -> CreateMessageResult:
        mode = params.tool_choice.mode if params.tool_choice is not None else "auto"
        if params.tools and obeys(mode):
            use = ToolUseContent(id="1", name=params.tools[0].name, input={})
            return CreateMessageResult(role="assistant", content=use, model="demo")
        return CreateMessageResult(role="assistant", content=TextContent("word"), model="demo")

    declared: JSONObject = {"sampling": {"tools": {}}}
    return partial(play, on_sample=on_sample, capabilities=declared)


obedient = with_tools(lambda mode: mode == "required")
willful = with_tools(lambda mode: mode == "none")


def forbids(message: JSONObject) -> Any:
    return in_answers(lambda r: {**r, "role": "system"} if "role" in r else r)(message)


def talks(result: JSONObject) -> JSONObject:
    words = {"type": "text", "text": "one two three four five six"}
    return {**result, "content": words} if "role" in result else result


class TakesAnything(ClientFault):
    """Gives the model what it cannot read, and has it say something."""

    def hears(self, frame: Frame) -> Iterable[Frame | Back]:
        if isinstance(frame, dict) and frame.get("method") == "sampling/createMessage":
            content = {"type": "text", "text": "word"}
            result = {"role": "assistant", "content": content, "model": "x"}
            yield Back({"jsonrpc": "2.0", "id": frame["id"], "result": result})
        else:
            yield frame


class Undeclared(ClientFault):
    """Answers what it does not declare."""

    def hears(self, frame: Frame) -> Iterable[Frame | Back]:
        if isinstance(frame, dict) and frame.get("method") == "roots/list":
            yield Back({"jsonrpc": "2.0", "id": frame["id"], "result": {"roots": []}})
        else:
            yield frame

    def says(self, frame: Frame) -> Iterable[Frame | Back]:
        yield declares({})(frame) if isinstance(frame, dict) else frame


def params_of(change: Callable[[JSONObject], JSONObject]) -> Callable[[JSONObject], JSONObject]:
    """Changes the params of a request that is made again."""

    def apply(message: JSONObject) -> JSONObject:
        params = message.get("params", {})
        again = "inputResponses" in params or "requestState" in params
        return {**message, "params": change(params)} if again else message

    return apply


def partly(params: JSONObject) -> JSONObject:
    return {**params, "inputResponses": dict(list(params["inputResponses"].items())[:1])}


def tidy(params: JSONObject) -> JSONObject:
    state = params.get("requestState")
    return params if state is None else {**params, "requestState": state.strip()}


class OneIdAgain(ClientFault):
    """Makes a request again under the id that it had."""

    def __init__(self) -> None:
        self._first: dict[str, Any] = {}
        self._names: dict[Any, Any] = {}

    def says(self, frame: Frame) -> Iterable[Frame | Back]:
        if isinstance(frame, dict) and "id" in frame and "method" in frame:
            params = frame.get("params", {})
            key = f"{frame['method']} {params.get('name')}"
            if "inputResponses" in params and key in self._first:
                self._names[self._first[key]] = frame["id"]
                frame = {**frame, "id": self._first[key]}
            else:
                self._first[key] = frame["id"]
        yield frame

    def hears(self, frame: Frame) -> Iterable[Frame | Back]:
        if isinstance(frame, dict) and "method" not in frame and frame.get("id") in self._names:
            frame = {**frame, "id": self._names[frame["id"]]}
        yield frame


class KeepsState(ClientFault):
    """Sends the requestState of one request with those after it, too."""

    def __init__(self) -> None:
        self._state: str | None = None

    def says(self, frame: Frame) -> Iterable[Frame | Back]:
        if isinstance(frame, dict) and "id" in frame and "method" in frame:
            params = frame.get("params", {})
            self._state = params.get("requestState", self._state)
            if self._state is not None:
                frame = {**frame, "params": {**params, "requestState": self._state}}
        yield frame


async def slow(target: Any, *, mode: str = "auto", **options: Any) -> None:
    """The demo client, whose model and user take their time."""

    async def on_sample(_params: Any) -> str:
        await trio.sleep(0.5)
        return "word"

    await play(
        target, mode=mode, on_sample=on_sample, on_elicit=None, on_list_roots=None, **options
    )


MUTANTS: Final[tuple[ClientMutant, ...]] = (
    client_mutant("client-answers-undeclared", Undeclared, ["client-declares-what-it-answers"]),
    client_mutant(
        "client-elicits-nothing",
        Changing(
            "Declares elicitation in a mode of its own.", says=declares({"elicitation": {"x": {}}})
        ),
        ["client-elicitation-has-a-mode"],
    ),
    client_mutant(
        "client-refuses-modeless-forms", RefusesModeless, ["client-takes-no-mode-for-a-form"]
    ),
    client_mutant(
        "client-ignores-the-form",
        Changing("Sends values that do not fit the form.", says=in_answers(old)),
        ["client-form-values-fit-the-form"],
    ),
    client_mutant("client-accepts-any-mode", AcceptsAnyMode, ["client-refuses-undeclared-modes"]),
    client_mutant(
        "client-accepts-undeclared-urls",
        AcceptsAnyMode,
        ["client-refuses-undeclared-modes"],
        client=partial(play, capabilities={"elicitation": {"form": {}}}),
    ),
    other_client(
        "client-opens-urls", visiting, ["client-does-not-open-urls-unasked"], transport="http"
    ),
    client_mutant(
        "client-dies-of-completed-elicitations",
        dies_of(
            lambda m: m.get("method") == "notifications/elicitation/complete",
            "Breaks down when an elicitation that it does not know is complete.",
        ),
        ["client-ignores-unknown-completions-of-elicitations"],
    ),
    client_mutant(
        "client-roots-are-pages",
        Changing("Has roots that are no files.", says=in_answers(at_home)),
        ["client-roots-are-files"],
    ),
    client_mutant(
        "client-roots-lead-upwards",
        Changing("Has roots with steps upwards.", says=in_answers(upwards)),
        ["client-roots-are-files"],
    ),
    client_mutant("client-changes-its-roots", ChangesRoots, ["client-tells-when-its-roots-change"]),
    other_client(
        "client-lists-no-roots",
        empty_handed,
        ["client-refuses-roots-it-does-not-have"],
        healthy=rootless,
    ),
    client_mutant(
        "client-samples-with-tools",
        TakesAnything,
        ["client-declares-tools-in-sampling", "client-refuses-malformed-messages"],
    ),
    other_client(
        "client-model-is-willful",
        willful,
        ["client-obeys-the-tool-choice"],
        healthy=obedient,
        text="Its model does the opposite of the toolChoice.",
    ),
    client_mutant(
        "client-samples-without-a-role",
        Changing("Sampled messages have a role that does not exist.", says=forbids),
        ["client-sampled-messages-are-whole"],
    ),
    client_mutant(
        "client-samples-too-much",
        Changing("Samples more than was asked for.", says=in_answers(talks)),
        ["client-sampled-messages-are-whole"],
    ),
    client_mutant(
        "client-answers-what-was-cancelled",
        Changing(
            "Goes on with what was cancelled.",
            hears=lambda m: None if m.get("method") == "notifications/cancelled" else m,
        ),
        ["client-stops-answering-when-cancelled"],
        client=slow,
    ),
    client_mutant(
        "client-answers-half",
        Changing("Answers the first question only.", says=params_of(partly)),
        ["client-answers-before-it-repeats"],
    ),
    client_mutant(
        "client-repeats-under-the-same-id", OneIdAgain, ["client-repeats-under-a-new-id"]
    ),
    client_mutant(
        "client-tidies-the-state",
        Changing("Takes spaces off the requestState.", says=params_of(tidy)),
        ["client-returns-the-state-unchanged"],
    ),
    client_mutant(
        "client-invents-a-state",
        Changing(
            "Sends a requestState where there was none.",
            says=params_of(lambda p: {"requestState": "mine", **p}),
        ),
        ["client-invents-no-state"],
    ),
    client_mutant("client-keeps-a-state", KeepsState, ["client-keeps-requests-apart"]),
)
