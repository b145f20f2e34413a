"""Completion over the wire: whose values, how many, and what the function is told."""

from typing import Any

import pytest

from mcp_trio import Completion, Context, Server
from tests.server.raw import Raw, open_legacy, open_raw

PROMPT = {"type": "ref/prompt", "name": "greeting"}
TEMPLATE = {"type": "ref/resource", "uri": "weather://{city}/{day}"}


@pytest.fixture
def server() -> Server:
    server = Server("s")

    @server.prompt()
    async def greeting(city: str, language: str = "en") -> str:
        return city + language

    @server.resource("weather://{city}/{day}")
    async def weather(city: str, day: str) -> str:
        return city + day

    @server.completion(prompt="greeting", argument="city")
    async def cities(value: str) -> list[str]:
        return [city for city in ("Oslo", "Olten", "Rome") if city.startswith(value)]

    return server


async def complete(raw: Raw, ref: Any, name: str, value: str = "", **more: Any) -> dict[str, Any]:
    params = {"ref": ref, "argument": {"name": name, "value": value}, **more}
    completion: dict[str, Any] = (await raw.result("completion/complete", params))["completion"]
    return completion


async def test_values_for_an_argument(server: Server) -> None:
    """What the function returns for the text so far is sent, with its count."""
    async with open_raw(server) as raw:
        found = await complete(raw, PROMPT, "city", "Ol")
        assert found == {"values": ["Olten"], "total": 1, "hasMore": False}
        assert (await complete(raw, PROMPT, "language"))["values"] == []
        assert (await complete(raw, TEMPLATE, "city"))["values"] == []


async def test_the_rest_of_the_arguments(server: Server) -> None:
    """A function without an argument of its own answers for all others, and knows which."""

    @server.completion(resource="weather://{city}/{day}")
    def rest(text: str, argument: str, arguments: dict[str, str], ctx: Context) -> list[str]:
        return [text, argument, *arguments, *arguments.values(), ctx.method]

    context = {"arguments": {"city": "Oslo"}}
    async with open_legacy(server, "2025-03-26") as raw:
        found = await complete(raw, TEMPLATE, "day", "M", context=context)
        assert found["values"] == ["M", "day", "city", "Oslo", "completion/complete"]
        params = {"ref": TEMPLATE, "argument": {"name": "day", "value": ""}, "context": context}
        legacy = (await raw.request("completion/complete", params))["result"]
        # 2025-03-26 knows no context
        assert legacy["completion"]["values"] == ["", "day", "completion/complete"]


async def test_at_most_a_hundred_values(server: Server) -> None:
    """The first hundred are sent, and that there are more."""

    @server.completion(prompt="greeting", argument="language")
    def languages(value: str) -> Any:
        many = [str(number) for number in range(150)]
        return many if value == "list" else iter(many) if value == "iter" else Completion(many, 999)

    async with open_raw(server) as raw:
        for value, total in (("list", 150), ("iter", 150), ("own", 999)):
            found = await complete(raw, PROMPT, "language", value)
            assert found["values"] == [str(number) for number in range(100)]
            assert (found["total"], found["hasMore"]) == (total, True)


@pytest.mark.parametrize(
    ("params", "named"),
    [
        ({}, "'ref'"),
        ({"ref": {}}, "ref.type"),
        ({"ref": {"type": "ref/tool"}}, "ref.type"),
        ({"ref": {"type": "ref/prompt"}}, "ref.name"),
        ({"ref": PROMPT}, "'argument'"),
        ({"ref": PROMPT, "argument": {"name": "city"}}, "argument.value"),
        ({"ref": PROMPT, "argument": {"name": "zip", "value": ""}}, "zip"),
        ({"ref": {**PROMPT, "name": "x"}, "argument": {"name": "a", "value": ""}}, "x"),
        ({"ref": {**TEMPLATE, "uri": "y"}, "argument": {"name": "a", "value": ""}}, "y"),
        (
            {
                "ref": PROMPT,
                "argument": {"name": "city", "value": ""},
                "context": {"arguments": {"language": 3}},
            },
            "context.arguments.language",
        ),
    ],
)
async def test_bad_requests_are_named(server: Server, params: dict[str, Any], named: str) -> None:
    """Malformed params, unknown references and arguments are -32602."""
    async with open_raw(server) as raw:
        error = await raw.error("completion/complete", params)
        assert error["code"] == -32602
        assert named in error["message"]


async def test_nothing_to_complete() -> None:
    """A server that completes nothing does not know the method."""
    async with open_raw(Server("s")) as raw:
        assert (await raw.error("completion/complete"))["code"] == -32601


def test_registration_is_checked(server: Server) -> None:
    """Exactly one of prompt and resource, and one function for each argument."""

    def complete(value: str) -> list[str]:
        return []

    with pytest.raises(ValueError, match="one of the two"):
        server.completion()(complete)
    with pytest.raises(ValueError, match="one of the two"):
        server.completion(prompt="a", resource="b")(complete)
    with pytest.raises(ValueError, match="greeting"):
        server.completion(prompt="greeting", argument="city")(complete)
