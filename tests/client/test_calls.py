"""Calls: what a request carries, how it ends, and what becomes of its answer."""

import logging
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

import mcp_trio
from mcp_trio.exceptions import (
    ConnectionClosed,
    MCPError,
    ProtocolError,
    RequestTimeout,
    UnsupportedProtocolVersion,
)
from mcp_trio.protocol import meta as keys
from mcp_trio.protocol.types.notifications import ProgressNotificationParams
from mcp_trio.wire.jsonrpc import EncodeError

from .scripted import (
    LEGACY_START,
    MODERN,
    MODERN_START,
    SILENCE,
    Answer,
    JSONObject,
    Scripted,
    Step,
    discovered,
    text_of,
    text_result,
    unsupported,
)

BOTH_ERAS = pytest.mark.parametrize("start", [MODERN_START, LEGACY_START], ids=["modern", "legacy"])
Start = dict[str, Step | list[Step]]


def reporting(*values: float, answer: Answer, pause: float = 0) -> Step:
    """A step that reports progress before it answers."""

    async def step(server: Scripted, request: JSONObject) -> Answer:
        if not pause:
            await server.progress(request, *values)
        for value in values if pause else ():
            await trio.sleep(pause)
            await server.progress(request, value)
        return answer

    return step


# What a request carries


async def test_each_modern_request_says_who_asks(autojump_clock: MockClock) -> None:
    """Version, client and capabilities go with every request; nothing depends on earlier ones."""
    server = Scripted({"tools/call": text_result(), "prompts/get": {"messages": []}})
    async with server.connect(on_elicit=lambda _: None) as client:
        await client.call_tool("t")
        await client.get_prompt("p")
    for request in server.received:
        meta = request["params"]["_meta"]
        assert meta[keys.PROTOCOL_VERSION] == MODERN
        assert meta[keys.CLIENT_INFO]["name"] == "mcp-trio"
        assert meta[keys.CLIENT_CAPABILITIES] == {"elicitation": {"form": {}, "url": {}}}
        assert keys.LOG_LEVEL not in meta


async def test_legacy_requests_carry_nothing_of_the_modern_era(autojump_clock: MockClock) -> None:
    """A legacy server said all that at the handshake, and gets no `_meta`."""
    server = Scripted({"tools/call": text_result()}, start=LEGACY_START)
    async with server.connect(mode="legacy", on_log=print) as client:
        await client.call_tool("t", {"a": 1})
    assert server.received[-1]["params"] == {"name": "t", "arguments": {"a": 1}}


async def test_the_log_level_goes_with_each_request(autojump_clock: MockClock) -> None:
    """Modern log messages are asked for per request, from the level that was set last."""
    server = Scripted({"tools/call": text_result()})
    async with server.connect(on_log=print) as client:
        await client.call_tool("t")
        await client.set_log_level("error")
        await client.call_tool("t")
        with pytest.raises(ValueError, match="no log level"):
            await client.set_log_level("loud")  # type: ignore[arg-type]  # wrong on purpose
    levels = [call["params"]["_meta"].get(keys.LOG_LEVEL) for call in server.sent("tools/call")]
    assert levels == ["info", "error"]


async def test_the_log_level_of_a_legacy_server_is_a_request(autojump_clock: MockClock) -> None:
    """Legacy: logging/setLevel at the start, and once more when it changes."""
    server = Scripted(start=LEGACY_START)
    async with server.connect(log_level="debug") as client:
        await client.set_log_level("error")
    levels = [call["params"]["level"] for call in server.sent("logging/setLevel")]
    assert levels == ["debug", "error"]


async def test_meta_of_the_caller_goes_along(autojump_clock: MockClock) -> None:
    """`meta` joins what the protocol puts into `_meta`, and the caller's dicts stay as they are."""
    server = Scripted({"tools/call": text_result()})
    meta, arguments = {"traceparent": "00-1-2-01"}, {"a": 1}
    async with server.connect() as client:
        await client.call_tool("t", arguments, meta=meta, on_progress=print)
    sent = server.received[-1]["params"]["_meta"]
    assert sent["traceparent"] == "00-1-2-01"
    assert sent[keys.PROTOCOL_VERSION] == MODERN
    assert meta == {"traceparent": "00-1-2-01"}
    assert arguments == {"a": 1}


@BOTH_ERAS
async def test_every_method_sends_what_the_protocol_calls_it(
    start: Start, autojump_clock: MockClock
) -> None:
    """Each method of the client: its request's name and parameters, and its typed result."""
    server = Scripted(
        {
            "tools/list": {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]},
            "resources/list": {"resources": [{"name": "r", "uri": "a:b"}]},
            "resources/templates/list": {
                "resourceTemplates": [{"name": "r", "uriTemplate": "a:{b}"}]
            },
            "resources/read": {"contents": [{"uri": "a:b", "text": "x"}]},
            "prompts/list": {"prompts": [{"name": "p"}]},
            "prompts/get": {"messages": []},
            "completion/complete": {"completion": {"values": ["oslo"]}},
            "ping": {},
        },
        start=start,
    )
    async with server.connect() as client:
        assert [tool.name for tool in await client.list_tools()] == ["t"]
        assert [r.uri for r in await client.list_resources()] == ["a:b"]
        templates = await client.list_resource_templates()
        assert [template.uri_template for template in templates] == ["a:{b}"]
        await client.read_resource("a:ä b%20")
        assert [prompt.name for prompt in await client.list_prompts()] == ["p"]
        await client.get_prompt("p", {"x": "y"})
        completed = await client.complete(
            mcp_trio.PromptReference("p"), "city", "os", context={"land": "no"}
        )
        assert completed.completion.values == ["oslo"]
        await client.ping()
    assert server.sent("resources/read")[0]["params"]["uri"] == "a:ä b%20"
    assert server.sent("prompts/get")[0]["params"]["arguments"] == {"x": "y"}
    params = server.sent("completion/complete")[0]["params"]
    assert params["ref"] == {"type": "ref/prompt", "name": "p"}
    assert params["argument"] == {"name": "city", "value": "os"}
    assert params["context"] == {"arguments": {"land": "no"}}
    assert server.methods[-1] == ("server/discover" if start is MODERN_START else "ping")


async def test_a_generic_request_knows_no_method(autojump_clock: MockClock) -> None:
    """Any method, any parameters; in the modern era dressed like every other request."""
    server = Scripted({"acme/count": {"resultType": "complete", "n": 2, "extra": [1]}})
    async with server.connect() as client:
        result = await client.request("acme/count", {"of": "x"})
    assert result == {"resultType": "complete", "n": 2, "extra": [1]}
    params = server.received[-1]["params"]
    assert params["of"] == "x"
    assert params["_meta"][keys.PROTOCOL_VERSION] == MODERN


async def test_roots_changed_is_for_legacy_servers(autojump_clock: MockClock) -> None:
    """A modern server asks for the roots when it needs them, so it is not told."""
    for start, told in ((MODERN_START, 0), (LEGACY_START, 1)):
        server = Scripted(start=start)
        async with server.connect() as client:
            await client.notify_roots_changed()
        assert len(server.sent("notifications/roots/list_changed")) == told


async def test_what_cannot_be_sent_is_the_callers_error(autojump_clock: MockClock) -> None:
    """NaN leaves the call that brought it; the connection goes on."""
    server = Scripted({"tools/call": text_result()})
    async with server.connect() as client:
        with pytest.raises(EncodeError, match=r"arguments\.x"):
            await client.call_tool("t", {"x": float("nan")})
        await client.call_tool("t")
    assert len(server.sent("tools/call")) == 1


# Versions


async def test_a_request_is_retried_in_a_version_that_the_server_lists(
    autojump_clock: MockClock,
) -> None:
    """-32022 to any request: once more, as a new request, and the call succeeds."""
    server = Scripted({"tools/call": [unsupported(MODERN), text_result("again")]})
    async with server.connect() as client:
        assert text_of(await client.call_tool("t")) == "again"
    first, second = server.sent("tools/call")
    assert first["id"] != second["id"]
    assert first["params"] == second["params"]


@pytest.mark.parametrize(
    ("answer", "tries", "lists"),
    [
        (unsupported(MODERN), 2, (MODERN,)),
        (unsupported("2025-06-18"), 1, ("2025-06-18",)),
        (unsupported("2099-01-01"), 1, ("2099-01-01",)),
        (unsupported(), 1, ()),
    ],
)
async def test_a_server_that_stops_speaking_our_version(
    answer: MCPError, tries: int, lists: tuple[str, ...], autojump_clock: MockClock
) -> None:
    """The error says what the server lists instead, and there is one retry at most."""
    server = Scripted({"tools/call": answer})
    async with server.connect() as client:
        with pytest.raises(UnsupportedProtocolVersion) as caught:
            await client.call_tool("t")
        assert not client.closed
    assert len(server.sent("tools/call")) == tries
    assert caught.value.supported == lists
    assert isinstance(caught.value, ProtocolError)


# Answers


@BOTH_ERAS
async def test_an_error_arrives_with_all_it_says(start: Start, autojump_clock: MockClock) -> None:
    """Code, message and data of the server's error are those of the exception."""
    error = MCPError(-32002, "Resource not found", {"uri": "a:b"})
    async with Scripted({"resources/read": error}, start=start).connect() as client:
        with pytest.raises(MCPError, match="Resource not found") as caught:
            await client.read_resource("a:b")
    assert (caught.value.code, caught.value.data) == (-32002, {"uri": "a:b"})


@pytest.mark.parametrize("kind", ["partial", "task", 5, None])
async def test_an_unknown_result_type_is_an_error(kind: object, autojump_clock: MockClock) -> None:
    """A result of a type that we do not know is invalid, whatever else it holds."""
    answer = {"resultType": kind, "content": []}
    async with Scripted({"tools/call": answer}).connect() as client:
        with pytest.raises(ProtocolError, match=f"tools/call: .*unknown type {kind!r}"):
            await client.call_tool("t")


async def test_an_absent_result_type_is_complete(autojump_clock: MockClock) -> None:
    """Servers of earlier versions do not say it."""
    async with Scripted({"tools/call": {"content": []}}).connect() as client:
        assert (await client.call_tool("t")).content == []


async def test_what_we_do_not_know_is_kept(autojump_clock: MockClock) -> None:
    """Fields of a newer revision get through an older library."""
    answer = {"content": [], "novel": {"deep": [1]}, "_meta": {"acme/x": 1}}
    async with Scripted({"tools/call": answer}).connect() as client:
        result = await client.call_tool("t")
    assert result.extra == {"novel": {"deep": [1]}}
    assert result.meta == {"acme/x": 1}


@pytest.mark.parametrize(
    ("method", "answer", "where"),
    [
        ("tools/list", {}, "'tools' is missing"),
        ("tools/list", {"tools": [{"name": 3, "inputSchema": {}}]}, r"tools\[0\].name"),
        ("tools/list", {"tools": [], "nextCursor": 7}, "nextCursor"),
    ],
)
async def test_a_malformed_result_names_the_place(
    method: str, answer: JSONObject, where: str, autojump_clock: MockClock
) -> None:
    """A result that does not fit its type is a protocol error that says where."""
    async with Scripted({method: answer}).connect() as client:
        with pytest.raises(ProtocolError, match=f"{method} is malformed: {where}"):
            await client.list_tools()
        assert not client.closed


async def test_an_answer_that_cannot_be_decoded_fails_its_call(autojump_clock: MockClock) -> None:
    """A lone surrogate in a result: the id is recovered, that call fails, others go on."""

    async def garbled(server: Scripted, request: JSONObject) -> Answer:
        text = f'{{"jsonrpc":"2.0","id":{request["id"]},"result":{{"content":["\\ud800"]}}}}'
        await server.send(text.encode())
        return SILENCE

    server = Scripted({"tools/call": [garbled, text_result()]})
    async with server.connect() as client:
        with pytest.raises(ProtocolError, match="tools/call"):
            await client.call_tool("t")
        await client.call_tool("t")


async def test_noise_is_reported_and_skipped(autojump_clock: MockClock) -> None:
    """Lines that are no JSON reach `on_noise`, and disturb nothing."""

    async def noisy(server: Scripted, request: JSONObject) -> Answer:
        await server.send(b"Listening on stdio...")
        return text_result()

    noise: list[tuple[bytes, str]] = []
    server = Scripted({"tools/call": noisy})
    async with server.connect(on_noise=lambda line, why: noise.append((line, why))) as client:
        await client.call_tool("t")
    assert noise == [(b"Listening on stdio...", "not JSON")]


# Progress


@BOTH_ERAS
async def test_progress_comes_in_order_and_before_the_result(
    start: Start, autojump_clock: MockClock
) -> None:
    """All progress, in wire order, in the calling task, before the call returns."""
    server = Scripted({"tools/call": reporting(1, 2, 2.5, 7, answer=text_result())}, start=start)
    seen: list[object] = []
    async with server.connect() as client:
        task = trio.lowlevel.current_task()

        def report(progress: ProgressNotificationParams) -> None:
            assert trio.lowlevel.current_task() is task
            seen.append(progress.progress)

        await client.call_tool("t", on_progress=report)
        seen.append("done")
    assert seen == [1, 2, 2.5, 7, "done"]


async def test_on_progress_may_be_a_coroutine_function(autojump_clock: MockClock) -> None:
    """It is awaited, one notification after the other; a slow one loses none of a few."""
    server = Scripted({"tools/call": reporting(1, 2, 3, answer=text_result())})
    seen: list[float] = []

    async def report(progress: ProgressNotificationParams) -> None:
        await trio.sleep(10)
        seen.append(progress.progress)

    async with server.connect() as client:
        await client.call_tool("t", on_progress=report)
    assert seen == [1, 2, 3]


@BOTH_ERAS
@pytest.mark.parametrize("asynchronous", [False, True])
async def test_what_on_progress_raises_leaves_the_call(
    start: Start, asynchronous: bool, autojump_clock: MockClock
) -> None:
    """The exception arrives as itself, the server is told to stop, the connection goes on."""

    def fail(progress: ProgressNotificationParams) -> None:
        raise KeyError("mine")

    async def fail_later(progress: ProgressNotificationParams) -> None:
        await trio.sleep(1)
        raise KeyError("mine")

    server = Scripted({"tools/call": reporting(1, answer=SILENCE), "ping": {}}, start=start)
    async with server.connect() as client:
        with pytest.raises(KeyError, match="mine"):
            await client.call_tool("t", on_progress=fail_later if asynchronous else fail)
        cancelled = await server.wait_for("notifications/cancelled")
        assert cancelled["params"]["requestId"] == server.sent("tools/call")[0]["id"]
        await client.ping()


async def test_malformed_progress_is_skipped(
    caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    """Progress without a number harms nobody: it is logged, and the call goes on."""

    async def step(server: Scripted, request: JSONObject) -> Answer:
        token = request["params"]["_meta"]["progressToken"]
        params = {"progressToken": token, "progress": "half"}
        await server.notify("notifications/progress", params)
        await server.progress(request, 2)
        return text_result()

    seen: list[ProgressNotificationParams] = []
    async with Scripted({"tools/call": step}).connect() as client:
        await client.call_tool("t", on_progress=seen.append)
    assert [progress.progress for progress in seen] == [2]
    assert "malformed progress" in caplog.text


async def test_no_progress_is_asked_for_unless_somebody_wants_it(autojump_clock: MockClock) -> None:
    """Without `on_progress` there is no token, and progress that comes all the same is dropped."""

    async def step(server: Scripted, request: JSONObject) -> Answer:
        await server.notify("notifications/progress", {"progressToken": 2, "progress": 1})
        return text_result()

    server = Scripted({"tools/call": step})
    async with server.connect() as client:
        await client.call_tool("t")
    assert keys.PROGRESS_TOKEN not in server.received[-1]["params"]["_meta"]


async def test_progress_of_calls_in_flight_is_not_mixed_up(autojump_clock: MockClock) -> None:
    """Each call hears of its own progress."""

    async def step(server: Scripted, request: JSONObject) -> Answer:
        start = request["params"]["arguments"]["start"]
        for n in range(5):
            await server.progress(request, start + n)
            await trio.sleep(1)
        return text_result()

    seen: dict[int, list[float]] = {}

    async def call(client: mcp_trio.Client, start: int) -> None:
        mine = seen.setdefault(start, [])
        await client.call_tool("t", {"start": start}, on_progress=lambda p: mine.append(p.progress))

    async with Scripted({"tools/call": step}).connect() as client, trio.open_nursery() as nursery:
        for start in (0, 100, 200):
            nursery.start_soon(call, client, start)
    assert seen == {start: [start + n for n in range(5)] for start in (0, 100, 200)}


# Time


@BOTH_ERAS
async def test_a_timeout_cancels_at_the_server(start: Start, autojump_clock: MockClock) -> None:
    """The call raises in time, the server is told, and a late answer is dropped quietly."""

    async def late(server: Scripted, request: JSONObject) -> Answer:
        await trio.sleep(8)
        return text_result("late")

    noise: list[str] = []
    server = Scripted({"tools/call": [late, text_result("second")]}, start=start)
    async with server.connect(on_noise=lambda line, why: noise.append(why)) as client:
        began = trio.current_time()
        with pytest.raises(RequestTimeout, match="tools/call had no answer within 5 s") as caught:
            await client.call_tool("t", timeout=5)
        assert isinstance(caught.value, trio.TooSlowError)
        assert trio.current_time() - began == pytest.approx(5)
        cancelled = await server.wait_for("notifications/cancelled")
        assert cancelled["params"]["requestId"] == server.sent("tools/call")[0]["id"]
        await trio.sleep(10)
        assert text_of(await client.call_tool("t")) == "second"
    assert noise == []


async def test_progress_extends_a_timeout_up_to_its_ceiling(autojump_clock: MockClock) -> None:
    """Reports every 4 s keep a call of 5 s alive, for ten times 5 s and not for ever."""
    server = Scripted({"tools/call": reporting(*range(100), answer=text_result(), pause=4)})
    async with server.connect() as client:
        began = trio.current_time()
        with pytest.raises(RequestTimeout):
            await client.call_tool("t", timeout=5, on_progress=lambda p: None)
        assert trio.current_time() - began == pytest.approx(50)
        began = trio.current_time()
        with pytest.raises(RequestTimeout):
            await client.call_tool("t", timeout=5, max_timeout=21, on_progress=lambda p: None)
        assert trio.current_time() - began == pytest.approx(21)


@BOTH_ERAS
async def test_a_ceiling_alone_is_a_timeout(start: Start, autojump_clock: MockClock) -> None:
    """`max_timeout` without `timeout` still ends the call."""
    server = Scripted({"tools/call": SILENCE}, start=start)
    async with server.connect() as client:
        began = trio.current_time()
        with pytest.raises(RequestTimeout):
            await client.call_tool("t", max_timeout=7)
        assert trio.current_time() - began == pytest.approx(7)


async def test_a_timeout_for_all_requests(autojump_clock: MockClock) -> None:
    """The client's timeout holds for requests that give none of their own."""
    async with Scripted({"tools/call": SILENCE}).connect(timeout=3) as client:
        for given, took in ((None, 3), (9, 9)):
            began = trio.current_time()
            with pytest.raises(RequestTimeout):
                await client.call_tool("t", timeout=given)
            assert trio.current_time() - began == pytest.approx(took)


async def test_no_timeout_by_default(autojump_clock: MockClock) -> None:
    """A tool may take a day."""

    async def slow(server: Scripted, request: JSONObject) -> Answer:
        await trio.sleep(9000)
        return text_result()

    async with Scripted({"tools/call": slow}).connect() as client:
        await client.call_tool("t")


@BOTH_ERAS
async def test_the_clock_stops_while_a_person_answers(
    start: Start, autojump_clock: MockClock
) -> None:
    """A question that takes an hour does not use up the timeout of the call that led to it."""
    form: JSONObject = {
        "method": "elicitation/create",
        "params": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}},
    }

    async def ask_legacy(server: Scripted, request: JSONObject) -> Answer:
        await server.answer_to(await server.ask("elicitation/create", form["params"]))
        return text_result()

    rounds: list[Step] = [
        {"resultType": "input_required", "inputRequests": {"q": form}},
        text_result(),
    ]

    async def person(request: object) -> JSONObject:
        await trio.sleep(3600)
        return {}

    steps: Start = {"tools/call": rounds if start is MODERN_START else ask_legacy}
    async with Scripted(steps, start=start).connect(on_elicit=person) as client:
        await client.call_tool("t", timeout=5, max_timeout=6)


async def test_the_ceiling_is_for_all_rounds_together(autojump_clock: MockClock) -> None:
    """A modern server that asks again and again cannot stretch a call beyond its ceiling."""

    async def step(server: Scripted, request: JSONObject) -> Answer:
        await trio.sleep(4)
        return {"resultType": "input_required", "requestState": "s"}

    async with Scripted({"tools/call": step}).connect(max_rounds=100) as client:
        began = trio.current_time()
        with pytest.raises(RequestTimeout):
            await client.call_tool("t", timeout=5, max_timeout=10)
        assert trio.current_time() - began < 12


# Cancellation and death


@BOTH_ERAS
async def test_cancelling_a_call_cancels_it_at_the_server(
    start: Start, autojump_clock: MockClock
) -> None:
    """One notice, for that request; the caller's scope ends, and the client goes on."""
    server = Scripted({"tools/call": [SILENCE, text_result()]}, start=start)
    async with server.connect() as client:
        with trio.move_on_after(1) as scope:
            await client.call_tool("t")
        assert scope.cancelled_caught
        await client.call_tool("t")
    (cancelled,) = server.sent("notifications/cancelled")
    assert cancelled["params"]["requestId"] == server.sent("tools/call")[0]["id"]


async def test_an_answered_call_is_not_cancelled(autojump_clock: MockClock) -> None:
    """No notice follows a request that has its answer."""
    server = Scripted({"tools/call": text_result()})
    async with server.connect() as client:
        with trio.CancelScope() as scope:
            await client.call_tool("t")
            scope.cancel()
    assert server.sent("notifications/cancelled") == []


@BOTH_ERAS
async def test_death_fails_every_call(start: Start, autojump_clock: MockClock) -> None:
    """All calls in flight raise an exception of their own, and so does every later one."""
    server = Scripted({"tools/call": SILENCE}, start=start)
    failures: list[ConnectionClosed] = []

    async def call(client: mcp_trio.Client) -> None:
        with pytest.raises(ConnectionClosed) as caught:
            await client.call_tool("t")
        failures.append(caught.value)

    async with server.connect() as client:
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(call, client)
            await server.wait_for("tools/call", 3)
            await server.close()
        assert client.closed
        await call(client)
        with pytest.raises(ConnectionClosed):
            await client.notify("notifications/x")
    assert len({id(failure) for failure in failures}) == 4
    assert {failure.reason for failure in failures} == {"the peer closed the connection"}


async def test_calls_from_any_task_at_once(autojump_clock: MockClock) -> None:
    """Answers that come in another order find their callers."""

    async def step(server: Scripted, request: JSONObject) -> Answer:
        n = request["params"]["arguments"]["n"]
        await trio.sleep(100 - n)
        return text_result(str(n))

    async def call(client: mcp_trio.Client, n: int) -> None:
        assert text_of(await client.call_tool("t", {"n": n})) == str(n)

    async with Scripted({"tools/call": step}).connect() as client, trio.open_nursery() as nursery:
        for n in range(50):
            nursery.start_soon(call, client, n)


async def test_every_call_is_a_checkpoint(autojump_clock: MockClock) -> None:
    """Also those that answer from memory, or have nothing to do in this era."""
    async with Scripted().connect() as client:
        for call in (
            client.notify_roots_changed,
            lambda: client.set_log_level("info"),
            client.ping,
            lambda: client.notify("notifications/x"),
        ):
            with trio.CancelScope() as scope:
                scope.cancel()
                await call()
            assert scope.cancelled_caught


# Pages


async def test_lists_follow_every_cursor(autojump_clock: MockClock) -> None:
    """An empty string is a cursor like any other; a missing one is the end."""
    pages: list[Step] = [
        {"tools": [_tool("a")], "nextCursor": ""},
        {"tools": [], "nextCursor": "x"},
        {"tools": [_tool("b"), _tool("a")]},
    ]
    server = Scripted({"tools/list": pages})
    async with server.connect() as client:
        assert [tool.name for tool in await client.list_tools()] == ["a", "b", "a"]
    cursors = [request["params"].get("cursor") for request in server.sent("tools/list")]
    assert cursors == [None, "", "x"]
    assert "cursor" not in server.sent("tools/list")[0]["params"]


async def test_one_page_at_a_time(autojump_clock: MockClock) -> None:
    """The paging is there for who wants to do it."""
    page = {"resources": [], "nextCursor": "n"}
    server = Scripted({"resources/list": page})
    async with server.connect() as client:
        assert (await client.list_resources_page()).next_cursor == "n"
        await client.list_resources_page("")
    assert server.received[-1]["params"]["cursor"] == ""


@pytest.mark.parametrize("cursors", [["a", "a"], ["a", "b", "a"], ["", ""]])
async def test_pages_that_go_round_in_circles(
    cursors: list[str], autojump_clock: MockClock
) -> None:
    """A cursor that comes again would never end: it is an error."""
    pages: list[Step] = [{"prompts": [], "nextCursor": cursor} for cursor in cursors]
    async with Scripted({"prompts/list": pages}).connect() as client:
        with pytest.raises(ProtocolError, match="round in circles"):
            await client.list_prompts()


# Output schemas


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def _tool(name: str, **fields: Any) -> JSONObject:
    return {"name": name, "inputSchema": {"type": "object"}, **fields}


@BOTH_ERAS
@pytest.mark.parametrize(
    ("result", "error"),
    [
        ({"structuredContent": {"n": 1}}, None),
        ({"structuredContent": {"n": "1"}}, "broke its own output schema: n: "),
        ({"structuredContent": {}}, "broke its own output schema"),
        ({"structuredContent": None}, "broke its own output schema"),
        ({}, "no structured content"),
        ({"isError": True}, None),
    ],
)
async def test_output_is_checked(
    start: Start, result: JSONObject, error: str | None, autojump_clock: MockClock
) -> None:
    """A listed tool's structured content has to fit its output schema, unless the tool failed."""
    steps: Start = {
        "tools/list": {"tools": [_tool("t", outputSchema=SCHEMA), _tool("free")]},
        "tools/call": text_result(**result),
    }
    server = Scripted(steps, start=start)
    async with server.connect() as client:
        await client.call_tool("t")  # not listed yet: nothing is known of it
        await client.list_tools()
        await client.call_tool("free")
        if error is None:
            await client.call_tool("t")
        else:
            with pytest.raises(ProtocolError, match=error):
                await client.call_tool("t")
    async with server.connect(validate_output=False) as client:
        await client.list_tools()
        await client.call_tool("t")


async def test_output_schemas_are_forgotten_when_the_tools_change(
    autojump_clock: MockClock,
) -> None:
    """After list_changed an old schema judges nobody; a new list brings a new one."""
    lists: list[Step] = [
        {"tools": [_tool("t", outputSchema=SCHEMA)]},
        {"tools": [_tool("t", outputSchema={"type": "object"})]},
    ]
    server = Scripted(
        {"tools/list": lists, "tools/call": text_result(structuredContent={})},
        start=LEGACY_START,
    )
    async with server.connect() as client:
        await client.list_tools()
        with pytest.raises(ProtocolError):
            await client.call_tool("t")
        await server.notify("notifications/tools/list_changed")
        await wait_all_tasks_blocked()
        await client.call_tool("t")
        await client.list_tools()
        await client.call_tool("t")


async def test_a_new_list_replaces_an_output_schema(autojump_clock: MockClock) -> None:
    """Without any notice, too."""
    lists: list[Step] = [
        {"tools": [_tool("t", outputSchema={"type": "object"})]},
        {"tools": [_tool("t", outputSchema=SCHEMA)]},
    ]
    server = Scripted({"tools/list": lists, "tools/call": text_result(structuredContent={})})
    async with server.connect() as client:
        await client.list_tools()
        await client.call_tool("t")
        await client.list_tools()
        with pytest.raises(ProtocolError):
            await client.call_tool("t")


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nonsense"},
        {"$ref": "https://example.com/schema.json"},
        {"$schema": "https://example.com/my-own-dialect"},
    ],
)
async def test_an_unusable_output_schema_checks_nothing(
    schema: JSONObject, caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    """A schema that is invalid, elsewhere or in an unknown dialect is reported, not obeyed."""
    steps: Start = {
        "tools/list": {"tools": [_tool("t", outputSchema=schema)]},
        "tools/call": text_result(structuredContent={}),
    }
    with caplog.at_level(logging.WARNING):
        async with Scripted(steps).connect() as client:
            await client.list_tools()
            await client.call_tool("t")
            await client.call_tool("t")
    assert caplog.text.count("the output schema of tool 't' is not used") == 1


async def test_structured_output_may_be_anything_in_the_modern_era(
    autojump_clock: MockClock,
) -> None:
    """null, a number, a list: what the schema allows."""
    for schema, value in (({"type": "null"}, None), ({"type": "array"}, [1]), ({}, 0)):
        steps: Start = {
            "tools/list": {"tools": [_tool("t", outputSchema=schema)]},
            "tools/call": text_result(structuredContent=value),
        }
        async with Scripted(steps).connect() as client:
            await client.list_tools()
            assert (await client.call_tool("t")).structured_content == value


def test_results_are_immutable() -> None:
    """A result is a value: one caller cannot change what another one holds."""
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        mcp_trio.CallToolResult([]).is_error = True  # type: ignore[misc]  # which is the test
    assert discovered() == discovered()
