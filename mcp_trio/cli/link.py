"""The connection of one command: from its options to a result, or to one line that says why not."""

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

import attrs
import click

from mcp_trio.cli.ending import Failed, run_until_signal
from mcp_trio.cli.forms import Questions
from mcp_trio.cli.screen import Screen
from mcp_trio.cli.targets import Target
from mcp_trio.cli.untrusted import one_line
from mcp_trio.client.client import Client, open_client
from mcp_trio.client.options import CONNECT_TIMEOUT, PROBE_TIMEOUT
from mcp_trio.exceptions import (
    ConnectionClosed,
    MCPError,
    ProtocolError,
    RequestTimeout,
    TransportError,
)
from mcp_trio.protocol.errors import INTERNAL_ERROR
from mcp_trio.wire.jsonrpc import EncodeError

T = TypeVar("T")

FAILURES = (ConnectionClosed, MCPError, ProtocolError, RequestTimeout, TransportError, OSError)


@attrs.frozen(kw_only=True)
class Link:
    """How to reach a server.

    Attributes:
        target: The server.
        headers: Sent with every HTTP request, or with the opening of a WebSocket.
        mode: As for `open_client`.
        timeout: Seconds for connecting, and for each request; None for the library's defaults.
        roots: The URIs that the server may know of.
        logs: Whether to ask for log messages.
        screen: Where to show what happens meanwhile.
    """

    target: Target
    headers: Mapping[str, str] | None
    mode: str
    timeout: float | None
    roots: Sequence[str]
    logs: bool
    screen: Screen

    def run(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """Connect, and do something with the client.

        Raises:
            Failed: It did not work; the message is for people.
        click.UsageError: The arguments cannot be sent.
            Stopped: A signal came first.
        """
        with _logging_to(self.screen), self.screen:
            return run_until_signal(partial(self._connected, work))

    async def _connected(self, work: Callable[[Client], Awaitable[T]]) -> T:
        questions = Questions(self.screen, self.roots)
        connect_timeout = self.timeout or CONNECT_TIMEOUT
        connected = False
        try:
            async with open_client(
                self.target.to_open(self.screen.stderr_line),
                headers=self.headers,
                mode=self.mode,
                timeout=self.timeout,
                connect_timeout=connect_timeout,
                # A silent legacy server has to have the time to answer `initialize` as well.
                probe_timeout=min(PROBE_TIMEOUT, connect_timeout / 2),
                on_elicit=questions.elicit,
                on_sample=questions.sample,
                on_list_roots=questions.list_roots,
                on_log=self.screen.log if self.logs else None,
                on_noise=self.screen.noise,
            ) as client:
                connected = True
                return await work(client)
        except EncodeError as exc:
            raise click.UsageError(f"This {exc}.") from exc
        except FAILURES as exc:
            raise Failed(self._explain(exc, connected=connected)) from exc

    def _explain(self, exc: Exception, *, connected: bool) -> str:
        """One line: what did not work, with which server, why, and what it said itself."""
        where = self.target.name if connected else f"no connection to {self.target.name}"
        line = f"{one_line(where)}: {one_line(_reason(exc))}"
        said = one_line("\n".join(self.screen.stderr_tail))
        if not said or self.screen.verbose:
            return line
        if isinstance(exc, MCPError):  # an answer of its own, unless something broke in there
            return f"{line}; -v shows its stderr" if exc.code == INTERNAL_ERROR else line
        return f"{line}; stderr: {said}"


def _reason(exc: Exception) -> str:
    match exc:
        case ConnectionClosed(reason=reason, exit_status=None):
            return reason
        case ConnectionClosed(reason=reason, exit_status=status):
            return f"{reason} (exit status {status})"
        case OSError(strerror=str(text)):
            return text
    return str(exc) or type(exc).__name__


class _ToScreen(logging.Handler):
    """What the library logs is made as harmless as everything else that a server has a say in."""

    def __init__(self, screen: Screen) -> None:
        super().__init__(logging.WARNING)
        self._screen = screen

    def emit(self, record: logging.LogRecord) -> None:
        self._screen.say(self.format(record), "yellow")


@contextmanager
def _logging_to(screen: Screen) -> Iterator[None]:
    logger, handler = logging.getLogger("mcp_trio"), _ToScreen(screen)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
