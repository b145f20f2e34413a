"""The rules that hold for every request, in both eras."""

import logging
from typing import Any

import pytest
import trio

from mcp_trio import CacheHint, Context, MCPError, Server
from mcp_trio.protocol import meta as keys
from mcp_trio.protocol.revisions import LEGACY, MODERN
from mcp_trio.server.dispatch import Proceed
from tests.server.raw import MODERN_META, open_legacy, open_raw

LEGACY_ONLY = (
    "initialize",
    "ping",
    "logging/setLevel",
    "resources/subscribe",
    "resources/unsubscribe",
)
LISTS = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")


@pytest.fixture
def server() -> Server:
    server = Server("dispatching", version="3")

    @server.tool()
    async def version(ctx: Context) -> str:
        return ctx.protocol_version

    @server.resource("memo://one")
    async def one() -> str:
        return "1"

    return server


@pytest.mark.parametrize("method", LEGACY_ONLY)
async def test_modern_era_does_not_know_legacy_methods(server: Server, method: str) -> None:
    """What only the legacy era has is an unknown method where `_meta` names a version."""
    async with open_raw(server) as raw:
        assert (await raw.error(method))["code"] == -32601


async def test_legacy_era_does_not_know_modern_methods(server: Server) -> None:
    """discover and listen do not exist in a legacy session."""
    async with open_legacy(server) as raw:
        for method in ("server/discover", "subscriptions/listen"):
            answer = await raw.request(method, {"notifications": {}})
            assert answer["error"]["code"] == -32601


async def test_unknown_method_is_named(server: Server) -> None:
    """A method that nobody answers is -32601 in both eras, and the error names it."""
    async with open_legacy(server) as raw:
        for error in (
            (await raw.request("acme/nothing"))["error"],
            await raw.error("acme/nothing"),
        ):
            assert error["code"] == -32601
            assert "acme/nothing" in error["message"]


@pytest.mark.parametrize("version", [*LEGACY, "2030-01-01", ""])
async def test_unsupported_version_lists_modern_ones(server: Server, version: str) -> None:
    """-32022 names the modern versions only, whichever version was asked for."""
    async with open_raw(server) as raw:
        for method in ("tools/list", "server/discover", "acme/nothing"):
            answer = await raw.modern(method, {}, **{keys.PROTOCOL_VERSION: version})
            assert answer["error"]["code"] == -32022
            assert answer["error"]["data"] == {"supported": [*MODERN], "requested": version}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (keys.PROTOCOL_VERSION, 5),
        (keys.PROTOCOL_VERSION, None),
        (keys.CLIENT_CAPABILITIES, None),
        (keys.CLIENT_CAPABILITIES, []),
        (keys.CLIENT_INFO, "me"),
        (keys.LOG_LEVEL, "loud"),
        (keys.PROGRESS_TOKEN, 1.5),
        (keys.PROGRESS_TOKEN, True),
    ],
)
async def test_bad_meta_field_is_named(server: Server, key: str, value: Any) -> None:
    """A field of a modern `_meta` that is missing or wrong is -32602, and named."""
    async with open_raw(server) as raw:
        answer = await raw.modern("tools/list", **{key: value})
        assert answer["error"]["code"] == -32602
        assert key in answer["error"]["message"]


async def test_meta_that_is_no_object_is_refused(server: Server) -> None:
    """`_meta` of another type is -32602 and not a crash."""
    async with open_legacy(server) as raw:
        for method in ("tools/list", "ping"):
            answer = await raw.request(method, {"_meta": []})
            assert answer["error"]["code"] == -32602


async def test_unknown_meta_reaches_the_handler() -> None:
    """What `_meta` holds beyond the protocol's own passes to the handler, in both eras."""
    server = Server("meta")

    @server.request("acme/meta")
    async def meta(params: dict[str, Any], ctx: Context) -> dict[str, Any]:
        return {"seen": ctx.meta["acme.example/x"], "too": params["_meta"]["acme.example/x"]}

    async with open_legacy(server) as raw:
        given = {"_meta": {"acme.example/x": [1, {"y": None}]}}
        for answer in (
            await raw.request("acme/meta", given),
            await raw.modern("acme/meta", {}, **given["_meta"]),
        ):
            assert answer["result"]["seen"] == answer["result"]["too"] == [1, {"y": None}]


async def test_each_request_has_its_own_era(server: Server) -> None:
    """Modern and legacy requests on one connection are each served by their own revision."""
    async with open_legacy(server, "2025-03-26") as raw:
        call = {"name": "version"}
        legacy = (await raw.request("tools/call", call))["result"]
        modern = await raw.result("tools/call", call)
        assert legacy["content"][0]["text"] == "2025-03-26"
        assert modern["content"][0]["text"] == MODERN[-1]
        assert "resultType" not in legacy


async def test_modern_results_say_what_and_who(server: Server) -> None:
    """Every modern result has a resultType, and the server's name and version in `_meta`."""
    async with open_raw(server) as raw:
        calls: list[tuple[str, dict[str, Any]]] = [
            *((method, {}) for method in LISTS),
            ("server/discover", {}),
            ("tools/call", {"name": "version"}),
            ("resources/read", {"uri": "memo://one"}),
        ]
        for method, params in calls:
            result = await raw.result(method, params)
            assert result["resultType"] == "complete", method
            info = result["_meta"][keys.SERVER_INFO]
            assert (info["name"], info["version"]) == ("dispatching", "3")


@pytest.mark.parametrize("version", LEGACY)
async def test_legacy_results_have_nothing_modern(server: Server, version: str) -> None:
    """No legacy result has resultType, cache hints or a stamp."""
    async with open_legacy(server, version) as raw:
        for method in LISTS:
            result = (await raw.request(method))["result"]
            assert not {"resultType", "ttlMs", "cacheScope", "_meta"} & result.keys()


async def test_cache_hints_by_default(server: Server) -> None:
    """Cacheable results say that they are stale and private; others say nothing."""
    async with open_raw(server) as raw:
        for method in (*LISTS, "server/discover"):
            result = await raw.result(method)
            assert (result["ttlMs"], result["cacheScope"]) == (0, "private"), method
        result = await raw.result("resources/read", {"uri": "memo://one"})
        assert (result["ttlMs"], result["cacheScope"]) == (0, "private")
        assert "ttlMs" not in await raw.result("tools/call", {"name": "version"})


async def test_cache_hints_by_method_and_resource() -> None:
    """A hint given for a method or for a resource is sent, in milliseconds."""
    hints = {"tools/list": CacheHint(1.5, "public"), "resources/read": CacheHint(2)}
    server = Server("hints", cache_hints=hints)
    for uri, hint in (("a://", None), ("b://", CacheHint(60, "public"))):

        @server.resource(uri, cache_hint=hint)
        def read() -> str:
            return ""

    async with open_raw(server) as raw:
        tools = await raw.result("tools/list")
        assert (tools["ttlMs"], tools["cacheScope"]) == (1500, "public")
        assert (await raw.result("resources/list"))["ttlMs"] == 0
        assert (await raw.result("resources/read", {"uri": "a://"}))["ttlMs"] == 2000
        own = await raw.result("resources/read", {"uri": "b://"})
        assert (own["ttlMs"], own["cacheScope"]) == (60_000, "public")


def test_bad_cache_hints_are_refused() -> None:
    """A negative ttl, an unknown scope, and a method that is not cacheable are errors."""
    with pytest.raises(ValueError, match="ttl"):
        CacheHint(-1)
    with pytest.raises(ValueError, match="scope"):
        CacheHint(1, "shared")  # type: ignore[arg-type]  # the point of the test
    with pytest.raises(ValueError, match="tools/call"):
        Server("x", cache_hints={"tools/call": CacheHint(1)})


async def test_question_carries_no_cache_hint() -> None:
    """A result that asks for input is not cacheable, so it has no hints."""
    server = Server("asking")

    @server.resource("ask://x")
    async def ask(ctx: Context) -> str:
        await ctx.list_roots()
        return ""

    async with open_raw(server) as raw:
        capabilities: dict[str, Any] = {keys.CLIENT_CAPABILITIES: {"roots": {}}}
        answer = await raw.modern("resources/read", {"uri": "ask://x"}, **capabilities)
        assert answer["result"]["resultType"] == "input_required"
        assert not {"ttlMs", "cacheScope"} & answer["result"].keys()


async def test_user_method(server: Server) -> None:
    """A method of the user's own gets params and context, or as many as it takes."""
    seen = []

    @server.request("acme/both")
    async def both(params: dict[str, Any], ctx: Context) -> dict[str, Any]:
        return {"x": params["x"], "method": ctx.method}

    @server.request("acme/one")
    def one(params: dict[str, Any]) -> dict[str, Any]:
        return {"x": params.get("x")}

    @server.request("acme/none", thread=True)
    def none() -> None:
        seen.append("none")

    async with open_legacy(server) as raw:
        for ask in (raw.request, raw.modern):
            both_answer = await ask("acme/both", {"x": 1})
            assert both_answer["result"]["x"] == 1
            assert (await ask("acme/one", {"x": 2}))["result"]["x"] == 2
            assert "result" in await ask("acme/none")
    assert seen == ["none", "none"]


async def test_user_method_replaces_a_builtin_one(server: Server) -> None:
    """A handler for a method of the protocol answers instead, where the revision has it."""

    @server.request("tools/list")
    async def tools() -> dict[str, Any]:
        return {"tools": [{"name": "other", "inputSchema": {"type": "object"}}]}

    async with open_raw(server) as raw:
        result = await raw.result("tools/list")
        assert [tool["name"] for tool in result["tools"]] == ["other"]
        assert result["ttlMs"] == 0


@pytest.mark.parametrize("method", ["initialize", "server/discover", "ping"])
def test_handshake_cannot_be_replaced(server: Server, method: str) -> None:
    """What the connection depends on stays as it is."""
    with pytest.raises(ValueError, match=method):
        server.request(method)(dict)


async def test_result_that_is_no_object(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    """A user's method that returns something else is an internal error, and logged."""
    server.request("acme/list")(lambda: [1])
    with caplog.at_level(logging.ERROR, "mcp_trio"):
        async with open_raw(server) as raw:
            assert (await raw.error("acme/list"))["code"] == -32603
    assert "acme/list" in caplog.text


async def test_handler_errors_go_out_as_they_are(server: Server) -> None:
    """An MCPError of a handler is the answer, also out of a nursery; others tell nothing."""

    @server.request("acme/fail")
    async def fail(params: dict[str, Any]) -> None:
        async with trio.open_nursery():
            raise MCPError(7, "seven", {"n": 7}) if params["mine"] else KeyError("secret")

    async with open_raw(server) as raw:
        error = await raw.error("acme/fail", {"mine": True})
        assert error == {"code": 7, "message": "seven", "data": {"n": 7}}
        other = await raw.error("acme/fail", {"mine": False})
        assert other["code"] == -32603
        assert "secret" not in str(other)


async def test_middleware_wraps_every_request(server: Server) -> None:
    """The first middleware is outermost, sees params and result, and may change both."""
    seen = []

    @server.middleware
    async def outer(ctx: Context, params: dict[str, Any], proceed: Any) -> Any:
        seen.append(f"outer {ctx.method}")
        result = await proceed(params)
        return {**result, "outer": True}

    @server.middleware
    async def inner(ctx: Context, params: dict[str, Any], proceed: Any) -> Any:
        seen.append("inner")
        if params.get("refuse"):
            raise MCPError(9, "no")
        return await proceed({**params, "name": "version"})

    async with open_raw(server) as raw:
        assert (await raw.result("tools/call", {"name": "other"}))["outer"] is True
        assert (await raw.error("tools/call", {"refuse": True}))["code"] == 9
    assert seen == ["outer tools/call", "inner"] * 2


async def test_middleware_may_ask(server: Server) -> None:
    """A middleware can put a question to the user before the tool runs."""

    @server.middleware
    async def confirm(ctx: Context, params: dict[str, Any], proceed: Any) -> Any:
        await ctx.list_roots("sure")
        return await proceed(params)

    server.add_tool(lambda: 1, name="plain")
    async with open_raw(server) as raw:
        capabilities: dict[str, Any] = {keys.CLIENT_CAPABILITIES: {"roots": {}}}
        answer = await raw.modern("tools/call", {"name": "plain"}, **capabilities)
        assert [*answer["result"]["inputRequests"]] == ["sure"]


async def test_returned_state_is_checked_by_tools_that_never_ask(server: Server) -> None:
    """A requestState that is not ours is refused even where nothing would look at it."""
    server.add_tool(lambda: 1, name="plain")
    async with open_raw(server) as raw:
        for extra in ({"requestState": "forged"}, {"inputResponses": 3}):
            error = await raw.error("tools/call", {"name": "plain", **extra})
            assert error["code"] == -32602
            assert next(iter(extra)) in error["message"]


async def test_legacy_only_server_knows_no_era(server: Server) -> None:
    """A server of legacy versions alone does not look at a modern `_meta`."""
    server = Server("old", versions=LEGACY)
    async with open_raw(server) as raw:
        assert (await raw.error("server/discover"))["code"] == -32600
        await raw.initialize()
        assert (await raw.error("server/discover"))["code"] == -32601
        assert "resultType" not in await raw.result("tools/list")


async def test_modern_only_server(server: Server) -> None:
    """A server of modern versions alone tells a legacy client which those are."""
    server = Server("new", versions=MODERN)
    async with open_raw(server) as raw:
        answer = await raw.request("initialize", {"protocolVersion": "2025-11-25"})
        assert answer["error"]["code"] == -32022
        assert answer["error"]["data"]["supported"] == [*MODERN]
        answer = await raw.request("tools/list")
        assert answer["error"]["code"] == -32602
        assert keys.PROTOCOL_VERSION in answer["error"]["message"]
        assert "tools" in await raw.result("tools/list")


def test_unknown_versions_are_refused() -> None:
    """A server cannot be asked to serve a revision that does not exist, or none."""
    with pytest.raises(ValueError, match="1999"):
        Server("x", versions=["1999-01-01"])
    with pytest.raises(ValueError, match="at least one"):
        Server("x", versions=[])


async def test_transport_may_have_read_the_meta(server: Server) -> None:
    """What a transport has read of a request's `_meta` holds, whatever session it came by."""
    from mcp_trio.incoming import IncomingRequest
    from mcp_trio.protocol.negotiation import read_request_meta
    from mcp_trio.server.session import Session

    peer: Any = None
    incoming = IncomingRequest(1, "tools/list", {"_meta": MODERN_META}, peer)
    stated = read_request_meta(incoming.params)
    session = Session(peer, version="2025-11-25")
    result = await server.dispatcher.answer(incoming, session, None, stated=stated)
    assert result["resultType"] == "complete"


@pytest.mark.parametrize("run", range(10))
async def test_what_changes_a_session_happens_in_the_order_of_the_wire(run: int) -> None:
    """The last word counts, in one write as well, whoever is scheduled first or takes longer."""
    sessions: list[Any] = []
    server = Server("s")

    @server.middleware
    async def hesitate(ctx: Context, params: dict[str, Any], proceed: Proceed) -> dict[str, Any]:
        sessions.append(ctx.info.session)
        for _ in range(run % 3 and hash((run, ctx.request_id)) % 5):
            await trio.lowlevel.checkpoint()
        return await proceed(params)

    async with open_legacy(server) as raw:
        requests = [
            *[("logging/setLevel", {"level": level}) for level in ("debug", "error", "info")],
            *[(f"resources/{act}", {"uri": "u"}) for act in ("subscribe", "unsubscribe") * 3],
            ("resources/subscribe", {"uri": "v"}),
        ]
        await raw.send(*[raw.request_message(*request, id=i) for i, request in enumerate(requests)])
        for id in range(len(requests)):
            assert "result" in await raw.answer_to(id)
    assert sessions[0].log_level == "info"
    assert sessions[0].subscriptions == {"v": 1}


async def test_a_cancelled_request_does_not_hold_up_the_next(server: Server) -> None:
    """Whoever waits for the one before goes on when that is cancelled."""
    began = trio.Event()

    @server.middleware
    async def hang(ctx: Context, params: dict[str, Any], proceed: Proceed) -> dict[str, Any]:
        if ctx.request_id == "hangs":
            began.set()
            await trio.sleep_forever()
        return await proceed(params)

    async with open_legacy(server) as raw:
        await raw.send(
            raw.request_message("resources/subscribe", {"uri": "u"}, id="hangs"),
            raw.request_message("resources/subscribe", {"uri": "v"}, id="waits"),
        )
        await began.wait()
        cancelled = {"requestId": "hangs"}
        await raw.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled})
        assert "result" in await raw.answer_to("waits")
