"""A client of PyPI's `mcp` that does steps; runs in that package's own environment."""

from __future__ import annotations

import time
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from mcp import Client, MCPError, StdioServerParameters
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

from tests.interop.clients.steps import JSON, Stepper, main


def wire(model: Any) -> JSON:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def reference(ref: JSON) -> Any:
    kinds = {"ref/prompt": PromptReference, "ref/resource": ResourceTemplateReference}
    return kinds[ref["type"]](**ref)


class McpStepper(Stepper):
    client: Any

    def read_error(self, error: Exception) -> JSON | None:
        return wire(error.error) if isinstance(error, MCPError) else None

    # What the server asks and says

    async def elicit(self, context: object, params: Any) -> ElicitResult:
        self.asked.append(wire(params))
        if params.mode == "url":
            return ElicitResult(action="accept")
        return ElicitResult(action="accept", content={"name": "Ada"})

    async def sample(self, context: object, params: Any) -> CreateMessageResult:
        self.asked.append(wire(params))
        content = TextContent(type="text", text=f"{params.max_tokens} tokens")
        return CreateMessageResult(role="assistant", content=content, model="test")

    async def list_roots(self, context: object) -> ListRootsResult:
        self.asked.append("roots")
        return ListRootsResult(roots=[Root(uri="file:///project")])

    async def log(self, params: Any) -> None:
        self.logs.append(wire(params))

    async def message(self, message: Any) -> None:
        if self.client.protocol_version > "2026":
            return  # `watch` gets the same from the subscription
        method = getattr(message, "method", "")
        if method.endswith("list_changed"):
            self.change(method)
        elif method == "notifications/resources/updated":
            self.change(str(message.params.uri))

    # Steps

    async def _pages(self, list_page: Callable[..., Awaitable[Any]], field: str) -> JSON:
        items: list[JSON] = []
        page = await list_page()
        items += getattr(page, field)
        while page.next_cursor is not None:
            page = await list_page(cursor=page.next_cursor)
            items += getattr(page, field)
        return {"result": [wire(item) for item in items]}

    async def do_tools(self, *, progress: list[JSON]) -> JSON:
        return await self._pages(self.client.list_tools, "tools")

    async def do_resources(self, *, progress: list[JSON]) -> JSON:
        return await self._pages(self.client.list_resources, "resources")

    async def do_templates(self, *, progress: list[JSON]) -> JSON:
        return await self._pages(self.client.list_resource_templates, "resource_templates")

    async def do_prompts(self, *, progress: list[JSON]) -> JSON:
        return await self._pages(self.client.list_prompts, "prompts")

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

        return {
            "result": wire(
                await self.client.call_tool(
                    name, arguments, read_timeout_seconds=timeout, progress_callback=on_progress
                )
            )
        }

    async def do_cancel(self, *, name: str, arguments: JSON, progress: list[JSON]) -> JSON:
        async def call(cancel: Callable[[], None]) -> object:
            async def on_progress(*_: object) -> None:
                cancel()

            return await self.client.call_tool(name, arguments, progress_callback=on_progress)

        return await self.cancelled_at_first_progress(call)

    async def do_read(self, *, uri: str, progress: list[JSON]) -> JSON:
        return {"result": wire(await self.client.read_resource(uri))}

    async def do_prompt(self, *, name: str, arguments: JSON, progress: list[JSON]) -> JSON:
        return {"result": wire(await self.client.get_prompt(name, arguments))}

    async def do_complete(
        self, *, ref: JSON, argument: JSON, progress: list[JSON], context: JSON = None
    ) -> JSON:
        return {"result": wire(await self.client.complete(reference(ref), argument, context))}

    async def do_ping(self, *, progress: list[JSON]) -> JSON:
        return {"result": wire(await self.client.send_ping())}

    async def do_level(self, *, level: str, progress: list[JSON]) -> JSON:
        return {"result": wire(await self.client.set_logging_level(level))}

    async def do_roots_changed(self, *, progress: list[JSON]) -> JSON:
        await self.client.send_roots_list_changed()
        return {"result": {}}

    async def watch(
        self, uris: list[str], tools: bool, cause: Callable[[], Awaitable[JSON]]
    ) -> JSON:
        if self.client.protocol_version < "2026":
            for uri in uris:
                await self.client.subscribe_resource(uri)
            outcome = await cause()
            for uri in uris:
                await self.client.unsubscribe_resource(uri)
            return outcome
        async with self.client.listen(tools_list_changed=tools, resource_subscriptions=uris) as sub:

            async def take() -> None:
                async for event in sub:
                    self.change(getattr(event, "uri", type(event).__name__))

            async with anyio.create_task_group() as group:
                group.start_soon(take)
                outcome = await cause()
                group.cancel_scope.cancel()
        return {**outcome, "granted": wire(sub.honored)}


def server_of(plan: JSON) -> Any:
    if "command" in plan:
        command, *args = plan["command"]
        return StdioServerParameters(command=command, args=args)
    return sse_client(plan["url"]) if plan["url"].endswith("/sse") else plan["url"]


async def run(plan: JSON) -> JSON:
    warnings.simplefilter("ignore")  # most of what is tested here is deprecated by this library
    stepper = McpStepper()
    async with Client(
        server_of(plan),
        mode=plan["mode"],
        elicitation_callback=stepper.elicit,
        sampling_callback=stepper.sample,
        list_roots_callback=stepper.list_roots,
        logging_callback=stepper.log,
        message_handler=stepper.message,
        log_level=plan.get("log_level"),
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
