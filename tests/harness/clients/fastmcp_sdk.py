"""A client of `fastmcp` 4 that uses all that a server has; runs in that package's environment.

python fastmcp_sdk.py MODE URL          or  python fastmcp_sdk.py MODE COMMAND ARGUMENTS...
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import anyio
from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import SSETransport, StdioTransport, StreamableHttpTransport
from mcp.types import (
    CreateMessageResult,
    PromptReference,
    ResourceTemplateReference,
    TextContent,
)

sys.path.insert(0, str(Path(__file__).parent))
from mcp_sdk import PATIENCE, sample, survive


async def elicit(_message: str, _kind: Any, params: Any, _context: object) -> ElicitResult:
    if getattr(params, "mode", "form") == "url":
        return ElicitResult(action="decline")
    return ElicitResult(action="accept", content=sample(params.requested_schema))


async def think(_messages: object, _params: Any, _context: object) -> CreateMessageResult:
    content = TextContent(type="text", text="word")
    return CreateMessageResult(role="assistant", content=content, model="test")


async def ignore(_: Any) -> None:
    pass


async def progress(*_: object) -> None:
    pass


async def use(client: Any) -> None:
    offered = client.server_capabilities
    if offered.tools is not None:
        for tool in await survive(client.list_tools()) or ():
            call = client.call_tool_mcp(
                tool.name, sample(tool.input_schema), progress_handler=progress, timeout=PATIENCE
            )
            await survive(call)
    if offered.resources is not None:
        for resource in await survive(client.list_resources()) or ():
            await survive(client.read_resource_mcp(resource.uri))
        for template in await survive(client.list_resource_templates()) or ():
            if offered.completions is not None:
                ref = ResourceTemplateReference(type="ref/resource", uri=template.uri_template)
                await survive(client.complete_mcp(ref, {"name": "name", "value": "w"}))
    if offered.prompts is not None:
        for prompt in await survive(client.list_prompts()) or ():
            arguments = {argument.name: "word" for argument in prompt.arguments or ()}
            await survive(client.get_prompt_mcp(prompt.name, arguments))
            if offered.completions is not None and arguments:
                ref = PromptReference(type="ref/prompt", name=prompt.name)
                argument = {"name": next(iter(arguments)), "value": "w"}
                await survive(client.complete_mcp(ref, argument))
    await survive(client.ping())


def transport_of(server: list[str]) -> Any:
    if "://" not in server[0]:
        return StdioTransport(server[0], server[1:], keep_alive=False)
    kind = SSETransport if server[0].endswith("/sse") else StreamableHttpTransport
    return kind(server[0])


async def main(mode: str, server: list[str]) -> None:
    warnings.simplefilter("ignore")
    async with Client(
        transport_of(server),
        mode=mode,
        elicitation_handler=elicit,
        sampling_handler=think,
        roots=["file:///project"],
        log_handler=ignore,
        message_handler=ignore,
    ) as client:
        await use(client)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2:])
