"""Prompts: checks of how a server lists and gives them."""

from __future__ import annotations

from typing import Final

from mcp_trio.harness.calling import Called, asks, converse
from mcp_trio.harness.checks import MODERN, REVISIONS, check
from mcp_trio.harness.checks.tools import declares
from mcp_trio.harness.fields import (
    misfit_of_result,
    wrong_kinds,
    wrong_media,
    wrong_resources,
)
from mcp_trio.harness.model import Failed
from mcp_trio.harness.probe import ServerProbe, expect, require
from mcp_trio.protocol.errors import INVALID_PARAMS
from mcp_trio.wire.jsonrpc import JSON, JSONObject

MOST_GOT: Final = 12
"""Prompts that one check gets."""


def arguments_of(prompt: JSONObject) -> list[JSONObject]:
    listed = prompt.get("arguments")
    return [item for item in listed if isinstance(item, dict)] if listed else []


def filled(prompt: JSONObject) -> JSONObject:
    """The parameters to get a prompt with: its required arguments, and a word for each."""
    required = [a for a in arguments_of(prompt) if a.get("required") is True]
    arguments: JSONObject = {str(a.get("name")): "example" for a in required}
    return {"name": prompt.get("name"), "arguments": arguments}


async def got_prompts(probe: ServerProbe) -> list[tuple[JSONObject, Called]]:
    """Prompts that are given when they are asked for with a word for each argument.

    Raises:
        NotApplicable: There is none.
    """
    prompts = (await probe.inventory()).prompts
    require(prompts, "the server lists no prompts")
    session = await probe.session()
    found = []
    for prompt in prompts[:MOST_GOT]:
        called = await converse(session, "prompts/get", filled(prompt))
        if called.reply.result is not None and not asks(called.reply):
            found.append((prompt, called))
    require(found, "no prompt is given for arguments that are the word 'example'")
    return found


@check(
    "prompts-are-declared",
    "prompts-1",
    meaning="A server that lists prompts declares the capability `prompts`.",
)
async def prompts_are_declared(probe: ServerProbe) -> None:
    inventory = await probe.inventory()
    count = len(inventory.prompts)
    require(count, "the server lists no prompts")
    expect(inventory.has("prompts"), f"{count} prompts are listed, and `prompts` is not declared")


@check(
    "declared-prompts-are-listed",
    "prompts-2",
    meaning="A server that declares `prompts` answers prompts/list.",
    revisions=MODERN,
)
async def declared_prompts_are_listed(probe: ServerProbe) -> None:
    declares(await probe.inventory(), "prompts")
    result = (await (await probe.session()).request("prompts/list")).expect_result()
    expect(isinstance(result.get("prompts"), list), "the result has no list of prompts")


@check(
    "prompt-messages-are-well-formed",
    meaning="A prompt has messages with roles, and content of the kinds that the revision has.",
)
async def prompt_messages_are_well_formed(probe: ServerProbe) -> None:
    for prompt, called in await got_prompts(probe):
        result = called.reply.result or {}
        if wrong := misfit_of_result(result, "prompts/get"):
            raise Failed(f"the prompt {prompt.get('name')!r} does not fit: {wrong}")
        faults = list(wrong_kinds(blocks_of(result), probe.revision))
        expect(not faults, f"the prompt {prompt.get('name')!r}: {'; '.join(faults)}")


def blocks_of(result: JSONObject) -> list[JSON]:
    """The content of a prompt's messages."""
    messages = result.get("messages")
    return [message.get("content") for message in messages or () if isinstance(message, dict)]


async def judge_media(probe: ServerProbe, kind: str) -> None:
    judged = False
    for prompt, called in await got_prompts(probe):
        blocks = blocks_of(called.reply.result or {})
        found = [b for b in blocks if isinstance(b, dict) and b.get("type") == kind]
        judged = judged or bool(found)
        faults = list(wrong_resources(found) if kind == "resource" else wrong_media(found, kind))
        expect(not faults, f"the prompt {prompt.get('name')!r}: {'; '.join(faults)}")
    require(judged, f"no prompt has content of type {kind}")


@check(
    "prompt-images-are-base64",
    "prompts-5",
    meaning="Images in prompts are base64 and have a valid MIME type.",
)
async def prompt_images_are_base64(probe: ServerProbe) -> None:
    await judge_media(probe, "image")


@check(
    "prompt-audio-is-base64",
    "prompts-6",
    meaning="Audio in prompts is base64 and has a valid MIME type.",
    revisions=REVISIONS[1:],
)
async def prompt_audio_is_base64(probe: ServerProbe) -> None:
    await judge_media(probe, "audio")


@check(
    "prompt-resources-are-whole",
    "prompts-7",
    meaning="Resources in prompts have a valid URI, a MIME type, and text or base64 data.",
)
async def prompt_resources_are_whole(probe: ServerProbe) -> None:
    await judge_media(probe, "resource")
    for prompt, called in await got_prompts(probe):
        for block in blocks_of(called.reply.result or {}):
            if isinstance(block, dict) and block.get("type") == "resource":
                expect(
                    block["resource"].get("mimeType"),
                    f"a resource in the prompt {prompt.get('name')!r} has no MIME type",
                )


@check(
    "unknown-prompt-is-refused",
    "prompts-8",
    meaning="Getting a prompt that does not exist gets -32602.",
)
async def unknown_prompt_is_refused(probe: ServerProbe) -> None:
    declares(await probe.inventory(), "prompts")
    params = {"name": "harness_no_such_prompt", "arguments": {}}
    reply = await (await probe.session()).request("prompts/get", params)
    reply.expect_error(INVALID_PARAMS)


@check(
    "missing-prompt-arguments-are-refused",
    "prompts-8",
    "prompts-9",
    meaning="Getting a prompt without an argument that it requires gets -32602.",
)
async def missing_prompt_arguments_are_refused(probe: ServerProbe) -> None:
    prompts = (await probe.inventory()).prompts
    session = await probe.session()
    judged = False
    for prompt in prompts[:MOST_GOT]:
        params = filled(prompt)
        for name in params["arguments"]:
            rest = {key: value for key, value in params["arguments"].items() if key != name}
            reply = await session.request("prompts/get", {**params, "arguments": rest})
            judged = True
            if reply.code != INVALID_PARAMS:
                said = f"{params['name']!r} without {name!r} got {reply.brief()}"
                raise Failed(said, requirement="prompts-9" if reply.error is None else "prompts-8")
    require(judged, "no prompt requires an argument")


@check(
    "malformed-prompt-arguments-are-refused",
    "prompts-12",
    "prompts-9",
    meaning="Getting a prompt with arguments that are no strings, or no object, gets an error.",
)
async def malformed_prompt_arguments_are_refused(probe: ServerProbe) -> None:
    session = await probe.session()
    for prompt, _ in await got_prompts(probe):
        params = filled(prompt)
        wrong: list[JSON] = [["harness"], 7, "harness"]
        wrong += [{**params["arguments"], name: {"harness": 1}} for name in params["arguments"]]
        for arguments in wrong:
            reply = await session.request("prompts/get", {**params, "arguments": arguments})
            expect(
                reply.error is not None,
                f"{params['name']!r} took {arguments!r:.60} as arguments: {reply.brief()}",
            )
