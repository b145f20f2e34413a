"""The demo client: connects to a server, uses all that it finds there once, and leaves.

    python -m mcp_trio.harness.demo_client URL
    python -m mcp_trio.harness.demo_client COMMAND ARGUMENTS...

It shows what a client under test is expected to do, so that as much as possible can be seen of it:
list everything, call every tool with arguments made from its schema, read every resource, get every
prompt, complete their arguments, listen for a moment, answer what the server asks, and leave. What
the server refuses is no reason to stop. A client that does less is tested for less.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

import httpx
import trio
import uritemplate

from mcp_trio.client.client import Client, open_client
from mcp_trio.client.targets import Target
from mcp_trio.exceptions import (
    ConnectionClosed,
    MCPError,
    ProtocolError,
    RequestTimeout,
    TransportError,
)
from mcp_trio.harness.samples import NoSample, sample
from mcp_trio.protocol.errors import INVALID_PARAMS
from mcp_trio.protocol.json_schema import InvalidSchema
from mcp_trio.protocol.revisions import supports
from mcp_trio.protocol.types.completion import PromptReference, ResourceTemplateReference
from mcp_trio.protocol.types.elicitation import ElicitRequestFormParams, ElicitResult

T = TypeVar("T")

LISTEN: Final = 0.1
"""Seconds of listening; what the server says meanwhile is what it says."""
PATIENCE: Final = 4.0
"""Seconds for an answer. A server that does not answer one request may answer the next."""
SURVIVED: Final = (MCPError, ProtocolError, RequestTimeout, TransportError)


def on_elicit(params: Any) -> Any:
    """A user who fills in every form, and who does not go to strange pages."""
    if isinstance(params, ElicitRequestFormParams):
        return _arguments(params.requested_schema)
    return ElicitResult("decline")


def on_sample(_params: Any) -> str:
    """A model that says a word."""
    return "word"


def on_list_roots(_params: Any) -> Sequence[str]:
    """One folder, which nobody has."""
    return ["file:///demo"]


async def play(
    target: Target,
    *,
    mode: str = "auto",
    http: httpx.AsyncClient | None = None,
    also: Callable[[Client], Awaitable[object]] | None = None,
    **options: Any,
) -> None:
    """Use a server.

    Args:
        target: What `open_client` takes.
        mode: The revisions to speak, as for `open_client`.
        http: For URLs: the httpx client to use.
        also: What is done with the client in the end.
        options: Others of `open_client`, in place of those below.
    """
    asked = {
        "on_elicit": on_elicit,
        "on_sample": on_sample,
        "on_list_roots": on_list_roots,
        "on_log": lambda _: None,
        "on_noise": lambda *_: None,
        "log_level": "info",
        "timeout": PATIENCE,
        "probe_timeout": 2.0,
        "max_rounds": 3,
    }
    async with open_client(target, mode=mode, http=http, **{**asked, **options}) as client:
        await use(client)
        if also is not None:
            await _survive(also(client))


async def use(client: Client) -> None:
    """Use all that a server declares, once."""
    offered = client.capabilities
    uris: list[str] = []
    if offered.tools is not None:
        await _use_tools(client)
    if offered.resources is not None:
        uris = await _use_resources(client)
    if offered.prompts is not None:
        await _use_prompts(client)
    await _survive(_listen(client, uris))
    await _survive(client.notify_roots_changed())


async def _use_tools(client: Client) -> None:
    for tool in await _all(client.list_tools):
        if tool.execution is not None and tool.execution.task_support == "required":
            continue  # this client starts no tasks
        arguments = _arguments(tool.input_schema)
        await _survive(client.call_tool(tool.name, arguments, on_progress=lambda *_: None))


async def _use_resources(client: Client) -> list[str]:
    """Read all resources; returns the URI of one that changes can be heard of."""
    resources = await _all(client.list_resources)
    for resource in resources:
        await _survive(client.read_resource(resource.uri))
    for template in await _all(client.list_resource_templates):
        reference = ResourceTemplateReference(template.uri_template)
        for name in uritemplate.variables(template.uri_template):
            await _complete(client, reference, name)
    subscribes = (
        client.capabilities.resources is not None and client.capabilities.resources.subscribe
    )
    return [resource.uri for resource in resources[:1]] if subscribes else []


async def _use_prompts(client: Client) -> None:
    for prompt in await _all(client.list_prompts):
        arguments = {argument.name: "word" for argument in prompt.arguments or ()}
        await _survive(client.get_prompt(prompt.name, arguments))
        for name in arguments:
            await _complete(client, PromptReference(prompt.name), name)


async def _complete(
    client: Client, reference: PromptReference | ResourceTemplateReference, name: str
) -> None:
    declared = client.capabilities.completions is not None
    if declared or not supports("completions_capability", client.protocol_version):
        await _survive(client.complete(reference, name, "w"))


async def _all(list_them: Callable[[], Awaitable[list[T]]]) -> list[T]:
    """A whole list; from its beginning again if a cursor came to be invalid meanwhile."""
    for _ in range(2):
        try:
            return await list_them()
        except SURVIVED as error:
            _tell(error)
            if not (isinstance(error, MCPError) and error.code == INVALID_PARAMS):
                break
    return []


def _arguments(schema: dict[str, Any]) -> dict[str, Any]:
    """What a schema wants; nothing if that cannot be found out."""
    try:
        found = sample(schema)
    except (NoSample, InvalidSchema):
        return {}
    return found if isinstance(found, dict) else {}


async def _listen(client: Client, uris: Sequence[str]) -> None:
    """Hear of changes for a moment, and look again at what has changed."""
    listening = client.listen(tools=True, prompts=True, resources=True, uris=uris)
    with trio.move_on_after(LISTEN):
        async with listening as events:
            await client.ping()
            async for event in events:
                if type(event).__name__ == "ToolsChanged":
                    await client.list_tools()


async def _survive(doing: Awaitable[Any]) -> Any:
    """The outcome, or None if the server does not play along."""
    try:
        return await doing
    except SURVIVED as error:
        _tell(error)
        return None


def _tell(error: Exception) -> None:
    sys.stderr.write(f"{type(error).__name__}: {error}\n")


async def play_again(target: Target, **options: Any) -> None:
    """Use a server, and once more from the beginning if it goes away unexpectedly.

    Raises:
        ConnectionClosed: It goes away again.
    """
    try:
        await play(target, **options)
    except ConnectionClosed as error:
        _tell(error)
        await play(target, **options)


def main(arguments: Sequence[str]) -> None:
    """Be the client of what the command line names."""
    if not arguments:
        sys.exit("usage: python -m mcp_trio.harness.demo_client URL | COMMAND ARGUMENTS...")
    is_url = len(arguments) == 1 and "://" in arguments[0]
    trio.run(play_again, arguments[0] if is_url else list(arguments))


if __name__ == "__main__":
    main(sys.argv[1:])
