"""Messages of clients: mutants."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

import httpx

from mcp_trio.harness.demo_client import play
from mcp_trio.harness.mutants import ClientMutant
from mcp_trio.harness.mutants.client_faults import (
    Change,
    Changing,
    ClientFault,
    client_mutant,
    other_client,
)
from mcp_trio.harness.mutants.frames import Back, Frame
from mcp_trio.protocol import meta as keys
from mcp_trio.wire.jsonrpc import JSONObject


def is_request(message: JSONObject) -> bool:
    return "method" in message and "id" in message


def is_answer(message: JSONObject) -> bool:
    return "method" not in message and "id" in message


def requests(change: Change) -> Change:
    """Applies to requests only."""
    return lambda message: change(message) if is_request(message) else message


def answers(change: Change) -> Change:
    """Applies to answers only."""
    return lambda message: change(message) if is_answer(message) else message


def notes(change: Change) -> Change:
    """Applies to notifications only."""

    def apply(message: JSONObject) -> Any:
        return change(message) if "method" in message and "id" not in message else message

    return apply


def with_meta(message: JSONObject, **meta: Any) -> JSONObject:
    """A message with more in its `_meta`; None takes a key away."""
    params = dict(message.get("params") or {})
    merged = {**params.get(keys.META, {}), **meta}
    params[keys.META] = {key: value for key, value in merged.items() if value is not None}
    return {**message, "params": params}


def meta_fault(text: str, meta: dict[str, Any]) -> Changing:
    """A fault in the `_meta` of each request."""
    return Changing(text, says=requests(lambda message: with_meta(message, **meta)))


class RenamesIds(ClientFault):
    """Sends requests under ids of its own, and knows which was which."""

    def __init__(self) -> None:
        self._names: dict[Any, Any] = {}

    def name(self, id: Any) -> Any:
        """What an id is called instead."""
        return id

    def says(self, frame: Frame) -> Iterable[Frame | Back]:
        if isinstance(frame, dict) and is_request(frame):
            renamed = self.name(frame["id"])
            self._names[renamed] = frame["id"]
            yield {**frame, "id": renamed}
        else:
            yield frame

    def hears(self, frame: Frame) -> Iterable[Frame | Back]:
        if isinstance(frame, dict) and is_answer(frame):
            yield {**frame, "id": self._names.get(frame["id"], frame["id"])}
        elif isinstance(frame, dict) and keys.SUBSCRIPTION_ID in frame["params"].get(keys.META, {}):
            id = frame["params"][keys.META][keys.SUBSCRIPTION_ID]
            yield with_meta(frame, **{keys.SUBSCRIPTION_ID: self._names.get(id, id)})
        else:
            yield frame


class NullIds(RenamesIds):
    """Sends its requests with the id null."""

    def name(self, id: Any) -> Any:
        return None


class FractionalIds(RenamesIds):
    """Sends its requests with ids that are no whole numbers."""

    def name(self, id: Any) -> Any:
        return id + 0.5


class OneId(RenamesIds):
    """Sends all its requests with the same id."""

    def name(self, id: Any) -> Any:
        return 1


class AnswersNotifications(ClientFault):
    """Answers notifications with an error that has an id."""

    def hears(self, frame: Frame) -> Iterable[Frame | Back]:
        if isinstance(frame, dict) and "method" in frame and "id" not in frame:
            error = {"code": -32601, "message": "?"}
            yield Back({"jsonrpc": "2.0", "id": frame["method"], "error": error})
        yield frame


class Dies(ClientFault):
    """Takes nothing more once it has heard a certain kind of message."""

    def __init__(self, kills: Callable[[Frame], bool]) -> None:
        self._kills = kills
        self._dead = False

    def hears(self, frame: Frame) -> Iterable[Frame | Back]:
        self._dead = self._dead or self._kills(frame)
        if not self._dead:
            yield frame

    def says(self, frame: Frame) -> Iterable[Frame | Back]:
        if not self._dead:
            yield frame


def dies_of(kills: Callable[[JSONObject], bool], text: str) -> Callable[[], ClientFault]:
    """A client that breaks down at a kind of message."""

    def fault() -> ClientFault:
        return Dies(lambda frame: isinstance(frame, dict) and kills(frame))

    fault.__doc__ = text
    return fault


def dies_of_noise() -> ClientFault:
    """Breaks down at what is no message."""

    def is_noise(frame: Frame) -> bool:
        return not isinstance(frame, dict) or not (is_answer(frame) or "method" in frame)

    return Dies(is_noise)


class DiesOfStrangers(ClientFault):
    """Breaks down at an answer to a request that it never made, or that it gave up."""

    def __init__(self) -> None:
        self._open: list[Any] = []
        self._dead = False

    def says(self, frame: Frame) -> Iterable[Frame | Back]:
        if isinstance(frame, dict):
            if is_request(frame):
                self._open.append(frame["id"])
            elif frame.get("method") == "notifications/cancelled":
                self._open.remove(frame["params"]["requestId"])
        if not self._dead:
            yield frame

    def hears(self, frame: Frame) -> Iterable[Frame | Back]:
        if isinstance(frame, dict) and is_answer(frame):
            self._dead = self._dead or frame["id"] not in self._open
        if not self._dead:
            yield frame


class RepeatsRefused(ClientFault):
    """Sends a request again when it gets an error of the server's own."""

    def __init__(self) -> None:
        self._sent: dict[Any, JSONObject] = {}

    def says(self, frame: Frame) -> Iterable[Frame | Back]:
        if isinstance(frame, dict) and is_request(frame):
            self._sent[frame["id"]] = frame
        yield frame

    def hears(self, frame: Frame) -> Iterable[Frame | Back]:
        if isinstance(frame, dict) and "error" in frame and frame["error"]["code"] > -32020:
            yield Back({**self._sent[frame["id"]], "id": f"again-{frame['id']}"})
        else:
            yield frame


class CancelsAnswered(ClientFault):
    """Cancels a request that nobody made."""

    def says(self, frame: Frame) -> Iterable[Frame | Back]:
        yield frame
        if isinstance(frame, dict) and frame.get("method") == "tools/list":
            params = {"requestId": "nobody"}
            yield {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}


def cancels(message: JSONObject) -> list[JSONObject]:
    params = {"requestId": message["id"]}
    note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
    return [message, note] if message["method"] == "initialize" else [message]


def tells_progress(token: Any, *values: float) -> Change:
    """Reports progress before each answer to a request, or after it if there is no value."""

    def change(message: JSONObject) -> list[JSONObject]:
        reported = [
            {
                "jsonrpc": "2.0",
                "method": "notifications/progress",
                "params": {"progressToken": token, "progress": value},
            }
            for value in values
        ]
        return [*reported, message]

    return answers(change)


def answer_of(**fields: Any) -> Change:
    return answers(lambda message: {**message, **fields})


def ping_result(message: JSONObject) -> JSONObject:
    return {**message, "result": {"pong": True}} if message.get("result") == {} else message


def untyped(message: JSONObject) -> Any:
    """What a client hears that insists on a resultType."""
    result = message.get("result") or {}
    if "tools" in result and "resultType" not in result:
        return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32603, "message": "?"}}
    return message


def any_type(message: JSONObject) -> Any:
    """What a client hears that does not look at resultType."""
    if is_answer(message) and "result" in message:
        return {**message, "result": {**message["result"], "resultType": "complete"}}
    return message


def unanswered(message: JSONObject) -> Any:
    return None if message.get("method") == "ping" else message


def prefers_harness(message: JSONObject) -> Any:
    """What a client hears that lists nothing of servers that it does not know."""
    result = message.get("result", {})
    name = result.get("_meta", {}).get(keys.SERVER_INFO, {}).get("name", "mcp-trio-harness")
    if name != "mcp-trio-harness":
        return {**message, "result": {**result, "supportedVersions": ["2099-01-01"]}}
    return message


def _strange_meta(message: JSONObject) -> bool:
    return is_answer(message) and "traceparent" in (message.get("result") or {}).get("_meta", {})


async def fetching(target: Any, *, mode: str = "auto", what: str = "", **options: Any) -> None:
    """A client that fetches each URL that it finds in the tools of a server."""

    async def fetch(client: Any) -> None:
        for tool in await client.list_tools():
            urls = [icon.src for icon in tool.icons or ()] if what == "icons" else []
            if what == "schemas":
                urls = [p["$ref"] for p in tool.input_schema["properties"].values() if "$ref" in p]
            for url in urls:
                if url.startswith("http"):
                    async with httpx.AsyncClient() as web:
                        await web.get(url)

    await play(target, mode=mode, also=fetch, **options)


class Batchless(ClientFault):
    """Skips batches."""

    def hears(self, frame: Frame) -> Iterable[Frame | Back]:
        if isinstance(frame, dict) or not frame.startswith(b"["):
            yield frame


MUTANTS: Final[tuple[ClientMutant, ...]] = (
    client_mutant(
        "client-with-another-jsonrpc",
        Changing("Says that it speaks JSON-RPC 1.0.", says=lambda m: {**m, "jsonrpc": "1.0"}),
        ["client-sends-valid-messages"],
    ),
    client_mutant("client-with-null-ids", NullIds, ["client-request-ids-are-strings-or-integers"]),
    client_mutant(
        "client-with-fractional-ids", FractionalIds, ["client-request-ids-are-strings-or-integers"]
    ),
    client_mutant(
        "client-with-one-id",
        OneId,
        ["client-request-ids-are-unique", "client-request-ids-in-flight-differ"],
    ),
    client_mutant(
        "client-with-ids-at-notifications",
        Changing(
            "Sends notifications with an id.", says=notes(lambda m: {**m, "id": f"n{m['method']}"})
        ),
        ["client-notifications-have-no-id"],
    ),
    client_mutant(
        "client-answers-notifications",
        AnswersNotifications,
        ["client-ignores-unknown-notifications"],
    ),
    client_mutant(
        "client-dies-of-unknown-notifications",
        dies_of(
            lambda m: m.get("method") == "notifications/harness",
            "Breaks down at a notification that it does not know.",
        ),
        ["client-ignores-unknown-notifications"],
    ),
    client_mutant(
        "client-answers-twice-over",
        Changing(
            "Puts a result and an error into its answers.",
            says=answer_of(result={}, error={"code": 1, "message": "x"}),
        ),
        ["client-answers-are-well-formed"],
    ),
    client_mutant(
        "client-codes-are-strings",
        Changing(
            "Sends errors whose codes are strings.",
            says=answers(
                lambda m: {**m, "error": {**m["error"], "code": "?"}} if "error" in m else m
            ),
        ),
        ["client-answers-are-well-formed", "client-refuses-unknown-requests"],
    ),
    client_mutant("client-without-batches", Batchless, ["client-accepts-batches"]),
    client_mutant("client-dies-of-noise", dies_of_noise, ["client-survives-noise"]),
    client_mutant(
        "client-dies-of-strangers",
        DiesOfStrangers,
        ["client-survives-answers-to-nothing", "client-ignores-late-answers"],
    ),
    client_mutant(
        "client-takes-any-result-type",
        Changing("Does not look at resultType.", hears=any_type),
        ["client-drops-unknown-result-types"],
    ),
    client_mutant(
        "client-insists-on-result-type",
        Changing("Takes a result without a type for a mistake.", hears=untyped),
        ["client-takes-results-without-a-type"],
    ),
    client_mutant(
        "client-repeats-refused-requests", RepeatsRefused, ["client-survives-errors-of-any-code"]
    ),
    client_mutant(
        "client-with-bad-meta-keys",
        meta_fault("Puts a key into _meta that is none.", {"-bad/key": 1}),
        ["client-meta-keys-are-legal"],
    ),
    client_mutant(
        "client-without-capabilities-in-meta",
        meta_fault(
            "Does not say in _meta what it can do.",
            {keys.CLIENT_CAPABILITIES: None},
        ),
        ["client-requests-carry-their-meta"],
        mode="modern",
    ),
    client_mutant(
        "client-nameless",
        meta_fault("Does not say who it is.", {keys.CLIENT_INFO: None}),
        ["client-introduces-itself"],
        mode="modern",
    ),
    client_mutant(
        "client-dies-of-strange-meta",
        dies_of(_strange_meta, "Breaks down at results with keys in _meta that it does not know."),
        ["client-assumes-nothing-about-reserved-meta"],
    ),
    client_mutant(
        "client-with-bad-traces",
        meta_fault("Sends a traceparent that is none.", {"traceparent": "x"}),
        ["client-trace-context-is-well-formed"],
    ),
    client_mutant(
        "client-depends-on-server-info",
        Changing("Trusts servers by their names.", hears=prefers_harness),
        ["client-does-not-depend-on-server-info"],
        mode="modern",
    ),
    other_client(
        "client-fetches-schemas",
        partial(fetching, what="schemas"),
        ["client-fetches-no-schema"],
        transport="http",
        text="Fetches what a $ref of a schema leads to.",
    ),
    other_client(
        "client-fetches-icons",
        partial(fetching, what="icons"),
        ["client-fetches-no-unsafe-icons"],
        transport="http",
        text="Fetches icons from anywhere.",
    ),
    client_mutant(
        "client-ignores-pings",
        Changing("Does not answer pings.", hears=unanswered),
        ["client-answers-pings"],
    ),
    client_mutant(
        "client-pongs",
        Changing("Answers pings with more than nothing.", says=answers(ping_result)),
        ["client-answers-pings"],
    ),
    client_mutant(
        "client-pings-all-the-time",
        Changing(
            "Sends many pings.",
            says=requests(
                lambda m: [
                    m,
                    *(
                        {"jsonrpc": "2.0", "id": f"{m['id']}-{n}", "method": "ping"}
                        for n in range(9)
                    ),
                ]
            ),
        ),
        ["client-pings-sparingly"],
    ),
    client_mutant(
        "client-dies-of-cancellations",
        dies_of(
            lambda m: m.get("method") == "notifications/cancelled",
            "Breaks down when it is told to cancel what it does not know.",
        ),
        ["client-ignores-strange-cancellations"],
    ),
    client_mutant(
        "client-cancels-initialize",
        Changing("Cancels initialize.", says=requests(cancels)),
        ["client-does-not-cancel-initialize"],
        mode="legacy",
    ),
    client_mutant(
        "client-cancels-nothing", CancelsAnswered, ["client-cancels-only-what-it-waits-for"]
    ),
    client_mutant(
        "client-gives-up-silently",
        Changing(
            "Does not say that it has given up a request.",
            says=lambda m: None if m.get("method") == "notifications/cancelled" else m,
        ),
        ["client-cancels-what-takes-too-long"],
    ),
    client_mutant(
        "client-with-strange-tokens",
        Changing(
            "Uses lists as progress tokens.",
            says=requests(
                lambda m: (
                    with_meta(m, progressToken=[1])
                    if "progressToken" in m.get("params", {}).get("_meta", {})
                    else m
                )
            ),
        ),
        ["client-progress-tokens-are-unique"],
    ),
    client_mutant(
        "client-dies-of-progress",
        dies_of(
            lambda m: m.get("params", {}).get("progressToken") == "unknown",
            "Breaks down at progress of a request that it does not know.",
        ),
        ["client-survives-strange-progress"],
    ),
    client_mutant(
        "client-progress-shrinks",
        Changing("Reports progress that shrinks.", says=tells_progress("token-1", 2, 1)),
        ["client-reports-progress-in-order"],
    ),
    client_mutant(
        "client-progress-of-nothing",
        Changing("Reports progress under a token of its own.", says=tells_progress("mine", 1)),
        ["client-reports-progress-in-order"],
    ),
)
