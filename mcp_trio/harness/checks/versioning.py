"""Versions and metadata in each request, and server/discover: checks of the modern era."""

from __future__ import annotations

import json
from typing import Any, Final

from mcp_trio.harness.aftermath import FRAMED
from mcp_trio.harness.checks import MODERN, REVISIONS, check
from mcp_trio.harness.exercise import as_object
from mcp_trio.harness.model import Transport
from mcp_trio.harness.probe import ServerProbe, expect, require
from mcp_trio.harness.session import CLIENT_INFO, Reply, Session
from mcp_trio.protocol.errors import INVALID_PARAMS, UNSUPPORTED_VERSION
from mcp_trio.protocol.meta import (
    CLIENT_CAPABILITIES,
    META,
    PROTOCOL_VERSION,
    is_valid_key,
)
from mcp_trio.protocol.meta import CLIENT_INFO as CLIENT_INFO_KEY
from mcp_trio.wire.jsonrpc import JSON, JSONObject

TWO_WAY: Final[tuple[Transport, ...]] = FRAMED
"""Where a request has no headers that would have to say the same."""

UNKNOWN_VERSIONS: Final = ("1900-01-01", "2099-12-31", "harness")


# Versions


@check(
    "unknown-version-is-refused",
    "versioning-1",
    meaning="A request in a version that is not served gets -32022 with the versions that are.",
    revisions=MODERN,
)
async def unknown_version_is_refused(probe: ServerProbe) -> None:
    session = await probe.session()
    await session.fence()
    for version in UNKNOWN_VERSIONS:
        for method in ("tools/list", "server/discover"):
            reply = await session.request(method, meta={PROTOCOL_VERSION: version})
            _judge_refusal(reply, version, probe.revision)


@check(
    "first-request-of-an-unknown-version-is-refused",
    "versioning-1",
    "base-23",
    meaning="A connection that begins with a version that is not served gets -32022, too.",
    revisions=MODERN,
)
async def first_request_of_an_unknown_version_is_refused(probe: ServerProbe) -> None:
    for version in UNKNOWN_VERSIONS[:2]:
        async with probe.open_session() as session:
            reply = await session.request("tools/list", meta={PROTOCOL_VERSION: version})
            _judge_refusal(reply, version, probe.revision)


def _judge_refusal(reply: Reply, version: str, spoken: str) -> None:
    error = reply.expect_error(UNSUPPORTED_VERSION)
    data = as_object(error.get("data"))
    supported = data.get("supported")
    named = isinstance(supported, list) and all(isinstance(one, str) for one in supported)
    expect(named, f"data.supported of -32022 is {json.dumps(supported)[:80]}")
    expect(
        spoken in (supported or ()),
        f"data.supported of -32022 is {supported}, without {spoken}, which it serves",
    )
    requested = data.get("requested")
    expect(requested == version, f"data.requested of -32022 is {requested!r}, not {version!r}")


@check(
    "each-request-has-its-version",
    "base-23",
    "versioning-1",
    meaning="A request is served by its own version, whatever the one before it said.",
    revisions=MODERN,
)
async def each_request_has_its_version(probe: ServerProbe) -> None:
    session = await probe.session()
    for _ in range(2):
        (await session.request("server/discover")).expect_result("base-23")
        wrong = await session.request("server/discover", meta={PROTOCOL_VERSION: "1900-01-01"})
        wrong.expect_error(requirement="versioning-1")


@check(
    "first-request-may-be-any",
    "base-23",
    meaning="A server serves the first request of a connection, whatever it is.",
    revisions=MODERN,
)
async def first_request_may_be_any(probe: ServerProbe) -> None:
    inventory = await probe.inventory()
    listed = {
        "tools/list": inventory.tools,
        "resources/list": inventory.resources,
        "prompts/list": inventory.prompts,
    }
    methods = [method for method, found in listed.items() if found]
    require(methods, "the server lists nothing")
    async with probe.open_session() as session:
        reply = await session.request(methods[0], timeout=30.0)
        reply.expect_result()


@check(
    "connections-see-the-same",
    "base-25",
    meaning="What one connection has listed can be had over another one.",
    revisions=MODERN,
)
async def connections_see_the_same(probe: ServerProbe) -> None:
    inventory = await probe.inventory()
    require(inventory.tools, "the server has no tools")
    async with probe.open_session() as session:
        result = (await session.request("tools/list")).expect_result()
        listed = [as_object(tool).get("name") for tool in result.get("tools") or ()]
    for name in listed:
        known = any(tool.get("name") == name for tool in inventory.tools)
        expect(known, f"one connection lists the tool {name!r}, and another does not")


# Metadata


@check(
    "missing-meta-is-refused",
    "base-45",
    meaning="A request without its version or the client's capabilities gets -32602.",
    revisions=MODERN,
    transports=TWO_WAY,
)
async def missing_meta_is_refused(probe: ServerProbe) -> None:
    async with probe.open_session() as session:
        await session.fence()  # so that a server of both eras knows which one is spoken here
        for key in (CLIENT_CAPABILITIES, PROTOCOL_VERSION):
            for method in ("tools/list", "server/discover"):
                reply = await session.request(method, meta={key: None})
                reply.expect_error(INVALID_PARAMS)


@check(
    "malformed-meta-is-refused",
    meaning="A request whose version or capabilities are of the wrong type is refused.",
    revisions=MODERN,
    transports=TWO_WAY,
)
async def malformed_meta_is_refused(probe: ServerProbe) -> None:
    wrong: list[tuple[str, JSON]] = [
        (PROTOCOL_VERSION, 20260728),
        (PROTOCOL_VERSION, ["2026-07-28"]),
        (CLIENT_CAPABILITIES, "all"),
        (CLIENT_CAPABILITIES, []),
    ]
    async with probe.open_session() as session:
        await session.fence()
        for key, value in wrong:
            reply = await session.request("tools/list", meta={key: value})
            expect("error" in reply.raw, f"with {key} = {json.dumps(value)}: {reply.brief()}")


@check(
    "client-may-be-nameless",
    "base-52",
    meaning="A request is served alike whoever the client says that it is, or if it does not say.",
    revisions=MODERN,
)
async def client_may_be_nameless(probe: ServerProbe) -> None:
    session = await probe.session()
    usual = await _said_to(session, CLIENT_INFO)
    names: list[JSON] = [
        None,
        {"name": "claude-ai", "version": "0.1.0"},
        {"name": "mcp-trio-harness", "version": "1", "title": "T", "harness": [1]},
    ]
    for info in names:
        said = await _said_to(session, info)
        who = f"clientInfo {json.dumps(info)}" if info else "no clientInfo"
        expect(said == usual, f"with {who}: {said}, and otherwise {usual}")


async def _said_to(session: Session, info: JSON) -> Any:
    """What a client of a name gets to see: capabilities and the names of tools, or an error."""
    meta = {CLIENT_INFO_KEY: info}
    discovered = await session.request("server/discover", meta=meta)
    listed = await session.request("tools/list", meta=meta)
    for reply in (discovered, listed):
        if reply.code is not None and reply.code != -32601:
            return reply.brief()
    tools = (listed.result or {}).get("tools") or ()
    return (
        (discovered.result or {}).get("capabilities"),
        sorted(str(as_object(tool).get("name")) for tool in tools),
    )


@check(
    "unknown-client-capabilities-are-ignored",
    "versioning-5",
    meaning="A request is served though the client has capabilities or extensions nobody knows.",
    revisions=MODERN,
)
async def unknown_client_capabilities_are_ignored(probe: ServerProbe) -> None:
    session = await probe.session()
    offered: JSONObject = {"harness": {"x": 1}, "extensions": {"com.example/harness": {"a": []}}}
    reply = await session.request("server/discover", meta={CLIENT_CAPABILITIES: offered})
    reply.expect_result()


# Discovery


@check(
    "discover-is-served",
    "discover-1",
    "versioning-3",
    meaning="server/discover says which versions the server serves, and what it can do.",
    revisions=MODERN,
)
async def discover_is_served(probe: ServerProbe) -> None:
    session = await probe.session()
    result = (await session.request("server/discover")).expect_result()
    versions, capabilities = result.get("supportedVersions"), result.get("capabilities")
    named = isinstance(versions, list) and all(isinstance(one, str) for one in versions)
    expect(named, f"supportedVersions is {json.dumps(versions)[:80]}")
    served = probe.revision in (versions or ())
    expect(served, f"supportedVersions is {versions}, without {probe.revision}, which it serves")
    expect(isinstance(capabilities, dict), f"capabilities are {json.dumps(capabilities)[:80]}")


@check(
    "discover-names-the-server",
    "discover-3",
    meaning="The result of server/discover has the server's name and version in its _meta.",
    revisions=MODERN,
)
async def discover_names_the_server(probe: ServerProbe) -> None:
    session = await probe.session()
    result = (await session.request("server/discover")).expect_result()
    info = as_object(as_object(result.get(META)).get("io.modelcontextprotocol/serverInfo"))
    for key in ("name", "version"):
        expect(isinstance(info.get(key), str), f"serverInfo has the {key} {info.get(key)!r}")


@check(
    "extensions-have-legal-names",
    "versioning-4",
    meaning="The extensions that a server declares, if any, have names with a prefix.",
    revisions=MODERN,
)
async def extensions_have_legal_names(probe: ServerProbe) -> None:
    session = await probe.session()
    result = (await session.request("server/discover")).expect_result()
    for name in as_object(as_object(result.get("capabilities")).get("extensions")):
        prefixed = is_valid_key(name) and "/" in name
        expect(prefixed, f"an extension is called {name!r}, which is no prefix and name")


# The other era


@check(
    "refused-initialize-names-versions",
    "versioning-8",
    meaning="A server without the handshake names its versions in the error for initialize.",
    revisions=MODERN,
    transports=TWO_WAY,
)
async def refused_initialize_names_versions(probe: ServerProbe) -> None:
    params = {
        "protocolVersion": REVISIONS[-2],
        "capabilities": {},
        "clientInfo": CLIENT_INFO,
    }
    async with probe.open_session() as session:
        message: JSONObject = {"jsonrpc": "2.0", "id": session.next_id(), "method": "initialize"}
        reply = await session.ask({**message, "params": params}, timeout=30.0)
    require("error" in reply.raw, "the server has the handshake, too")
    text = json.dumps(reply.error, ensure_ascii=False)
    expect(probe.revision in text, f"the error for initialize names no version: {reply.brief()}")
