"""The peer: calls, handlers, cancellation in both directions, bounds, and the end."""

import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
import trio.testing

from mcp_trio.exceptions import Closed, ConnectionClosed, MCPError, ProtocolError, RequestTimeout
from mcp_trio.incoming import Handler, IncomingRequest
from mcp_trio.outbox import Outbox
from mcp_trio.peer import MOST_BATCHED, Peer
from mcp_trio.wire.jsonrpc import (
    Batch,
    ErrorObject,
    ErrorResponse,
    JSONObject,
    Message,
    Notification,
    Received,
    Request,
    Response,
    decode,
)


async def _no_handler(request: IncomingRequest) -> JSONObject:
    raise MCPError(-32601, f"no {request.method}")


@attrs.define
class Rig:
    """A peer, and the other side of it played by the test."""

    peer: Peer
    outbox: Outbox
    notifications: list[Notification] = attrs.field(factory=list)
    strays: list[tuple[bytes, str]] = attrs.field(factory=list)

    async def sent(self) -> list[Received]:
        """What has been sent since, once everything has come to rest."""
        await trio.testing.wait_all_tasks_blocked()
        return self.sent_now()

    def sent_now(self) -> list[Received]:
        frames: list[bytes] = []
        while True:
            try:
                frames.append(self.outbox._receive.receive_nowait())
            except (trio.WouldBlock, trio.EndOfChannel):
                self.outbox.written(frames)
                return [decode(frame) for frame in frames]


@asynccontextmanager
async def open_rig(
    handle: Handler = _no_handler,
    *,
    limit: int = 1 << 20,
    max_in_flight: int = 1000,
    answers_strays: bool = False,
) -> AsyncIterator[Rig]:
    async with trio.open_nursery() as nursery:
        outbox = Outbox(limit)
        notifications: list[Notification] = []
        strays: list[tuple[bytes, str]] = []
        peer = Peer(
            nursery,
            outbox,
            handle=handle,
            on_notification=notifications.append,
            on_stray=lambda line, reason: strays.append((line, reason)),
            max_in_flight=max_in_flight,
            answers_strays=answers_strays,
        )
        yield Rig(peer, outbox, notifications, strays)
        nursery.cancel_scope.cancel()


def _progress(token: object, progress: float) -> Notification:
    return Notification("notifications/progress", {"progressToken": token, "progress": progress})


def _cancel(id: object) -> Notification:
    return Notification("notifications/cancelled", {"requestId": id})


# Asking


async def test_answers_reach_the_calls_that_asked(nursery: trio.Nursery) -> None:
    """Correlation by id, whatever the order in which the answers come."""
    results: dict[str, JSONObject] = {}

    async with open_rig() as rig:

        async def ask(method: str) -> None:
            results[method] = await rig.peer.request(method)

        for method in ("a", "b", "c"):
            nursery.start_soon(ask, method)
        requests = [message for message in await rig.sent() if isinstance(message, Request)]
        for request in reversed(requests):
            rig.peer.feed(Response(request.id, {"to": request.method}))
        await trio.testing.wait_all_tasks_blocked()
    assert results == {method: {"to": method} for method in ("a", "b", "c")}


async def test_errors_arrive_as_themselves(nursery: trio.Nursery) -> None:
    """An error answer is an MCPError with its code, message and data; nonsense a ProtocolError."""
    async with open_rig() as rig:

        async def fails(expected: type[Exception], answer: Callable[[Request], Received]) -> None:
            async def reply() -> None:
                [request] = await rig.sent()
                assert isinstance(request, Request)
                rig.peer.feed(answer(request))

            nursery.start_soon(reply)
            with pytest.raises(expected):
                await rig.peer.request("x")

        await fails(MCPError, lambda r: ErrorResponse(r.id, ErrorObject(-1, "no", {"why": 1})))
        await fails(
            ProtocolError,
            lambda r: decode(f'{{"jsonrpc":"2.0","id":{r.id},"result":["\\ud800"]}}'.encode()),
        )
        await fails(ProtocolError, lambda r: Batch((Response(r.id, {}),)))


async def test_progress_comes_in_order_and_before_the_result(nursery: trio.Nursery) -> None:
    """I9: progress in wire order, all of it before the result, though both arrive at once."""
    seen: list[float] = []
    async with open_rig() as rig:

        async def reply() -> None:
            [request] = await rig.sent()
            assert isinstance(request, Request)
            assert request.params is not None
            token = request.params["_meta"]["progressToken"]
            assert request.params["_meta"]["mine"] == 1
            for n in (1, 2, 3):
                rig.peer.feed(_progress(token, n))
            rig.peer.feed(Response(request.id, {}))
            rig.peer.feed(_progress(token, 4))

        async def on_progress(params: JSONObject) -> None:
            await trio.lowlevel.checkpoint()
            seen.append(params["progress"])

        nursery.start_soon(reply)
        await rig.peer.request("x", {"_meta": {"mine": 1}}, on_progress=on_progress)
        assert seen == [1, 2, 3]


async def test_slow_progress_keeps_the_newest_and_the_result(nursery: trio.Nursery) -> None:
    """I7: progress that nobody reads is bounded; the newest survives, and so does the result."""
    seen: list[float] = []
    async with open_rig() as rig:

        async def reply() -> None:
            [request] = await rig.sent()
            assert isinstance(request, Request)
            for n in range(10_000):
                rig.peer.feed(_progress(request.id, n))
            rig.peer.feed(Response(request.id, {"done": True}))

        nursery.start_soon(reply)
        result = await rig.peer.request("x", on_progress=lambda p: seen.append(p["progress"]))
    assert result == {"done": True}
    assert seen[-1] == 9999
    assert len(seen) < 1000


async def test_exception_of_on_progress_cancels_the_call(nursery: trio.Nursery) -> None:
    """What on_progress raises leaves the call, and the request is cancelled at the other side."""
    async with open_rig() as rig:

        async def reply() -> None:
            [request] = await rig.sent()
            assert isinstance(request, Request)
            rig.peer.feed(_progress(request.id, 1))

        def on_progress(params: JSONObject) -> None:
            raise KeyError("mine")

        nursery.start_soon(reply)
        with pytest.raises(KeyError, match="mine"):
            await rig.peer.request("x", on_progress=on_progress)
        assert rig.sent_now() == [_cancel(1)]


async def test_cancelled_call_is_cancelled_at_the_peer_and_its_answer_dropped() -> None:
    """I3: giving up tells the other side; the late answer is no stray."""
    async with open_rig() as rig:
        with trio.move_on_after(0.01):
            await rig.peer.request("x")
        _, cancelled = rig.sent_now()
        assert cancelled == _cancel(1)
        rig.peer.feed(_progress(1, 1))
        rig.peer.feed(Response(1, {}))
        assert rig.strays == []


async def test_call_that_was_never_sent_is_not_cancelled_at_the_peer() -> None:
    """A cancellation may only name a request that was sent."""
    async with open_rig() as rig:
        with trio.CancelScope() as scope:
            scope.cancel()
            await rig.peer.request("x")
        with pytest.raises(ValueError, match="nan"):
            await rig.peer.request("x", {"n": math.nan})
        assert rig.sent_now() == []


async def test_initialize_is_never_cancelled_on_the_wire() -> None:
    """The spec forbids cancelling `initialize`, by either side."""

    async def handle(request: IncomingRequest) -> JSONObject:
        await trio.lowlevel.checkpoint()
        return {"fine": True}

    async with open_rig(handle) as rig:
        with trio.move_on_after(0.01):
            await rig.peer.request("initialize", cancel_notice=False)
        assert len(rig.sent_now()) == 1
        rig.peer.feed(Request(9, "initialize"))
        rig.peer.feed(_cancel(9))
        assert await rig.sent() == [Response(9, {"fine": True})]


async def test_timeout_cancels_and_says_which(autojump_clock: trio.testing.MockClock) -> None:
    """A timeout is its own exception, names the method, and travels like a cancellation."""
    async with open_rig() as rig:
        with pytest.raises(RequestTimeout, match="x had no answer within 3 s"):
            await rig.peer.request("x", timeout=3)
        assert trio.current_time() == pytest.approx(3)
        assert rig.sent_now()[1:] == [_cancel(1)]


async def test_progress_extends_a_timeout_up_to_its_ceiling(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """I17, pitfall 30: progress starts the time anew, but not for ever."""
    async with open_rig() as rig:

        async def keep_going() -> None:
            for n in range(1000):
                await trio.sleep(2)
                rig.peer.feed(_progress(1, n))

        nursery.start_soon(keep_going)
        with pytest.raises(RequestTimeout):
            await rig.peer.request("x", on_progress=lambda p: None, timeout=3, max_timeout=11)
        assert trio.current_time() == pytest.approx(11)
        nursery.cancel_scope.cancel()


async def test_ceiling_without_a_timeout(autojump_clock: trio.testing.MockClock) -> None:
    """A ceiling alone is a limit, and the error names the time that ran out."""
    async with open_rig() as rig:
        with pytest.raises(RequestTimeout, match="no answer within 5 s"):
            await rig.peer.request("x", max_timeout=5)
        assert trio.current_time() == pytest.approx(5)
        with pytest.raises(RequestTimeout, match="no answer within 2 s"):
            await rig.peer.request("x", timeout=3, max_timeout=2)


async def test_notifications_are_checkpoints() -> None:
    """I2: a loop that only notifies lets others run, and can be cancelled."""
    async with open_rig() as rig:
        with trio.testing.assert_checkpoints():
            await rig.peer.notify("n")


async def test_time_of_a_person_does_not_count(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """A call's clock stands still while a person is asked, for calls made meanwhile too."""
    async with open_rig() as rig:

        async def person() -> None:
            await trio.sleep(1)
            with rig.peer.person_answering():
                await trio.sleep(1000)

        async def late_call() -> None:
            await trio.sleep(500)
            with pytest.raises(RequestTimeout):
                await rig.peer.request("y", timeout=4)
            assert trio.current_time() == pytest.approx(1001 + 4)

        nursery.start_soon(person)
        nursery.start_soon(late_call)
        with pytest.raises(RequestTimeout):
            await rig.peer.request("x", timeout=3)
        assert trio.current_time() == pytest.approx(1001 + 2)


# Answering


async def test_handler_runs_in_its_own_scope(nursery: trio.Nursery) -> None:
    """One cancelled handler sends nothing more and leaves the others alone."""
    go_on = trio.Event()
    stopped: list[object] = []

    async def handle(request: IncomingRequest) -> JSONObject:
        try:
            await go_on.wait()
        except trio.Cancelled:
            stopped.append(request.id)
            with trio.CancelScope(deadline=trio.current_time() + 5, shield=True):
                await request.notify("too/late")
            raise
        return {"id": request.id}

    async with open_rig(handle) as rig:
        for id in (1, "1", 2):
            rig.peer.feed(Request(id, "x"))
        await trio.testing.wait_all_tasks_blocked()
        rig.peer.feed(_cancel("1"))
        assert await rig.sent() == []
        assert stopped == ["1"]
        go_on.set()
        answers = await rig.sent()
        assert sorted(answers, key=str) == [Response(1, {"id": 1}), Response(2, {"id": 2})]


@pytest.mark.parametrize("ending", ["answered", "cancelled"])
async def test_nothing_is_asked_for_a_request_that_is_over(ending: str) -> None:
    """I3: neither from behind a shield nor from a task of somebody else, before or meanwhile."""
    handling: list[IncomingRequest] = []
    go_on = trio.Event()

    async def handle(request: IncomingRequest) -> JSONObject:
        handling.append(request)
        try:
            await go_on.wait()
        except trio.Cancelled:
            with trio.CancelScope(shield=True), pytest.raises(RuntimeError, match="cancelled"):
                await request.request("ask/late")
            raise
        return {}

    async with open_rig(handle) as rig, trio.open_nursery() as others:

        async def ask_meanwhile() -> None:
            with pytest.raises(RuntimeError, match="answered or cancelled"):
                await handling[0].request("ask/early")

        rig.peer.feed(Request(1, "x"))
        await trio.testing.wait_all_tasks_blocked()
        others.start_soon(ask_meanwhile)
        (asked,) = await rig.sent()
        assert isinstance(asked, Request)
        if ending == "cancelled":
            rig.peer.feed(_cancel(1))
        go_on.set()
        sent = await rig.sent()
        assert _cancel(asked.id) in sent
        assert len(sent) == (1 if ending == "cancelled" else 2)
        with pytest.raises(RuntimeError, match="answered"):
            await handling[0].request("ask/late")
        assert await rig.sent() == []


async def test_cancel_that_races_the_answer_wins() -> None:
    """Pitfall 26: cancelled after its last checkpoint, a handler is silent all the same."""
    peers: list[Peer] = []

    async def handle(request: IncomingRequest) -> JSONObject:
        peers[0].feed(_cancel(request.id))
        return {}

    async with open_rig(handle) as rig:
        peers.append(rig.peer)
        rig.peer.feed(Request(1, "x"))
        assert await rig.sent() == []
        rig.peer.feed(Request(1, "x"))  # and its id is free again
        assert await rig.sent() == []


@pytest.mark.parametrize("wrapped", [False, True])
async def test_errors_of_a_handler_go_out_without_a_traceback(wrapped: bool) -> None:
    """An MCPError goes out as it is, also out of a nursery of the handler; others say little."""

    async def handle(request: IncomingRequest) -> JSONObject:
        error = MCPError(-5, "mine", [1]) if request.method == "mcp" else ValueError("secret")
        if wrapped:
            async with trio.open_nursery():
                raise error
        raise error

    async with open_rig(handle) as rig:
        rig.peer.feed(Request(1, "mcp"))
        rig.peer.feed(Request(2, "other"))
        first, second = sorted(await rig.sent(), key=str)
    assert first == ErrorResponse(1, ErrorObject(-5, "mine", [1]))
    assert isinstance(second, ErrorResponse)
    assert second.error.code == -32603
    assert "secret" not in second.error.message


async def test_result_that_is_no_json_is_an_error_of_that_request() -> None:
    """What cannot be encoded fails its own request and nothing else."""

    async def handle(request: IncomingRequest) -> JSONObject:
        return {"n": math.inf if request.id == 1 else 1}

    async with open_rig(handle) as rig:
        rig.peer.feed(Request(1, "x"))
        rig.peer.feed(Request(2, "x"))
        answers = {message.id: message for message in await rig.sent() if hasattr(message, "id")}
    assert isinstance(answers[1], ErrorResponse)
    assert answers[2] == Response(2, {"n": 1})


async def test_second_request_with_an_open_id_is_refused() -> None:
    """I7: an id in flight is refused for a second request; the first one is still answered."""
    go_on = trio.Event()

    async def handle(request: IncomingRequest) -> JSONObject:
        await go_on.wait()
        return {}

    async with open_rig(handle) as rig:
        rig.peer.feed(Request(1, "x"))
        rig.peer.feed(Request(1, "x"))
        [refusal] = await rig.sent()
        assert isinstance(refusal, ErrorResponse)
        go_on.set()
        assert await rig.sent() == [Response(1, {})]


async def test_handlers_may_ask_back_to_any_depth(nursery: trio.Nursery) -> None:
    """I8: a handler asks the side that asked it, which asks back, and so on."""
    depth = 20
    rigs: list[Rig] = []

    async def handle(request: IncomingRequest) -> JSONObject:
        left = request.params["left"]
        return await request.request("x", {"left": left - 1}) if left else {"bottom": True}

    async with open_rig(handle) as a, open_rig(handle) as b:
        rigs += [a, b]

        async def carry(sender: Rig, receiver: Rig) -> None:
            while True:
                frames = await sender.outbox.take()
                sender.outbox.written(frames)
                for frame in frames:
                    receiver.peer.feed(decode(frame))

        nursery.start_soon(carry, a, b)
        nursery.start_soon(carry, b, a)
        assert await a.peer.request("x", {"left": depth}) == {"bottom": True}
        nursery.cancel_scope.cancel()


# Batches


async def test_batch_is_answered_as_one_array() -> None:
    """2025-03-26: one array of answers, without the cancelled, and not at all if none is due."""

    async def handle(request: IncomingRequest) -> JSONObject:
        if request.method == "wait":
            await trio.sleep_forever()
        return {}

    async with open_rig(handle) as rig:
        rig.peer.batches_allowed = True
        batch: tuple[Message, ...] = (
            Request(1, "x"),
            Request(2, "wait"),
            Request(1, "again"),
            Notification("n"),
            Request(3, "x"),
        )
        rig.peer.feed(Batch(batch))
        assert await rig.sent() == []
        rig.peer.feed(_cancel(2))
        [answer] = await rig.sent()
        assert isinstance(answer, Batch)
        assert sorted(getattr(item, "id", 0) for item in answer.items) == [1, 1, 3]
        assert rig.notifications == [Notification("n")]
        rig.peer.feed(Batch((Notification("n"),)))
        assert await rig.sent() == []


async def test_result_that_is_no_json_costs_a_batch_nothing_else() -> None:
    """One answer of a batch that cannot be sent is an error; the others are what they are."""

    async def handle(request: IncomingRequest) -> JSONObject:
        return {"n": math.nan if request.id == 1 else 2}

    async with open_rig(handle) as rig:
        rig.peer.batches_allowed = True
        rig.peer.feed(Batch((Request(1, "x"), Request(2, "x"))))
        [answer] = await rig.sent()
        assert isinstance(answer, Batch)
        assert {type(item) for item in answer.items} == {ErrorResponse, Response}


async def test_batches_that_nobody_reads_are_bounded() -> None:
    """I7: a batch whose answers wait for room counts as open, so such batches do not pile up."""

    async def handle(request: IncomingRequest) -> JSONObject:
        return {}

    async with open_rig(handle, limit=100, max_in_flight=10) as rig:
        rig.peer.batches_allowed = True
        for id in range(1000):
            rig.peer.feed(Batch((Request(id, "x"),)))
            await trio.testing.wait_all_tasks_blocked()
            if rig.peer.closed:
                break
            assert len(rig.peer.serving) <= 10
        assert rig.peer.closed is not None
        assert "does not read" in rig.peer.closed.reason


async def test_batches_that_never_end_are_bounded() -> None:
    """I7: answers that wait for the last of their batch are bounded; the rest leave alone."""

    async def handle(request: IncomingRequest) -> JSONObject:
        if request.method == "wait":
            await trio.sleep_forever()
        return {}

    async with open_rig(handle) as rig:
        rig.peer.batches_allowed = True
        half = MOST_BATCHED // 2
        for n in (0, half):
            refused = [Request(n, "x") for _ in range(half - 1)]
            rig.peer.feed(Batch((Request(n, "wait"), *refused)))
        assert await rig.sent() == []
        rig.peer.feed(Batch((Request("a", "x"), Request("b", "x"))))
        alone = await rig.sent()
        assert sorted(item.id for item in alone if isinstance(item, Response)) == ["a", "b"]
        rig.peer.feed(_cancel(0))
        [answer] = await rig.sent()
        assert isinstance(answer, Batch)
        assert len(answer.items) == half - 1
        rig.peer.feed(Batch((Request("a", "x"), Request("b", "x"))))
        assert [type(item) for item in await rig.sent()] == [Batch]


async def test_cancelling_one_request_of_a_batch_keeps_the_answers_of_the_others() -> None:
    """A batch that waits for room is sent though the request that was last is cancelled."""

    async def handle(request: IncomingRequest) -> JSONObject:
        return {}

    async with open_rig(handle, limit=10) as rig:
        rig.peer.batches_allowed = True
        rig.peer.feed(Request(0, "x"))
        await trio.testing.wait_all_tasks_blocked()
        rig.peer.feed(Batch((Request(1, "x"), Request(2, "x"))))
        await trio.testing.wait_all_tasks_blocked()
        [last] = rig.peer.serving
        rig.peer.feed(_cancel(last.id))
        await trio.testing.wait_all_tasks_blocked()
        assert await rig.sent() == [Response(0, {})]
        [answer] = await rig.sent()
        assert isinstance(answer, Batch)
        assert {getattr(item, "id", 0) for item in answer.items} == {1, 2}


async def test_batch_is_refused_outside_its_revision() -> None:
    """Pitfall 24: elsewhere a batch is one invalid request, and no handler runs."""
    async with open_rig(answers_strays=True) as rig:
        rig.peer.feed(Batch((Request(1, "x"), Notification("n"))))
        rig.peer.feed(Batch(()))
        first, second = await rig.sent()
        assert isinstance(first, ErrorResponse)
        assert first.id is None
        assert first.error.code == second.error.code == -32600  # type: ignore[union-attr] # compared above
        assert rig.notifications == []


# Noise


async def test_noise_is_reported_and_answered_only_by_a_server() -> None:
    """I11: a client reports what makes no sense; a server answers it too, without an id."""
    for answers in (False, True):
        async with open_rig(answers_strays=answers) as rig:
            rig.peer.feed(decode(b"Starting server..."))
            rig.peer.feed(decode(b'{"jsonrpc":"2.0"}'))
            rig.peer.feed(Response(77, {}))
            sent = await rig.sent()
            assert len(rig.strays) == 3
            codes = [m.error.code for m in sent if isinstance(m, ErrorResponse) and m.id is None]
            assert codes == ([-32700, -32600] if answers else [])


async def test_a_flood_of_noise_is_not_logged_in_full(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    """I7: who writes nothing but noise fills neither the log nor the time of who reads it."""
    peer = Peer(nursery, Outbox(), handle=_no_handler, on_notification=print)
    for number in range(10_000):
        peer.feed(decode(b"noise %d" % number))
    logged = [record.getMessage() for record in caplog.records]
    assert "noise 0'" in logged[0]
    assert "number 8192" in logged[-1]
    assert 20 < len(logged) < 40


async def test_callbacks_that_raise_hurt_nobody() -> None:
    """Pitfall 28: a notification handler or a hook that raises is logged, no more."""

    def explode(*args: object) -> None:
        raise RuntimeError("hook")

    async with trio.open_nursery() as nursery:
        peer = Peer(
            nursery, Outbox(), handle=_no_handler, on_notification=explode, on_stray=explode
        )
        peer.feed(Notification("n"))
        peer.feed(decode(b"noise"))
        assert peer.closed is None


# Bounds


async def test_requests_beyond_the_limit_are_refused_but_answers_are_read() -> None:
    """I7: more requests than the limit are refused; cancellations are always read."""

    async def handle(request: IncomingRequest) -> JSONObject:
        await trio.sleep_forever()
        raise AssertionError

    async with open_rig(handle, max_in_flight=3) as rig:
        for id in range(5):
            rig.peer.feed(Request(id, "x"))
        refused = await rig.sent()
        assert [m.id for m in refused if isinstance(m, ErrorResponse)] == [3, 4]
        rig.peer.feed(_cancel(0))
        await trio.testing.wait_all_tasks_blocked()
        rig.peer.feed(Request(5, "x"))
        assert await rig.sent() == []
        assert [request.id for request in rig.peer.serving] == [1, 2, 5]


async def test_peer_that_floods_and_does_not_read_is_given_up() -> None:
    """I7: with the outbox full, answers wait; with the limit of requests reached, it closes."""

    async def handle(request: IncomingRequest) -> JSONObject:
        return {"text": "x" * 1000}

    async with open_rig(handle, limit=10_000, max_in_flight=100) as rig:
        for id in range(1000):
            rig.peer.feed(Request(id, "x"))
            await trio.lowlevel.checkpoint()
            if rig.peer.closed:
                break
        await trio.testing.wait_all_tasks_blocked()
        assert rig.peer.closed is not None
        assert "does not read" in rig.peer.closed.reason
        assert rig.peer.serving == ()


async def test_full_outbox_makes_senders_wait_and_cancellations_pass() -> None:
    """I7: senders wait for room; giving up while waiting sends nothing; cancellations have room."""
    async with open_rig(limit=100) as rig:
        with trio.move_on_after(0.01):
            await rig.peer.request("x", {"text": "y" * 200})  # accepted: there was room
        with trio.move_on_after(0.01) as scope:
            await rig.peer.request("z")
        assert scope.cancelled_caught
        _, cancelled = rig.sent_now()
        assert cancelled == _cancel(1)


async def test_who_computes_and_notifies_in_a_loop_lets_others_run() -> None:
    """I2: sending is a checkpoint with room, too: reports leave meanwhile, cancellation arrives."""
    reported: list[int] = []

    async def handle(request: IncomingRequest) -> JSONObject:
        for step in range(1000):  # a second of computing in each, and no other checkpoint
            await request.notify("notifications/progress", {"progress": step})
            reported.append(step)
        return {}

    async with open_rig(handle) as rig:
        with trio.testing.assert_checkpoints():
            await rig.peer.notify("n")
        rig.peer.feed(Request(1, "x"))
        while not reported:
            await trio.lowlevel.checkpoint()
        assert len(rig.sent_now()) < 10
        rig.peer.feed(_cancel(1))
        await trio.testing.wait_all_tasks_blocked()
        assert len(reported) < 10
        assert rig.peer.serving == ()


# The end


async def test_close_wakes_everybody_with_an_error_of_its_own(nursery: trio.Nursery) -> None:
    """I4: each pending call raises a fresh ConnectionClosed; handlers are cancelled."""
    raised: list[ConnectionClosed] = []
    stopped = trio.Event()

    async def handle(request: IncomingRequest) -> JSONObject:
        try:
            await trio.sleep_forever()
        finally:
            stopped.set()
        raise AssertionError

    async with open_rig(handle) as rig:

        async def ask() -> None:
            with pytest.raises(ConnectionClosed) as info:
                await rig.peer.request("x")
            raised.append(info.value)

        rig.peer.feed(Request(1, "x"))
        nursery.start_soon(ask)
        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        rig.peer.close(Closed("it died", -9, "last words"))
        rig.peer.close(Closed("second reason"))
        await stopped.wait()
        await trio.testing.wait_all_tasks_blocked()
        assert raised[0] is not raised[1]
        assert raised[0].exit_status == -9
        assert "it died" in str(raised[0])
        assert "last words" in str(raised[0])
        for dead in (rig.peer.request("x"), rig.peer.notify("n")):
            with pytest.raises(ConnectionClosed, match="it died"):
                await dead
        rig.peer.feed(Request(2, "x"))
        assert rig.peer.serving == ()


async def test_finish_lets_handlers_finish_but_not_wait_for_the_peer(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """When input ends: handlers that can finish do; those that ask back or listen cannot."""
    ended: list[str] = []

    async def handle(request: IncomingRequest) -> JSONObject:
        try:
            if request.method == "listen":
                request.open_ended = True
                await trio.sleep_forever()
            if request.method == "ask":
                with pytest.raises(ConnectionClosed):
                    await request.request("back")
                with pytest.raises(ConnectionClosed):
                    await request.request("again")
            await trio.sleep(1)
        finally:
            ended.append(request.method)
        return {}

    async with open_rig(handle) as rig, trio.open_nursery() as nursery:
        for id, method in enumerate(["listen", "ask", "work"]):
            rig.peer.feed(Request(id, method))
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(rig.peer.finish)
        await trio.sleep(2)
        sent = rig.sent_now()
        assert ended[0] == "listen"
        assert sorted(m.id for m in sent if isinstance(m, Response)) == [1, 2]


async def test_several_may_wait_until_a_request_is_over(nursery: trio.Nursery) -> None:
    """Requests whose turn comes after another one's all wait for the same event."""
    go_on = trio.Event()
    over: list[int] = []

    async def handle(request: IncomingRequest) -> JSONObject:
        await go_on.wait()
        return {}

    async def wait(number: int, request: IncomingRequest) -> None:
        await request.wait_over()
        over.append(number)

    async with open_rig(handle) as rig:
        rig.peer.feed(Request(1, "x"))
        [request] = rig.peer.serving
        for number in (1, 2, 3):
            nursery.start_soon(wait, number, request)
        await trio.testing.wait_all_tasks_blocked()
        assert over == []
        go_on.set()
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(over) == [1, 2, 3]
