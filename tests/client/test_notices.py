"""What is told to `on_log` and `on_notification`, and that it stops nobody."""

import functools
import logging
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

import mcp_trio
from mcp_trio.client.notices import MOST_WAITING, Callback
from mcp_trio.wire.jsonrpc import Notification

from .scripted import LEGACY_START, Answer, JSONObject, Scripted, notification, text_result


def saying(*data: Any) -> Any:
    """A step that sends log messages, and then answers."""

    async def step(server: Scripted, request: JSONObject) -> Answer:
        await server.send(
            *(
                notification("notifications/message", {"level": "info", "data": item})
                for item in data
            )
        )
        return text_result()

    return step


async def test_a_plain_function_is_called_as_messages_arrive(autojump_clock: MockClock) -> None:
    """In order, and all before the result of the call that they belong to."""
    seen: list[object] = []
    server = Scripted({"tools/call": saying(1, None, {"deep": [2]})})
    async with server.connect(on_log=lambda message: seen.append(message.data)) as client:
        await client.call_tool("t")
        seen.append("done")
    assert seen == [1, None, {"deep": [2]}, "done"]


async def test_a_coroutine_function_runs_in_a_task_of_its_own(autojump_clock: MockClock) -> None:
    """In order too, without holding up the call or the reader."""
    seen: list[object] = []

    async def on_log(message: mcp_trio.LoggingMessageNotificationParams) -> None:
        await trio.sleep(10)
        seen.append(message.data)

    async with Scripted({"tools/call": saying(1, 2, 3)}).connect(on_log=on_log) as client:
        began = trio.current_time()
        await client.call_tool("t")
        assert trio.current_time() == began
        assert seen == []
        await trio.sleep(31)
        assert seen == [1, 2, 3]


async def test_a_coroutine_function_may_call_the_server(autojump_clock: MockClock) -> None:
    """It is in nobody's way, so there is no deadlock."""
    seen: list[str] = []
    server = Scripted({"tools/call": saying("look"), "prompts/list": {"prompts": [{"name": "p"}]}})
    heard = trio.Event()

    async def on_log(message: object) -> None:
        seen.extend(prompt.name for prompt in await client.list_prompts())
        heard.set()

    async with server.connect(on_log=on_log) as client:
        await client.call_tool("t")
        await heard.wait()
    assert seen == ["p"]


async def test_a_slow_coroutine_function_loses_the_oldest(
    caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    """What it is too slow for is dropped, counted and reported, and not in a report for each."""
    seen: list[object] = []

    async def slow(message: mcp_trio.LoggingMessageNotificationParams) -> None:
        seen.append(message.data)
        await trio.sleep(1)

    count = MOST_WAITING + 101
    server = Scripted({"tools/call": saying(*range(count))})
    async with server.connect(on_log=slow) as client:
        await client.call_tool("t")
        await trio.sleep(count)
        assert client._on_log is not None
        dropped = client._on_log.dropped
    assert seen[-MOST_WAITING:] == list(range(count))[-MOST_WAITING:]
    assert len(seen) + dropped == count
    assert f"on_log is too slow: {64} notices dropped" in caplog.text
    assert len(caplog.records) < 10


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_what_a_callback_raises_is_logged(
    asynchronous: bool, caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    """It disturbs neither the connection nor the next call of the callback."""
    seen: list[object] = []

    def on_log(message: mcp_trio.LoggingMessageNotificationParams) -> None:
        seen.append(message.data)
        raise KeyError("mine")

    async def on_log_later(message: mcp_trio.LoggingMessageNotificationParams) -> None:
        await trio.lowlevel.checkpoint()
        async with trio.open_nursery():
            on_log(message)

    server = Scripted({"tools/call": saying(1, 2)})
    async with server.connect(on_log=on_log_later if asynchronous else on_log) as client:
        await client.call_tool("t")
        await wait_all_tasks_blocked()
        await client.call_tool("t")
        await wait_all_tasks_blocked()
    assert seen == [1, 2, 1, 2]
    assert caplog.text.count("on_log failed") == 4
    assert "KeyError: 'mine'" in caplog.text


async def test_a_malformed_log_message_is_skipped(
    caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    """`on_log` gets none that it cannot read, and `on_notification` still gets it as it came."""
    logged: list[object] = []
    heard: list[Notification] = []

    async def step(server: Scripted, request: JSONObject) -> Answer:
        await server.notify("notifications/message", {"level": "loud", "data": 1})
        await server.notify("notifications/message")
        return text_result()

    server = Scripted({"tools/call": step})
    async with server.connect(on_log=logged.append, on_notification=heard.append) as client:
        await client.call_tool("t")
    assert logged == []
    assert [notification.params for notification in heard] == [{"level": "loud", "data": 1}, None]
    assert caplog.text.count("malformed log message") == 2


@pytest.mark.parametrize(
    "malformed",
    [
        ("notifications/subscriptions/acknowledged", {"notifications": 3}),
        ("notifications/subscriptions/acknowledged", {"_meta": 3}),
        ("notifications/resources/updated", {"uri": {}}),
        ("notifications/tools/list_changed", {"_meta": []}),
        ("notifications/novel", {"anything": 1}),
    ],
)
@pytest.mark.parametrize("cache", [False, True])
async def test_every_notification_reaches_on_notification(
    malformed: tuple[str, JSONObject],
    cache: bool,
    caplog: pytest.LogCaptureFixture,
    autojump_clock: MockClock,
) -> None:
    """Known or not, well-formed or not: as it came, and without a complaint of ours."""
    heard: list[Notification] = []
    server = Scripted(start=LEGACY_START)
    async with server.connect(on_notification=heard.append, cache=cache) as client:
        await server.notify(*malformed)
        await wait_all_tasks_blocked()
        assert not client.closed
    assert heard == [Notification(*malformed)]
    assert caplog.records == []


async def test_progress_and_cancellations_are_not_notices(autojump_clock: MockClock) -> None:
    """They belong to calls and questions, which hear of them."""
    heard: list[Notification] = []

    async def step(server: Scripted, request: JSONObject) -> Answer:
        await server.progress(request, 1)
        await server.notify("notifications/cancelled", {"requestId": 99})
        return text_result()

    server = Scripted({"tools/call": step})
    async with server.connect(on_notification=heard.append) as client:
        await client.call_tool("t", on_progress=lambda progress: None)
    assert heard == []


async def test_legacy_log_messages_come_at_any_time(autojump_clock: MockClock) -> None:
    """Without a call, too."""
    seen: list[object] = []
    server = Scripted(start=LEGACY_START)
    async with server.connect(on_log=lambda message: seen.append(message.logger)):
        await server.notify("notifications/message", {"level": "info", "data": 1, "logger": "db"})
        await wait_all_tasks_blocked()
    assert seen == ["db"]


async def _later(notice: object, seen: list[object]) -> None:
    await trio.lowlevel.checkpoint()
    seen.append(notice)


class _Awaited:
    def __init__(self, seen: list[object]) -> None:
        self.seen = seen

    async def __call__(self, notice: object) -> None:
        await _later(notice, self.seen)

    async def method(self, notice: object) -> None:
        await _later(notice, self.seen)


async def test_every_kind_of_coroutine_function_is_known_as_one(autojump_clock: MockClock) -> None:
    """Functions, methods, partials and objects whose call is asynchronous."""
    seen: list[object] = []
    kinds: list[Callable[[object], Awaitable[None]]] = [
        _Awaited(seen),
        _Awaited(seen).method,
        functools.partial(_later, seen=seen),
    ]
    async with trio.open_nursery() as nursery:
        for number, kind in enumerate(kinds):
            Callback(kind, "it", nursery)(number)
            await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert seen == [0, 1, 2]


async def test_a_plain_function_that_returns_an_awaitable(
    caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    """Nobody would await it: that is said, rather than left to a warning of the interpreter's."""
    seen: list[object] = []
    async with trio.open_nursery() as nursery:
        Callback[object](lambda notice: _later(notice, seen), "on_log", nursery)("x")
        nursery.cancel_scope.cancel()
    assert seen == []
    assert "on_log is a plain function that returned an awaitable" in caplog.text
    assert logging.getLevelName(caplog.records[0].levelno) == "ERROR"


STDERR_AND_NOISE = """
import sys
from mcp_trio import Server
print("complaint", file=sys.stderr, flush=True)
print("banner", flush=True)
Server("s").run()
"""


@pytest.mark.parametrize("is_async", [False, True])
async def test_stderr_and_noise_reach_callbacks_of_both_kinds(is_async: bool) -> None:
    """Coroutine functions too, and what they wait for holds up neither the server nor the reader.

    What they raise is logged.
    """
    seen: list[object] = []
    all_seen = trio.Event()

    def see(*notice: object) -> None:
        seen.append(notice)
        if len(seen) == 2:
            all_seen.set()
        raise RuntimeError("a callback that fails")

    async def see_later(*notice: object) -> None:
        await trio.sleep(0.01)
        see(*notice)

    callback: Callable[..., object] = see_later if is_async else see
    command = [sys.executable, "-c", STDERR_AND_NOISE]
    with trio.fail_after(10):
        async with mcp_trio.open_client(command, on_stderr=callback, on_noise=callback) as client:
            await client.ping()
            await all_seen.wait()
    assert sorted(seen, key=str) == [("complaint",), (b"banner", "not JSON")]
