"""Legacy sessions over HTTP: their requests, streams, questions and notifications."""

import json
from typing import Any

import pytest
import trio
import trio.testing

from mcp_trio import Context, Server, Session
from mcp_trio.protocol.revisions import LEGACY
from tests.server.http.web import POSTING, LegacyClient, open_web
from tests.server.raw import MODERN_META

JSONObject = dict[str, Any]
Clock = trio.testing.MockClock


def make_server(**options: Any) -> Server:
    server = Server("s", **options)

    @server.tool()
    def add(a: int, b: int) -> int:
        return a + b

    @server.tool()
    async def count(upto: int, ctx: Context) -> str:
        for n in range(upto):
            await ctx.report_progress(n + 1)
            await trio.sleep(0.1)
        return "counted"

    @server.tool()
    async def sleep(seconds: float) -> str:
        await trio.sleep(seconds)
        return "slept"

    @server.tool()
    async def ask(ctx: Context) -> str:
        answer = await ctx.elicit("name", "Your name?", {"name": str})
        assert answer.content is not None
        return str(answer.content["name"])

    return server


ADD = {"a": 1, "b": 2}


def text_of(answer: JSONObject) -> str:
    return str(answer["result"]["content"][0]["text"])


@pytest.mark.parametrize("version", LEGACY)
async def test_a_session_in_each_revision(version: str) -> None:
    """Initialize, initialized, a call: as JSON, with a session id of plain characters."""
    async with open_web(make_server()) as web:
        client = await web.initialize(version)
        assert client.initialized["protocolVersion"] == version
        id = client.headers["mcp-session-id"]
        assert len(id) >= 32
        assert all("!" <= character <= "~" for character in id)
        exchange = client.call("add", ADD)
        assert text_of(await exchange.answer()) == "3"
        assert exchange.status == 200


async def test_ids_of_sessions_differ() -> None:
    """Two clients have two sessions, and what one does there does not concern the other."""
    async with open_web(make_server()) as web:
        one, other = await web.initialize(), await web.initialize()
        assert one.headers["mcp-session-id"] != other.headers["mcp-session-id"]
        first, second = one.call("sleep", {"seconds": 0.1}), other.call("add", ADD)
        assert (text_of(await first.answer()), text_of(await second.answer())) == ("slept", "3")


async def test_errors_are_answers_like_any_other() -> None:
    """A JSON-RPC error is the body of a 200: legacy clients read no statuses for them."""
    async with open_web(make_server()) as web:
        client = await web.initialize()
        exchange = client.request("no/such")
        answer = await exchange.answer()
        assert (exchange.status, answer["error"]["code"]) == (200, -32601)


# Sessions and versions that are missing or wrong

REQUEST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
async def test_a_missing_session_id(method: str) -> None:
    """Without a session id everything but initialize is 400."""
    async with open_web(make_server()) as web:
        body = b'{"jsonrpc": "2.0", "id": 9, "method": "tools/list"}' if method == "POST" else b""
        exchange = await web.fetch(method, headers=POSTING, body=body)
        assert exchange.status == 400
        assert "error" in await exchange.answer()


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"accept": "image/png"},
        {"content-type": "text/plain"},
        {"mcp-protocol-version": "1999-01-01"},
    ],
)
async def test_an_unknown_session_id(method: str, headers: dict[str, str]) -> None:
    """An unknown session is 404, whatever else is wrong: that is what has clients start anew."""
    async with open_web(make_server()) as web:
        sent = {**POSTING, "mcp-session-id": "gone", **headers}
        exchange = await web.fetch(method, headers=sent, body=b"no JSON")
        assert exchange.status == 404


@pytest.mark.parametrize("version", ["1999-01-01", "nonsense", "", "2025-11-25, 2025-11-25"])
async def test_bad_version_header(version: str) -> None:
    """A version that is not served is 400, on every method, and does no harm to the session."""
    async with open_web(make_server()) as web:
        client = await web.initialize()
        good = dict(client.headers)
        client.headers["mcp-protocol-version"] = version
        exchange = client.request("tools/list", id=5)
        assert (await exchange.answer())["id"] == 5
        assert exchange.status == 400
        for method in ("GET", "DELETE"):
            assert (await web.fetch(method, headers={**POSTING, **client.headers})).status == 400
        client.headers = good
        assert "result" in await client.request("tools/list").answer()


async def test_version_header_may_be_missing_or_another() -> None:
    """Without the header the session knows the version; any that is served will do."""
    async with open_web(make_server()) as web:
        client = await web.initialize("2025-06-18")
        for version in (None, "2025-03-26", "2025-11-25", " 2025-06-18 "):
            client.headers.pop("mcp-protocol-version", None)
            if version is not None:
                client.headers["mcp-protocol-version"] = version
            assert "result" in await client.request("tools/list").answer()


async def test_a_modern_request_in_a_session_is_none(autojump_clock: Clock) -> None:
    """A request that says it is modern needs modern headers, session or not."""
    from tests.server.raw import MODERN_META

    async with open_web(make_server()) as web:
        client = await web.initialize()
        exchange = client.request("tools/list", {"_meta": MODERN_META})
        answer = await exchange.answer()
        assert (exchange.status, answer["error"]["code"]) == (400, -32020)


@pytest.mark.parametrize(
    "params", [{}, {"protocolVersion": 5}, {"protocolVersion": "2025-11-25", "capabilities": 5}]
)
async def test_a_failed_initialize_leaves_nothing(params: JSONObject) -> None:
    """An initialize that is answered by an error opens no session."""
    async with open_web(make_server()) as web:
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
        exchange = web.post(hello)
        assert "error" in await exchange.answer()
        assert web.handler.sessions == 0


async def test_initialize_twice() -> None:
    """A session is initialized once."""
    async with open_web(make_server()) as web:
        client = await web.initialize()
        answer = await client.request("initialize", {"protocolVersion": "2025-11-25"}).answer()
        assert answer["error"]["code"] == -32600


async def test_a_client_that_leaves_before_it_knows_its_session(autojump_clock: Clock) -> None:
    """A session whose id never arrived is ended."""
    server = make_server()

    @server.middleware
    async def slow(ctx: Context, params: JSONObject, proceed: Any) -> JSONObject:
        await trio.sleep(0.5)
        result: JSONObject = await proceed(params)
        return result

    async with open_web(server) as web:
        params = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "n", "version": "1"},
        }
        exchange = web.post({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
        await trio.testing.wait_all_tasks_blocked()
        assert web.handler.sessions == 1
        exchange.leave()
        await exchange.done.wait()
        assert web.handler.sessions == 0


async def test_a_client_that_does_not_take_its_session(autojump_clock: Clock) -> None:
    """A session is ended, too, if the client went away while its id was being sent."""
    async with open_web(make_server()) as web:
        params = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "n", "version": "1"},
        }
        exchange = web.post({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
        exchange.stall()
        await trio.testing.wait_all_tasks_blocked()
        assert web.handler.sessions == 1
        exchange.leave()
        await exchange.done.wait()
        assert web.handler.sessions == 0


async def test_delete_ends_a_session(autojump_clock: Clock) -> None:
    """DELETE cancels what runs in the session, ends its streams and makes its id unknown."""
    server = make_server()
    async with open_web(server) as web:
        client = await web.initialize()
        listening, working = client.get(), client.call("count", {"upto": 1000}, token=1)
        await working.head()
        quiet = client.call("sleep", {"seconds": 1000}, id=2)
        await trio.testing.wait_all_tasks_blocked()
        exchange = await web.fetch("DELETE", headers=client.headers)
        assert exchange.status == 204
        with trio.fail_after(0.05):
            await listening.messages()
            await working.messages()
            await quiet.done.wait()
        assert quiet.status == 404
        assert client.request("tools/list").status != 200
        assert (await web.fetch("DELETE", headers=client.headers)).status == 404


# Streams


@pytest.mark.parametrize("id", [None, 1])
@pytest.mark.parametrize("kind", ["method", "result"])
async def test_a_session_that_ends_while_a_message_arrives(kind: str, id: int | None) -> None:
    """What nobody will look at is not accepted: the client has to know that it is lost."""
    async with open_web(make_server()) as web:
        client = await web.initialize()
        exchange = web.exchange("POST", headers={**POSTING, **client.headers})
        content: JSONObject = {"method": "ping"} if kind == "method" else {"result": {}}
        message = {"jsonrpc": "2.0", **content, **({} if id is None else {"id": id})}

        async def slow_body(limit: int) -> bytes:
            await web.fetch("DELETE", headers=client.headers)
            return json.dumps(message).encode()

        exchange.body = slow_body  # type: ignore[method-assign]  # as from a slow client
        await web._serve(exchange)
        assert exchange.status == (400 if kind == "result" and id is None else 404)


async def test_progress_makes_a_stream(autojump_clock: Clock) -> None:
    """What belongs to a request travels on the response to its POST, with ids, before the end."""
    async with open_web(make_server()) as web:
        client = await web.initialize("2025-06-18")
        exchange = client.call("count", {"upto": 2}, token="t")
        events = [await exchange.event() for _ in range(3)]
        with pytest.raises(EOFError):
            await exchange.event()
        assert exchange.headers["content-type"] == "text/event-stream"
        assert exchange.headers["x-accel-buffering"] == "no"
        assert all(event.data for event in events), "this revision has no empty events"
        ids = [event.id for event in events]
        assert None not in ids
        assert len(set(ids)) == 3


async def test_streams_begin_with_an_id(autojump_clock: Clock) -> None:
    """In 2025-11-25 the first event is empty and has an id that the client can come back with."""
    async with open_web(make_server()) as web:
        client = await web.initialize("2025-11-25")
        for exchange in (client.call("count", {"upto": 1}, token="t"), client.get()):
            first = await exchange.event()
            assert first.data == b""
            assert first.id
            exchange.leave()


async def test_slow_answers_become_streams(autojump_clock: Clock) -> None:
    """An answer that takes long is a stream, which shows life meanwhile."""
    async with open_web(make_server(), keep_alive=10) as web:
        client = await web.initialize()
        exchange = client.call("sleep", {"seconds": 25})
        assert text_of(await exchange.message()) == "slept"
        assert exchange.text.count(b"\n:\n") == 2


async def test_no_message_on_two_streams(autojump_clock: Clock) -> None:
    """Each message arrives once: on its request's response, or else on one that listens."""
    server = make_server()
    async with open_web(server) as web:
        client = await web.initialize()
        listening, other = client.get(), client.get()
        await listening.head()
        await other.head()
        calls = [client.call("count", {"upto": 3}, id=id, token=id) for id in (1, 2, "1")]
        server.add_tool(lambda: "x", name="new")
        for call, id in zip(calls, (1, 2, "1"), strict=True):
            *progress, result = await call.messages()
            assert [message["params"]["progressToken"] for message in progress] == [id] * 3
            assert result["id"] == id
        await web.fetch("DELETE", headers=client.headers)
        heard = [*await listening.messages(), *await other.messages()]
        assert [message["method"] for message in heard] == ["notifications/tools/list_changed"]


async def test_what_nobody_listened_to_is_kept(autojump_clock: Clock) -> None:
    """Changes before the first GET arrive with it, and not again with the next."""
    server = make_server()
    async with open_web(server) as web:
        client = await web.initialize()
        server.add_tool(lambda: "x", name="new")
        await trio.testing.wait_all_tasks_blocked()
        exchange = client.get()
        assert (await exchange.message())["method"] == "notifications/tools/list_changed"
        exchange.leave()
        await exchange.done.wait()
        again = client.get()
        server.add_prompt(lambda: "x", name="new")
        assert (await again.message())["method"] == "notifications/prompts/list_changed"
        again.leave()


async def test_who_came_last_is_told(autojump_clock: Clock) -> None:
    """Of several streams to listen on, the one that was opened or resumed last gets the news."""
    server = make_server()
    async with open_web(server) as web:
        client = await web.initialize()
        one = client.get()
        last = (await one.event()).id
        other = client.get()
        await other.head()
        one.leave()
        await one.done.wait()
        again = client.get(last)
        await again.head()
        server.add_tool(lambda: "x", name="new")
        assert (await again.message())["method"] == "notifications/tools/list_changed"
        again.leave()
        await again.done.wait()
        server.add_prompt(lambda: "x", name="new")
        assert (await other.message())["method"] == "notifications/prompts/list_changed"
        other.leave()


async def test_listening_is_bounded(autojump_clock: Clock) -> None:
    """A session that listens on many streams at once is refused more."""
    async with open_web(make_server()) as web:
        client = await web.initialize()
        exchanges = [client.get() for _ in range(20)]
        statuses = [await exchange.head() for exchange in exchanges]
        assert set(statuses) == {200, 409}
        for exchange in exchanges:
            exchange.leave()


async def test_get_needs_the_right_accept() -> None:
    """A GET that does not take events is 406."""
    async with open_web(make_server()) as web:
        client = await web.initialize()
        headers = {**client.headers, "accept": "application/json"}
        assert (await web.fetch("GET", headers=headers)).status == 406


async def test_changes_only_after_initialized(autojump_clock: Clock) -> None:
    """A client that subscribed hears of updates; one that is not initialized hears nothing."""
    server = make_server()
    server.add_resource("memo://x", lambda: "x", name="x")
    async with open_web(server) as web:
        client = await web.initialize()
        await client.request("resources/subscribe", {"uri": "memo://x"}).answer()
        exchange = client.get()
        server.notify_resource_updated("memo://x")
        server.notify_resource_updated("memo://y")
        message = await exchange.message()
        assert message["params"] == {"uri": "memo://x"}
        exchange.leave()


async def test_a_stalled_reader_stalls_nobody_else(autojump_clock: Clock) -> None:
    """A client that does not read makes its own handler wait, in bounded memory."""
    server, sent = make_server(), []

    @server.tool()
    async def flood(ctx: Context) -> str:
        for n in range(12):
            await ctx.log("info", "x" * 1_000_000)
            sent.append(n)
        return "done"

    async with open_web(server) as web:
        client = await web.initialize()
        stalled = client.call("flood")
        stalled.stall()
        await trio.testing.wait_all_tasks_blocked()
        assert 1 < len(sent) < 10
        assert text_of(await client.call("add", ADD, id=2).answer()) == "3"
        stalled.stall(reading=True)
        assert len(await stalled.messages()) == 13


# What a client says


async def answer_question(client: LegacyClient, exchange: Any, name: str) -> None:
    question = await exchange.message()
    assert question["method"] == "elicitation/create"
    result = {"action": "accept", "content": {"name": name}}
    await client.send({"jsonrpc": "2.0", "id": question["id"], "result": result})


async def test_questions_travel_with_their_request(autojump_clock: Clock) -> None:
    """A handler asks on the response to its request; the answer comes by another POST."""
    async with open_web(make_server()) as web:
        client = await web.initialize(capabilities={"elicitation": {}})
        exchanges = {name: client.call("ask", id=name) for name in ("Ada", "Grace")}
        for name, exchange in reversed(exchanges.items()):
            await answer_question(client, exchange, name)
        for name, exchange in exchanges.items():
            assert text_of(await exchange.message()) == name


async def test_an_unreadable_answer_fails_the_question(autojump_clock: Clock) -> None:
    """An answer that is no message is 400, and whoever waits for it is told."""
    async with open_web(make_server()) as web:
        client = await web.initialize(capabilities={"elicitation": {}})
        exchange = client.call("ask")
        question = await exchange.message()
        broken = web.post(b'{"jsonrpc":"2.0","id":%d,"result":5}' % question["id"], client.headers)
        await broken.done.wait()
        assert broken.status == 400
        assert (await exchange.message())["result"]["isError"]


async def test_cancelling_is_said_and_not_done_by_leaving(autojump_clock: Clock) -> None:
    """notifications/cancelled ends the handler, and the response ends without an answer."""
    server, events = make_server(), []

    @server.tool()
    async def wait() -> str:
        try:
            await trio.sleep(100)
        finally:
            events.append(trio.current_time())
        return "done"

    async with open_web(server) as web:
        client = await web.initialize()
        start = trio.current_time()
        left, cancelled = client.call("wait", id=1), client.call("wait", id=2)
        await trio.sleep(0.5)
        left.leave()
        await left.done.wait()
        assert not left.answered
        await client.notify("notifications/cancelled", {"requestId": 2})
        await cancelled.done.wait()
        assert (cancelled.status, cancelled.text) == (200, b"")
        await trio.sleep(200)
    assert events == [start + 0.5, start + 100]


async def test_an_id_that_is_in_use(autojump_clock: Clock) -> None:
    """A second request with an id that is not answered yet is refused; the first is not hurt."""
    async with open_web(make_server()) as web:
        client = await web.initialize()
        first = client.call("sleep", {"seconds": 0.5}, id=1)
        await trio.testing.wait_all_tasks_blocked()
        second, like = client.call("add", ADD, id=1), client.call("add", ADD, id="1")
        assert (await second.answer())["error"]["code"] == -32600
        assert second.status == 400
        assert text_of(await like.answer()) == "3"
        assert text_of(await first.answer()) == "slept"
        assert text_of(await client.call("add", ADD, id=1).answer()) == "3"


async def test_too_many_requests_at_once(autojump_clock: Clock) -> None:
    """Over the limit for one client requests are answered with an error."""
    async with open_web(make_server(max_in_flight=2)) as web:
        client = await web.initialize()
        working = [client.call("sleep", {"seconds": 0.5}, id=id) for id in (1, 2)]
        await trio.testing.wait_all_tasks_blocked()
        answer = await client.call("add", ADD, id=3).answer()
        assert answer["error"]["code"] == -32603
        for exchange in working:
            assert text_of(await exchange.answer()) == "slept"


async def test_notifications_reach_their_handlers(autojump_clock: Clock) -> None:
    """Handlers of notifications are told of the session, and may ask the client who listens."""
    server, seen = make_server(), []

    @server.notification("notifications/roots/list_changed")
    async def changed(params: JSONObject, session: Session) -> None:
        seen.append(await session.peer.request("roots/list"))

    async with open_web(server) as web:
        client = await web.initialize(capabilities={"roots": {"listChanged": True}})
        await client.notify("notifications/roots/list_changed")
        exchange = client.get()
        question = await exchange.message()
        assert question["method"] == "roots/list"
        await client.send({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}})
        await trio.testing.wait_all_tasks_blocked()
        exchange.leave()
    assert seen == [{"roots": []}]


# Batches

BATCH = [
    {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
    {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"},
    {"jsonrpc": "2.0", "id": 2, "method": "no/such"},
    {"jsonrpc": "2.0", "id": 3},
]


async def test_batches_in_their_revision() -> None:
    """In 2025-03-26 several messages may come in one array, and their answers leave in one."""
    async with open_web(make_server()) as web:
        client = await web.initialize("2025-03-26")
        exchange = web.post(BATCH, client.headers)
        answers = {answer["id"]: answer for answer in await exchange.answer()}
        assert "result" in answers[1]
        assert answers[2]["error"]["code"] == -32601


async def test_batches_that_need_no_answer() -> None:
    """A batch of notifications and responses alone is accepted."""
    async with open_web(make_server()) as web:
        client = await web.initialize("2025-03-26")
        await client.send([BATCH[1], {"jsonrpc": "2.0", "id": 99, "result": {}}])


@pytest.mark.parametrize("stateless", [False, True])
async def test_batches_of_nothing(stateless: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Of what holds no message nothing can be accepted; beside a message it does no harm."""
    async with open_web(make_server(), stateless=stateless) as web:
        headers = {} if stateless else (await web.initialize("2025-03-26")).headers
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        for batch, status in (
            ([], 400),
            ([5], 400),
            ([[ping]], 400),
            ([{"jsonrpc": "2.0"}, None], 400),
            ([5, {"jsonrpc": "2.0", "method": "notifications/x"}], 202),
            ([5, ping], 200),
            ([{"id": 1, "method": "ping"}], 200),
        ):
            exchange = web.post(batch, headers)
            await exchange.done.wait()
            assert exchange.status == status, (batch, exchange.text)


@pytest.mark.parametrize("stateless", [False, True])
async def test_modern_requests_in_batches(stateless: bool) -> None:
    """They would come past the headers that have to say what they are."""
    async with open_web(make_server(), stateless=stateless) as web:
        headers = {} if stateless else (await web.initialize("2025-03-26")).headers
        params = {"name": "count", "arguments": {"upto": 1}, "_meta": MODERN_META}
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        exchange = web.post([{"jsonrpc": "2.0", "id": 2, "method": "ping"}, call], headers)
        assert "one request" in (await exchange.answer())["error"]["message"]
        assert exchange.status == 400


async def test_batches_with_progress(autojump_clock: Clock) -> None:
    """Requests of a batch share one stream: their progress, and all answers at its end."""
    async with open_web(make_server()) as web:
        client = await web.initialize("2025-03-26")
        calls = [
            {
                "jsonrpc": "2.0",
                "id": id,
                "method": "tools/call",
                "params": {
                    "name": "count",
                    "arguments": {"upto": id},
                    "_meta": {"progressToken": id},
                },
            }
            for id in (1, 2)
        ]
        *progress, answers = await web.post(calls, client.headers).messages()
        assert sorted(message["params"]["progressToken"] for message in progress) == [1, 2, 2]
        assert sorted(answer["id"] for answer in answers) == [1, 2]


@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18", "2025-11-25"])
async def test_batches_elsewhere(version: str) -> None:
    """Other revisions have no batches: 400, and nothing of it is done."""
    async with open_web(make_server()) as web:
        client = await web.initialize(version)
        exchange = web.post(BATCH, client.headers)
        assert (await exchange.answer())["error"]["code"] == -32600
        assert exchange.status == 400


async def test_initialize_is_never_part_of_a_batch() -> None:
    """A batch with initialize is refused, within a session and without one."""
    async with open_web(make_server()) as web:
        client = await web.initialize("2025-03-26")
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}
        for headers in (client.headers, {}):
            exchange = web.post([hello, BATCH[0]], headers)
            assert "error" in await exchange.answer()
            assert exchange.status == 400
        assert web.handler.sessions == 1
