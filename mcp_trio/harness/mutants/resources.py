"""Resources: mutants of servers."""

from __future__ import annotations

from typing import Final

from mcp_trio.harness.mutants import Mutant
from mcp_trio.harness.mutants.changing import fails, replies, replies_to, succeeds
from mcp_trio.harness.mutants.frames import frame_mutant
from mcp_trio.harness.mutants.workshop import workshop
from mcp_trio.wire.jsonrpc import JSONObject

HINTS: Final = {"ttlMs": 0, "cacheScope": "private"}


@replies("resources/list")
def uris_have_spaces(answer: JSONObject) -> None:
    """Has spaces in the URIs of resources."""
    for resource in answer["result"]["resources"]:
        resource["uri"] = f"{resource['uri']} please"


@replies("resources/templates/list")
def templates_stay_open(answer: JSONObject) -> None:
    """Gives URI templates whose braces are not closed."""
    for template in answer["result"]["resourceTemplates"]:
        template["uriTemplate"] = template["uriTemplate"].replace("}", "")


@replies("resources/read")
def nothing_is_read(answer: JSONObject) -> None:
    """Gives contents that hold nothing."""
    for contents in answer.get("result", {}).get("contents", ()):
        contents.pop("text", None)


@replies("resources/read")
def blobs_are_text(answer: JSONObject) -> None:
    """Gives binary data as it is, and not as base64."""
    for contents in answer.get("result", {}).get("contents", ()):
        if "blob" in contents:
            contents["blob"] = "not really"


@replies("resources/read")
def unknown_is_empty(answer: JSONObject) -> JSONObject | None:
    """Gives empty contents where there is no resource."""
    return succeeds(answer, contents=[], **HINTS) if "error" in answer else None


@replies("resources/read")
def unknown_is_internal(answer: JSONObject) -> JSONObject | None:
    """Takes a resource that does not exist for an error of its own."""
    return fails(answer, -32603) if "error" in answer else None


@replies_to("resources/read")
def paths_are_followed(answer: JSONObject, params: JSONObject) -> JSONObject | None:
    """Follows `..` wherever it leads."""
    uri = str(params.get("uri"))
    if "../" not in uri:
        return None
    text = "root:x:0:0:root:/root:/bin/sh\n"
    return succeeds(answer, contents=[{"uri": uri, "text": text}], **HINTS)


MUTANTS: Final[tuple[Mutant, ...]] = (
    frame_mutant(
        "uris-have-spaces",
        uris_have_spaces,
        ["own-schemes-make-valid-uris", "uris-and-templates-are-valid"],
    ),
    frame_mutant("templates-stay-open", templates_stay_open, ["uris-and-templates-are-valid"]),
    frame_mutant("nothing-is-read", nothing_is_read, ["resource-contents-are-well-formed"]),
    frame_mutant("blobs-are-text", blobs_are_text, ["resource-blobs-are-base64"], workshop),
    frame_mutant(
        "unknown-resource-is-empty",
        unknown_is_empty,
        [
            "unknown-resource-is-refused",
            "unknown-resource-is-not-found",
            "malformed-uris-are-refused",
        ],
    ),
    frame_mutant(
        "unknown-resource-is-internal",
        unknown_is_internal,
        ["unknown-resource-is-refused", "unknown-resource-is-not-found"],
    ),
    frame_mutant("paths-are-followed", paths_are_followed, ["paths-do-not-lead-outside"]),
)
