"""How long sessions live, how many there are, and whose they are."""

from typing import Any

import pytest
import trio
import trio.testing

from mcp_trio import AuthorizationRequired, Context, Server
from mcp_trio.transports.http_exchange import HTTPRequest
from tests.server.http.web import LegacyClient, open_web

Clock = trio.testing.MockClock


def make_server() -> Server:
    server = Server("s")

    @server.tool()
    async def sleep(seconds: float) -> str:
        await trio.sleep(seconds)
        return "slept"

    @server.tool()
    async def whoami(ctx: Context) -> str:
        return str(ctx.principal)

    @server.tool()
    async def ask(ctx: Context) -> str:
        return (await ctx.elicit("k", "Sure?", {"sure": bool})).action

    return server


async def alive(client: LegacyClient) -> bool:
    exchange = client.request("tools/list", id="alive?")
    await exchange.done.wait()
    return exchange.status == 200


# Expiry


async def test_idle_sessions_expire(autojump_clock: Clock) -> None:
    """A session that nobody uses is ended after its time, and not before."""
    async with open_web(make_server(), session_idle=60) as web:
        used, unused = await web.initialize(), await web.initialize()
        for _ in range(5):
            await trio.sleep(50)
            assert await alive(used)
        assert web.handler.sessions == 1
        assert not await alive(unused)
        await trio.sleep(61)
        assert web.handler.sessions == 0


async def test_the_default_is_half_an_hour(autojump_clock: Clock) -> None:
    """Without being told, a session waits for half an hour."""
    async with open_web(make_server()) as web:
        client = await web.initialize()
        await trio.sleep(1799)
        assert await alive(client)
        await trio.sleep(1801)
        assert not await alive(client)


async def test_sessions_in_use_do_not_expire(autojump_clock: Clock) -> None:
    """Who listens, or waits for an answer, is there; the time starts when he leaves."""
    async with open_web(make_server(), session_idle=60) as web:
        listens, waits = await web.initialize(), await web.initialize()
        listening, waiting = listens.get(), waits.call("sleep", {"seconds": 1000})
        await trio.sleep(500)
        assert await alive(listens)
        assert await alive(waits)
        listening.leave()
        waiting.leave()
        await trio.sleep(59)
        assert web.handler.sessions == 2
        await trio.sleep(2)
        assert web.handler.sessions == 0


async def test_a_handler_alone_keeps_no_session(autojump_clock: Clock) -> None:
    """A handler goes on after its client has gone, until its session expires: then it ends."""
    server, ended = make_server(), []

    @server.tool()
    async def forever() -> str:
        try:
            await trio.sleep_forever()
        finally:
            ended.append(trio.current_time())

    async with open_web(server, session_idle=60) as web:
        client = await web.initialize()
        start = trio.current_time()
        exchange = client.call("forever")
        await trio.sleep(5)
        exchange.leave()
        await trio.sleep(200)
    assert ended == [start + 65]


async def test_a_session_that_was_never_used(autojump_clock: Clock) -> None:
    """A client that initializes and never comes again does not stay for ever."""
    async with open_web(make_server(), session_idle=60) as web:
        params = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "n", "version": "1"},
        }
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
        await web.post(hello).answer()
        assert web.handler.sessions == 1
        await trio.sleep(61)
        assert web.handler.sessions == 0


# The cap


async def test_too_many_sessions(autojump_clock: Clock) -> None:
    """At the cap the session that was idle longest makes room for a new one."""
    async with open_web(make_server(), max_sessions=3) as web:
        first, second, third = [await web.initialize() for _ in range(3)]
        assert await alive(first)
        fourth = await web.initialize()
        assert web.handler.sessions == 3
        assert [await alive(c) for c in (first, second, third, fourth)] == [True, False, True, True]


async def test_too_many_sessions_in_use(autojump_clock: Clock) -> None:
    """If all of them are in use, a new one is refused with 503, and later there is room."""
    async with open_web(make_server(), max_sessions=2) as web:
        listening = [(await web.initialize()).get() for _ in range(2)]
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}
        exchange = web.post(hello)
        await exchange.answer()
        assert exchange.status == 503
        assert "retry-after" in exchange.headers
        listening[0].leave()
        await listening[0].done.wait()
        assert await alive(await web.initialize())
        listening[1].leave()


async def test_abandoned_sessions_leave_nothing(autojump_clock: Clock) -> None:
    """Sessions that are gone leave no task behind, and no memory here."""
    async with open_web(make_server(), session_idle=10) as web:
        await (await web.initialize()).request("tools/list").answer()
        await trio.sleep(20)
        before = trio.lowlevel.current_statistics().tasks_living
        for _ in range(50):
            client = await web.initialize()
            client.get().leave()
            client.call("sleep", {"seconds": 1000}).leave()
        await trio.sleep(20)
        assert trio.lowlevel.current_statistics().tasks_living == before
        assert not web.handler._endpoint.sessions._idle


async def test_a_server_that_stops_takes_its_sessions(autojump_clock: Clock) -> None:
    """Sessions end with the run of the server; the next run starts without them."""
    from mcp_trio.server.http.handler import HTTPHandler
    from tests.server.http.web import Web

    server = make_server()
    handler = HTTPHandler(server)
    for _ in range(2):
        async with trio.open_nursery() as nursery:
            web = Web(handler, nursery)
            async with server.running():
                client = await web.initialize()
                exchange = client.call("sleep", {"seconds": 1000})
                await trio.sleep(2)
            with trio.fail_after(1):
                assert await exchange.messages() == []
            assert handler.sessions == 0


# Who they belong to


class User:
    """A principal with a name, as token verifiers make them."""

    def __init__(self, subject: str, token: str) -> None:
        self.subject = subject
        self.token = token

    def __str__(self) -> str:
        return f"{self.subject} by {self.token}"


async def authenticate(request: HTTPRequest) -> User:
    """Tokens are "name/number"."""
    await trio.lowlevel.checkpoint()
    scheme, _, token = (request.headers.get("authorization") or "").partition(" ")
    if scheme != "Bearer":
        challenge = 'Bearer resource_metadata="https://example.com/meta"'
        raise AuthorizationRequired("a token is needed", 401, challenge)
    if token == "weak":
        raise AuthorizationRequired("not this one", 403, 'Bearer error="insufficient_scope"')
    return User(token.partition("/")[0], token)


def as_user(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


async def test_who_is_not_known_is_refused() -> None:
    """Without credentials everything is 401 with a challenge; with too weak ones it is 403."""
    async with open_web(make_server(), authenticate=authenticate) as web:
        for method in ("POST", "GET", "DELETE", "PUT"):
            exchange = await web.fetch(method, headers={"mcp-session-id": "x"})
            assert exchange.status == 401
            assert "resource_metadata" in exchange.headers["www-authenticate"]
            exchange = await web.fetch(method, headers=as_user("weak"))
            assert exchange.status == 403
            assert "insufficient_scope" in exchange.headers["www-authenticate"]


async def test_a_plain_hook_and_no_challenge() -> None:
    """The hook may be a plain function; a 401 has a challenge in any case."""

    def refuse(request: HTTPRequest) -> None:
        raise AuthorizationRequired("nobody may")

    async with open_web(make_server(), authenticate=refuse) as web:
        exchange = web.modern("tools/list")
        answer = await exchange.answer()
        assert (exchange.status, exchange.headers["www-authenticate"]) == (401, "Bearer")
        assert answer["error"]["message"] == "nobody may"


async def test_handlers_know_who_asks() -> None:
    """The principal is in the context: in both eras, and that of the very request."""
    async with open_web(make_server(), authenticate=authenticate) as web:
        exchange = web.modern("tools/call", {"name": "whoami"}, headers=as_user("ada/1"))
        assert (await exchange.answer())["result"]["content"][0]["text"] == "ada by ada/1"
        client = await web.initialize(headers=as_user("ada/1"))
        client.headers.update(as_user("ada/2"))
        answer = await client.call("whoami").answer()
        assert answer["result"]["content"][0]["text"] == "ada by ada/2"


async def test_sessions_are_closed_to_others(autojump_clock: Clock) -> None:
    """To anybody but its owner a session is not there: 404, on every method."""
    async with open_web(make_server(), authenticate=authenticate) as web:
        client = await web.initialize(headers=as_user("ada/1"))
        for method in ("POST", "GET", "DELETE"):
            headers = {**client.headers, **as_user("grace/1")}
            assert (await web.fetch(method, headers=headers)).status == 404
        assert await alive(client)


async def test_states_are_bound_to_their_principal() -> None:
    """What one user was asked, another cannot answer."""
    from mcp_trio.protocol import meta as keys

    capabilities: dict[str, Any] = {keys.CLIENT_CAPABILITIES: {"elicitation": {}}}
    async with open_web(make_server(), authenticate=authenticate) as web:
        ask = {"name": "ask"}
        exchange = web.modern("tools/call", ask, meta=capabilities, headers=as_user("ada/1"))
        state = (await exchange.answer())["result"]["requestState"]
        reply = {
            **ask,
            "requestState": state,
            "inputResponses": {"k": {"action": "cancel"}},
        }
        for token, expected in (("grace/1", "error"), ("ada/2", "result")):
            exchange = web.modern("tools/call", reply, meta=capabilities, headers=as_user(token))
            assert expected in await exchange.answer()


async def test_a_hook_with_a_nursery() -> None:
    """What refuses a request in a task of the hook comes as a group, and refuses all the same."""

    async def refuse() -> None:
        raise AuthorizationRequired("unknown", 401, "Bearer realm=x")

    async def check(request: HTTPRequest) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(refuse)

    async with open_web(make_server(), authenticate=check) as web:
        exchange = await web.fetch("POST")
        assert (exchange.status, exchange.headers["www-authenticate"]) == (401, "Bearer realm=x")


async def test_a_broken_hook_lets_nobody_in() -> None:
    """If the hook itself fails, that is an error of the server."""

    def broken(request: HTTPRequest) -> None:
        raise KeyError("oops")

    async with open_web(make_server(), authenticate=broken) as web:
        exchange = web.exchange("GET")
        with pytest.raises(KeyError):
            await web.handler(exchange)
        assert not exchange.answered
