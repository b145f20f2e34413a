"""A client of PyPI's `mcp` that uses all that a server has; runs in that package's environment.

python mcp_sdk.py MODE URL          or  python mcp_sdk.py MODE COMMAND ARGUMENTS...
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Awaitable
from typing import Any

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.types import (
    CreateMessageResult,
    ElicitResult,
    ListRootsResult,
    PromptReference,
    ResourceTemplateReference,
    Root,
    TextContent,
)

PATIENCE = 4.0


def sample(schema: Any) -> Any:
    """A value that a schema of the harness accepts."""
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type", "object")
    if kind == "object":
        wanted = schema.get("required", ())
        return {n: sample(s) for n, s in schema.get("properties", {}).items() if n in wanted}
    text = "a@example.org" if schema.get("format") == "email" else "example"
    values = {"integer": schema.get("minimum", 0), "number": 0.5, "boolean": True, "array": []}
    return values.get(kind, text)


async def elicit(_context: object, params: Any) -> ElicitResult:
    if getattr(params, "mode", "form") == "url":
        return ElicitResult(action="decline")
    schema = getattr(params, "requested_schema", None) or {}
    schema = schema if isinstance(schema, dict) else schema.model_dump(by_alias=True)
    return ElicitResult(action="accept", content=sample(schema))


async def think(_context: object, _params: Any) -> CreateMessageResult:
    content = TextContent(type="text", text="word")
    return CreateMessageResult(role="assistant", content=content, model="test")


async def roots(_context: object) -> ListRootsResult:
    return ListRootsResult(roots=[Root(uri="file:///project")])


async def ignore(_: Any) -> None:
    pass


async def survive(doing: Awaitable[Any]) -> Any:
    try:
        with anyio.fail_after(PATIENCE + 2):
            return await doing
    except Exception as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return None


async def everything(list_page: Any, field: str) -> list[Any]:
    """A whole list; from its beginning again if a cursor is refused."""
    items: list[Any] = []
    for _ in range(2):
        items, page = [], await survive(list_page())
        while page is not None:
            items += getattr(page, field)
            if page.next_cursor is None:
                return items
            page = await survive(list_page(cursor=page.next_cursor))
        if not items:
            break
    return items


async def progress(*_: object) -> None:
    pass


async def use(client: Any) -> None:
    offered = client.server_capabilities
    if offered.tools is not None:
        for tool in await everything(client.list_tools, "tools"):
            call = client.call_tool(
                tool.name,
                sample(tool.input_schema),
                read_timeout_seconds=PATIENCE,
                progress_callback=progress,
            )
            await survive(call)
    if offered.resources is not None:
        for resource in await everything(client.list_resources, "resources"):
            await survive(client.read_resource(resource.uri))
        for template in await everything(client.list_resource_templates, "resource_templates"):
            if offered.completions is not None:
                ref = ResourceTemplateReference(type="ref/resource", uri=template.uri_template)
                await survive(client.complete(ref, {"name": "name", "value": "w"}))
    if offered.prompts is not None:
        for prompt in await everything(client.list_prompts, "prompts"):
            arguments = {argument.name: "word" for argument in prompt.arguments or ()}
            await survive(client.get_prompt(prompt.name, arguments))
            if offered.completions is not None and arguments:
                ref = PromptReference(type="ref/prompt", name=prompt.name)
                await survive(client.complete(ref, {"name": next(iter(arguments)), "value": "w"}))
    if client.protocol_version > "2026":
        await survive(listen(client))
    else:
        await survive(client.send_ping())


async def listen(client: Any) -> None:
    with anyio.move_on_after(0.2):
        async with client.listen(tools_list_changed=True) as subscription:
            async for _ in subscription:
                pass


async def main(mode: str, server: list[str]) -> None:
    warnings.simplefilter("ignore")
    target: Any = StdioServerParameters(command=server[0], args=server[1:])
    if "://" in server[0]:
        target = sse_client(server[0]) if server[0].endswith("/sse") else server[0]
    async with Client(
        target,
        mode=mode,
        elicitation_callback=elicit,
        sampling_callback=think,
        list_roots_callback=roots,
        logging_callback=ignore,
        message_handler=ignore,
    ) as client:
        await use(client)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2:])
