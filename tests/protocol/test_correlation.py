"""Correlation against a plain dictionary, over a wire that loses, delays, repeats and reorders."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mcp_trio.protocol.correlation import (
    Answered,
    Asked,
    CancelAsked,
    Correlation,
    Event,
    Late,
    Notified,
    Progressed,
    Refused,
    Stray,
    unbatch,
)
from mcp_trio.wire.jsonrpc import (
    Batch,
    ErrorObject,
    ErrorResponse,
    Malformed,
    Message,
    Noise,
    Notification,
    Request,
    Response,
    decode,
    encode,
)

SIDES = st.sampled_from("AB")
OTHER = {"A": "B", "B": "A"}


class TwoPeers(RuleBasedStateMachine):
    """Two ends, a wire in each direction, and a dictionary of what each end has to believe."""

    @initialize(limit=st.integers(1, 5))
    def open(self, limit: int) -> None:
        self.limit = limit
        self.ends = {side: Correlation(max_in_flight=limit) for side in "AB"}
        self.wires: dict[str, list[bytes]] = {"A": [], "B": []}  # by receiver
        self.asked: dict[str, dict[int, str]] = {"A": {}, "B": {}}  # open, answered, abandoned
        self.owed: dict[str, set[int]] = {"A": set(), "B": set()}

    def send(self, to: str, message: Message) -> None:
        self.wires[to].append(encode(message))

    @rule(side=SIDES)
    def ask(self, side: str) -> None:
        id = self.ends[side].open_outgoing()
        assert id not in self.asked[side], "an id was used twice"
        self.asked[side][id] = "open"
        self.send(OTHER[side], Request(id, "x"))

    @rule(side=SIDES, data=st.data())
    def abandon(self, side: str, data: st.DataObject) -> None:
        if ids := sorted(self.asked[side]):
            id = data.draw(st.sampled_from(ids))
            was_open = self.asked[side][id] == "open"
            assert self.ends[side].abandon_outgoing(id) is was_open
            if was_open:
                self.asked[side][id] = "abandoned"
                self.send(OTHER[side], Notification("notifications/cancelled", {"requestId": id}))

    @rule(side=SIDES, data=st.data(), fails=st.booleans())
    def answer(self, side: str, data: st.DataObject, fails: bool) -> None:
        if ids := sorted(self.owed[side]):
            id = data.draw(st.sampled_from(ids))
            assert self.ends[side].close_incoming(id)
            self.owed[side].remove(id)
            answer = ErrorResponse(id, ErrorObject(1, "no")) if fails else Response(id, {"id": id})
            self.send(OTHER[side], answer)

    @rule(side=SIDES, data=st.data())
    def progress(self, side: str, data: st.DataObject) -> None:
        if ids := sorted(self.owed[side]):
            id = data.draw(st.sampled_from(ids))
            self.send(
                OTHER[side],
                Notification("notifications/progress", {"progressToken": id, "progress": 1}),
            )

    @precondition(lambda self: any(self.wires.values()))
    @rule(data=st.data(), fate=st.sampled_from(["once", "once", "once", "lost", "twice"]))
    def deliver(self, data: st.DataObject, fate: str) -> None:
        to = data.draw(st.sampled_from([side for side, wire in self.wires.items() if wire]))
        wire = self.wires[to]
        frame = wire.pop(data.draw(st.integers(0, len(wire) - 1)))
        for _ in range({"lost": 0, "once": 1, "twice": 2}[fate]):
            received = decode(frame)
            assert not isinstance(received, Batch)
            self.check(to, self.ends[to].receive(received))

    def check(self, side: str, event: Event) -> None:
        match event:
            case Answered(id, answer):
                assert self.asked[side][int(id)] == "open"
                assert not isinstance(answer, Malformed)
                assert answer.id == id
                self.asked[side][int(id)] = "answered"
            case Progressed(id):
                assert self.asked[side][int(id)] == "open"
            case Asked(request):
                assert request.id not in self.owed[side]
                assert len(self.owed[side]) < self.limit
                self.owed[side].add(int(request.id))
            case Refused(id):
                assert id in self.owed[side] or len(self.owed[side]) == self.limit
                self.send(OTHER[side], ErrorResponse(id, ErrorObject(1, "refused")))
            case CancelAsked(id):
                assert id in self.owed[side]
                self.ends[side].close_incoming(id)
                self.owed[side].remove(int(id))
            case Late(id):
                assert self.asked[side].get(int(id)) != "open" or id not in self.owed[side]
            case Stray(reason=reason):
                assert reason
            case Notified():
                raise AssertionError("nobody sent such a thing")

    @invariant()
    def tables_agree(self) -> None:
        for side in "AB" if hasattr(self, "ends") else "":
            open_ids = [id for id, state in self.asked[side].items() if state == "open"]
            assert list(self.ends[side].outgoing) == open_ids
            assert set(self.ends[side].incoming) == self.owed[side]


TestTwoPeers = TwoPeers.TestCase
TestTwoPeers.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)


def test_ids_are_not_confused() -> None:
    """I15: the string "1" answers nothing that the integer 1 asked."""
    end = Correlation()
    id = end.open_outgoing()
    assert isinstance(end.receive(Response(str(id), {})), Stray)
    assert end.receive(Response(id, {})) == Answered(id, Response(id, {}))


def test_second_answer_is_reported_not_fatal() -> None:
    """Pitfall 23: a second answer to one id is a stray, and so is one to an unknown id."""
    end = Correlation()
    id = end.open_outgoing()
    assert isinstance(end.receive(Response(id, {})), Answered)
    assert isinstance(end.receive(Response(id, {})), Stray)
    assert isinstance(end.receive(ErrorResponse(None, ErrorObject(1, "?"))), Stray)


def test_progress_token_zero_and_foreign_tokens() -> None:
    """Pitfall 27: progress for a token that is no request of ours reaches nobody."""
    end = Correlation()
    end.open_outgoing()
    for token in (0, "1", None, True, [1], 1.0):
        params = {"progressToken": token, "progress": 1}
        assert isinstance(end.receive(Notification("notifications/progress", params)), Stray)


def test_unreadable_answer_fails_its_call_and_unreadable_request_is_refused() -> None:
    """I11: what cannot be decoded strictly still reaches the request that it is about."""
    end = Correlation()
    id = end.open_outgoing()
    answer = decode(b'{"jsonrpc":"2.0","id":%d,"result":{"text":"\\ud800"}}' % id)
    assert isinstance(answer, Malformed)
    assert end.receive(answer) == Answered(id, answer)
    request = decode(b'{"jsonrpc":"2.0","id":7,"method":"x","params":{"n":NaN}}')
    assert isinstance(request, Malformed)
    refused = end.receive(request)
    assert isinstance(refused, Refused)
    assert refused.id == 7
    assert isinstance(end.receive(Noise(b"[nodemon] starting")), Stray)


def test_server_may_end_a_subscription_only() -> None:
    """A cancellation by the server ends `subscriptions/listen`, in either order with its result."""
    end = Correlation()
    call, listen = end.open_outgoing(), end.open_outgoing(endable=True)
    cancel = "notifications/cancelled"
    assert isinstance(end.receive(Notification(cancel, {"requestId": call})), Late)
    assert call in end.outgoing
    ended = end.receive(Notification(cancel, {"requestId": listen}))
    assert ended == Answered(listen, Response(listen, {}))
    assert isinstance(end.receive(Response(listen, {})), Late)


def test_memory_of_abandoned_requests_is_bounded() -> None:
    """I7: a peer that never answers cannot make us remember for ever."""
    end = Correlation()
    for _ in range(3000):
        end.abandon_outgoing(end.open_outgoing())
    assert len(end._abandoned) == 1024


def test_batch_where_it_is_not_allowed_fails_the_calls_in_it() -> None:
    """Pitfall 24: nobody waits for ever for an answer that came in an illegal batch, be it sound
    or not; of the rest only the whole is complained about, once."""
    unsound = Malformed(-32600, "no result", 4, False, b"")
    batch = Batch((Response(1, {}), Request(2, "x"), Notification("y"), Response(3, {}), unsound))
    whole, *answers = unbatch(batch, allowed=False, waiting=[1, 4])
    assert isinstance(whole, Malformed)
    assert whole.id is None
    assert [answer.id for answer in answers if isinstance(answer, Malformed)] == [1, 4]
    assert len(answers) == 2
    assert list(unbatch(batch, allowed=True)) == list(batch.items)
