"""What a newer side says, as each revision can carry it."""

import copy
from typing import Any

import pytest

from mcp_trio.protocol.fit import (
    FitError,
    fit_block,
    fit_content,
    fit_params,
    fit_result,
    fit_tool,
    fit_tool_result,
)
from mcp_trio.protocol.revisions import LATEST, LATEST_LEGACY, REVISIONS
from tests.protocol.official import complaints, definitions, needs_schemas

OLDEST, BATCHED, STRUCTURED, TASKS, NEWEST = REVISIONS

TEXT = {"type": "text", "text": "hi"}
AUDIO = {"type": "audio", "data": "AAAA", "mimeType": "audio/wav", "annotations": {"priority": 1}}
LINK = {
    "type": "resource_link",
    "uri": "memo://1",
    "name": "memo",
    "title": "Memo",
    "description": "To me.",
    "icons": [{"src": "https://example.com/i.png"}],
    "_meta": {"a": 1},
}


def call(**fields: Any) -> dict[str, Any]:
    """A result of tools/call."""
    return {"content": [TEXT], **fields}


# --- The hot path ---------------------------------------------------------------------------------


@pytest.mark.parametrize("version", REVISIONS)
@pytest.mark.parametrize(
    ("method", "result"),
    [
        ("tools/call", call()),
        ("resources/read", {"contents": []}),
        ("acme/x", {"structuredContent": 1}),
    ],
)
def test_what_fits_comes_back_itself(version: str, method: str, result: dict[str, Any]) -> None:
    """Copies that nobody needed, on the path of every call."""
    assert fit_result(method, result, version) is result


def test_the_newest_revision_changes_nothing() -> None:
    """What a handler wrote for the newest revision is what it sends."""
    for output in ([1], 1, None, {"a": 1}):
        result = call(content=[AUDIO, LINK], structuredContent=output)
        assert fit_result("tools/call", result, LATEST) is result
    tool = {"name": "x", "inputSchema": {"type": "object"}, "outputSchema": {"type": "array"}}
    assert fit_tool(tool, LATEST) is tool


def test_an_unknown_revision_changes_nothing() -> None:
    """A peer that speaks what we do not know is not guessed at."""
    result = call(content=[AUDIO])
    assert fit_result("tools/call", result, "2099-01-01") is result
    assert fit_content([AUDIO], "2099-01-01") == [AUDIO]


# --- Structured output ----------------------------------------------------------------------------


@pytest.mark.parametrize("version", [STRUCTURED, TASKS])
@pytest.mark.parametrize("output", [[1, 2], 1, "a", None, True])
def test_output_is_an_object_in_between(version: str, output: Any) -> None:
    """A list as structured output fails the schema of these revisions."""
    fitted = fit_result("tools/call", call(structuredContent=output), version)
    assert fitted == call(structuredContent={"result": output})


@pytest.mark.parametrize("version", [STRUCTURED, TASKS])
def test_an_object_stays_as_it_is(version: str) -> None:
    """An object is what these revisions want."""
    result = call(structuredContent={"a": 1})
    assert fit_tool_result(result, version) is result
    assert fit_tool_result(result, version, {"type": "object"}) is result


def test_an_object_is_wrapped_where_its_schema_is() -> None:
    """A tool that may return an object or a list has one schema, and it is wrapped."""
    schema = {"anyOf": [{"type": "object"}, {"type": "array"}]}
    tool = {"name": "x", "inputSchema": {"type": "object"}, "outputSchema": schema}
    listed = fit_tool(tool, LATEST_LEGACY)["outputSchema"]
    assert listed["type"] == "object"
    assert listed["properties"]["result"] == schema
    fitted = fit_tool_result(call(structuredContent={"a": 1}), LATEST_LEGACY, schema)
    assert fitted["structuredContent"] == {"result": {"a": 1}}


@pytest.mark.parametrize("version", [OLDEST, BATCHED])
def test_output_is_left_out_at_first(version: str) -> None:
    """Revisions without structured output; it must not be lost where there is nothing else."""
    assert fit_result("tools/call", call(structuredContent={"a": 1}), version) == call()
    bare = fit_result("tools/call", call(content=[], structuredContent={"a": "\u00e9"}), version)
    assert bare == call(content=[{"type": "text", "text": '{"a": "\u00e9"}'}])
    tool = {"name": "x", "inputSchema": {"type": "object"}, "outputSchema": {"type": "object"}}
    assert "outputSchema" not in fit_tool(tool, version)


def test_properties_are_objects_in_legacy_schemas() -> None:
    """``"x": true`` is a schema, but not one that the legacy revisions' types allow."""
    schema = {"type": "object", "properties": {"any": True, "none": False, "n": {"type": "null"}}}
    tool = {"name": "x", "inputSchema": schema}
    fitted = fit_tool(tool, LATEST_LEGACY)["inputSchema"]
    assert fitted["properties"] == {"any": {}, "none": {"not": {}}, "n": {"type": "null"}}


# --- Content --------------------------------------------------------------------------------------


def test_resource_links_become_text() -> None:
    """A link that an old client would drop, or fail on."""
    for version in REVISIONS:
        fitted = fit_block(LINK, version)
        if version < STRUCTURED:
            text = "Memo: memo://1\nTo me."
            assert fitted == {"type": "text", "text": text, "_meta": {"a": 1}}
        else:
            assert fitted is LINK


def test_audio_becomes_text() -> None:
    """Sound that a 2024-11-05 client cannot play."""
    assert fit_block(AUDIO, OLDEST) == {
        "type": "text",
        "text": "[audio, audio/wav, about 3 bytes]",
        "annotations": {"priority": 1},
    }
    assert fit_block(AUDIO, BATCHED) is AUDIO


def test_content_is_fitted_wherever_it_stands() -> None:
    """Tools and prompts alike; blocks of an unknown type stay."""
    odd = {"type": "hologram"}
    assert fit_content([LINK, odd], OLDEST)[1] is odd
    result = fit_result("tools/call", call(content=[LINK, TEXT]), OLDEST)
    assert [block["type"] for block in result["content"]] == ["text", "text"]
    prompt = {"messages": [{"role": "user", "content": LINK}], "description": "d"}
    fitted = fit_result("prompts/get", prompt, BATCHED)
    assert fitted["description"] == "d"
    assert fitted["messages"][0]["content"]["type"] == "text"
    assert fit_result("prompts/get", prompt, STRUCTURED) is prompt


# --- Sampling -------------------------------------------------------------------------------------


def sampling(content: Any, **fields: Any) -> dict[str, Any]:
    """Parameters of sampling/createMessage."""
    return {"messages": [{"role": "user", "content": content}], "maxTokens": 9, **fields}


def test_several_blocks_become_several_messages() -> None:
    """Before 2025-11-25 a sampling message holds one block."""
    fitted = fit_params("sampling/createMessage", sampling([TEXT, AUDIO]), BATCHED)
    assert fitted["messages"] == [
        {"role": "user", "content": TEXT},
        {"role": "user", "content": AUDIO},
    ]
    fitted = fit_params("sampling/createMessage", sampling([TEXT]), TASKS)
    assert fitted["messages"][0]["content"] == [TEXT]
    fitted = fit_params("sampling/createMessage", sampling(TEXT), TASKS)
    assert fitted["messages"][0]["content"] == TEXT


def test_a_tools_result_within_sampling_is_fitted() -> None:
    """The structured output of a tool result is an object in 2025-11-25 here as well."""
    block = {"type": "tool_result", "toolUseId": "1", "content": [TEXT], "structuredContent": 1}
    fitted = fit_params("sampling/createMessage", sampling([block]), TASKS)
    assert fitted["messages"][0]["content"][0]["structuredContent"] == {"result": 1}
    params = sampling([block])
    assert fit_params("sampling/createMessage", params, LATEST) is params


@pytest.mark.parametrize("version", [OLDEST, BATCHED, STRUCTURED])
def test_tools_cannot_be_left_out_of_sampling(version: str) -> None:
    """A model without its tools gives another answer; that must not happen silently."""
    tool = {"name": "x", "inputSchema": {"type": "object"}}
    use = {"type": "tool_use", "id": "1", "name": "x", "input": {}}
    for params in (sampling(TEXT, tools=[tool]), sampling([use])):
        with pytest.raises(FitError, match=r"2025-11-25 or later; this peer speaks"):
            fit_params("sampling/createMessage", params, version)
    fitted = fit_params("sampling/createMessage", sampling(TEXT, tools=[]), version)
    assert fitted == sampling(TEXT)


def test_a_sampled_list_becomes_one_block() -> None:
    """A client's model answers with several blocks; an old server wants one."""
    result = {"role": "assistant", "model": "m", "content": [TEXT, TEXT]}
    fitted = fit_result("sampling/createMessage", result, STRUCTURED)
    assert fitted["content"] == {"type": "text", "text": "hi\nhi"}
    assert fit_result("sampling/createMessage", result, TASKS) is result
    only = {**result, "content": [AUDIO]}
    assert fit_result("sampling/createMessage", only, STRUCTURED)["content"] == AUDIO
    with pytest.raises(FitError, match="several blocks"):
        fit_result("sampling/createMessage", {**result, "content": [TEXT, AUDIO]}, STRUCTURED)


# --- Elicitation ----------------------------------------------------------------------------------

TITLED = {
    "type": "string",
    "title": "Colour",
    "oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}],
    "default": "r",
}
MULTIPLE = {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}


def form(**properties: Any) -> dict[str, Any]:
    """Parameters of elicitation/create."""
    schema = {"type": "object", "properties": properties, "required": ["x"]}
    return {"mode": "form", "message": "Which?", "requestedSchema": schema}


def test_titled_choices_have_an_older_form() -> None:
    """2025-06-18 keeps the titles in a list of their own, and has one mode only."""
    fitted = fit_params("elicitation/create", form(x=TITLED), STRUCTURED)
    assert fitted["requestedSchema"]["properties"]["x"] == {
        "type": "string",
        "title": "Colour",
        "enum": ["r", "g"],
        "enumNames": ["Red", "Green"],
        "default": "r",
    }
    assert fitted["requestedSchema"]["required"] == ["x"]
    assert "mode" not in fitted
    for version in (TASKS, NEWEST):
        assert fit_params("elicitation/create", form(x=TITLED), version) == form(x=TITLED)


def test_multiple_choice_starts_with_2025_11_25() -> None:
    """A question that an older client cannot show is an error that names it."""
    with pytest.raises(FitError, match="the multiple choice 'x' needs"):
        fit_params("elicitation/create", form(x=MULTIPLE), STRUCTURED)


def test_there_is_no_elicitation_at_first() -> None:
    """A question to a client that has never heard of questions."""
    for version in (OLDEST, BATCHED):
        with pytest.raises(FitError, match="asking the user needs protocol version 2025-06-18"):
            fit_params("elicitation/create", form(), version)


def test_pages_to_visit_start_with_2025_11_25() -> None:
    """The id of a page belongs to 2025-11-25 alone."""
    page = {"mode": "url", "message": "m", "url": "https://example.com", "elicitationId": "1"}
    with pytest.raises(FitError, match="web page"):
        fit_params("elicitation/create", page, STRUCTURED)
    assert fit_params("elicitation/create", page, TASKS) == page
    assert "elicitationId" not in fit_params("elicitation/create", page, NEWEST)


def test_progress_has_no_text_at_first() -> None:
    """The message of a progress notification starts in 2025-03-26."""
    params = {"progressToken": 0, "progress": 1, "message": "m"}
    fitted = fit_params("notifications/progress", params, OLDEST)
    assert fitted == {"progressToken": 0, "progress": 1}
    assert fit_params("notifications/progress", params, BATCHED) is params


# --- All of it against the schemas ----------------------------------------------------------------

OUTPUTS: list[Any] = [[1], None, {}]
RICH: dict[str, list[dict[str, Any]]] = {
    "CallToolResult": [
        call(content=[TEXT, AUDIO, LINK], structuredContent=output) for output in OUTPUTS
    ],
    "GetPromptResult": [{"messages": [{"role": "user", "content": b}]} for b in (AUDIO, LINK)],
    "ListToolsResult": [
        {
            "tools": [
                {
                    "name": "x",
                    "title": "X",
                    "icons": [{"src": "data:,"}],
                    "annotations": {"readOnlyHint": True},
                    "inputSchema": {"type": "object", "properties": {"a": True}},
                    "outputSchema": output,
                    "_meta": {"a": 1},
                }
                for output in ({"type": "array", "items": True}, {"type": "object"}, {})
            ]
        }
    ],
    "CreateMessageResult": [{"role": "assistant", "model": "m", "content": [AUDIO]}],
}
METHOD_OF = {
    "CallToolResult": "tools/call",
    "GetPromptResult": "prompts/get",
    "ListToolsResult": "tools/list",
    "CreateMessageResult": "sampling/createMessage",
}
MODERN_FIELDS = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


@needs_schemas
@pytest.mark.parametrize("version", REVISIONS)
@pytest.mark.parametrize("name", RICH)
def test_fitted_results_are_valid(name: str, version: str) -> None:
    """Whatever a handler returns, the revision's own schema accepts; nothing changes in place."""
    for result in RICH[name]:
        before = copy.deepcopy(result)
        fitted = fit_result(METHOD_OF[name], result, version)
        if version == LATEST:
            fitted = {**fitted, **MODERN_FIELDS}
        assert complaints(fitted, name, version) == []
        assert result == before


@needs_schemas
@pytest.mark.parametrize("version", REVISIONS)
def test_fitted_questions_are_valid(version: str) -> None:
    """The same for what a server asks."""
    forms = [form(x=TITLED), form(x={"type": "string", "default": "a"})]
    cases = {"sampling/createMessage": [sampling([TEXT, AUDIO])], "elicitation/create": forms}
    names = {
        "sampling/createMessage": "CreateMessageRequest",
        "elicitation/create": "ElicitRequest",
    }
    for method, examples in cases.items():
        for params in examples:
            if names[method] in definitions(version):
                fitted = fit_params(method, params, version)
                message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": fitted}
                assert complaints(message, names[method], version) == []


@needs_schemas
def test_no_schema_forbids_unknown_fields() -> None:
    """What an older revision merely does not know may stay only as long as this holds."""
    for version in REVISIONS:
        assert '"additionalProperties": false' not in str(definitions(version)).replace(
            "'", '"'
        ).replace("False", "false")
