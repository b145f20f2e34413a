"""Requests as they are, for who stands between a client and a server."""

from typing import Any

from trio.testing import MockClock

from mcp_trio.exceptions import MCPError
from mcp_trio.incoming import IncomingRequest
from mcp_trio.protocol import meta as keys

from .scripted import LEGACY_START, Answer, JSONObject, Scripted

QUESTION: JSONObject = {"resultType": "input_required", "inputRequests": {"k": {}}}


async def reports(server: Scripted, request: JSONObject) -> Answer:
    await server.progress(request, 1)
    return QUESTION


async def test_a_question_is_a_result(autojump_clock: MockClock) -> None:
    """What asks for input comes back as it is, and progress in wire form."""
    seen: list[JSONObject] = []
    server = Scripted({"tools/call": reports})
    async with server.connect() as client:
        params = {"name": "t", "_meta": {keys.CLIENT_CAPABILITIES: {"acme": {}}}}
        assert await client.exchange("tools/call", params, on_progress=seen.append) == QUESTION
    sent = server.sent("tools/call")[0]["params"]["_meta"]
    assert sent[keys.CLIENT_CAPABILITIES] == {"acme": {}}  # the params go first
    assert sent[keys.PROTOCOL_VERSION] == client.protocol_version
    assert [params["progress"] for params in seen] == [1]


async def test_dressed(autojump_clock: MockClock) -> None:
    """Params get what a modern server needs, and for a legacy one they stay as they are."""
    async with Scripted().connect() as client:
        assert keys.PROTOCOL_VERSION in client.dressed({"a": 1})["_meta"]
    async with Scripted(start=LEGACY_START).connect() as client:
        assert client.dressed({"a": 1}) == {"a": 1}
        assert await client.exchange("logging/setLevel", {"level": "info"}) == {}


async def test_requests_of_the_server_in_wire_form(autojump_clock: MockClock) -> None:
    """`on_request` answers all of them, known or not, in place of the other callbacks."""

    async def answer(incoming: IncomingRequest) -> JSONObject:
        if incoming.method == "acme/refused":
            raise MCPError(-5, "no")
        return {"method": incoming.method, **incoming.params}

    server = Scripted(start=LEGACY_START)
    options: Any = {"on_request": answer, "capabilities": {"acme": {}}}
    async with server.connect(**options):
        for method in ("roots/list", "ping", "acme/x"):
            answered = await server.answer_to(await server.ask(method, {"a": 1}))
            assert answered["result"] == {"method": method, "a": 1}
        refused = await server.answer_to(await server.ask("acme/refused"))
        assert refused["error"] == {"code": -5, "message": "no"}
    assert server.sent("initialize")[0]["params"]["capabilities"] == {"acme": {}}
