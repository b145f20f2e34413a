"""Every exception that a program has to know, in one place.

`MCPError`, `ProtocolError` and `UnsupportedProtocolVersion` come from the protocol itself. The two
defined here belong to the connection: it ended, or an answer took too long.
"""

import attrs
import trio

from mcp_trio.protocol.errors import MCPError, ProtocolError, UnsupportedProtocolVersion

__all__ = [
    "AuthorizationRequired",
    "Closed",
    "ConnectionClosed",
    "MCPError",
    "ProtocolError",
    "RequestTimeout",
    "TransportError",
    "UnsupportedProtocolVersion",
]


#: How much of `ConnectionClosed.stderr_tail` its text repeats.
LINES_SHOWN = 5
CHARACTERS_SHOWN = 500


class ConnectionClosed(Exception):
    """The connection is gone; whatever was waited for will not come.

    Args:
        reason: one clause that says why, such as "the server exited".
        exit_status: a child's exit status, negative for a signal as in `subprocess`; None when it
            is unknown or there is no child, and never the result of our own shutdown.
        stderr_tail: the last lines that a child wrote to stderr, secrets removed.
    """

    def __init__(self, reason: str, exit_status: int | None = None, stderr_tail: str = "") -> None:
        super().__init__(reason, exit_status, stderr_tail)
        self.reason = reason
        self.exit_status = exit_status
        self.stderr_tail = stderr_tail

    def __str__(self) -> str:
        status = "" if self.exit_status is None else f" (exit status {self.exit_status})"
        last_lines = self.stderr_tail.strip().splitlines()[-LINES_SHOWN:]
        tail = "\n".join(last_lines)[-CHARACTERS_SHOWN:]
        return f"{self.reason}{status}{f'; stderr: {tail}' if tail else ''}"


@attrs.frozen
class Closed:
    """Why a connection ended, and what is known of the process behind it."""

    reason: str
    exit_status: int | None = None
    stderr_tail: str = ""

    def error(self) -> ConnectionClosed:
        """A fresh exception: one that two tasks raised would carry both their tracebacks."""
        return ConnectionClosed(self.reason, self.exit_status, self.stderr_tail)


class TransportError(Exception):
    """One exchange failed in what carries the messages; the connection may go on.

    Args:
        reason: one sentence that says what failed, and where.
        status: the HTTP status, if there was one.
    """

    def __init__(self, reason: str, status: int | None = None) -> None:
        super().__init__(reason, status)
        self.reason = reason
        self.status = status

    def __str__(self) -> str:
        return self.reason


class AuthorizationRequired(TransportError):
    """The server wants to know who asks (HTTP 401), or does not allow it to who asked (403).

    Args:
        reason: one sentence that says what failed, and where.
        status: 401 or 403.
        challenge: the WWW-Authenticate header, which says how to be authorized.
    """

    def __init__(self, reason: str, status: int | None = None, challenge: str = "") -> None:
        super().__init__(reason, status)
        self.challenge = challenge


class RequestTimeout(trio.TooSlowError):
    """A request had no answer in time; it was cancelled at the peer as well.

    Args:
        method: the request's method.
        seconds: the timeout that passed.
    """

    def __init__(self, method: str, seconds: float) -> None:
        super().__init__(method, seconds)
        self.method = method
        self.seconds = seconds

    def __str__(self) -> str:
        return f"{self.method} had no answer within {self.seconds:g} s"
