"""Legacy clients without sessions: each request for itself."""

from typing import Any

import pytest
import trio
import trio.testing

from mcp_trio import Context, Server
from mcp_trio.protocol.revisions import LEGACY
from mcp_trio.server.http.events import MemoryEventStore
from tests.server.http.web import POSTING, open_web

Clock = trio.testing.MockClock
ADD = {"name": "add", "arguments": {"a": 1, "b": 2}}


def make_server() -> Server:
    server = Server("s")

    @server.tool()
    def add(a: int, b: int) -> int:
        return a + b

    @server.tool()
    async def version(ctx: Context) -> str:
        return ctx.protocol_version

    @server.tool()
    async def count(ctx: Context) -> str:
        await ctx.report_progress(1)
        await ctx.close_stream()
        return "counted"

    @server.tool()
    async def ask(ctx: Context) -> str:
        return (await ctx.elicit("k", "Sure?", {"sure": bool})).action

    @server.tool()
    async def roots(ctx: Context) -> str:
        return str(await ctx.list_roots())

    return server


def request(method: str, params: Any = None, id: Any = 1) -> Any:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}}


@pytest.mark.parametrize("version", LEGACY)
async def test_requests_stand_alone(version: str) -> None:
    """Neither initialize nor a session id is needed, and initialize gives none."""
    headers = {"mcp-protocol-version": version}
    async with open_web(make_server(), stateless=True) as web:
        answer = await web.post(request("tools/call", ADD), headers).answer()
        assert answer["result"]["content"][0]["text"] == "3"
        params = {
            "protocolVersion": version,
            "capabilities": {},
            "clientInfo": {"name": "n", "version": "1"},
        }
        exchange = web.post(request("initialize", params))
        assert (await exchange.answer())["result"]["protocolVersion"] == version
        assert "mcp-session-id" not in exchange.headers
        assert web.handler.sessions == 0


@pytest.mark.parametrize(
    ("header", "expected"), [(None, "2025-03-26"), ("2025-06-18", "2025-06-18")]
)
async def test_the_header_says_the_version(header: str | None, expected: str) -> None:
    """Without a header a request is under 2025-03-26."""
    headers = {} if header is None else {"mcp-protocol-version": header}
    async with open_web(make_server(), stateless=True) as web:
        answer = await web.post(request("tools/call", {"name": "version"}), headers).answer()
        assert answer["result"]["content"][0]["text"] == expected


async def test_both_eras() -> None:
    """Modern clients are served beside; a session id means nothing to anybody."""
    async with open_web(make_server(), stateless=True) as web:
        assert "result" in await web.modern("tools/call", ADD).answer()
        answer = await web.post(request("tools/call", ADD), {"mcp-session-id": "x"}).answer()
        assert "result" in answer


async def test_progress(autojump_clock: Clock) -> None:
    """What a handler sends travels with its answer; nobody can come back to it."""
    params = {"name": "count", "_meta": {"progressToken": 1}}
    headers = {"mcp-protocol-version": "2025-11-25"}
    async with open_web(make_server(), stateless=True) as web:
        exchange = web.post(request("tools/call", params), headers)
        progress, result = await exchange.messages()
        assert progress["method"] == "notifications/progress"
        assert result["result"]["content"][0]["text"] == "counted"
        assert b"\nid:" not in exchange.text


async def test_nobody_can_be_asked() -> None:
    """A question is an error of the handler: there is no way to the client."""
    headers = {"mcp-protocol-version": "2025-11-25"}
    async with open_web(make_server(), stateless=True) as web:
        answer = await web.post(request("tools/call", {"name": "ask"}), headers).answer()
        assert answer["error"]["code"] == -32600
        (answer,) = await web.post([request("tools/call", {"name": "roots"})]).answer()
        assert "session" in answer["error"]["message"]


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_there_is_only_post(method: str) -> None:
    """Without sessions there is nothing to listen to and nothing to end."""
    async with open_web(make_server(), stateless=True) as web:
        exchange = await web.fetch(method, headers=POSTING)
        assert (exchange.status, exchange.headers["allow"]) == (405, "POST")


async def test_what_needs_no_answer() -> None:
    """Notifications reach their handlers; answers to nothing are harmless."""
    seen: list[Any] = []
    server = make_server()
    server.notification("notifications/roots/list_changed")(seen.append)
    async with open_web(server, stateless=True) as web:
        for message in (
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"},
            {"jsonrpc": "2.0", "id": 1, "result": {}},
        ):
            exchange = web.post(message)
            await exchange.done.wait()
            assert (exchange.status, exchange.text) == (202, b"")
    assert seen == [{}]


async def test_leaving_does_not_cancel(autojump_clock: Clock) -> None:
    """In this era a client that goes away has not cancelled anything."""
    server, done = make_server(), []

    @server.tool()
    async def work(ctx: Context) -> str:
        await ctx.report_progress(1)
        await trio.sleep(10)
        await ctx.report_progress(2)
        done.append(True)
        return "done"

    async with open_web(server, stateless=True) as web:
        for meta in ({}, {"progressToken": 1}):
            call = request("tools/call", {"name": "work", "_meta": meta})
            for message in (call, [call]):
                exchange = web.post(message)
                await trio.testing.wait_all_tasks_blocked()
                exchange.leave()
                await exchange.done.wait()
    assert done == [True] * 4


@pytest.mark.parametrize("version", [None, "2025-03-26"])
async def test_batches(version: str | None, autojump_clock: Clock) -> None:
    """A batch is answered together, and leaves nothing behind."""
    headers = {} if version is None else {"mcp-protocol-version": version}
    batch = [request("tools/call", ADD, 1), request("tools/call", ADD, 2), request("no/such", id=3)]
    async with open_web(make_server(), stateless=True) as web:
        await web.modern("tools/list").answer()
        before = trio.lowlevel.current_statistics().tasks_living
        answers = await web.post(batch, headers).answer()
        assert sorted(answer["id"] for answer in answers) == [1, 2, 3]
        await trio.testing.wait_all_tasks_blocked()
        assert trio.lowlevel.current_statistics().tasks_living == before


async def test_batches_with_progress(autojump_clock: Clock) -> None:
    """Nobody can come back to a batch either, so nothing is numbered and nothing kept."""
    params = {"name": "count", "_meta": {"progressToken": 1}}
    store = MemoryEventStore()
    async with open_web(make_server(), stateless=True, event_store=store) as web:
        exchange = web.post([request("tools/call", params)])
        assert await exchange.message()
        assert store.size == 0
        assert len(await exchange.messages()) == 1
        assert b"id:" not in exchange.text.replace(b'"id":', b"")


async def test_batches_elsewhere() -> None:
    """Other revisions have no batches; none has initialize in one."""
    hello = request("initialize", {"protocolVersion": "2025-03-26"})
    async with open_web(make_server(), stateless=True) as web:
        for version, batch in (("2025-06-18", [request("ping")]), ("2025-03-26", [hello])):
            exchange = web.post(batch, {"mcp-protocol-version": version})
            assert "error" in await exchange.answer()
            assert exchange.status == 400


async def test_bad_version() -> None:
    """A version that is not served is 400 here as well."""
    async with open_web(make_server(), stateless=True) as web:
        exchange = web.post(request("tools/list"), {"mcp-protocol-version": "1999-01-01"})
        assert (await exchange.answer())["error"]["code"] == -32022
        assert exchange.status == 400
    server = Server("s", versions=["2025-11-25"])
    async with open_web(server, stateless=True) as web:
        exchange = web.post(request("tools/list"))
        assert "2025-11-25" in (await exchange.answer())["error"]["message"]
        assert exchange.status == 400
