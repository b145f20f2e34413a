"""Tools: mutants of servers."""

from __future__ import annotations

from typing import Final

from mcp_trio.harness.mutants import Mutant
from mcp_trio.harness.mutants.changing import fails, replies, requests, succeeds
from mcp_trio.harness.mutants.frames import frame_mutant
from mcp_trio.harness.mutants.workshop import workshop
from mcp_trio.wire.jsonrpc import JSONObject

HELLO: Final = ("initialize", "server/discover")


@replies(*HELLO)
def nothing_is_declared(answer: JSONObject) -> None:
    """Declares no capabilities, and has all that it has."""
    answer["result"]["capabilities"] = {}


@replies(*HELLO)
def resources_are_not_declared(answer: JSONObject) -> None:
    """Embeds resources in results, and does not declare them."""
    answer["result"]["capabilities"].pop("resources")


@replies("tools/list", "resources/list", "prompts/list")
def lists_are_refused(answer: JSONObject) -> JSONObject:
    """Declares what it has, and refuses to list it."""
    return fails(answer, -32601)


@replies("tools/list")
def names_have_spaces(answer: JSONObject) -> None:
    """Has spaces in the names of tools."""
    for tool in answer["result"]["tools"]:
        tool["name"] = f"{tool['name']}, please"


@replies("tools/list")
def tools_are_listed_twice(answer: JSONObject) -> None:
    """Lists each tool twice."""
    answer["result"]["tools"] *= 2


@requests("tools/call")
def case_does_not_matter(params: JSONObject) -> None:
    """Finds tools whatever the case of their names."""
    params["name"] = str(params.get("name", "")).lower()


@replies("tools/list")
def schemas_are_invalid(answer: JSONObject) -> None:
    """Gives schemas that are none."""
    for tool in answer["result"]["tools"]:
        for key in ("inputSchema", "outputSchema"):
            if key in tool:
                tool[key]["properties"] = {"a": {"type": "integr"}}


@replies("tools/call")
def failures_look_like_successes(answer: JSONObject) -> JSONObject | None:
    """Answers calls that fail as if they had not."""
    failed = "error" in answer or answer["result"].get("isError")
    return succeeds(answer, content=[]) if failed else None


@replies("tools/call")
def failures_are_errors(answer: JSONObject) -> JSONObject | None:
    """Answers invalid arguments by an error that no model sees."""
    return fails(answer, -32602) if answer.get("result", {}).get("isError") else None


@replies("tools/call")
def content_of_another_world(answer: JSONObject) -> None:
    """Gives content of a type that no revision has."""
    for block in answer.get("result", {}).get("content", ()):
        block["type"] = "video"


@replies("tools/call")
def output_is_something_else(answer: JSONObject) -> None:
    """Gives structured content that its schema refuses, and is a list."""
    if "structuredContent" in answer.get("result", {}):
        answer["result"]["structuredContent"] = ["x"]


@replies("tools/call")
def text_says_nothing(answer: JSONObject) -> None:
    """Gives structured content, and something else as text."""
    if "structuredContent" in answer.get("result", {}):
        answer["result"]["content"] = [{"type": "text", "text": "Done."}]


MUTANTS: Final[tuple[Mutant, ...]] = (
    frame_mutant(
        "nothing-is-declared",
        nothing_is_declared,
        ["tools-are-declared", "resources-are-declared", "prompts-are-declared"],
    ),
    frame_mutant(
        "resources-are-not-declared",
        resources_are_not_declared,
        ["embedded-resources-need-the-capability"],
        workshop,
    ),
    frame_mutant(
        "lists-are-refused",
        lists_are_refused,
        [
            "declared-tools-are-listed",
            "declared-resources-are-listed",
            "declared-prompts-are-listed",
        ],
    ),
    frame_mutant("names-have-spaces", names_have_spaces, ["tool-names-are-of-the-allowed-form"]),
    frame_mutant("tools-are-listed-twice", tools_are_listed_twice, ["tool-names-are-unique"]),
    frame_mutant(
        "case-does-not-matter", case_does_not_matter, ["tool-names-are-told-apart-by-case"]
    ),
    frame_mutant(
        "schemas-are-invalid",
        schemas_are_invalid,
        ["input-schemas-are-valid", "output-schemas-are-valid"],
    ),
    frame_mutant(
        "failures-look-like-successes",
        failures_look_like_successes,
        [
            "unknown-tool-is-refused",
            "malformed-call-is-refused",
            "invalid-arguments-are-refused",
            "unknown-arguments-are-refused",
        ],
    ),
    frame_mutant(
        "failures-are-errors", failures_are_errors, ["invalid-arguments-are-reported-to-the-model"]
    ),
    frame_mutant(
        "content-of-another-world", content_of_another_world, ["tool-results-are-well-formed"]
    ),
    frame_mutant(
        "output-is-something-else",
        output_is_something_else,
        ["structured-content-fits-the-output-schema", "structured-content-is-an-object"],
    ),
    frame_mutant("text-says-nothing", text_says_nothing, ["structured-content-is-text-too"]),
)
