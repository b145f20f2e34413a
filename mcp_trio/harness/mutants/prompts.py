"""Prompts: mutants of servers."""

from __future__ import annotations

from typing import Final

from mcp_trio.harness.mutants import Mutant
from mcp_trio.harness.mutants.changing import fails, replies, succeeds
from mcp_trio.harness.mutants.frames import frame_mutant
from mcp_trio.harness.mutants.workshop import workshop
from mcp_trio.wire.jsonrpc import JSONObject


@replies("prompts/get")
def the_system_speaks(answer: JSONObject) -> None:
    """Gives messages a role that there is not."""
    for message in answer.get("result", {}).get("messages", ()):
        message["role"] = "system"


@replies("prompts/get")
def media_are_no_base64(answer: JSONObject) -> None:
    """Gives images and audio as they are, and resources without their MIME type."""
    for message in answer.get("result", {}).get("messages", ()):
        content = message["content"]
        if "data" in content:
            content["data"] += "%"
        content.get("resource", {}).pop("mimeType", None)


@replies("prompts/get")
def prompts_fail_within(answer: JSONObject) -> JSONObject | None:
    """Takes what is wrong with a request for an error of its own."""
    return fails(answer, -32603) if "error" in answer else None


@replies("prompts/get")
def prompts_take_anything(answer: JSONObject) -> JSONObject | None:
    """Gives a prompt for whatever it is asked."""
    return succeeds(answer, messages=[]) if "error" in answer else None


MUTANTS: Final[tuple[Mutant, ...]] = (
    frame_mutant("the-system-speaks", the_system_speaks, ["prompt-messages-are-well-formed"]),
    frame_mutant(
        "media-are-no-base64",
        media_are_no_base64,
        ["prompt-images-are-base64", "prompt-audio-is-base64", "prompt-resources-are-whole"],
        workshop,
    ),
    frame_mutant(
        "prompts-fail-within",
        prompts_fail_within,
        ["unknown-prompt-is-refused", "missing-prompt-arguments-are-refused"],
    ),
    frame_mutant(
        "prompts-take-anything",
        prompts_take_anything,
        ["missing-prompt-arguments-are-refused", "malformed-prompt-arguments-are-refused"],
    ),
)
