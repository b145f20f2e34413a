"""How a server meets its clients: initialize, discover, ping, levels, capabilities."""

from typing import Any

import pytest

from mcp_trio import Server
from mcp_trio.protocol import meta as keys
from mcp_trio.protocol.revisions import LEGACY, MODERN
from tests.server.raw import Raw, open_legacy, open_raw

CLIENT = {"capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}


@pytest.mark.parametrize("version", LEGACY)
async def test_initialize_agrees_on_what_is_asked_for(version: str) -> None:
    """Each legacy version that is asked for is the one that is spoken."""
    async with open_raw(Server("s")) as raw:
        result = await raw.initialize(version)
        assert result["protocolVersion"] == version


@pytest.mark.parametrize("version", [*MODERN, "2024-01-01", "2031-01-01", ""])
async def test_initialize_never_agrees_on_a_modern_version(version: str) -> None:
    """Whatever else is asked for, the answer is the newest legacy version."""
    async with open_raw(Server("s")) as raw:
        assert (await raw.initialize(version))["protocolVersion"] == LEGACY[-1]


async def test_initialize_with_fewer_versions() -> None:
    """The newest of the versions that are served is offered."""
    async with open_raw(Server("s", versions=["2024-11-05", "2025-03-26"])) as raw:
        assert (await raw.initialize("2025-11-25"))["protocolVersion"] == "2025-03-26"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"protocolVersion": 3}, "protocolVersion"),
        ({"protocolVersion": None}, "protocolVersion"),
        ({"capabilities": None}, "capabilities"),
        ({"capabilities": {"roots": 1}}, "capabilities.roots"),
        ({"clientInfo": {"name": "x"}}, "clientInfo"),
        ({"clientInfo": {"name": 1, "version": "1"}}, "clientInfo.name"),
    ],
)
async def test_initialize_names_the_bad_field(change: dict[str, Any], field: str) -> None:
    """Malformed params of initialize are -32602 with the field, and a better try succeeds."""
    async with open_raw(Server("s")) as raw:
        params = {"protocolVersion": "2025-11-25", **CLIENT, **change}
        answer = await raw.request("initialize", params)
        assert answer["error"]["code"] == -32602
        assert field in answer["error"]["message"]
        await raw.initialize()


async def test_second_initialize_is_refused() -> None:
    """A session is negotiated once."""
    async with open_legacy(Server("s")) as raw:
        params = {"protocolVersion": "2025-11-25", **CLIENT}
        assert (await raw.request("initialize", params))["error"]["code"] == -32600


@pytest.mark.parametrize("method", ["tools/list", "server/discover", "acme/unknown"])
async def test_requests_before_initialize_are_refused(method: str) -> None:
    """A request without an era is answered by an error that says what to do."""
    async with open_raw(Server("s")) as raw:
        answer = await raw.request(method)
        assert answer["error"]["code"] == -32602
        assert "initialize" in answer["error"]["message"]


async def test_ping_before_initialize_is_answered() -> None:
    """ping is the one request that is allowed at any time."""
    async with open_raw(Server("s")) as raw:
        assert (await raw.request("ping"))["result"] == {}
        await raw.initialize()
        assert (await raw.request("ping"))["result"] == {}


async def test_requests_after_the_response_are_served_before_initialized() -> None:
    """The response of initialize opens the session; the notification may come late."""
    async with open_raw(Server("s")) as raw:
        await raw.request("initialize", {"protocolVersion": "2025-11-25", **CLIENT})
        assert "result" in await raw.request("tools/list")


def _conversation(raw: Raw) -> list[dict[str, Any]]:
    return [
        raw.request_message("initialize", {"protocolVersion": "2025-06-18", **CLIENT}, id="i"),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        raw.request_message("tools/list", id="t"),
    ]


@pytest.mark.parametrize("_run", range(10))
async def test_whole_conversation_in_one_write(_run: int) -> None:
    """What follows initialize on the wire is served, whoever is scheduled first."""
    async with open_raw(Server("s")) as raw:
        await raw.send(*_conversation(raw))
        assert (await raw.receive())["id"] == "i"
        assert "result" in await raw.answer_to("t")


@pytest.mark.parametrize("_run", range(10))
async def test_request_before_initialize_in_one_write(_run: int) -> None:
    """What precedes initialize on the wire is refused, whoever is scheduled first."""
    async with open_raw(Server("s")) as raw:
        initialize, initialized, tools = _conversation(raw)
        await raw.send(tools, initialize, initialized)
        assert "error" in await raw.answer_to("t")
        assert "result" in await raw.answer_to("i")


async def test_failed_initialize_in_one_write() -> None:
    """What waits for an initialize that fails is refused and does not hang."""
    async with open_raw(Server("s")) as raw:
        initialize, _, tools = _conversation(raw)
        initialize["params"] = {}
        await raw.send(initialize, tools)
        assert "error" in await raw.answer_to("i")
        assert "error" in await raw.answer_to("t")


@pytest.mark.parametrize("_run", range(10))
@pytest.mark.parametrize("in_one_write", [True, False])
async def test_second_attempt_in_one_write_with_what_follows(_run: int, in_one_write: bool) -> None:
    """What follows an initialize is served, also if another one had failed before."""
    async with open_raw(Server("s")) as raw:
        conversation = _conversation(raw)
        failing = raw.request_message("initialize", {}, id="f")
        await raw.send(*([failing] if not in_one_write else [failing, *conversation]))
        assert "error" in await raw.answer_to("f")
        if not in_one_write:
            await raw.send(*conversation)
        assert "result" in await raw.answer_to("i")
        assert "result" in await raw.answer_to("t")


async def test_discover_lists_modern_versions_only() -> None:
    """discover offers what a modern request can be in, and nothing else."""
    async with open_raw(Server("s", instructions="Be nice.")) as raw:
        result = await raw.result("server/discover")
        assert result["supportedVersions"] == [*MODERN]
        assert result["instructions"] == "Be nice."


async def test_server_describes_itself_in_both_eras() -> None:
    """initialize and discover tell all that was given; other results name and version only."""
    icon = {"src": "https://example.com/i.png", "sizes": ["48x48"]}
    server = Server(
        "s",
        version="2",
        title="The S",
        description="About S",
        website_url="https://example.com",
        icons=[icon],
    )
    full = {
        "name": "s",
        "version": "2",
        "title": "The S",
        "description": "About S",
        "websiteUrl": "https://example.com",
        "icons": [icon],
    }
    async with open_raw(server) as raw:
        assert (await raw.initialize())["serverInfo"] == full
        assert (await raw.result("server/discover"))["_meta"][keys.SERVER_INFO] == full
        listed = await raw.result("tools/list")
        assert listed["_meta"][keys.SERVER_INFO] == {"name": "s", "version": "2"}


async def test_lists_may_always_change() -> None:
    """A server without tools may get some, so it declares the lists and that they change."""
    async with open_raw(Server("s")) as raw:
        for capabilities in (
            (await raw.initialize())["capabilities"],
            (await raw.result("server/discover"))["capabilities"],
        ):
            assert capabilities["tools"] == capabilities["prompts"] == {"listChanged": True}
            assert capabilities["resources"] == {"listChanged": True, "subscribe": True}
            assert capabilities["logging"] == {}
            assert "completions" not in capabilities


@pytest.mark.parametrize("version", LEGACY)
async def test_completions_are_declared_from_2025_03_26(version: str) -> None:
    """The capability is there where something is completed and the revision has it."""
    server = Server("s")
    server.completion(prompt="p")(lambda value: [])
    async with open_raw(server) as raw:
        declared = (await raw.initialize(version))["capabilities"]
        assert ("completions" in declared) == (version != "2024-11-05")


async def test_capabilities_can_be_added_and_taken_out() -> None:
    """Additions are declared, None takes a name out, extensions are modern only."""
    added: dict[str, Any] = {
        "experimental": {"x": {}},
        "extensions": {"a.example/b": {}},
        "prompts": None,
    }
    async with open_raw(Server("s", capabilities=added)) as raw:
        legacy = (await raw.initialize())["capabilities"]
        modern = (await raw.result("server/discover"))["capabilities"]
        assert legacy["experimental"] == modern["experimental"] == {"x": {}}
        assert "extensions" not in legacy
        assert modern["extensions"] == {"a.example/b": {}}
        assert "prompts" not in legacy
        assert "prompts" not in modern


async def test_set_level_is_checked() -> None:
    """A level that is none is -32602 and named; a good one is accepted."""
    async with open_legacy(Server("s")) as raw:
        assert (await raw.request("logging/setLevel", {"level": "error"}))["result"] == {}
        for params in ({"level": "loud"}, {"level": 3}, {}):
            error = (await raw.request("logging/setLevel", params))["error"]
            assert error["code"] == -32602
            assert "level" in error["message"]


@pytest.mark.parametrize("version", LEGACY)
async def test_batches_and_errors_without_id_by_revision(version: str) -> None:
    """Only 2025-03-26 has batches; only 2025-11-25 answers what has no id."""
    async with open_legacy(Server("s"), version) as raw:
        await raw.send([raw.request_message("ping", id="a")], b"nonsense")
        await raw.send(raw.request_message("ping", id="end"))
        others: list[Any] = []
        while (got := await raw.receive()) != {"jsonrpc": "2.0", "id": "end", "result": {}}:
            others.append(got)
        if version == "2025-03-26":
            assert others == [[{"jsonrpc": "2.0", "id": "a", "result": {}}]]
        elif version == "2025-11-25":
            assert {error["error"]["code"] for error in others} == {-32600, -32700}
        else:
            assert others == []
