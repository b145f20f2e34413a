"""Looking at servers that have less than they could."""

import pytest

import mcp_trio
from mcp_trio import MCPError, Server
from mcp_trio.cli.inspection import inspect_server
from mcp_trio.protocol.errors import INTERNAL_ERROR, METHOD_NOT_FOUND


def half_a_server() -> Server:
    """Declares resources but has never heard of templates; declares no prompts at all."""
    server = Server("half", capabilities={"prompts": None})
    server.add_resource("memo://today", lambda: "write more tests", name="today")

    @server.request("resources/templates/list")
    async def templates() -> None:
        raise MCPError(METHOD_NOT_FOUND, "What is a template?")

    @server.request("prompts/list")
    async def prompts() -> None:
        raise MCPError(INTERNAL_ERROR, "Nobody should ask me that.")

    return server


@pytest.mark.parametrize("mode", ["legacy", "modern"])
async def test_what_is_missing_is_empty(mode: str) -> None:
    """A server is shown with what it has; half a feature is no reason to fail."""
    async with mcp_trio.open_client(half_a_server(), mode=mode) as client:
        found = (await inspect_server(client)).to_wire()
    assert found["resources"][0]["uri"] == "memo://today"
    assert found["resourceTemplates"] == found["prompts"] == []
    assert found["instructions"] is None


async def test_a_list_that_fails_is_no_empty_list() -> None:
    """A fault of the server is not passed off as a server without tools."""
    server = half_a_server()

    @server.request("resources/list")
    async def broken() -> None:
        raise MCPError(INTERNAL_ERROR, "The disk is on fire.")

    async with mcp_trio.open_client(server) as client:
        with pytest.raises(MCPError, match="on fire"):
            await inspect_server(client)
