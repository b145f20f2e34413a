"""The sealed `requestState`: what we made comes back, and nothing else is taken for it."""

import base64
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_trio.protocol.errors import INVALID_PARAMS, MCPError
from mcp_trio.server.state import KEY_BYTES, StateKeys, principal_name, request_digest

ALICE: dict[str, Any] = {"principal": "alice", "request_digest": "d1"}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


class Clock:
    """A wall clock that a test sets."""

    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_what_is_sealed_opens(content: dict[str, Any]) -> None:
    """Protects the round trip, whatever the answers are."""
    keys = StateKeys()
    assert keys.open(keys.seal(content, **ALICE), **ALICE) == content


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_no_changed_character_is_accepted(data: st.DataObject) -> None:
    """Protects integrity: each character of a state matters."""
    keys = StateKeys([b"k" * 32])
    state = keys.seal({"answers": {"who": {"action": "accept"}}}, **ALICE)
    place = data.draw(st.integers(0, len(state) - 1))
    other = data.draw(st.characters(min_codepoint=33, max_codepoint=300))
    changed = state[:place] + other + state[place + 1 :]
    if changed != state:
        with pytest.raises(MCPError) as caught:
            keys.open(changed, **ALICE)
        assert caught.value.code == INVALID_PARAMS


@pytest.mark.parametrize("added", ["=", "\n", "!", " "])
def test_a_state_has_one_spelling(added: str) -> None:
    """Protects whoever compares states: base64 readers skip such characters, we do not."""
    keys = StateKeys()
    state = keys.seal({}, **ALICE)
    for place in (0, 5, state.index("."), len(state)):
        with pytest.raises(MCPError):
            keys.open(state[:place] + added + state[place:], **ALICE)


@pytest.mark.parametrize(
    "foreign", [{"principal": "bob"}, {"principal": None}, {"request_digest": "d2"}]
)
def test_a_state_belongs_to_a_principal_and_a_request(foreign: dict[str, Any]) -> None:
    """Protects against replay by another user, or on another request."""
    keys = StateKeys()
    with pytest.raises(MCPError, match="another request, user or server"):
        keys.open(keys.seal({}, **ALICE), **{**ALICE, **foreign})


def test_a_state_expires() -> None:
    """Protects against replay later."""
    clock = Clock()
    keys = StateKeys(clock=clock)
    state = keys.seal({"n": 1}, **ALICE, lifetime=60)
    clock.now += 59
    assert keys.open(state, **ALICE) == {"n": 1}
    clock.now += 2
    with pytest.raises(MCPError, match="has expired"):
        keys.open(state, **ALICE)


@pytest.mark.parametrize("state", [5, True, {}, [], "", "x", "a.b.c", ".", "é.é", "a" * 10_000])
def test_what_is_no_state_is_refused(state: Any) -> None:
    """Protects the parser: an attacker chooses this value freely."""
    with pytest.raises(MCPError) as caught:
        StateKeys().open(state, **ALICE)
    assert caught.value.code == INVALID_PARAMS
    assert "requestState" in caught.value.message


def test_keys_rotate() -> None:
    """Protects rotation: the first key seals, all of them open, a removed one no longer does."""
    old, new = "o" * 32, b"n" * 32
    state = StateKeys([old]).seal({"n": 1}, **ALICE)
    assert StateKeys([new, old]).open(state, **ALICE) == {"n": 1}
    assert StateKeys([new]).open(StateKeys([new, old]).seal({}, **ALICE), **ALICE) == {}
    with pytest.raises(MCPError):
        StateKeys([new]).open(state, **ALICE)


def test_random_keys_differ() -> None:
    """Protects the default: without keys, nobody else can have made a state."""
    with pytest.raises(MCPError):
        StateKeys().open(StateKeys().seal({}, **ALICE), **ALICE)


@pytest.mark.parametrize(
    ("keys", "message"),
    [([], "empty"), (["short"], "at least 16"), ("k" * 32, "a list"), (b"k" * 32, "a list")],
)
def test_unusable_keys_are_refused(keys: Any, message: str) -> None:
    """Protects against keys that protect nothing; one string is a sequence of short ones."""
    with pytest.raises(ValueError, match=message):
        StateKeys(keys)


def test_keys_are_not_shown() -> None:
    """Protects the secret: neither repr nor an error prints a key."""
    assert "kkkk" not in repr(StateKeys(["k" * 32]))
    with pytest.raises(ValueError, match="bytes") as caught:
        StateKeys(["z" * (KEY_BYTES - 1)])
    assert "zz" not in str(caught.value)


def test_the_principal_is_not_in_the_state() -> None:
    """Protects privacy: who asked is checked, but not written down."""
    body = StateKeys().seal({}, principal="alice", request_digest="d").split(".")[0]
    assert b"alice" not in base64.urlsafe_b64decode(body + "==")


def test_the_digest_covers_what_is_asked_for_and_not_the_round() -> None:
    """Protects the binding: arguments count, in any order; `_meta` and answers do not."""
    first = {"name": "t", "arguments": {"a": 1, "b": 2}, "_meta": {"x": 1}}
    again = {"arguments": {"b": 2, "a": 1}, "name": "t", "inputResponses": {}, "requestState": "s"}
    assert request_digest("tools/call", first) == request_digest("tools/call", again)
    assert request_digest("tools/call", first) != request_digest("prompts/get", first)
    other = {**first, "arguments": {"a": 1, "b": 3}}
    assert request_digest("tools/call", first) != request_digest("tools/call", other)


def test_a_principal_is_text_or_has_a_subject() -> None:
    """Protects the contract with authorization: a new token is still the same user."""

    class Token:
        subject = "alice"

    assert [principal_name(p) for p in (None, "alice", Token())] == [None, "alice", "alice"]
