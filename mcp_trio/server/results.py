"""What handlers return, as results on the wire.

A function returns what is natural to it, a string, a list, an attrs object, an `Image`, and here
that becomes the result of ``tools/call``, ``resources/read`` or ``prompts/get`` in the fullest form
the protocol has; what a revision cannot carry is taken out later. Structured content is always
accompanied by its JSON text, for clients that know only text.

MCP 2026-07-28, server/tools, "Tool Result".
"""

from typing import Any

import msgspec

from mcp_trio.protocol.convert import unstructure
from mcp_trio.protocol.types.content import Content, ResourceContents, UnknownContent
from mcp_trio.protocol.types.prompts import GetPromptResult, PromptMessage
from mcp_trio.protocol.types.resources import ReadResourceResult
from mcp_trio.protocol.types.tools import CallToolResult
from mcp_trio.server.jsonable import to_json
from mcp_trio.server.media import Image, Media, sniff
from mcp_trio.server.outputs import RAW, Output
from mcp_trio.server.scalars import JSONObject, write_bytes
from mcp_trio.server.schemas import InvalidValue

CONTENT = (Content, UnknownContent, ResourceContents, Media, *RAW)
ROLES = ("user", "assistant")
BYTES_URI = "result://bytes"


class ResultInvalid(InvalidValue):
    """A function's result does not fit its own output schema; ``violations`` says where."""

    def __str__(self) -> str:
        return f"the result does not fit the tool's own output schema: {super().__str__()}"


def to_tool_result(value: Any, output: Output) -> JSONObject:
    """The result of ``tools/call`` for what a tool returned.

    A ``CallToolResult`` goes out as it is. Raises `ResultInvalid` if structured content does not
    fit the output schema, and `NotJSONError` for what JSON has nothing for.
    """
    if isinstance(value, CallToolResult):
        return _checked_whole(unstructure(value), output)
    if output.form == "content" or (output.schema is None and _is_content(value)):
        return {"content": _blocks(value)}
    plain = to_json(value)
    if output.form == "unknown":
        if plain is None or isinstance(value, str):
            return {"content": _blocks(value)}
        structured = plain if isinstance(plain, dict) else {"result": plain}
    else:
        structured = {"result": plain} if output.form == "wrapped" else plain
    _check(structured, output)
    text = plain if isinstance(value, str) else _json_text(plain)
    return {"content": [_text(text)], "structuredContent": structured}


def error_result(text: str) -> JSONObject:
    """The result of a tool that failed: ``text`` tells the model how."""
    return {"content": [_text(text)], "isError": True}


def to_resource_result(value: Any, uri: str, mime_type: str | None = None) -> JSONObject:
    """The result of ``resources/read`` for what the function of the resource ``uri`` returned.

    Text stays text, bytes become base64, ``TextResourceContents`` and ``BlobResourceContents``,
    alone or in a list, go out as they are, and so does a ``ReadResourceResult``. Anything else
    becomes JSON text. Raises TypeError for None, and `NotJSONError`.
    """
    if isinstance(value, ReadResourceResult):
        whole: JSONObject = unstructure(value)
        return whole
    if value is None:
        raise TypeError(f"the function of the resource {uri} returned None")
    items = value if isinstance(value, list | tuple) else [value]
    if not any(isinstance(item, ResourceContents) for item in items):
        items = [value]
    return {"contents": [_contents(item, uri, mime_type) for item in items]}


def to_prompt_result(value: Any) -> JSONObject:
    """The result of ``prompts/get`` for what the function of a prompt returned.

    A text, or content such as an `Image`, is a message of the user's. ``PromptMessage`` and pairs
    ``("assistant", content)`` say whose they are. A list is several messages; a
    ``GetPromptResult`` goes out as it is. Raises TypeError for anything else.
    """
    if isinstance(value, GetPromptResult):
        whole: JSONObject = unstructure(value)
        return whole
    return {
        "messages": [_message(item) for item in (value if isinstance(value, list) else [value])]
    }


# --- tools


def _check(structured: Any, output: Output) -> None:
    if output.validator is not None and not output.validator.is_valid(structured):
        raise ResultInvalid(output.validator.violations(structured))


def _checked_whole(result: JSONObject, output: Output) -> JSONObject:
    if not result.get("isError"):
        _check(result.get("structuredContent"), output)
    return result


def _is_content(value: Any) -> bool:
    items = value if isinstance(value, list | tuple) else (value,)
    return any(isinstance(item, CONTENT) for item in items)


def _blocks(value: Any) -> list[JSONObject]:
    if value is None:
        return []
    return [_block(item) for item in value] if isinstance(value, list | tuple) else [_block(value)]


def _block(item: Any) -> JSONObject:
    """One content block. Bytes are what their first bytes say, or else an embedded resource."""
    if isinstance(item, str):
        return _text(str(item))
    if isinstance(item, RAW):
        mime_type = sniff(bytes(item[:16]))
        if mime_type is None:
            resource = _contents(item, BYTES_URI, None)
            return {"type": "resource", "resource": resource}
        return _media_block(write_bytes(item), mime_type)
    if isinstance(item, Media):
        return _media_block(item.base64, item.mime_type, is_image=isinstance(item, Image))
    if isinstance(item, ResourceContents):
        return {"type": "resource", "resource": unstructure(item)}
    if isinstance(item, Content | UnknownContent):
        block: JSONObject = unstructure(item)
        return block
    return _text(_json_text(to_json(item)))


def _media_block(data: str, mime_type: str, *, is_image: bool | None = None) -> JSONObject:
    is_image = mime_type.startswith("image/") if is_image is None else is_image
    return {"type": "image" if is_image else "audio", "data": data, "mimeType": mime_type}


def _text(text: str) -> JSONObject:
    return {"type": "text", "text": text}


def _json_text(plain: Any) -> str:
    return msgspec.json.encode(plain).decode()


# --- resources


def _contents(value: Any, uri: str, mime_type: str | None) -> JSONObject:
    if isinstance(value, ResourceContents):
        contents: JSONObject = unstructure(value)
        return contents
    if isinstance(value, str):
        return {"uri": uri, "mimeType": mime_type or "text/plain", "text": str(value)}
    if isinstance(value, RAW):
        found = mime_type or sniff(bytes(value[:16])) or "application/octet-stream"
        return {"uri": uri, "mimeType": found, "blob": write_bytes(value)}
    if isinstance(value, Media):
        return {"uri": uri, "mimeType": mime_type or value.mime_type, "blob": value.base64}
    text = _json_text(to_json(value))
    return {"uri": uri, "mimeType": mime_type or "application/json", "text": text}


# --- prompts


def _message(item: Any) -> JSONObject:
    if isinstance(item, PromptMessage):
        message: JSONObject = unstructure(item)
        return message
    role, content = "user", item
    if isinstance(item, tuple) and len(item) == 2:
        role, content = item
    elif isinstance(item, dict) and item.keys() == {"role", "content"}:
        role, content = item["role"], item["content"]
    if role not in ROLES:
        raise TypeError(f"the role of a prompt's message is 'user' or 'assistant', not {role!r}")
    if not isinstance(content, (str, *CONTENT)):
        raise TypeError(
            f"a prompt cannot return a {type(item).__qualname__}; it returns a string, content, a "
            "PromptMessage, a pair of role and content, or a list of these"
        )
    return {"role": role, "content": _block(content)}
