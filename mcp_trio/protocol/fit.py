"""Fits what a server or client wants to say to the revision that its peer speaks.

A handler writes for the newest revision. What an older one cannot carry is wrapped, turned into
text or left out, and what cannot be said at all is a `FitError`. The rules, by what is fitted:

* structured output: left out before 2025-06-18 (where it is the only content, it becomes text), an
  object until 2025-11-25, any JSON from 2026-07-28; a tool's output schema goes along with it;
* resource links become text before 2025-06-18, audio before 2025-03-26;
* sampling messages hold one block of content before 2025-11-25, and no tools;
* forms have no titled choices before 2025-11-25, but a second list of titles, and no multiple
  choice; pages to visit start there;
* the text of a progress notification starts in 2025-03-26.

Titles, icons, annotations, ``_meta`` and whatever else an older revision merely does not know stay
where they are: no revision's schema forbids unknown fields, and none gives those names another
meaning.

Nothing is changed in place. Where a revision can carry everything, the very argument comes back
after one look into a table.
"""

import json
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from mcp_trio.protocol.revisions import FEATURES, REVISIONS, supports
from mcp_trio.protocol.wrapping import is_object_schema, wrap_schema, wrap_value
from mcp_trio.wire.jsonrpc import JSONObject


class FitError(ValueError):
    """The revision that the peer speaks has no way to say this."""

    def __init__(self, what: str, feature: str, version: str) -> None:
        super().__init__(what, feature, version)
        self.what = what
        self.feature = feature
        self.version = version

    def __str__(self) -> str:
        first = FEATURES[self.feature].first
        return (
            f"{self.what} needs protocol version {first} or later; this peer speaks {self.version}"
        )


# --- Content -------------------------------------------------------------------------------------


def _as_text(block: JSONObject, text: str) -> JSONObject:
    kept: JSONObject = {key: block[key] for key in ("annotations", "_meta") if key in block}
    return {"type": "text", "text": text, **kept}


def _link_as_text(block: JSONObject) -> JSONObject:
    lines = [f"{block.get('title') or block.get('name')}: {block.get('uri')}"]
    if block.get("description"):
        lines.append(str(block["description"]))
    return _as_text(block, "\n".join(lines))


def _audio_as_text(block: JSONObject) -> JSONObject:
    size = len(str(block.get("data", ""))) * 3 // 4
    return _as_text(block, f"[audio, {block.get('mimeType')}, about {size} bytes]")


_BLOCKS: Final[dict[str, tuple[str, Callable[[JSONObject], JSONObject]]]] = {
    "audio": ("audio", _audio_as_text),
    "resource_link": ("resource_links", _link_as_text),
}
"""Content blocks that not every revision has: the feature they need, and what they become."""

_FOREIGN_BLOCKS: Final = {
    version: {
        kind: as_text
        for kind, (feature, as_text) in _BLOCKS.items()
        if not supports(feature, version)
    }
    for version in REVISIONS
}


def fit_block(block: JSONObject, version: str) -> JSONObject:
    """A content block as ``version`` can carry it."""
    as_text = _FOREIGN_BLOCKS.get(version, {}).get(block.get("type", ""))
    return as_text(block) if as_text else block


def fit_content(blocks: list[JSONObject], version: str) -> list[JSONObject]:
    """A list of content blocks as ``version`` can carry them."""
    foreign = _FOREIGN_BLOCKS.get(version)
    if not foreign or not any(block.get("type") in foreign for block in blocks):
        return blocks
    return [fit_block(block, version) for block in blocks]


# --- Tools ---------------------------------------------------------------------------------------


def fit_tool(tool: JSONObject, version: str) -> JSONObject:
    """A tool of ``tools/list`` as ``version`` can carry it."""
    if supports("structured_content_any", version):
        return tool
    fitted = {**tool, "inputSchema": _plain_properties(tool.get("inputSchema", {}))}
    output = tool.get("outputSchema")
    if not supports("output_schema", version):
        fitted.pop("outputSchema", None)
    elif output is not None:
        output = output if is_object_schema(output) else wrap_schema(output)
        fitted["outputSchema"] = _plain_properties(output)
    return fitted


def _plain_properties(schema: JSONObject) -> JSONObject:
    """The legacy schemas want each property to be an object, so no ``true`` and no ``false``."""
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not any(type(p) is bool for p in properties.values()):
        return schema
    plain: dict[bool, JSONObject] = {True: {}, False: {"not": {}}}
    return {
        **schema,
        "properties": {
            name: plain[item] if type(item) is bool else item for name, item in properties.items()
        },
    }


def fit_tool_result(
    result: JSONObject, version: str, output_schema: JSONObject | None = None
) -> JSONObject:
    """A result of ``tools/call`` as ``version`` can carry it.

    ``output_schema`` is the tool's own, before it was fitted: where `fit_tool` wraps the schema,
    the output is wrapped as well, even if it happens to be an object.
    """
    if supports("structured_content_any", version):
        return result
    content = result.get("content", [])
    fitted_content = fit_content(content, version)
    if "structuredContent" not in result:
        return result if fitted_content is content else {**result, "content": fitted_content}
    output = result["structuredContent"]
    if not supports("structured_content", version):
        if not content:
            fitted_content = [{"type": "text", "text": json.dumps(output, ensure_ascii=False)}]
        rest = {key: value for key, value in result.items() if key != "structuredContent"}
        return {**rest, "content": fitted_content}
    wrapped = output_schema is not None and not is_object_schema(output_schema)
    if wrapped or type(output) is not dict:
        output = wrap_value(output)
    elif fitted_content is content:
        return result
    return {**result, "content": fitted_content, "structuredContent": output}


# --- Prompts -------------------------------------------------------------------------------------


def _fit_prompt(result: JSONObject, version: str) -> JSONObject:
    messages = [
        {**message, "content": fit_block(message["content"], version)}
        for message in result.get("messages", [])
    ]
    return {**result, "messages": messages}


def _fit_tool_list(result: JSONObject, version: str) -> JSONObject:
    return {**result, "tools": [fit_tool(tool, version) for tool in result.get("tools", [])]}


# --- Sampling ------------------------------------------------------------------------------------


def _fit_sampling_block(block: JSONObject, version: str) -> JSONObject:
    kind = block.get("type")
    if kind in ("tool_use", "tool_result") and not supports("sampling_tools", version):
        raise FitError(f"{kind} content in a sampling message", "sampling_tools", version)
    if kind == "tool_result":
        return fit_tool_result(block, version)
    return fit_block(block, version)


def _blocks_of(message: JSONObject) -> list[JSONObject]:
    content = message["content"]
    return content if isinstance(content, list) else [content]


def _fit_sampling(params: JSONObject, version: str) -> JSONObject:
    """A list of content becomes as many messages of the same role."""
    lists = supports("sampling_tools", version)
    if not lists and params.get("tools"):
        raise FitError("sampling with tools", "sampling_tools", version)
    messages = []
    for message in params["messages"]:
        blocks = [_fit_sampling_block(block, version) for block in _blocks_of(message)]
        if lists:
            content = blocks if isinstance(message["content"], list) else blocks[0]
            messages.append({**message, "content": content})
        else:
            messages += [{**message, "content": block} for block in blocks]
    fitted = {**params, "messages": messages}
    if not lists:
        fitted.pop("tools", None)
        fitted.pop("toolChoice", None)
    return fitted


def _fit_sampled(result: JSONObject, version: str) -> JSONObject:
    """A list of content becomes its only block, or one text if all of it is text."""
    blocks = [_fit_sampling_block(block, version) for block in _blocks_of(result)]
    if len(blocks) != 1:
        if any(block.get("type") != "text" for block in blocks):
            raise FitError("a sampling result of several blocks", "sampling_tools", version)
        blocks = [{"type": "text", "text": "\n".join(block["text"] for block in blocks)}]
    return {**result, "content": blocks[0]}


# --- Elicitation ---------------------------------------------------------------------------------


def _fit_elicitation(params: JSONObject, version: str) -> JSONObject:
    if not supports("elicitation", version):
        raise FitError("asking the user", "elicitation", version)
    fitted = dict(params)
    if params.get("mode") == "url":
        if not supports("elicitation_url", version):
            raise FitError("sending the user to a web page", "elicitation_url", version)
        if not supports("elicitation_id", version):
            fitted.pop("elicitationId", None)
    elif not supports("elicitation_url", version):
        fitted.pop("mode", None)  # there is but one mode
    if not supports("elicitation_enums", version) and "requestedSchema" in params:
        fitted["requestedSchema"] = _fit_form(params["requestedSchema"], version)
    return fitted


def _fit_form(schema: JSONObject, version: str) -> JSONObject:
    properties = {
        name: _fit_question(name, question, version)
        for name, question in schema.get("properties", {}).items()
    }
    return {**schema, "properties": properties}


def _fit_question(name: str, question: JSONObject, version: str) -> JSONObject:
    if question.get("type") == "array":
        raise FitError(f"the multiple choice {name!r}", "elicitation_enums", version)
    if "oneOf" not in question:
        return question
    rest = {key: value for key, value in question.items() if key != "oneOf"}
    return {
        **rest,
        "enum": [option["const"] for option in question["oneOf"]],
        "enumNames": [option["title"] for option in question["oneOf"]],
    }


# --- Notifications -------------------------------------------------------------------------------


def _fit_progress(params: JSONObject, version: str) -> JSONObject:
    del version
    return {key: value for key, value in params.items() if key != "message"}


# --- The tables ----------------------------------------------------------------------------------

Fitter: TypeAlias = Callable[[JSONObject, str], JSONObject]
_Rules: TypeAlias = dict[str, tuple[Fitter, tuple[str, ...]]]

_RESULT_RULES: Final[_Rules] = {
    "tools/call": (fit_tool_result, ("structured_content_any",)),
    "tools/list": (_fit_tool_list, ("structured_content_any",)),
    "prompts/get": (_fit_prompt, ("audio", "resource_links")),
    "sampling/createMessage": (_fit_sampled, ("sampling_tools",)),
}
"""How to fit the result of a method to a revision that lacks one of the features."""

_PARAMS_RULES: Final[_Rules] = {
    "notifications/progress": (_fit_progress, ("progress_message",)),
    "elicitation/create": (_fit_elicitation, ("elicitation_enums", "elicitation_id")),
    "sampling/createMessage": (_fit_sampling, ("sampling_tools", "structured_content_any")),
}
"""The same for parameters."""


def _by_version(rules: _Rules) -> dict[str, dict[str, Fitter]]:
    return {
        version: {
            method: fitter
            for method, (fitter, features) in rules.items()
            if not all(supports(feature, version) for feature in features)
        }
        for version in REVISIONS
    }


_RESULTS: Final = _by_version(_RESULT_RULES)
_PARAMS: Final = _by_version(_PARAMS_RULES)
_NO_RULES: Final[dict[str, Any]] = {}


def fit_result(method: str, result: JSONObject, version: str) -> JSONObject:
    """The result of ``method``, in wire form, as ``version`` can carry it.

    A tool with an output schema goes through `fit_tool_result`, which takes the schema.

    Raises:
        FitError: ``version`` cannot carry it in any way.
    """
    fitter = _RESULTS.get(version, _NO_RULES).get(method)
    return fitter(result, version) if fitter else result


def fit_params(method: str, params: JSONObject, version: str) -> JSONObject:
    """The parameters of ``method``, in wire form, as ``version`` can carry them.

    Raises:
        FitError: ``version`` cannot carry them in any way.
    """
    fitter = _PARAMS.get(version, _NO_RULES).get(method)
    return fitter(params, version) if fitter else params
