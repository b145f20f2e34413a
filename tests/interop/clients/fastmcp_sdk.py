"""A client of `fastmcp` 4 that does steps; runs in that package's own environment."""

from __future__ import annotations

import time
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import SSETransport, StdioTransport, StreamableHttpTransport
from mcp.types import CreateMessageResult, TextContent

from tests.interop.clients.mcp_sdk import McpStepper, reference, wire
from tests.interop.clients.steps import JSON, main


class FastmcpStepper(McpStepper):
    async def ask_form(self, message: str, kind: Any, params: Any, context: object) -> ElicitResult:
        self.asked.append(wire(params))
        if params.mode == "url":
            return ElicitResult(action="accept")
        return ElicitResult(action="accept", content={"name": "Ada"})

    async def ask_model(self, messages: object, params: Any, context: object) -> Any:
        self.asked.append(wire(params))
        content = TextContent(type="text", text=f"{params.max_tokens} tokens")
        return CreateMessageResult(role="assistant", content=content, model="test")

    def ask_roots(self, context: object) -> list[str]:
        self.asked.append("roots")
        return ["file:///project"]

    async def _all(self, items: Awaitable[list[Any]]) -> JSON:
        return {"result": [wire(item) for item in await items]}

    async def do_tools(self, *, progress: list[JSON]) -> JSON:
        return await self._all(self.client.list_tools())

    async def do_resources(self, *, progress: list[JSON]) -> JSON:
        return await self._all(self.client.list_resources())

    async def do_templates(self, *, progress: list[JSON]) -> JSON:
        return await self._all(self.client.list_resource_templates())

    async def do_prompts(self, *, progress: list[JSON]) -> JSON:
        return await self._all(self.client.list_prompts())

    async def do_call(
        self,
        *,
        name: str,
        arguments: dict[str, Any],
        progress: list[JSON],
        timeout: float | None = None,
    ) -> JSON:
        async def on_progress(value: float, total: float | None, message: str | None) -> None:
            progress.append([value, total, message])

        result = await self.client.call_tool_mcp(
            name, arguments, progress_handler=on_progress, timeout=timeout
        )
        return {"result": wire(result)}

    async def do_cancel(self, *, name: str, arguments: JSON, progress: list[JSON]) -> JSON:
        async def call(cancel: Callable[[], None]) -> object:
            async def on_progress(*_: object) -> None:
                cancel()

            return await self.client.call_tool_mcp(name, arguments, progress_handler=on_progress)

        return await self.cancelled_at_first_progress(call)

    async def do_read(self, *, uri: str, progress: list[JSON]) -> JSON:
        return {"result": wire(await self.client.read_resource_mcp(uri))}

    async def do_prompt(self, *, name: str, arguments: JSON, progress: list[JSON]) -> JSON:
        return {"result": wire(await self.client.get_prompt_mcp(name, arguments))}

    async def do_complete(
        self, *, ref: JSON, argument: JSON, progress: list[JSON], context: JSON = None
    ) -> JSON:
        result = await self.client.complete_mcp(reference(ref), argument, context)
        return {"result": wire(result)}

    async def do_ping(self, *, progress: list[JSON]) -> JSON:
        return {"result": {} if await self.client.ping() else None}

    async def do_level(self, *, level: str, progress: list[JSON]) -> JSON:
        await self.client.set_logging_level(level)
        return {"result": {}}

    async def watch(
        self, uris: list[str], tools: bool, cause: Callable[[], Awaitable[JSON]]
    ) -> JSON:
        """This library has no subscriptions of its own; its session has those of 2025-11-25."""
        for uri in uris:
            await self.client.session.subscribe_resource(uri)
        return await cause()


def transport_of(plan: JSON) -> Any:
    if "command" in plan:
        command, *args = plan["command"]
        return StdioTransport(command, args, keep_alive=False)
    kind = SSETransport if plan["url"].endswith("/sse") else StreamableHttpTransport
    return kind(plan["url"])


async def run(plan: JSON) -> JSON:
    warnings.simplefilter("ignore")  # most of what is tested here is deprecated by this library
    stepper = FastmcpStepper()
    async with Client(
        transport_of(plan),
        mode=plan["mode"],
        elicitation_handler=stepper.ask_form,
        sampling_handler=stepper.ask_model,
        roots=stepper.ask_roots,
        log_handler=stepper.log,
        message_handler=stepper.message,
    ) as client:
        stepper.client = client
        outcomes = await stepper.run(plan["steps"])
        return {
            "version": client.protocol_version,
            "server": wire(client.server_info),
            "capabilities": wire(client.server_capabilities),
            "instructions": client.instructions,
            "outcomes": outcomes,
            "asked": stepper.asked,
            "logs": stepper.logs,
            "close": time.monotonic(),
        }


if __name__ == "__main__":
    main(run)
