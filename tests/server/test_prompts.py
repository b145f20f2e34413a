"""Prompts over the wire: definitions, arguments, messages."""

from typing import Annotated, Any

import pytest

from mcp_trio import Context, Server
from mcp_trio.protocol.revisions import LEGACY
from tests.server.raw import open_legacy, open_raw


@pytest.fixture
def server() -> Server:
    server = Server("s")

    @server.prompt(title="Travel", icons=[{"src": "data:,"}], meta={"acme.example/x": 1})
    async def travel(city: Annotated[str, "Where to"], days: int = 3) -> str:
        """Ask for advice."""
        return f"{days} days in {city}"

    return server


async def test_definition_says_what_was_registered(server: Server) -> None:
    """Arguments with descriptions, and which are required, come from the signature."""
    async with open_raw(server) as raw:
        (prompt,) = (await raw.result("prompts/list"))["prompts"]
    assert prompt == {
        "name": "travel",
        "title": "Travel",
        "description": "Ask for advice.",
        "arguments": [
            {"name": "city", "description": "Where to", "required": True},
            {"name": "days", "required": False},
        ],
        "icons": [{"src": "data:,"}],
        "_meta": {"acme.example/x": 1},
    }


@pytest.mark.parametrize("version", LEGACY)
async def test_get_in_every_revision(server: Server, version: str) -> None:
    """Text arguments are read by the parameter's type; the result has the description."""
    async with open_legacy(server, version) as raw:
        params = {"name": "travel", "arguments": {"city": "12", "days": "5"}}
        for answer in (
            await raw.request("prompts/get", params),
            await raw.modern("prompts/get", params),
        ):
            assert answer["result"]["description"] == "Ask for advice."
            (message,) = answer["result"]["messages"]
            assert message == {"role": "user", "content": {"type": "text", "text": "5 days in 12"}}


@pytest.mark.parametrize(
    ("params", "named"),
    [
        ({"name": "nothing"}, "nothing"),
        ({}, "'name'"),
        ({"name": "travel"}, "city"),
        ({"name": "travel", "arguments": {"city": "x", "weather": "y"}}, "weather"),
        ({"name": "travel", "arguments": {"city": "x", "days": "many"}}, "days"),
        ({"name": "travel", "arguments": {"city": 3}}, "arguments.city"),
        ({"name": "travel", "arguments": []}, "'arguments'"),
    ],
)
async def test_bad_requests_are_named(server: Server, params: dict[str, Any], named: str) -> None:
    """Unknown prompts, missing, unknown and malformed arguments are -32602 in every era."""
    async with open_legacy(server) as raw:
        for error in (
            await raw.error("prompts/get", params),
            (await raw.request("prompts/get", params))["error"],
        ):
            assert error["code"] == -32602
            assert named in error["message"]


async def test_several_messages_and_context() -> None:
    """A prompt may return several messages, be a plain function, and use the context."""
    server = Server("s")

    @server.prompt()
    def talk(ctx: Context) -> Any:
        return ["Hello", ("assistant", f"in {ctx.protocol_version}")]

    async with open_raw(server) as raw:
        messages = (await raw.result("prompts/get", {"name": "talk"}))["messages"]
    assert [(m["role"], m["content"]["text"]) for m in messages] == [
        ("user", "Hello"),
        ("assistant", "in 2026-07-28"),
    ]


async def test_prompts_come_and_go(server: Server) -> None:
    """Prompts can be added and removed; a name that is taken is an error."""
    server.add_prompt(lambda: "x", name="x")
    with pytest.raises(ValueError, match="'x' already"):
        server.add_prompt(lambda: "x", name="x")
    server.remove_prompt("travel")
    async with open_raw(server) as raw:
        prompts = (await raw.result("prompts/list"))["prompts"]
        assert [prompt["name"] for prompt in prompts] == ["x"]
        assert (await raw.error("prompts/get", {"name": "travel"}))["code"] == -32602
