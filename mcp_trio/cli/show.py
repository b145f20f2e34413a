"""Results for people: tables for what a server has, and content as what it is.

Whatever a server said is text here, never markup, and has lost what a terminal would obey. Content
is not wrapped or cut: what is piped somewhere has to be what the server sent.
"""

import base64
import binascii
import io
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mcp_trio.cli.inspection import Inspection
from mcp_trio.cli.untrusted import json_text, one_line, plain
from mcp_trio.protocol.convert import unstructure
from mcp_trio.protocol.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    GetPromptResult,
    ImageContent,
    Prompt,
    ReadResourceResult,
    Resource,
    ResourceContents,
    ResourceLink,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
    Tool,
)
from mcp_trio.wire.jsonrpc import MISSING, JSONObject

Row = Sequence[str]
LONGEST_DEFAULT = 20  # characters of a default value in a table


def rendered(show: Callable[..., None], *what: object) -> str:
    """What a function of this module prints, as text for our stdout."""
    text = io.StringIO()
    terminal = True if sys.stdout is not None and sys.stdout.isatty() else None
    console = Console(
        file=text, force_terminal=terminal, markup=False, highlight=False, emoji=False
    )
    show(console, *what)
    return text.getvalue()


def inspection(console: Console, found: Inspection) -> None:
    """What a server has, as tables."""
    info = found.server_info
    name = "a server without a name" if info is None else f"{info.title or info.name}"
    release = "" if info is None else f" {info.version}"
    console.print(Text(one_line(f"{name}{release}"), "bold"), end="")
    console.print(f", MCP {found.protocol_version}")
    if found.instructions:
        console.print(Text(plain(found.instructions.strip()), "dim"))
    _table(console, "Tools", ("name", "arguments", "description"), map(_tool, found.tools))
    _table(console, "Resources", RESOURCE_COLUMNS, map(_resource, found.resources))
    _table(console, "Resource templates", RESOURCE_COLUMNS, map(_resource, found.templates))
    _table(console, "Prompts", ("name", "arguments", "description"), map(_prompt, found.prompts))


def tool_result(console: Console, result: CallToolResult) -> None:
    """What a tool said; in red if that is why it failed."""
    style = "red" if result.is_error else ""
    for block in result.content:
        _content(console, block, style)
    if result.structured_content is not MISSING and not _said(result):
        _json(console, result.structured_content)


def contents(console: Console, result: ReadResourceResult) -> None:
    """What is in a resource."""
    for part in result.contents:
        if len(result.contents) > 1:
            console.print(Text(one_line(part.uri), "bold"), soft_wrap=True)
        _contents(console, part)


def messages(console: Console, result: GetPromptResult) -> None:
    """The messages of a prompt, and whose they are."""
    for message in result.messages:
        console.print(Text(f"{message.role}:", "bold"))
        _content(console, message.content)


# What a server has

RESOURCE_COLUMNS = ("URI", "name", "type", "description")


def _table(console: Console, title: str, columns: Row, rows: Iterable[Row]) -> None:
    rows = list(rows)
    if not rows:
        console.print(Text(f"\n{title}: none", "dim"))
        return
    console.print(Text(f"\n{title} ({len(rows)})", "bold"))
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(plain(cell).strip()) for cell in row))
    console.print(table)


def _tool(tool: Tool) -> Row:
    return tool.name, _parameters(tool.input_schema), tool.description or tool.title or ""


def _resource(resource: Resource | ResourceTemplate) -> Row:
    uri = resource.uri if isinstance(resource, Resource) else resource.uri_template
    text = resource.description or ""
    return uri, resource.title or resource.name, resource.mime_type or "", text


def _prompt(prompt: Prompt) -> Row:
    arguments = (
        argument.name if argument.required else f"{argument.name}?"
        for argument in prompt.arguments or ()
    )
    return prompt.name, "\n".join(arguments), prompt.description or prompt.title or ""


def _parameters(schema: JSONObject) -> str:
    """The arguments of a tool, one a line: `days?: integer = 3`."""
    properties = schema.get("properties")
    required = schema.get("required")
    return "\n".join(
        _parameter(name, hint, required=isinstance(required, list) and name in required)
        for name, hint in (properties if isinstance(properties, dict) else {}).items()
    )


def _parameter(name: str, hint: Any, *, required: bool) -> str:
    hint = hint if isinstance(hint, dict) else {}
    kind = _kind(hint)
    default = ""
    if "default" in hint:
        text = json.dumps(hint["default"], ensure_ascii=False)
        default = f" = {text if len(text) <= LONGEST_DEFAULT else '...'}"
    return f"{name}{'' if required else '?'}{f': {kind}' if kind else ''}{default}"


def _kind(hint: JSONObject) -> str:
    """What a schema wants, in a few words."""
    kind = hint.get("type")
    if isinstance(hint.get("enum"), list):
        return " | ".join(json.dumps(value, ensure_ascii=False) for value in hint["enum"])
    if isinstance(kind, list):
        return " | ".join(map(str, kind))
    if kind == "array" and isinstance(hint.get("items"), dict):
        return f"array of {_kind(hint['items']) or 'anything'}"
    return str(kind) if kind else ""


# Content


def _content(console: Console, block: object, style: str = "") -> None:
    match block:
        case TextContent(text=text):
            _text(console, text, style)
        case ImageContent(data=data, mime_type=kind) | AudioContent(data=data, mime_type=kind):
            what = "image" if isinstance(block, ImageContent) else "sound"
            _note(console, f"{what}, {kind}, {_size(data)}")
        case ResourceLink(uri=uri, name=name, title=title, mime_type=kind):
            _note(console, f"link to {uri}, {title or name}{f', {kind}' if kind else ''}")
        case EmbeddedResource(resource=resource):
            _note(console, f"resource {resource.uri}")
            _contents(console, resource)
        case _:
            _json(console, unstructure(block))


def _contents(console: Console, part: ResourceContents) -> None:
    match part:
        case TextResourceContents(text=text):
            _text(console, text)
        case BlobResourceContents(blob=blob, mime_type=kind):
            _note(console, f"{kind or 'bytes of unknown type'}, {_size(blob)}; --json has them")
        case _:
            _json(console, unstructure(part))


def _text(console: Console, text: str, style: str = "") -> None:
    end = "" if text.endswith("\n") else "\n"
    console.print(Text(plain(text), style), soft_wrap=True, end=end)


def _note(console: Console, text: str) -> None:
    console.print(Text(f"[{one_line(text)}]", "dim"), soft_wrap=True)


def _json(console: Console, value: Any) -> None:
    console.print(Text(json_text(value)), soft_wrap=True)


def _size(data: str) -> str:
    try:
        return f"{len(base64.b64decode(data, validate=True))} bytes"
    except (binascii.Error, ValueError):
        return "no valid base64"


def _said(result: CallToolResult) -> bool:
    """Whether the text of a result says already what its structured content says."""
    structured = result.structured_content
    said = [structured]
    if isinstance(structured, dict) and len(structured) == 1:
        said.extend(structured.values())  # a text, put into an object as these have to be
    texts = [block.text for block in result.content if isinstance(block, TextContent)]
    return any(text == value or _parsed(text) == value for text in texts for value in said)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return MISSING
