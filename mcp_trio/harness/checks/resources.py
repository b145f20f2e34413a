"""Resources: checks of how a server lists and reads them."""

from __future__ import annotations

import re
from typing import Final

from mcp_trio.harness.calling import asks, converse
from mcp_trio.harness.checks import LEGACY, MODERN, REVISIONS, check
from mcp_trio.harness.checks.tools import declares
from mcp_trio.harness.fields import (
    KNOWN_SCHEMES,
    is_base64,
    is_uri,
    is_uri_template,
    misfit_of_result,
)
from mcp_trio.harness.model import Failed
from mcp_trio.harness.probe import ServerProbe, expect, require
from mcp_trio.protocol.errors import INVALID_PARAMS, RESOURCE_NOT_FOUND
from mcp_trio.wire.jsonrpc import JSONObject

OWN_SCHEMES: Final = REVISIONS[2:]
"""The revisions that speak of schemes of a server's own."""

UNKNOWN: Final = "harness-nobody://no/such/resource"
"""A URI of a scheme that no server has resources in."""
MOST_READ: Final = 12
"""Resources that one check reads."""


# Listing ----------------------------------------------------------------------------------------


@check(
    "resources-are-declared",
    "resources-1",
    meaning="A server that lists resources or templates declares the capability `resources`.",
)
async def resources_are_declared(probe: ServerProbe) -> None:
    inventory = await probe.inventory()
    count = len(inventory.resources) + len(inventory.templates)
    require(count, "the server lists no resources")
    expect(
        inventory.has("resources"),
        f"{count} resources and templates are listed, and `resources` is not declared",
    )


@check(
    "declared-resources-are-listed",
    "resources-2",
    meaning="A server that declares `resources` answers resources/list.",
    revisions=MODERN,
)
async def declared_resources_are_listed(probe: ServerProbe) -> None:
    declares(await probe.inventory(), "resources")
    result = (await (await probe.session()).request("resources/list")).expect_result()
    expect(isinstance(result.get("resources"), list), "the result has no list of resources")


@check(
    "own-schemes-make-valid-uris",
    "resources-6",
    meaning="The URIs of resources in schemes of the server's own are valid by RFC 3986.",
    revisions=OWN_SCHEMES,
)
async def own_schemes_make_valid_uris(probe: ServerProbe) -> None:
    uris = [resource.get("uri") for resource in (await probe.inventory()).resources]
    own = [uri for uri in uris if str(uri).partition(":")[0].lower() not in KNOWN_SCHEMES]
    require(own, "the server lists no resource in a scheme of its own")
    for uri in own:
        expect(is_uri(uri), f"{uri!r} is no valid URI")


@check(
    "uris-and-templates-are-valid",
    meaning="The URIs of resources are valid by RFC 3986, and the templates by RFC 6570.",
)
async def uris_and_templates_are_valid(probe: ServerProbe) -> None:
    inventory = await probe.inventory()
    require(inventory.resources or inventory.templates, "the server lists no resources")
    for resource in inventory.resources:
        expect(is_uri(resource.get("uri")), f"{resource.get('uri')!r} is no valid URI")
    for template in inventory.templates:
        text = template.get("uriTemplate")
        expect(is_uri_template(text), f"{text!r} is no valid URI template")


# Reading ----------------------------------------------------------------------------------------


async def read_resources(probe: ServerProbe) -> list[tuple[str, JSONObject]]:
    """Listed resources that can be read: the URI of each, and the result.

    Raises:
        NotApplicable: There is none.
    """
    resources = (await probe.inventory()).resources
    require(resources, "the server lists no resources")
    session = await probe.session()
    found = []
    for resource in resources[:MOST_READ]:
        called = await converse(session, "resources/read", {"uri": resource.get("uri")})
        if called.reply.result is not None and not asks(called.reply):
            found.append((str(resource.get("uri")), called.reply.result))
    require(found, "no listed resource can be read")
    return found


def contents_in(result: JSONObject) -> list[JSONObject]:
    listed = result.get("contents")
    items = listed if isinstance(listed, list) else []
    return [item for item in items if isinstance(item, dict)]


@check(
    "resource-contents-are-well-formed",
    meaning="What is read has a URI, and text or a blob.",
)
async def resource_contents_are_well_formed(probe: ServerProbe) -> None:
    for uri, result in await read_resources(probe):
        if wrong := misfit_of_result(result, "resources/read"):
            raise Failed(f"the result for {uri!r} does not fit: {wrong}")
        for contents in contents_in(result):
            said = f"the contents of {uri!r} have the URI {contents.get('uri')!r}"
            expect(is_uri(contents.get("uri")), said)
            held = {"text", "blob"} & contents.keys()
            expect(held, f"the contents of {uri!r} have neither text nor blob")


@check(
    "resource-blobs-are-base64",
    "resources-13",
    meaning="Binary data of resources is base64.",
)
async def resource_blobs_are_base64(probe: ServerProbe) -> None:
    found = [
        (uri, contents["blob"])
        for uri, result in await read_resources(probe)
        for contents in contents_in(result)
        if "blob" in contents
    ]
    require(found, "no listed resource has binary data")
    for uri, blob in found:
        expect(is_base64(blob), f"the blob of {uri!r} is not base64: {blob!r:.40}")


@check(
    "unknown-resource-is-refused",
    "resources-7",
    "resources-10",
    meaning="Reading a resource that does not exist gets -32602, and no empty contents.",
    revisions=MODERN,
)
async def unknown_resource_is_refused(probe: ServerProbe) -> None:
    declares(await probe.inventory(), "resources")
    reply = await (await probe.session()).request("resources/read", {"uri": UNKNOWN})
    if reply.result is not None and reply.result.get("contents") == []:
        raise Failed(
            "a resource that does not exist has empty contents", requirement="resources-10"
        )
    reply.expect_error(INVALID_PARAMS, requirement="resources-7")


@check(
    "unknown-resource-is-not-found",
    "resources-17",
    meaning="Reading a resource that does not exist gets -32002.",
    revisions=LEGACY,
)
async def unknown_resource_is_not_found(probe: ServerProbe) -> None:
    declares(await probe.inventory(), "resources")
    reply = await (await probe.session()).request("resources/read", {"uri": UNKNOWN})
    reply.expect_error(RESOURCE_NOT_FOUND)


MALFORMED: Final[tuple[JSONObject, ...]] = (
    {},
    {"uri": 7},
    {"uri": None},
    {"uri": ""},
    {"uri": "harness"},
    {"uri": "harness nobody"},
    {"uri": "http://[harness"},
    {"uri": "://"},
)


@check(
    "malformed-uris-are-refused",
    "resources-11",
    meaning="Reading what is no URI gets an error.",
)
async def malformed_uris_are_refused(probe: ServerProbe) -> None:
    declares(await probe.inventory(), "resources")
    session = await probe.session()
    for params in MALFORMED:
        reply = await session.request("resources/read", params)
        expect(reply.error is not None, f"reading {params} got {reply.brief()}")


TARGET: Final = "../../../../../../../../../../etc/passwd"
PASSWORDS: Final = re.compile(r"^root:[^:\n]*:0:0:", re.MULTILINE)


@check(
    "paths-do-not-lead-outside",
    "resources-15",
    meaning="A URI with `..` in it, plain or escaped, does not lead to the system's files.",
    revisions=MODERN,
)
async def paths_do_not_lead_outside(probe: ServerProbe) -> None:
    inventory = await probe.inventory()
    uris = [str(resource.get("uri")) for resource in inventory.resources[:MOST_READ]]
    templates = [str(t.get("uriTemplate")) for t in inventory.templates[:MOST_READ]]
    require(uris or templates, "the server lists no resources")
    session = await probe.session()
    for uri in outward(uris, templates):
        reply = await session.request("resources/read", {"uri": uri})
        expect(not shows_passwords(reply.result), f"{uri!r} leads to the system's passwords")


def outward(uris: list[str], templates: list[str]) -> list[str]:
    """URIs that lead out of the folders of resources, if nobody looks after it."""
    escaped = TARGET.replace("../", "..%2F")
    twice = TARGET.replace("../", "%2e%2e%2f")
    found = []
    for path in (TARGET, escaped, twice):
        found += [f"{uri.rpartition('/')[0]}/{path}" for uri in uris]
        found += [path.join(re.split(r"\{[^{}]*\}", text)) for text in templates]
    return list(dict.fromkeys(found))


def shows_passwords(result: JSONObject | None) -> bool:
    texts = [contents.get("text") for contents in contents_in(result or {})]
    return any(isinstance(text, str) and PASSWORDS.search(text) for text in texts)
