"""How clients begin: mutants."""

from collections.abc import Iterable
from typing import Any, Final

from mcp_trio.harness.demo_client import play
from mcp_trio.harness.mutants import ClientMutant
from mcp_trio.harness.mutants.client_base import (
    is_answer,
    is_request,
    notes,
    requests,
)
from mcp_trio.harness.mutants.client_faults import (
    Changing,
    ClientFault,
    client_mutant,
    other_client,
)
from mcp_trio.harness.mutants.frames import Back, Frame
from mcp_trio.protocol import meta as keys
from mcp_trio.wire.jsonrpc import JSONObject


def of(method: str, message: JSONObject) -> bool:
    return message.get("method") == method


def in_initialize(**params: Any) -> Any:
    """Other params of `initialize`; None takes one away."""

    def change(message: JSONObject) -> JSONObject:
        if not of("initialize", message):
            return message
        merged = {**message["params"], **params}
        return {**message, "params": {k: v for k, v in merged.items() if v is not None}}

    return requests(change)


def first_a_list(message: JSONObject) -> list[JSONObject]:
    early = {"jsonrpc": "2.0", "id": "early", "method": "tools/list", "params": {}}
    return [early, message] if of("initialize", message) else [message]


def then_a_list(message: JSONObject) -> list[JSONObject]:
    early = {"jsonrpc": "2.0", "id": "early", "method": "tools/list", "params": {}}
    return [message, early] if of("initialize", message) else [message]


def in_a_batch(message: JSONObject) -> Any:
    import json

    return json.dumps([message]).encode() if of("initialize", message) else message


class TakesAnyVersion(ClientFault):
    """Goes on in whatever version the server names."""

    def hears(self, frame: Frame) -> Iterable[Frame | Back]:
        if isinstance(frame, dict) and "protocolVersion" in (frame.get("result") or {}):
            frame = {**frame, "result": {**frame["result"], "protocolVersion": "2025-11-25"}}
        yield frame


class TakesRefusals(ClientFault):
    """Takes an error of initialize for a welcome."""

    def __init__(self) -> None:
        self._id: Any = None

    def says(self, frame: Frame) -> Iterable[Frame | Back]:
        if isinstance(frame, dict) and of("initialize", frame):
            self._id = frame["id"]
        yield frame

    def hears(self, frame: Frame) -> Iterable[Frame | Back]:
        if isinstance(frame, dict) and frame.get("id") == self._id and "error" in frame:
            welcome = {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "x", "version": "1"},
            }
            yield {"jsonrpc": "2.0", "id": self._id, "result": welcome}
        else:
            yield frame


class SeesEverything(ClientFault):
    """Takes every server for one that declares everything."""

    def hears(self, frame: Frame) -> Iterable[Frame | Back]:
        result = frame.get("result") if isinstance(frame, dict) else None
        if isinstance(frame, dict) and isinstance(result, dict) and "capabilities" in result:
            every: JSONObject = {"tools": {}, "resources": {}, "prompts": {}}
            yield {**frame, "result": {**result, "capabilities": every}}
        else:
            yield frame


def declares_badly(message: JSONObject) -> JSONObject:
    meta = dict(message.get("params", {}).get(keys.META, {}))
    meta[keys.CLIENT_CAPABILITIES] = {"extensions": {"nameless": {}}}
    return {**message, "params": {**message.get("params", {}), keys.META: meta}}


class HasRefusedCode(ClientFault):
    """Falls back to initialize after -32601 only."""

    def hears(self, frame: Frame) -> Iterable[Frame | Back]:
        error = frame.get("error") if isinstance(frame, dict) else None
        if isinstance(frame, dict) and error and error["code"] not in (-32601, -32022):
            data = {"supported": ["2099-01-01"], "requested": "2026-07-28"}
            yield {**frame, "error": {"code": -32022, "message": "?", "data": data}}
        else:
            yield frame


class ProbesAgain(ClientFault):
    """Probes a legacy server before each list."""

    def says(self, frame: Frame) -> Iterable[Frame | Back]:
        if isinstance(frame, dict) and of("tools/list", frame):
            yield {"jsonrpc": "2.0", "id": "again", "method": "server/discover", "params": {}}
        yield frame


class FallsBackAlways(ClientFault):
    """Falls back to initialize after modern errors, too."""

    def hears(self, frame: Frame) -> Iterable[Frame | Back]:
        if isinstance(frame, dict) and frame.get("error", {}).get("code") == -32022:
            yield {**frame, "error": {"code": -32601, "message": "?"}}
        else:
            yield frame


class IgnoresTheList(ClientFault):
    """Takes any answer to its probe for a welcome."""

    def hears(self, frame: Frame) -> Iterable[Frame | Back]:
        if isinstance(frame, dict) and frame.get("error", {}).get("code") == -32022:
            found = {
                "resultType": "complete",
                "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {}},
                "ttlMs": 0,
                "cacheScope": "private",
            }
            yield {"jsonrpc": "2.0", "id": frame["id"], "result": found}
        else:
            yield frame


class InitializesFirst(ClientFault):
    """Tries initialize before it probes."""

    def __init__(self) -> None:
        self._tried = False

    def says(self, frame: Frame) -> Iterable[Frame | Back]:
        if isinstance(frame, dict) and is_request(frame) and not self._tried:
            self._tried = True
            params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}
            yield {"jsonrpc": "2.0", "id": "first", "method": "initialize", "params": params}
        yield frame

    def hears(self, frame: Frame) -> Iterable[Frame | Back]:
        if not (isinstance(frame, dict) and is_answer(frame) and frame["id"] == "first"):
            yield frame


async def leaves_when_unanswered(target: Any, *, mode: str = "auto", **options: Any) -> None:
    """Leaves if its probe is not answered."""
    await play(target, mode=mode, **{**options, "connect_timeout": 1.0})


MUTANTS: Final[tuple[ClientMutant, ...]] = (
    client_mutant(
        "client-lists-before-initialize",
        Changing("Lists the tools first.", says=requests(first_a_list)),
        ["client-begins-with-initialize"],
        mode="legacy",
    ),
    client_mutant(
        "client-initialize-without-info",
        Changing("Does not say who it is in initialize.", says=in_initialize(clientInfo=None)),
        ["client-initialize-is-complete"],
    ),
    client_mutant(
        "client-never-initialized",
        Changing(
            "Does not say that it is initialized.",
            says=notes(lambda m: None if of("notifications/initialized", m) else m),
        ),
        ["client-says-initialized"],
    ),
    client_mutant(
        "client-initialized-twice",
        Changing(
            "Says twice that it is initialized.",
            says=notes(lambda m: [m, m] if of("notifications/initialized", m) else m),
        ),
        ["client-says-initialized"],
    ),
    client_mutant(
        "client-does-not-wait-for-initialize",
        Changing("Lists the tools before initialize is answered.", says=requests(then_a_list)),
        ["client-waits-for-initialize"],
        mode="legacy",
    ),
    client_mutant(
        "client-initializes-in-a-batch",
        Changing("Sends initialize in a batch.", says=requests(in_a_batch)),
        ["client-initialize-stands-alone"],
        mode="legacy",
    ),
    client_mutant(
        "client-asks-for-what-it-does-not-speak",
        Changing(
            "Asks for a version that it does not speak.",
            says=in_initialize(protocolVersion="2030-01-01"),
        ),
        ["client-accepts-the-version-it-asks-for"],
    ),
    client_mutant(
        "client-asks-for-an-old-version",
        Changing(
            "Asks for the oldest version of those that it speaks.",
            says=in_initialize(protocolVersion="2024-11-05"),
        ),
        ["client-asks-for-its-newest-version"],
    ),
    client_mutant(
        "client-takes-any-version", TakesAnyVersion, ["client-leaves-if-the-version-is-unknown"]
    ),
    client_mutant(
        "client-takes-refusals", TakesRefusals, ["client-copes-with-a-refused-initialize"]
    ),
    client_mutant(
        "client-uses-what-is-not-declared", SeesEverything, ["client-uses-only-what-is-declared"]
    ),
    client_mutant(
        "client-uses-what-a-revision-lacks",
        Changing(
            "Sends a request that no revision has.",
            says=requests(
                lambda m: (
                    [m, {"jsonrpc": "2.0", "id": "x", "method": "harness/new"}]
                    if of("tools/list", m)
                    else m
                )
            ),
        ),
        ["client-keeps-to-the-revision", "client-uses-no-undeclared-extension"],
    ),
    client_mutant(
        "client-pings-modern-servers",
        Changing(
            "Pings a server that knows no ping.",
            says=requests(
                lambda m: (
                    [m, {"jsonrpc": "2.0", "id": "x", "method": "ping"}]
                    if of("tools/list", m)
                    else m
                )
            ),
        ),
        ["client-uses-no-removed-methods"],
    ),
    client_mutant(
        "client-with-nameless-extensions",
        Changing("Declares an extension without a prefix.", says=requests(declares_badly)),
        ["client-extensions-have-names"],
        mode="modern",
    ),
    client_mutant("client-initializes-first", InitializesFirst, ["client-probes-first"]),
    client_mutant(
        "client-falls-back-on-one-code", HasRefusedCode, ["client-falls-back-on-any-error"]
    ),
    other_client(
        "client-leaves-on-silence", leaves_when_unanswered, ["client-falls-back-on-silence"]
    ),
    client_mutant("client-probes-again", ProbesAgain, ["client-remembers-the-era"]),
    client_mutant(
        "client-ignores-refused-versions",
        IgnoresTheList,
        ["client-copes-with-unsupported-versions"],
    ),
    client_mutant(
        "client-falls-back-always",
        FallsBackAlways,
        ["client-does-not-fall-back-after-a-modern-error"],
    ),
)
