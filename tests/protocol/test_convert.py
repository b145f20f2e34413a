"""Structuring: nothing coerced, nothing lost, and errors that name the place."""

from typing import Any

import pytest
from hypothesis import given, settings

from mcp_trio.protocol import types
from mcp_trio.protocol.convert import StructureError, show_path, structure, unstructure
from mcp_trio.wire.jsonrpc import MISSING
from tests.protocol.instances import json_objects

TOOL = {"name": "x", "inputSchema": {"type": "object"}}
FORM = {"message": "m", "requestedSchema": {"type": "object"}}


@pytest.mark.parametrize(
    ("value", "cls", "message"),
    [
        (
            {"tools": [TOOL, TOOL, TOOL, {**TOOL, "inputSchema": []}]},
            types.ListToolsResult,
            "tools[3].inputSchema: expected an object, not a list",
        ),
        ([], types.Tool, "expected an object, not a list"),
        ({"name": "x"}, types.Tool, "'inputSchema' is missing"),
        ({"tools": {}}, types.ListToolsResult, "tools: expected a list, not an object"),
        (
            {"content": [{"type": "text"}]},
            types.CallToolResult,
            "content[0]: 'text' is missing",
        ),
        ({"content": [{}]}, types.CallToolResult, "content[0]: 'type' is missing"),
        (
            {"role": "system", "content": {"type": "text", "text": ""}},
            types.PromptMessage,
            "role: expected 'user' or 'assistant', not 'system'",
        ),
        ({"type": "image", "text": ""}, types.TextContent, "type: expected 'text', not 'image'"),
        ({"text": ""}, types.TextContent, "'type' is missing; it must be 'text'"),
        (
            {**FORM, "mode": "fax"},
            types.ElicitRequestParams,
            "mode: expected 'form' or 'url', not 'fax'",
        ),
        (
            {"action": "accept", "content": {"a.b": None}},
            types.ElicitResult,
            'content["a.b"]: expected a string or an integer or a number or a boolean or a list, '
            "not null",
        ),
        (
            {"inputRequests": {"k": {"method": "x"}}, "resultType": "input_required"},
            types.InputRequiredResult,
            "inputRequests.k.method: expected 'elicitation/create' or 'sampling/createMessage' "
            "or 'roots/list', not 'x'",
        ),
        (
            {"roots": [{"uri": 5}]},
            types.ListRootsResult,
            "roots[0].uri: expected a string, not an integer",
        ),
    ],
)
def test_errors_name_the_place(value: Any, cls: Any, message: str) -> None:
    """A peer's author must see at once which field of which item is wrong."""
    with pytest.raises(StructureError) as caught:
        structure(value, cls)
    assert str(caught.value) == message or (
        message.endswith("'type' is missing") and str(caught.value).startswith(message)
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("maxTokens", "5"),
        ("maxTokens", True),
        ("maxTokens", 1.5),
        ("temperature", "1"),
        ("temperature", False),
        ("systemPrompt", 1),
        ("stopSequences", "stop"),
        ("stopSequences", [1]),
        ("includeContext", []),
    ],
)
def test_nothing_is_coerced(field: str, value: Any) -> None:
    """ "5" is no integer, true is no number, a string is no list."""
    params: dict[str, Any] = {"messages": [], "maxTokens": 5, field: value}
    with pytest.raises(StructureError, match=field):
        structure(params, types.CreateMessageRequestParams)


def test_numbers_are_what_json_says() -> None:
    """1 is a fine float and stays 1; 5.0 is an integer in JSON; big integers stay exact."""
    params = structure(
        {"messages": [], "maxTokens": 5.0, "temperature": 1}, types.CreateMessageRequestParams
    )
    assert (params.max_tokens, type(params.max_tokens)) == (5, int)
    assert (params.temperature, type(params.temperature)) == (1, int)
    big = {"progressToken": 10**30, "progress": 10**30}
    assert unstructure(structure(big, types.ProgressNotificationParams)) == big


def test_null_stands_for_an_optional_field_that_is_not_there() -> None:
    """Peers that write every field, with null where there is nothing."""
    tool = structure({**TOOL, "description": None, "annotations": None}, types.Tool)
    assert tool == types.Tool("x", {"type": "object"})
    assert "description" not in unstructure(tool)
    with pytest.raises(StructureError, match="name: expected a string, not null"):
        structure({**TOOL, "name": None}, types.Tool)


def test_null_means_something_where_it_is_said() -> None:
    """Structured output may be null; a task may be kept for ever; a log may be of null."""
    said = structure({"content": [], "structuredContent": None}, types.CallToolResult)
    unsaid = structure({"content": []}, types.CallToolResult)
    assert said.structured_content is None
    assert unsaid.structured_content is MISSING
    assert unstructure(said) == {"content": [], "structuredContent": None}
    assert unstructure(unsaid) == {"content": []}
    task = types.Task("1", "working", "now", "now", None)
    assert unstructure(task)["ttl"] is None
    assert structure(unstructure(task), types.Task) == task
    log = types.LoggingMessageNotificationParams("info", None)
    assert unstructure(log) == {"level": "info", "data": None}


def test_content_of_a_newer_type_survives() -> None:
    """A newer peer's content passes through an older library unharmed."""
    block = {"type": "hologram", "depth": 3, "annotations": {"priority": 1}}
    result = structure({"content": [block]}, types.CallToolResult)
    assert result.content == [
        types.UnknownContent("hologram", extra={"depth": 3, "annotations": {"priority": 1}})
    ]
    assert unstructure(result) == {"content": [block]}


@given(json_objects)
@settings(max_examples=50, deadline=None)
def test_unknown_fields_survive(extra: dict[str, Any]) -> None:
    """A newer peer's fields pass through an older library unharmed, at any depth."""
    tool = {**extra, **TOOL, "annotations": {**extra, "title": "t"}}
    assert unstructure(structure(tool, types.Tool)) == tool


def test_known_fields_win_over_extra() -> None:
    """A field cannot be said twice."""
    assert unstructure(types.TextContent("hi", extra={"text": "no", "type": "no"})) == {
        "type": "text",
        "text": "hi",
    }


@pytest.mark.parametrize(
    ("schema", "cls"),
    [
        ({"type": "string"}, types.StringSchema),
        ({"type": "integer"}, types.NumberSchema),
        ({"type": "number", "default": 1.5}, types.NumberSchema),
        ({"type": "boolean"}, types.BooleanSchema),
        ({"type": "string", "enum": ["a"]}, types.UntitledSingleSelectEnumSchema),
        (
            {"type": "string", "enum": ["a"], "enumNames": ["A"]},
            types.LegacyTitledEnumSchema,
        ),
        (
            {"type": "string", "oneOf": [{"const": "a", "title": "A"}]},
            types.TitledSingleSelectEnumSchema,
        ),
        (
            {"type": "array", "items": {"type": "string", "enum": ["a"]}},
            types.UntitledMultiSelectEnumSchema,
        ),
        (
            {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}},
            types.TitledMultiSelectEnumSchema,
        ),
    ],
)
def test_the_fields_of_a_form_are_told_apart(schema: dict[str, Any], cls: type) -> None:
    """Nine kinds of question, four of them strings."""
    question = structure(schema, types.PrimitiveSchemaDefinition)
    assert type(question) is cls
    assert unstructure(question) == schema


def test_members_of_unions_are_told_apart() -> None:
    """By discriminator, by fields, and by what is assumed when none is said."""
    text = structure({"uri": "a", "text": "b"}, types.EmbeddedResource.__annotations__["resource"])
    assert text == types.TextResourceContents("a", "b")
    resource = {"type": "resource", "resource": {"uri": "a", "pages": 3}}
    odd = structure(resource, types.ContentBlock)
    assert odd.resource == types.ResourceContents("a", extra={"pages": 3})
    assert type(structure(FORM, types.ElicitRequestParams)) is types.ElicitRequestFormParams
    ref = structure(
        {"type": "ref/prompt", "name": "x"}, types.CompleteRequestParams.__annotations__["ref"]
    )
    assert ref == types.PromptReference("x")


def test_content_may_be_one_block_or_a_list() -> None:
    """Sampling results are either, from 2025-11-25."""
    one: dict[str, Any] = {
        "role": "assistant",
        "model": "m",
        "content": {"type": "text", "text": "a"},
    }
    assert structure(one, types.CreateMessageResult).content == types.TextContent("a")
    many = {**one, "content": [one["content"]]}
    assert structure(many, types.CreateMessageResult).content == [types.TextContent("a")]
    assert unstructure(structure(many, types.CreateMessageResult)) == many


def test_lists_and_dicts_of_types_are_written_too() -> None:
    """Handlers return lists of content."""
    block = types.TextContent("a")
    assert unstructure([block, (block,)]) == [unstructure(block), [unstructure(block)]]
    assert unstructure({"k": block, "n": 1}) == {"k": {"type": "text", "text": "a"}, "n": 1}


def test_paths_read_well() -> None:
    """Keys that are no names are quoted."""
    assert show_path(["tools", 3, "inputSchema"]) == "tools[3].inputSchema"
    assert show_path(["_meta", "a.b/c"]) == '_meta["a.b/c"]'
    assert show_path([]) == ""
