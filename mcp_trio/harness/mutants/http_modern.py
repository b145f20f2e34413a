"""Streamable HTTP with mirrored headers: mutants."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated, Any, Final

import attrs

from mcp_trio.harness.mutants import Mutant
from mcp_trio.harness.mutants.frames import Back, Fault, Frame, frame_mutant
from mcp_trio.harness.mutants.http import (
    Fields,
    HTTPFault,
    Seen,
    Setting,
    http_mutant,
    refusal,
    with_headers,
)
from mcp_trio.protocol import meta as keys
from mcp_trio.protocol.errors import HEADER_MISMATCH
from mcp_trio.protocol.revisions import MODERN
from mcp_trio.server.app import Server
from mcp_trio.transports.http_exchange import Headers, HTTPRequest
from mcp_trio.wire.header_params import HeaderParam
from mcp_trio.wire.http_headers import encode_value, mirror


def marked_server() -> Server:
    """A healthy server of the modern era alone, with a tool that has arguments in headers."""
    server = Server("marked", version="1", versions=MODERN)

    @server.tool(read_only=True, open_world=False)
    async def route(
        region: Annotated[str, {"x-mcp-header": "Region"}],
        level: Annotated[int, {"x-mcp-header": "Level"}],
        dry: Annotated[bool, {"x-mcp-header": "Dry"}] = False,
    ) -> str:
        """Say where a message would go."""
        return f"{region} {level} {dry}"

    return server


PARAMS: Final = tuple(HeaderParam((name,), name.title()) for name in ("region", "level", "dry"))
MARKED: Final = Setting(server=marked_server)


# Versions and methods


class VersionsMayDiffer(HTTPFault):
    """Takes the version of the body, whatever the header says."""

    def request(self, seen: Seen) -> HTTPRequest:
        version = seen.params.get("_meta", {}).get(keys.PROTOCOL_VERSION)
        return (
            seen.request
            if version is None
            else with_headers(seen.request, mcp_protocol_version=version)
        )


class UnsupportedVersionGets404(HTTPFault):
    """Answers a version that it does not support with 404."""

    def head(self, seen: Seen, status: int, fields: Fields) -> tuple[int, Fields]:
        return (404 if status == 400 else status), fields


class SupportedVersionsAreSecret(HTTPFault):
    """Does not say which versions it supports."""

    def whole(self, seen: Seen, body: bytes) -> bytes:
        message = json.loads(body) if body else {}
        message.get("error", {}).pop("data", None)
        return json.dumps(message).encode()


class UnknownMethodGets200(HTTPFault):
    """Answers a method that does not exist with status 200."""

    def head(self, seen: Seen, status: int, fields: Fields) -> tuple[int, Fields]:
        return (200 if status == 404 else status), fields


class VersionHeaderIsGuessed(HTTPFault):
    """Takes a request without a version for one of today's."""

    def request(self, seen: Seen) -> HTTPRequest:
        if "mcp-protocol-version" in seen.request.headers or not seen.is_post:
            return seen.request
        return with_headers(seen.request, mcp_protocol_version=MODERN[-1])


class GetGets404(HTTPFault):
    """Answers a GET with 404."""

    def head(self, seen: Seen, status: int, fields: Fields) -> tuple[int, Fields]:
        return (404 if status == 405 else status), fields


class MintsSessions(HTTPFault):
    """Has session ids in an era that has none."""

    def head(self, seen: Seen, status: int, fields: Fields) -> tuple[int, Fields]:
        return status, {**fields, "mcp-session-id": "4d1b4f0c9a2e8f6b7c3d"}


# Mirrored headers


class MethodHeaderIsIgnored(HTTPFault):
    """Does not look at Mcp-Method."""

    def request(self, seen: Seen) -> HTTPRequest:
        return with_headers(seen.request, mcp_method=seen.method) if seen.method else seen.request


class NameHeaderIsIgnored(HTTPFault):
    """Does not look at Mcp-Name."""

    def request(self, seen: Seen) -> HTTPRequest:
        named = seen.params.get("uri", seen.params.get("name"))
        if not isinstance(named, str):
            return seen.request
        return with_headers(seen.request, mcp_name=encode_value(named))


class _NothingIsDecoded(HTTPFault):
    """Takes a header for what it says itself."""

    header = ""

    def answer(self, seen: Seen) -> tuple[int, bytes] | None:
        for name, value in seen.request.headers.items():
            if name.startswith(self.header) and value.startswith("=?base64?"):
                return 400, refusal(HEADER_MISMATCH, "They differ.", seen.id)
        return None


class EncodedNamesAreRefused(_NothingIsDecoded):
    """Compares an encoded Mcp-Name as it stands."""

    header = "mcp-name"


class EncodedArgumentsAreRefused(_NothingIsDecoded):
    """Compares an encoded Mcp-Param header as it stands."""

    header = "mcp-param-"


class HeaderNamesHaveOneCase(HTTPFault):
    """Knows Mcp-Method in capitals only by another name."""

    def arrived(self, data: bytes | bytearray) -> bytes | bytearray:
        return data.replace(b"MCP-METHOD:", b"XXX-METHOD:")


class ArgumentHeadersAreIgnored(HTTPFault):
    """Does not look at Mcp-Param headers."""

    def request(self, seen: Seen) -> HTTPRequest:
        if seen.method != "tools/call":
            return seen.request
        right = mirror("x", seen.params, version="x", header_params=PARAMS)
        fields = [f for f in seen.request.headers.raw() if not f[0].startswith(b"mcp-param-")]
        added = [
            (name.lower().encode(), value.encode())
            for name, value in right.items()
            if name.startswith("Mcp-Param-")
        ]
        return attrs.evolve(seen.request, headers=Headers([*fields, *added]))


class AbsentArgumentsNeedHeaders(HTTPFault):
    """Expects the header of an argument that is not there."""

    def answer(self, seen: Seen) -> tuple[int, bytes] | None:
        if seen.method != "tools/call" or "mcp-param-region" in seen.request.headers:
            return None
        return 400, refusal(HEADER_MISMATCH, "Mcp-Param-Region is missing.", seen.id)


class IntegersAreText(HTTPFault):
    """Takes 42.0 for another integer than 42."""

    def answer(self, seen: Seen) -> tuple[int, bytes] | None:
        if "." not in (seen.request.headers.get("mcp-param-level") or ""):
            return None
        return 400, refusal(HEADER_MISMATCH, "They differ.", seen.id)


# What marks arguments


class _OtherSchema(Fault):
    """Changes the properties of a tool."""

    def sent(self, frame: Frame) -> Iterable[Frame | Back]:
        if isinstance(frame, dict) and "tools" in frame.get("result", {}):
            for tool in frame["result"]["tools"]:
                self.change(tool["inputSchema"])
        yield frame

    def change(self, schema: dict[str, Any]) -> None:
        raise NotImplementedError


class HeaderMarkIsEmpty(_OtherSchema):
    """Has an empty x-mcp-header."""

    def change(self, schema: dict[str, Any]) -> None:
        schema["properties"]["region"]["x-mcp-header"] = ""


class HeaderMarkHasASpace(_OtherSchema):
    """Has an x-mcp-header with a space."""

    def change(self, schema: dict[str, Any]) -> None:
        schema["properties"]["region"]["x-mcp-header"] = "The Region"


class HeaderMarkHasALineEnd(_OtherSchema):
    """Has an x-mcp-header with the end of a line in it."""

    def change(self, schema: dict[str, Any]) -> None:
        schema["properties"]["region"]["x-mcp-header"] = "Region\r\nX"


class HeaderMarkStandsTwice(_OtherSchema):
    """Has the same x-mcp-header at two arguments."""

    def change(self, schema: dict[str, Any]) -> None:
        schema["properties"]["level"]["x-mcp-header"] = "REGION"


class HeaderMarkAtANumber(_OtherSchema):
    """Has x-mcp-header at an argument that is any number."""

    def change(self, schema: dict[str, Any]) -> None:
        schema["properties"]["level"]["type"] = "number"


class HeaderMarkIsHidden(_OtherSchema):
    """Has x-mcp-header below `anyOf`."""

    def change(self, schema: dict[str, Any]) -> None:
        level = schema["properties"].pop("level")
        schema["anyOf"] = [{"properties": {"level": level}}]


# Streams


class StreamsBringRequests(HTTPFault):
    """Asks something of the client on the stream of a request."""

    def piece(self, seen: Seen, piece: bytes) -> bytes:
        asked = {"jsonrpc": "2.0", "id": "roots", "method": "roots/list"}
        return b"data: " + json.dumps(asked).encode() + b"\n\n" + piece


class StreamsBringChanges(HTTPFault):
    """Tells of changes on any stream."""

    def piece(self, seen: Seen, piece: bytes) -> bytes:
        change = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
        return b"data: " + json.dumps(change).encode() + b"\n\n" + piece


class StreamsAreBuffered(HTTPFault):
    """Lets proxies keep its streams."""

    def head(self, seen: Seen, status: int, fields: Fields) -> tuple[int, Fields]:
        kept = {name: text for name, text in fields.items() if name.lower() != "x-accel-buffering"}
        return status, kept


class ClosedStreamsGoOnElsewhere(HTTPFault):
    """Sends what a closed stream was to bring on the next one."""

    def __init__(self) -> None:
        self._open: list[str] = []

    def request(self, seen: Seen) -> HTTPRequest:
        token = seen.params.get("_meta", {}).get("progressToken")
        if token is not None and token not in self._open:
            self._open.append(token)
        return seen.request

    def piece(self, seen: Seen, piece: bytes) -> bytes:
        for token in self._open:
            late = {"progressToken": token, "progress": 1000}
            note = {"jsonrpc": "2.0", "method": "notifications/progress", "params": late}
            piece += b"data: " + json.dumps(note).encode() + b"\n\n"
        return piece

    def last(self, seen: Seen) -> bytes:
        token = seen.params.get("_meta", {}).get("progressToken")
        self._open = [other for other in self._open if other != token]
        return b""


MUTANTS: Final[tuple[Mutant, ...]] = (
    http_mutant("versions-may-differ", VersionsMayDiffer, ["other-version-in-header-is-refused"]),
    http_mutant(
        "unsupported-version-gets-404",
        UnsupportedVersionGets404,
        [
            "unsupported-version-gets-400",
            "method-header-is-compared",
            "other-version-in-header-is-refused",
        ],
    ),
    http_mutant(
        "supported-versions-are-secret",
        SupportedVersionsAreSecret,
        ["unsupported-version-gets-400"],
    ),
    http_mutant("unknown-method-gets-200", UnknownMethodGets200, ["unknown-method-gets-404"]),
    http_mutant(
        "version-header-is-guessed",
        VersionHeaderIsGuessed,
        ["missing-version-header-is-refused"],
        MARKED,
    ),
    http_mutant("get-gets-404", GetGets404, ["legacy-http-gets-405"], MARKED),
    http_mutant("mints-sessions", MintsSessions, ["legacy-http-gets-405"], MARKED),
    http_mutant("method-header-is-ignored", MethodHeaderIsIgnored, ["method-header-is-compared"]),
    http_mutant("name-header-is-ignored", NameHeaderIsIgnored, ["name-header-is-compared"]),
    http_mutant("encoded-names-are-refused", EncodedNamesAreRefused, ["encoded-name-is-decoded"]),
    http_mutant(
        "header-names-have-one-case", HeaderNamesHaveOneCase, ["header-names-have-any-case"]
    ),
    http_mutant(
        "argument-headers-are-ignored",
        ArgumentHeadersAreIgnored,
        [
            "argument-header-is-compared",
            "missing-argument-header-is-refused",
            "bad-argument-header-is-refused",
        ],
        MARKED,
    ),
    http_mutant(
        "encoded-arguments-are-refused",
        EncodedArgumentsAreRefused,
        ["encoded-argument-is-decoded"],
        MARKED,
    ),
    http_mutant(
        "absent-arguments-need-headers",
        AbsentArgumentsNeedHeaders,
        ["absent-argument-needs-no-header"],
        MARKED,
    ),
    http_mutant("integers-are-text", IntegersAreText, ["integers-are-compared-as-numbers"], MARKED),
    *(
        frame_mutant(id, fault, [check], marked_server)
        for id, fault, check in (
            ("header-mark-is-empty", HeaderMarkIsEmpty, "header-marks-are-names"),
            ("header-mark-has-a-space", HeaderMarkHasASpace, "header-marks-are-names"),
            ("header-mark-has-a-line-end", HeaderMarkHasALineEnd, "header-marks-are-names"),
            ("header-mark-stands-twice", HeaderMarkStandsTwice, "header-marks-are-unique"),
            ("header-mark-at-a-number", HeaderMarkAtANumber, "header-marks-are-at-plain-values"),
            ("header-mark-is-hidden", HeaderMarkIsHidden, "header-marks-can-be-found"),
        )
    ),
    http_mutant("streams-bring-requests", StreamsBringRequests, ["streams-bring-no-requests"]),
    http_mutant(
        "streams-bring-changes", StreamsBringChanges, ["streams-bring-what-belongs-to-them"]
    ),
    http_mutant("streams-are-buffered", StreamsAreBuffered, ["streams-are-not-buffered"]),
    http_mutant(
        "closed-streams-go-on-elsewhere", ClosedStreamsGoOnElsewhere, ["closed-stream-is-the-end"]
    ),
)
