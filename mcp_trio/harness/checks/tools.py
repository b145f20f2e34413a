"""Tools: checks of how a server lists and calls them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from mcp_trio.harness.calling import Tried, converse, tried_tools
from mcp_trio.harness.checks import MODERN, REVISIONS, check, having
from mcp_trio.harness.fields import (
    misfit_of_result,
    wrong_kinds,
    wrong_media,
    wrong_resources,
)
from mcp_trio.harness.model import Failed, NotApplicable
from mcp_trio.harness.probe import Inventory, ServerProbe, expect, require
from mcp_trio.harness.samples import NoSample, Outside, outside
from mcp_trio.harness.session import Reply, Session
from mcp_trio.protocol.errors import INVALID_PARAMS
from mcp_trio.protocol.json_schema import InvalidSchema, compile_schema
from mcp_trio.wire.jsonrpc import JSON, JSONObject

NAMED: Final = REVISIONS[3:]
"""The revisions that say how tools are to be named, and what their schemas are."""
OBJECTS_ONLY: Final = tuple(r for r in having("structured_content") if r not in MODERN)
"""The revisions in which structured content is an object."""

_ALLOWED_NAME: Final = re.compile(r"[A-Za-z0-9_.\-]*")
MOST_INVALID: Final = 40
"""Calls with invalid arguments that one check makes."""


async def tools_of(probe: ServerProbe) -> tuple[JSONObject, ...]:
    """The tools that the server lists.

    Raises:
        NotApplicable: There are none.
    """
    tools = (await probe.inventory()).tools
    require(tools, "the server lists no tools")
    return tools


def declares(inventory: Inventory, capability: str) -> None:
    """See to it that a capability is declared; else `NotApplicable`."""
    require(inventory.has(capability), f"the server does not declare {capability}")


def refused(reply: Reply) -> bool:
    """Whether a call failed, by an error or by a result that says so."""
    return reply.error is not None or (reply.result or {}).get("isError") is True


# Listing ----------------------------------------------------------------------------------------


@check(
    "tools-are-declared",
    "tools-3",
    meaning="A server that lists tools declares the capability `tools`.",
)
async def tools_are_declared(probe: ServerProbe) -> None:
    inventory = await probe.inventory()
    require(inventory.tools, "the server lists no tools")
    count = len(inventory.tools)
    expect(inventory.has("tools"), f"tools/list gives {count} tools, and `tools` is not declared")


@check(
    "declared-tools-are-listed",
    "tools-4",
    meaning="A server that declares `tools` answers tools/list.",
    revisions=MODERN,
)
async def declared_tools_are_listed(probe: ServerProbe) -> None:
    declares(await probe.inventory(), "tools")
    result = (await (await probe.session()).request("tools/list")).expect_result()
    expect(isinstance(result.get("tools"), list), "the result of tools/list has no list of tools")


@check(
    "tool-names-are-of-the-allowed-form",
    "tools-12",
    "tools-13",
    "tools-10",
    meaning="Names of tools have 1 to 128 ASCII letters, digits, `_`, `-` and `.`.",
    revisions=NAMED,
)
async def tool_names_are_of_the_allowed_form(probe: ServerProbe) -> None:
    for tool in await tools_of(probe):
        name = str(tool.get("name"))
        expect(
            1 <= len(name) <= 128, f"the name {name[:40]!r} has {len(name)} characters", "tools-10"
        )
        expect(
            _ALLOWED_NAME.fullmatch(name), f"the name {name!r} has other characters than allowed"
        )


@check(
    "tool-names-are-unique",
    "tools-14",
    meaning="No two tools of a server have the same name.",
    revisions=NAMED,
)
async def tool_names_are_unique(probe: ServerProbe) -> None:
    names = [tool.get("name") for tool in await tools_of(probe)]
    twice = sorted({str(name) for name in names if names.count(name) > 1})
    expect(not twice, f"several tools are called {', '.join(twice)}")


@check(
    "tool-names-are-told-apart-by-case",
    "tools-11",
    meaning="A tool does not answer to its name in other letters, large for small.",
    revisions=NAMED,
)
async def tool_names_are_told_apart_by_case(probe: ServerProbe) -> None:
    names = {str(tool.get("name")) for tool in await tools_of(probe)}
    session = await probe.session()
    for tried in await tried_tools(probe):
        other = tried.name.swapcase()
        plain = tried.worked and tried.is_quick and not tried.asks
        if plain and other != tried.name and other not in names:
            reply = await session.request("tools/call", {**tried.call, "name": other})
            expect(refused(reply), f"{tried.name!r} was called as {other!r}: {reply.brief()}")
            return
    raise NotApplicable("no tool that may be called and works has letters in its name")


@check(
    "input-schemas-are-valid",
    "tools-8",
    "base-34",
    meaning="Each inputSchema is an object, and valid in the dialect that it declares.",
    revisions=NAMED,
)
async def input_schemas_are_valid(probe: ServerProbe) -> None:
    for tool in await tools_of(probe):
        expect(
            isinstance(tool.get("inputSchema"), dict),
            f"the inputSchema of {tool.get('name')!r} is {tool.get('inputSchema')!r:.60}",
        )
        if wrong := schema_fault(tool["inputSchema"]):
            raise Failed(f"the inputSchema of {tool.get('name')!r} is not valid: {wrong}")


@check(
    "output-schemas-are-valid",
    "base-34",
    meaning="Each outputSchema is valid in the dialect that it declares.",
    revisions=NAMED,
)
async def output_schemas_are_valid(probe: ServerProbe) -> None:
    tools = [tool for tool in await tools_of(probe) if "outputSchema" in tool]
    require(tools, "no tool has an outputSchema")
    for tool in tools:
        if wrong := schema_fault(tool["outputSchema"]):
            raise Failed(f"the outputSchema of {tool.get('name')!r} is not valid: {wrong}")


def schema_fault(schema: JSON) -> str | None:
    """Why a schema is not valid in its dialect, which is 2020-12 if it names none.

    Dialects that are not known here are not judged, nor is what a reference leads to.
    """
    import jsonschema_rs

    if not isinstance(schema, dict):
        return f"{schema!r:.60} is no object"
    try:
        jsonschema_rs.meta.validate(schema)
    except jsonschema_rs.ValidationError as exc:
        where = "/".join(["#", *map(str, exc.instance_path)])
        return f"at {where}: {exc.message[:200]}"
    except (ValueError, jsonschema_rs.ReferencingError):
        return None
    return None


# Calling ----------------------------------------------------------------------------------------


@check(
    "unknown-tool-is-refused",
    meaning="A call of a tool that does not exist gets an error, -32602.",
)
async def unknown_tool_is_refused(probe: ServerProbe) -> None:
    declares(await probe.inventory(), "tools")
    params = {"name": "harness_no_such_tool", "arguments": {}}
    reply = await (await probe.session()).request("tools/call", params)
    reply.expect_error(INVALID_PARAMS)


MALFORMED_CALLS: Final[tuple[tuple[str, JSONObject], ...]] = (
    ("without a name", {"arguments": {}}),
    ("with a number for a name", {"name": 7, "arguments": {}}),
)


@check(
    "malformed-call-is-refused",
    "tools-25",
    meaning="A call without a name, or with arguments that are no object, gets an error.",
)
async def malformed_call_is_refused(probe: ServerProbe) -> None:
    declares(await probe.inventory(), "tools")
    session = await probe.session()
    for words, params in MALFORMED_CALLS:
        reply = await session.request("tools/call", params)
        expect(refused(reply), f"a call {words} got {reply.brief()}")
    for tried in await tried_tools(probe):
        wrong: tuple[JSON, ...] = ([], "harness", 7)
        for arguments in wrong:
            reply = await session.request("tools/call", {**tried.call, "arguments": arguments})
            expect(
                refused(reply), f"{tried.name!r} took {arguments!r} as arguments: {reply.brief()}"
            )
        return


async def invalid_calls(
    probe: ServerProbe, session: Session, *kinds: str
) -> list[tuple[Tried, Outside, Reply]]:
    """Call tools with arguments that their schemas refuse; some of each, and what came of it."""
    found = list(_invalid_arguments(await tried_tools(probe), kinds))
    require(found, "no tool that may be called has a schema that refuses such arguments")
    called = []
    for tried, wrong in found[:MOST_INVALID]:
        reply = await session.request("tools/call", {**tried.call, "arguments": wrong.value})
        called.append((tried, wrong, reply))
    return called


def _invalid_arguments(
    tools: tuple[Tried, ...], kinds: tuple[str, ...]
) -> Iterator[tuple[Tried, Outside]]:
    for tried in tools:
        try:
            values = outside(tried.tool["inputSchema"])
        except (NoSample, KeyError, TypeError):
            continue
        for wrong in values:
            if wrong.kind in kinds:
                yield tried, wrong


@check(
    "invalid-arguments-are-refused",
    "tools-25",
    meaning="Arguments that a tool's inputSchema refuses get an error, or a result that is one.",
)
async def invalid_arguments_are_refused(probe: ServerProbe) -> None:
    session = await probe.session()
    kinds = ("missing", "type", "bounds", "choice")
    for tried, wrong, reply in await invalid_calls(probe, session, *kinds):
        expect(refused(reply), f"{tried.name!r} was called {wrong.words}: {reply.brief()}")


@check(
    "invalid-arguments-are-reported-to-the-model",
    meaning="Arguments that the inputSchema refuses get a result with isError, for models to see.",
    revisions=having("invalid_arguments_are_results"),
)
async def invalid_arguments_are_reported(probe: ServerProbe) -> None:
    session = await probe.session()
    for tried, wrong, reply in await invalid_calls(probe, session, "missing", "type"):
        expect(reply.error is None, f"{tried.name!r} was called {wrong.words}: {reply.brief()}")


@check(
    "unknown-arguments-are-refused",
    meaning="Arguments that the inputSchema does not know are refused, if it allows no others.",
)
async def unknown_arguments_are_refused(probe: ServerProbe) -> None:
    session = await probe.session()
    for tried, wrong, reply in await invalid_calls(probe, session, "unknown"):
        expect(refused(reply), f"{tried.name!r} was called {wrong.words}: {reply.brief()}")


# Results ----------------------------------------------------------------------------------------


async def judge_results(
    probe: ServerProbe, judge: Callable[[JSONObject, JSONObject], list[str] | None], missing: str
) -> None:
    """Judge what tools said when they were tried; who is found wanting is called again, to see it.

    Args:
        judge: Takes a tool and its result, and says what is wrong; None if there is nothing to say.
        missing: Why the check does not apply if there is nothing to say of any tool.

    Raises:
        Failed: Something is wrong with a result.
    """
    judged = False
    for tried in await tried_tools(probe):
        faults = judge(tried.tool, tried.result) if tried.result is not None else None
        judged = judged or faults is not None
        if faults:
            await converse(await probe.session(), "tools/call", tried.call)
            raise Failed(f"the result of {tried.name!r}: {'; '.join(faults)}")
    require(judged, missing)


@check(
    "tool-results-are-well-formed",
    meaning="A call's result has content of the kinds that the revision has.",
)
async def tool_results_are_well_formed(probe: ServerProbe) -> None:
    def judge(_: JSONObject, result: JSONObject) -> list[str]:
        if wrong := misfit_of_result(result, "tools/call"):
            return [wrong]
        content = result["content"]
        return [
            *wrong_kinds(content, probe.revision),
            *wrong_media(content, "image"),
            *wrong_media(content, "audio"),
            *wrong_resources(content),
        ]

    await judge_results(probe, judge, "no call has a result")


@check(
    "structured-content-fits-the-output-schema",
    "tools-22",
    meaning="A tool with an outputSchema gives structuredContent that is valid against it.",
    revisions=having("output_schema"),
)
async def structured_content_fits(probe: ServerProbe) -> None:
    def judge(tool: JSONObject, result: JSONObject) -> list[str] | None:
        schema = tool.get("outputSchema")
        if not isinstance(schema, dict) or result.get("isError"):
            return None
        if "structuredContent" not in result:
            return ["the tool has an outputSchema, and there is no structuredContent"]
        try:
            violations = compile_schema(schema).violations(result["structuredContent"])
        except InvalidSchema:
            return None
        return [f"structuredContent does not fit: {violation}" for violation in violations[:3]]

    await judge_results(probe, judge, "no tool that may be called and works has an outputSchema")


@check(
    "structured-content-is-an-object",
    meaning="structuredContent is a JSON object.",
    revisions=OBJECTS_ONLY,
)
async def structured_content_is_an_object(probe: ServerProbe) -> None:
    def judge(_: JSONObject, result: JSONObject) -> list[str] | None:
        if "structuredContent" not in result:
            return None
        content = result["structuredContent"]
        return [] if isinstance(content, dict) else [f"structuredContent is {content!r:.60}"]

    await judge_results(probe, judge, "no tool that may be called gives structuredContent")


@check(
    "structured-content-is-text-too",
    "tools-21",
    meaning="structuredContent stands also in a text block, as JSON.",
    revisions=having("structured_content"),
)
async def structured_content_is_text_too(probe: ServerProbe) -> None:
    def judge(_: JSONObject, result: JSONObject) -> list[str] | None:
        if "structuredContent" not in result or result.get("isError"):
            return None
        fine = stands_in_text(result["structuredContent"], result.get("content"))
        return [] if fine else ["no text block has the structuredContent"]

    await judge_results(probe, judge, "no tool that may be called gives structuredContent")


def stands_in_text(value: JSON, content: Any) -> bool:
    """Whether text blocks say what is structured, as JSON.

    SDKs put a value that is no object into one of its own, {"result": value}, and the value itself
    into the text; a string then as it is, and a list in one block for each item.
    """
    blocks = [block for block in content if isinstance(block, dict)] if content else []
    texts = [block["text"] for block in blocks if isinstance(block.get("text"), str)]
    values = [value]
    if isinstance(value, dict) and list(value) == ["result"]:
        values.append(value["result"])
    for wanted in values:
        if wanted in texts or any(_same(wanted, _loaded(text)) for text in texts):
            return True
        if isinstance(wanted, list) and len(texts) == len(wanted):
            pairs = zip(wanted, texts, strict=True)
            if all(item == text or _same(item, _loaded(text)) for item, text in pairs):
                return True
    return False


def _loaded(text: str) -> JSON:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return _NO_JSON


_NO_JSON: Final = object()


def _same(one: JSON, other: JSON) -> bool:
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


@check(
    "embedded-resources-need-the-capability",
    "tools-20",
    meaning="A server whose tools return embedded resources declares `resources`.",
    revisions=having("resource_links"),
)
async def embedded_resources_need_the_capability(probe: ServerProbe) -> None:
    declared = (await probe.inventory()).has("resources")

    def judge(_: JSONObject, result: JSONObject) -> list[str] | None:
        blocks = [block for block in result.get("content") or () if isinstance(block, dict)]
        if not any(block.get("type") == "resource" for block in blocks):
            return None
        return [] if declared else ["a resource is embedded, and `resources` is not declared"]

    await judge_results(probe, judge, "no tool that may be called returns an embedded resource")
