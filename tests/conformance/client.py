"""The everything-client: what the official suite expects of a client, done with this library.

The suite starts `python -m tests.conformance.client URL` once for each scenario, each time beside a
server of its own, and says in the environment which scenario and which revision it is.
"""

import json
import os
import sys
from collections.abc import Awaitable, Callable

import trio

from mcp_trio import (
    Client,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    Tool,
    open_client,
)

DONE = "The scenario is done."
"""The last line of what this prints, unless something went wrong."""


async def list_tools(client: Client) -> None:
    await client.list_tools()


async def call_add_numbers(client: Client) -> None:
    (tool,) = await client.list_tools()
    result = await client.call_tool(tool.name, {"a": 2, "b": 3})
    print(result.content)


async def call_each_tool(client: Client) -> None:
    """Call the tools that are left once those with headers that cannot be are left out."""
    for tool in await client.list_tools():
        await client.call_tool(tool.name, arguments_for(tool))


def arguments_for(tool: Tool) -> dict[str, str]:
    required: list[str] = tool.input_schema.get("required", [])
    return dict.fromkeys(required, "us-west1")


async def use_everything(client: Client) -> None:
    await call_each_tool(client)
    for resource in await client.list_resources():
        await client.read_resource(resource.uri)
    for prompt in await client.list_prompts():
        await client.get_prompt(prompt.name)


async def call_as_told(client: Client) -> None:
    """Make the calls that the suite wants to see the headers of."""
    await client.list_tools()
    for call in json.loads(os.environ["MCP_CONFORMANCE_CONTEXT"])["toolCalls"]:
        await client.call_tool(call["name"], call["arguments"])


async def answer_questions(client: Client) -> None:
    """Call tools that ask, and at the same time one that does not."""
    await client.list_tools()
    async with trio.open_nursery() as nursery:
        for name in ("echo_state", "unrelated", "no_state", "no_result_type"):
            nursery.start_soon(client.call_tool, f"test_mrtr_{name}")


async def echo_schema(client: Client) -> None:
    """Give back the schema of a tool as it arrived here."""
    tools = {tool.name: tool for tool in await client.list_tools()}
    schema = tools["json_schema_2020_12_tool"].input_schema
    await client.call_tool("json_schema_echo", {"schema": schema})


SCENARIOS: dict[str, Callable[[Client], Awaitable[None]]] = {
    "elicitation-sep1034-client-defaults": call_each_tool,
    "http-custom-headers": call_as_told,
    "http-invalid-tool-headers": call_each_tool,
    "http-standard-headers": use_everything,
    "initialize": list_tools,
    "json-schema-2020-12-preservation": echo_schema,
    "json-schema-ref-no-deref": list_tools,
    "request-metadata": list_tools,
    "sep-2322-client-request-state": answer_questions,
    "sse-retry": call_each_tool,
    "tools_call": call_add_numbers,
}


async def accept(form: ElicitRequestFormParams | ElicitRequestURLParams) -> ElicitResult:
    """Agree to everything, and leave the form as it is: its defaults are filled in."""
    return ElicitResult("accept", None if isinstance(form, ElicitRequestURLParams) else {})


async def say_yes(_request: object) -> str:
    return "Yes."


async def list_no_roots(_request: object) -> list[str]:
    return []


async def main(url: str) -> None:
    modern = os.environ["MCP_CONFORMANCE_PROTOCOL_VERSION"] >= "2026-07-28"
    do = SCENARIOS[os.environ["MCP_CONFORMANCE_SCENARIO"]]
    async with open_client(
        url,
        mode="modern" if modern else "legacy",
        on_elicit=accept,
        on_sample=say_yes,
        on_list_roots=list_no_roots,
    ) as client:
        await do(client)
    print(DONE)


if __name__ == "__main__":
    trio.run(main, sys.argv[1])
