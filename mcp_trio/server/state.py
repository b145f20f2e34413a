"""`requestState`: what a stateless server remembers by giving it to the client.

Between two rounds of a multi round-trip request the server keeps nothing. What it has to know
again travels through the client, as an opaque string, and so it comes back from somebody who may
have changed it, kept it for a year, or found it in another user's log. Therefore it is sealed:
a keyed hash (HMAC-SHA256) covers the content, the time at which it expires, and two things that
are *not* in the string but known to the server anyway: who is asking, and what for. A state that
belongs to another principal or to another request fails the same check as one that was tampered
with.

Sealed is not secret. The content can be read by the client, which is right here: it holds the
answers that this client gave itself. (MCP 2026-07-28, basic/patterns/mrtr, server requirements)
"""

import hashlib
import hmac
import json
import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from typing import Any, Final

from mcp_trio.protocol.errors import INVALID_PARAMS, MCPError
from mcp_trio.wire.jsonrpc import JSONObject

#: Seconds that a state is good for: as long as a person may take to answer a question.
STATE_LIFETIME: Final = 3600.0
#: The fewest bytes of a key. A shorter one can be found by trying.
KEY_BYTES: Final = 16
#: Keeps these seals apart from whatever else a program signs with the same key.
_PURPOSE: Final = b"mcp-trio requestState 1"
#: Params that differ between the rounds of one request.
_PER_ROUND: Final = frozenset({"_meta", "inputResponses", "requestState"})


class StateKeys:
    """The keys that seal and open request states.

    Args:
        keys: At least 16 random bytes each, or text of that length. The first one seals, all of
            them open, so a key is replaced by putting the new one in front of it. None makes one
            up, which only this process knows: several workers behind one address must be given
            the same keys.
        clock: Tells the time in seconds since 1970; another process reads what it said here.

    Raises:
        ValueError: There is no key, or one is too short.
    """

    def __init__(
        self, keys: Sequence[bytes | str] | None = None, *, clock: Callable[[], float] = time.time
    ) -> None:
        if isinstance(keys, bytes | str):
            raise ValueError("state_keys must be a list of keys, such as [key], and not one key")
        given = [secrets.token_bytes(32)] if keys is None else keys
        self._keys = [key.encode() if isinstance(key, str) else bytes(key) for key in given]
        self._clock = clock
        if not self._keys:
            raise ValueError("state_keys is empty; leave it out for a random key")
        for place, key in enumerate(self._keys):
            if len(key) < KEY_BYTES:
                text = f"state_keys[{place}] has {len(key)} bytes; it needs at least {KEY_BYTES}"
                raise ValueError(f"{text}, such as secrets.token_hex(16) makes")

    def __repr__(self) -> str:
        return f"<StateKeys: {len(self._keys)}>"

    def seal(
        self,
        content: JSONObject,
        *,
        principal: object,
        request_digest: str,
        lifetime: float = STATE_LIFETIME,
    ) -> str:
        """Make a `requestState` of a JSON object, good for ``lifetime`` seconds."""
        expiry = int(self._clock() + lifetime)
        body = json.dumps([expiry, content], separators=(",", ":")).encode()
        mark = self._mark(self._keys[0], body, principal, request_digest)
        return f"{_encode(body)}.{_encode(mark)}"

    def open(self, state: Any, *, principal: object, request_digest: str) -> JSONObject:
        """The content of a `requestState` that a client sent.

        Raises:
            MCPError: -32602, the state was not made here for this principal and this request, or
                it has expired.
        """
        try:
            body, mark = map(_decode, state.split("."))
        except (AttributeError, ValueError):
            raise _refused("it is not a string that this server made") from None
        marks = [self._mark(key, body, principal, request_digest) for key in self._keys]
        if not any(hmac.compare_digest(mark, known) for known in marks):
            raise _refused("it was changed, or made for another request, user or server")
        expiry, content = json.loads(body)  # only now, for only now it is known to be ours
        if self._clock() >= expiry:
            raise _refused("it has expired; send the request again without it")
        assert isinstance(content, dict)
        return content

    def _mark(self, key: bytes, body: bytes, principal: object, request_digest: str) -> bytes:
        bound_to = json.dumps([principal_name(principal), request_digest]).encode()
        return hmac.digest(key, b"\0".join((_PURPOSE, bound_to, body)), "sha256")


def request_digest(method: str, params: JSONObject) -> str:
    """What a request asks for, whichever round it is in: a digest of method and params."""
    salient = {name: value for name, value in params.items() if name not in _PER_ROUND}
    text = json.dumps([method, salient], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def principal_name(principal: object) -> str | None:
    """The name under which states and rate limits know a principal; None for nobody.

    A principal is text, or an object whose ``subject`` is the name. It must be the same for each
    request of one user, unlike an access token.
    """
    subject = getattr(principal, "subject", principal)
    return None if subject is None else str(subject)


def _refused(reason: str) -> MCPError:
    return MCPError(INVALID_PARAMS, f"Invalid params: 'requestState' is refused: {reason}.")


def _encode(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    data = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
    if _encode(data) != text:  # base64 has several spellings of some bytes; only ours is taken
        raise ValueError(text)
    return data
