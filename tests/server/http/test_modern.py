"""Modern requests over HTTP: what is refused with which status, JSON or a stream, cancellation."""

import json
from typing import Any

import pytest
import trio
import trio.testing

from mcp_trio import Context, MCPError, Server
from mcp_trio.protocol import meta as keys
from mcp_trio.protocol.revisions import MODERN
from tests.server.http.web import POSTING, Web, open_web
from tests.server.raw import MODERN_META

JSONObject = dict[str, Any]


def make_server(**options: Any) -> Server:
    server = Server("s", **options)

    @server.tool()
    def add(a: int, b: int) -> int:
        return a + b

    @server.tool()
    async def count(upto: int, ctx: Context) -> str:
        for n in range(upto):
            await ctx.report_progress(n + 1)
            await trio.sleep(1)
        return "counted"

    @server.tool()
    async def ask(ctx: Context) -> str:
        answer = await ctx.elicit("name", "Your name?", {"name": str})
        return answer.action

    @server.resource("memo://today")
    def today() -> str:
        return "write tests"

    @server.request("example/fails")
    async def fails(params: JSONObject) -> JSONObject:
        raise MCPError(params["code"], "as asked")

    return server


ADD = {"name": "add", "arguments": {"a": 1, "b": 2}}


async def test_an_answer_is_json(autojump_clock: trio.testing.MockClock) -> None:
    """Where nothing is sent before the result, the response is one JSON object."""
    async with open_web(make_server()) as web:
        exchange = web.modern("tools/call", ADD, id="x")
        answer = await exchange.answer()
        assert exchange.status == 200
        assert answer["id"] == "x"
        assert answer["result"]["structuredContent"] == {"result": 3}
        assert "mcp-session-id" not in exchange.headers


async def test_what_comes_before_the_result_makes_it_a_stream(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Progress arrives while the handler works, then the result, then the stream ends."""
    async with open_web(make_server()) as web:
        start = trio.current_time()
        params = {"name": "count", "arguments": {"upto": 2}}
        exchange = web.modern("tools/call", params, meta={keys.PROGRESS_TOKEN: "t"})
        first = await exchange.message()
        assert trio.current_time() == start
        assert first["params"] == {"progressToken": "t", "progress": 1}
        assert exchange.status == 200
        assert exchange.headers["content-type"] == "text/event-stream"
        assert exchange.headers["x-accel-buffering"] == "no"
        second, result = await exchange.messages()
        assert second["params"]["progress"] == 2
        assert result["result"]["content"][0]["text"] == "counted"
        assert b"\nid:" not in exchange.text, "these streams cannot be resumed"


async def test_without_a_token_it_stays_json(autojump_clock: trio.testing.MockClock) -> None:
    """What nobody asked for is not sent, and does not make a stream."""
    async with open_web(make_server()) as web:
        exchange = web.modern("tools/call", {"name": "count", "arguments": {"upto": 9}})
        assert (await exchange.answer())["result"]["content"][0]["text"] == "counted"


WITHOUT_META = {"jsonrpc": "2.0", "id": 7, "method": "tools/list"}


@pytest.mark.parametrize(
    ("meta", "reason"),
    [
        (None, "_meta"),
        ({}, keys.PROTOCOL_VERSION),
        ({keys.PROTOCOL_VERSION: "2026-07-28"}, keys.CLIENT_CAPABILITIES),
        ({keys.PROTOCOL_VERSION: 5, keys.CLIENT_CAPABILITIES: {}}, keys.PROTOCOL_VERSION),
        ({**MODERN_META, keys.CLIENT_INFO: 5}, keys.CLIENT_INFO),
    ],
)
async def test_incomplete_metadata_is_a_bad_request(meta: Any, reason: str) -> None:
    """What a request has to say about itself is missing: 400 with -32602, and its id."""
    message = dict(WITHOUT_META, params={} if meta is None else {"_meta": meta})
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/list"}
    async with open_web(make_server()) as web:
        exchange = web.post(message, headers)
        answer = await exchange.answer()
        assert exchange.status == 400
        assert answer["id"] == 7
        assert answer["error"]["code"] == -32602
        assert reason in answer["error"]["message"]


@pytest.mark.parametrize(
    "headers",
    [
        {"mcp-protocol-version": None},
        {"mcp-protocol-version": "2025-11-25"},
        {"mcp-protocol-version": "2030-01-01"},
        {"mcp-method": None},
        {"mcp-method": "tools/list"},
        {"mcp-method": "TOOLS/CALL"},
        {"mcp-name": None},
        {"mcp-name": "sub"},
        {"mcp-name": "=?base64?YWRk"},
        {"mcp-name": "=?base64?YWRk?==?="},
        {"mcp-name": "add\x7f"},
    ],
)
async def test_headers_have_to_fit_the_body(headers: dict[str, str | None]) -> None:
    """A header that is missing or says something else is 400 with -32020."""
    async with open_web(make_server()) as web:
        exchange = web.modern("tools/call", ADD, id=3, headers=headers)
        answer = await exchange.answer()
        assert (exchange.status, answer["id"]) == (400, 3)
        assert answer["error"]["code"] == -32020


@pytest.mark.parametrize(
    "headers",
    [
        {"mcp-name": "  add "},
        {"mcp-name": "=?base64?YWRk?="},
        {"mcp-protocol-version": " 2026-07-28"},
        {"mcp-param-region": "nobody asked"},
        {"mcp-session-id": "of another era"},
        {"last-event-id": "1-1"},
    ],
)
async def test_headers_that_do_fit(headers: dict[str, str | None]) -> None:
    """Spaces around, encodings and headers that are nobody's business do no harm."""
    async with open_web(make_server()) as web:
        exchange = web.modern("tools/call", ADD, headers=headers)
        assert (await exchange.answer())["result"]["structuredContent"] == {"result": 3}


@pytest.mark.parametrize("version", ["2030-01-01", "1900-01-01", "2025-11-25", ""])
async def test_unsupported_version(version: str) -> None:
    """A version that is not served is 400 with -32022 and the modern ones that are."""
    async with open_web(make_server()) as web:
        exchange = web.modern(
            "anything/at/all",
            meta={keys.PROTOCOL_VERSION: version},
            headers={"mcp-protocol-version": version, "mcp-method": None},
        )
        answer = await exchange.answer()
        assert exchange.status == 400
        assert answer["error"]["code"] == -32022
        assert answer["error"]["data"] == {"supported": [*MODERN], "requested": version}


async def test_unsupported_version_in_the_header_alone() -> None:
    """A header from the future is answered with what is served, whatever the body is like."""
    async with open_web(make_server()) as web:
        exchange = web.post(WITHOUT_META, {"mcp-protocol-version": "2030-01-01"})
        answer = await exchange.answer()
        assert (exchange.status, answer["id"]) == (400, 7)
        assert answer["error"]["code"] == -32022


@pytest.mark.parametrize("method", ["no/such", "ping", "initialize", "logging/setLevel"])
async def test_unknown_method(method: str) -> None:
    """Methods that are not, or no longer, there are 404 with -32601."""
    async with open_web(make_server()) as web:
        exchange = web.modern(method)
        answer = await exchange.answer()
        assert exchange.status == 404
        assert answer["error"]["code"] == -32601


@pytest.mark.parametrize(
    ("code", "status"),
    [(-32601, 404), (-32602, 200), (-32603, 200), (-32021, 400), (-32600, 400), (5, 200)],
)
async def test_errors_of_handlers(code: int, status: int) -> None:
    """An error that a handler answers with has the status of its code."""
    async with open_web(make_server()) as web:
        exchange = web.modern("example/fails", {"code": code})
        answer = await exchange.answer()
        assert (exchange.status, answer["error"]["code"]) == (status, code)


async def test_unknown_names_are_no_bad_requests() -> None:
    """A tool or resource that is not there is an answer like any other: 200 with -32602."""
    async with open_web(make_server()) as web:
        for method, params in (
            ("tools/call", {"name": "nope"}),
            ("resources/read", {"uri": "memo://nope"}),
        ):
            exchange = web.modern(method, params)
            answer = await exchange.answer()
            assert (exchange.status, answer["error"]["code"]) == (200, -32602)


async def test_missing_capability() -> None:
    """A question to a client that cannot be asked is 400 with -32021."""
    async with open_web(make_server()) as web:
        exchange = web.modern("tools/call", {"name": "ask"})
        answer = await exchange.answer()
        assert exchange.status == 400
        assert answer["error"]["code"] == -32021
        assert answer["error"]["data"] == {"requiredCapabilities": {"elicitation": {"form": {}}}}


async def test_questions_are_answers() -> None:
    """A handler that asks answers with the question, as JSON."""
    async with open_web(make_server()) as web:
        capabilities: JSONObject = {keys.CLIENT_CAPABILITIES: {"elicitation": {}}}
        exchange = web.modern("tools/call", {"name": "ask"}, meta=capabilities)
        result = (await exchange.answer())["result"]
        assert result["resultType"] == "input_required"
        params = {
            "name": "ask",
            "inputResponses": {"name": {"action": "decline"}},
            "requestState": result["requestState"],
        }
        exchange = web.modern("tools/call", params, meta=capabilities)
        assert (await exchange.answer())["result"]["content"][0]["text"] == "decline"


async def test_a_failing_handler_is_no_http_error() -> None:
    """What a handler breaks of its own is -32603, without details, and the server goes on."""
    server = make_server()

    @server.request("example/breaks")
    async def breaks() -> JSONObject:
        raise RuntimeError("a secret")

    @server.request("example/nan")
    async def nan() -> JSONObject:
        return {"x": float("nan")}

    async with open_web(server) as web:
        for method in ("example/breaks", "example/nan"):
            exchange = web.modern(method)
            answer = await exchange.answer()
            assert (exchange.status, answer["error"]["code"]) == (200, -32603)
            assert "secret" not in answer["error"]["message"]


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (b"", -32700),
        (b"{", -32700),
        (b"<html>", -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', -32700),
        (b"[]", -32600),
        ([{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}], -32600),
        ({"jsonrpc": "2.0", "id": 1, "result": {}}, -32600),
        ({"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "m"}}, -32600),
        ({"id": 1, "method": "tools/list"}, -32600),
        ({"jsonrpc": "2.0", "id": None, "method": "tools/list"}, -32600),
    ],
)
@pytest.mark.parametrize("version", ["2026-07-28", None])
async def test_unreadable_bodies(message: Any, code: int, version: str | None) -> None:
    """What is no single request or notification is 400, with an id where one can be told."""
    headers = {} if version is None else {"mcp-protocol-version": version}
    async with open_web(make_server()) as web:
        exchange = web.post(message, headers)
        answer = await exchange.answer()
        assert exchange.status == 400
        assert answer["error"]["code"] in (code, -32600 if version is None else code)
        assert answer.get("id", 1) == 1, "an id is there or left out, and never null"


async def test_a_body_may_be_too_large() -> None:
    """A body over the server's limit for messages is 413."""
    async with open_web(make_server(line_limit=1000)) as web:
        exchange = web.post(b" " * 1001)
        await exchange.done.wait()
        assert exchange.status == 413


async def test_notifications_are_accepted() -> None:
    """A notification is 202 without a body, reaches its handler, and needs no further headers."""
    server, seen = make_server(), []

    @server.notification("example/hello")
    async def hello(params: JSONObject) -> None:
        await trio.lowlevel.checkpoint()
        seen.append(params)
        raise ValueError("logged")

    server.notification("example/plain")(seen.append)
    async with open_web(server) as web:
        for method in ("example/hello", "example/plain", "notifications/cancelled", "no/body"):
            message = {"jsonrpc": "2.0", "method": method, "params": {"requestId": 1}}
            exchange = web.post(message, {"mcp-protocol-version": "2026-07-28"})
            await exchange.done.wait()
            assert (exchange.status, exchange.text) == (202, b"")
    assert seen == [{"requestId": 1}, {"requestId": 1}]


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "HEAD", "OPTIONS", "PATCH"])
async def test_other_methods(method: str) -> None:
    """Modern clients can only POST; everything else is 405 and says so."""
    async with open_web(make_server()) as web:
        exchange = await web.fetch(method, headers={"mcp-protocol-version": "2026-07-28"})
        assert exchange.status == 405
        assert exchange.headers["allow"] == "POST"


# Cancellation


def waiting_server(events: list[str]) -> Server:
    server = Server("s")

    @server.tool()
    async def wait(ctx: Context) -> str:
        try:
            await ctx.report_progress(1)
            events.append("waiting")
            await trio.sleep(1000)
        except trio.Cancelled:
            events.append("cancelled")
            await ctx.report_progress(2)
            raise
        return "done"

    return server


@pytest.mark.parametrize("token", [None, "t"])
async def test_a_client_that_leaves_cancels_the_handler(
    token: str | None, autojump_clock: trio.testing.MockClock
) -> None:
    """Closing the connection is how a modern client cancels, be there a stream yet or not."""
    events: list[str] = []
    async with open_web(waiting_server(events)) as web:
        start = trio.current_time()
        meta = {} if token is None else {keys.PROGRESS_TOKEN: token}
        exchange = web.modern("tools/call", {"name": "wait"}, meta=meta)
        await trio.testing.wait_all_tasks_blocked()
        exchange.leave()
        await exchange.done.wait()
        assert trio.current_time() == start
    assert events == ["waiting", "cancelled"]
    assert exchange.answered == (token is not None)


async def test_a_handler_that_computes_lets_its_reports_leave(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Reporting is a checkpoint: the client sees the report and can cancel by leaving."""
    server = Server("s")
    reported: list[int] = []

    @server.tool()
    async def compute(ctx: Context) -> str:
        for number in range(1000):
            await ctx.report_progress(number)
            reported.append(number)
        return "computed"

    async with open_web(server) as web:
        exchange = web.modern("tools/call", {"name": "compute"}, meta={keys.PROGRESS_TOKEN: 1})
        await exchange.message()
        exchange.leave()
        await exchange.done.wait()
    assert len(reported) < 100


async def test_a_cancelled_handler_says_nothing_more(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Not even from behind a shield: nothing is sent for a request that was cancelled."""
    server = Server("s")

    @server.tool()
    async def stubborn(ctx: Context) -> str:
        try:
            await trio.sleep(10)
        finally:
            with trio.CancelScope(shield=True):
                await ctx.report_progress(1)
                await trio.sleep(1)
        return "done"

    async with open_web(server) as web:
        exchange = web.modern("tools/call", {"name": "stubborn"}, meta={keys.PROGRESS_TOKEN: 1})
        await trio.testing.wait_all_tasks_blocked()
        exchange.leave()
        exchange._gone = False  # what is sent now would arrive
        await exchange.done.wait()
        assert not exchange.answered


async def test_a_stream_ends_with_its_handler(autojump_clock: trio.testing.MockClock) -> None:
    """Nothing of a request is left once its client has gone, not for a moment."""
    async with open_web(waiting_server([])) as web:
        await web.modern("tools/list").answer()
        before = trio.lowlevel.current_statistics().tasks_living
        exchange = web.modern("tools/call", {"name": "wait"}, meta={keys.PROGRESS_TOKEN: 1})
        await exchange.message()
        exchange.leave()
        await exchange.done.wait()
        await trio.testing.wait_all_tasks_blocked()
        assert trio.lowlevel.current_statistics().tasks_living == before


async def test_a_client_that_is_found_gone_by_sending(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """If sending shows that the client has gone, the handler is cancelled as well."""
    events: list[str] = []
    async with open_web(waiting_server(events)) as web:
        exchange = web.modern("tools/call", {"name": "wait"}, meta={keys.PROGRESS_TOKEN: 1})
        exchange._gone = True
        await exchange.done.wait()
    assert events[-1] == "cancelled"


async def test_a_client_that_does_not_read(autojump_clock: trio.testing.MockClock) -> None:
    """A handler waits while its client does not read; it costs bounded memory and nobody else."""
    server, sent = Server("s"), []

    @server.tool()
    async def flood(ctx: Context) -> str:
        for n in range(12):
            await ctx.log("info", "x" * 1_000_000)
            sent.append(n)
        return "done"

    async with open_web(server) as web:
        stalled = web.modern("tools/call", {"name": "flood"}, meta={keys.LOG_LEVEL: "debug"})
        stalled.stall()
        await trio.testing.wait_all_tasks_blocked()
        assert 1 < len(sent) < 10
        assert (await web.modern("tools/list").answer())["result"]["tools"]
        stalled.stall(reading=True)
        assert len(await stalled.messages()) == 13


async def test_tasks_of_a_handler_may_send_at_once(autojump_clock: trio.testing.MockClock) -> None:
    """Notifications of several tasks, and of a scope that ran out, never damage each other."""
    server = Server("s")

    @server.tool()
    async def many(ctx: Context) -> str:
        async with trio.open_nursery() as nursery:
            for n in range(20):
                nursery.start_soon(ctx.log, "info", n)
        with trio.move_on_after(0):
            await ctx.log("info", "too late")
        return "done"

    async with open_web(server) as web:
        exchange = web.modern("tools/call", {"name": "many"}, meta={keys.LOG_LEVEL: "info"})
        *logged, result = await exchange.messages()
    assert sorted(message["params"]["data"] for message in logged) == list(range(20))
    assert result["result"]["content"][0]["text"] == "done"


async def test_an_error_after_progress(autojump_clock: trio.testing.MockClock) -> None:
    """Once there is a stream, an error is the last event in it; the status was sent before."""
    server = Server("s")

    @server.tool()
    async def fail(ctx: Context) -> str:
        await ctx.report_progress(1)
        raise MCPError(-32601, "not here")

    async with open_web(server) as web:
        exchange = web.modern("tools/call", {"name": "fail"}, meta={keys.PROGRESS_TOKEN: 1})
        assert [m.get("error", {}).get("code") for m in await exchange.messages()] == [None, -32601]
        assert exchange.status == 200


async def test_nothing_is_sent_after_the_answer(autojump_clock: trio.testing.MockClock) -> None:
    """A task that outlives its handler cannot add to a response that is complete."""
    server = Server("s")
    kept: list[Context] = []

    @server.tool()
    async def keep(ctx: Context) -> str:
        kept.append(ctx)
        return "kept"

    async with open_web(server) as web:
        exchange = web.modern("tools/call", {"name": "keep"}, meta={keys.PROGRESS_TOKEN: 1})
        await exchange.answer()
        await kept[0].report_progress(1)
        await kept[0].close_stream()
        assert json.loads(exchange.text)["id"] == 1


# Subscriptions


async def listening(web: Web, **notifications: Any) -> Any:
    exchange = web.modern("subscriptions/listen", {"notifications": notifications}, id="sub")
    acknowledged = await exchange.message()
    assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
    assert acknowledged["params"]["_meta"] == {keys.SUBSCRIPTION_ID: "sub"}
    return exchange


async def test_listen(autojump_clock: trio.testing.MockClock) -> None:
    """A subscription is a stream: acknowledged first, then what changes, while it changes."""
    server = make_server()
    async with open_web(server) as web:
        exchange = await listening(web, toolsListChanged=True)
        server.add_tool(lambda: "x", name="new")
        change = await exchange.message()
        assert change["method"] == "notifications/tools/list_changed"
        assert change["params"]["_meta"] == {keys.SUBSCRIPTION_ID: "sub"}
        exchange.leave()
        await exchange.done.wait()
        assert not server.bus._subscriptions


async def test_silent_streams_show_that_they_live(autojump_clock: trio.testing.MockClock) -> None:
    """While nothing changes, a comment goes out now and then."""
    async with open_web(make_server(), keep_alive=10.0) as web:
        exchange = await listening(web, toolsListChanged=True)
        before = exchange.text
        await trio.sleep(35)
        assert exchange.text[len(before) :] == b":\n\n" * 3
        exchange.leave()


async def test_silent_streams_notice_a_dead_client(autojump_clock: trio.testing.MockClock) -> None:
    """A client whose absence only sending shows does not keep its subscription for ever."""
    server = make_server()
    async with open_web(server, keep_alive=10.0) as web:
        exchange = await listening(web, toolsListChanged=True)
        exchange._gone = True
        await exchange.done.wait()
        assert not server.bus._subscriptions


async def test_subscriptions_end_in_good_order(autojump_clock: trio.testing.MockClock) -> None:
    """When the server winds down, each subscription is completed by its response."""
    async with open_web(make_server()) as web:
        exchange = await listening(web, promptsListChanged=True)
        web.handler.wind_down()
        cancelled, result = await exchange.messages()
        assert cancelled["method"] == "notifications/cancelled"
        assert result["id"] == "sub"
        assert result["result"]["_meta"][keys.SUBSCRIPTION_ID] == "sub"


# Arguments in headers


async def test_arguments_are_compared_with_their_headers() -> None:
    """An argument that a header repeats has to be in that header, and the same."""
    server = Server("s")
    region = {"type": "string", "x-mcp-header": "Region"}
    schema = {"type": "object", "properties": {"region": region}}

    @server.tool(input_schema=schema)
    def query(region: str = "none") -> str:
        return region

    async with open_web(server) as web:
        for arguments, header, status in (
            ({"region": "eu"}, "eu", 200),
            ({"region": "eü"}, "=?base64?ZcO8?=", 200),
            ({"region": "eu"}, "us", 400),
            ({"region": "eu"}, None, 400),
            ({}, "eu", 400),
            ({}, None, 200),
            ({"region": None}, None, 200),
            ({"region": "eu"}, "=?base64?ZXU?=", 400),
        ):
            params = {"name": "query", "arguments": arguments}
            exchange = web.modern("tools/call", params, headers={"mcp-param-region": header})
            answer = await exchange.answer()
            assert exchange.status == status, (arguments, header)
            if status == 400:
                assert answer["error"]["code"] == -32020
                assert "us" not in answer["error"]["message"], "arguments may be private"


def test_tools_that_clients_would_refuse_cannot_be_registered() -> None:
    """A header annotation that clients reject is an error of the server's author."""
    schema = {"type": "object", "properties": {"x": {"type": "number", "x-mcp-header": "X"}}}
    with pytest.raises(ValueError, match="x-mcp-header"):
        Server("s").tool("t", input_schema=schema)(lambda x: x)


# Servers of one era


async def test_a_server_of_modern_revisions_alone() -> None:
    """Legacy clients are refused with the versions that there are, and nobody gets a session."""
    async with open_web(make_server(versions=MODERN)) as web:
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}
        exchange = web.post(hello)
        answer = await exchange.answer()
        assert (exchange.status, answer["error"]["code"]) == (400, -32020)
        assert MODERN[-1] in answer["error"]["message"]
        exchange = web.post(WITHOUT_META, {"mcp-protocol-version": "2025-11-25"})
        answer = await exchange.answer()
        assert (exchange.status, answer["error"]["code"]) == (400, -32022)
        for method in ("GET", "DELETE"):
            exchange = await web.fetch(method, headers={**POSTING, "mcp-session-id": "x"})
            assert (exchange.status, exchange.headers["allow"]) == (405, "POST")
        exchange = web.modern("tools/call", ADD, headers={"mcp-session-id": "x"})
        assert (await exchange.answer())["result"]


async def test_a_server_of_legacy_revisions_alone() -> None:
    """Modern requests are refused without a modern error, so that clients fall back."""
    async with open_web(make_server(versions=["2025-06-18"])) as web:
        exchange = web.modern("tools/list")
        answer = await exchange.answer()
        assert (exchange.status, answer["error"]["code"]) == (400, -32600)
        assert "2025-06-18" in answer["error"]["message"]
        client = await web.initialize("2025-11-25")
        assert client.initialized["protocolVersion"] == "2025-06-18"
