"""Mutants of clients: the demo client, and a fault between it and the wire.

    scripted server  ◀── says ──   ClientFault  ◀──  the demo client
                      ── hears ──▶              ──▶

Over memory the fault sees each message on its way and says what goes on in its place, as a `Fault`
of a server does. Over HTTP it stands between the client's requests and the network, and may do
what it likes with both. On stdio it is the program that is at fault, which has to be a process:
`mcp_trio.harness.mutants.faulty_client`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import TypeAlias

import attrs
import httpx

from mcp_trio.connection import FrameStream
from mcp_trio.harness.demo_client import play
from mcp_trio.harness.handover import (
    Address,
    ClientTarget,
    function_target,
    program_target,
)
from mcp_trio.harness.model import Transport
from mcp_trio.harness.mutants import ClientMutant
from mcp_trio.harness.mutants.frames import Back, FaultyStream, Frame
from mcp_trio.wire.jsonrpc import JSONObject

Client: TypeAlias = Callable[..., Awaitable[object]]
"""Takes a target and options, as `demo_client.play` does."""


class ClientFault:
    """One fault. The first line of its docstring says what it does wrong.

    A frame is an object if it can be read as one, else bytes. One fault is made for each run of the
    client, so it may remember what it saw.
    """

    def says(self, frame: Frame) -> Iterable[Frame | Back]:
        """What reaches the server in place of a frame of the client."""
        yield frame

    def hears(self, frame: Frame) -> Iterable[Frame | Back]:
        """What reaches the client in place of a frame of the server."""
        yield frame


Change: TypeAlias = Callable[[JSONObject], "JSONObject | bytes | list[JSONObject] | None"]


class _Changing(ClientFault):
    def __init__(self, says: Change | None, hears: Change | None) -> None:
        self._says, self._hears = says, hears

    def says(self, frame: Frame) -> Iterable[Frame | Back]:
        yield from _changed(self._says, frame)

    def hears(self, frame: Frame) -> Iterable[Frame | Back]:
        yield from _changed(self._hears, frame)


def _changed(change: Change | None, frame: Frame) -> Iterable[Frame]:
    if change is None or not isinstance(frame, dict):
        yield frame
        return
    changed = change(frame)
    if isinstance(changed, list):
        yield from changed
    elif changed is not None:
        yield changed


@attrs.frozen
class Changing:
    """A fault that is no more than a function of each message, in one or both directions.

    Attributes:
        text: What it does wrong.
        says, hears: What takes the place of a message: one, several, bytes, or None for nothing.
    """

    text: str
    says: Change | None = None
    hears: Change | None = None

    def __call__(self) -> ClientFault:
        return _Changing(self.says, self.hears)


def client_mutant(
    id: str,
    fault: Callable[[], ClientFault],
    catches: Sequence[str],
    *,
    client: Client = play,
    mode: str = "auto",
) -> ClientMutant:
    """A mutant of a client in this process, over memory.

    Args:
        id: Its name.
        fault: Makes the fault, for each run.
        catches: The checks that must fail on it.
        client: The healthy client.
        mode: The revisions that it speaks.
    """

    async def faulty(address: Address) -> None:
        assert address.stream is not None
        await client(faulty_stream(address.stream, fault()), mode=mode)

    async def healthy(address: Address) -> None:
        await client(address.stream, mode=mode)

    return _mutant(id, fault, catches, faulty, healthy, "memory")


class HTTPFault:
    """One fault of a client over HTTP; `request` may change, drop, repeat what is sent."""

    async def request(
        self, request: httpx.Request, send: Callable[[httpx.Request], Awaitable[httpx.Response]]
    ) -> httpx.Response:
        """Send a request of the client, or something in its place."""
        return await send(request)


def http_mutant(
    id: str,
    fault: Callable[[], HTTPFault],
    catches: Sequence[str],
    *,
    client: Client = play,
    transport: Transport = "http",
) -> ClientMutant:
    """A mutant of a client in this process, over HTTP."""

    async def faulty(address: Address) -> None:
        async with httpx.AsyncClient(transport=_FaultyTransport(fault()), timeout=None) as http:
            await client(address.url, http=http)

    async def healthy(address: Address) -> None:
        await client(address.url)

    return _mutant(id, fault, catches, faulty, healthy, transport)


def other_client(
    id: str,
    faulty: Client,
    catches: Sequence[str],
    *,
    healthy: Client = play,
    transport: Transport = "memory",
    text: str = "",
) -> ClientMutant:
    """A mutant that is a client of its own; its docstring says what it does wrong, or `text`."""

    def at(client: Client) -> Callable[[Address], Awaitable[object]]:
        return lambda address: client(address.stream or address.url)

    return _mutant(id, text or faulty, catches, at(faulty), at(healthy), transport)


def _mutant(
    id: str,
    fault: object,
    catches: Sequence[str],
    faulty: Callable[[Address], Awaitable[object]],
    healthy: Callable[[Address], Awaitable[object]],
    transport: Transport,
) -> ClientMutant:
    @asynccontextmanager
    async def open_faulty() -> AsyncIterator[ClientTarget]:
        yield function_target(faulty, id, transport=transport)

    @asynccontextmanager
    async def open_healthy() -> AsyncIterator[ClientTarget]:
        yield function_target(healthy, f"{id}, healthy", transport=transport)

    virtual = transport == "memory"
    return ClientMutant(id, _first_line(fault), tuple(catches), open_faulty, open_healthy, virtual)


def program_mutant(
    id: str, fault: Callable[..., object], catches: Sequence[str], *, healthy: str = "none"
) -> ClientMutant:
    """A mutant that is a process: a function of `faulty_client`."""
    program = [sys.executable, "-m", "mcp_trio.harness.mutants.faulty_client"]

    @asynccontextmanager
    async def open_faulty() -> AsyncIterator[ClientTarget]:
        yield program_target([*program, fault.__name__, "{command}"], name=id)

    @asynccontextmanager
    async def open_healthy() -> AsyncIterator[ClientTarget]:
        yield program_target([*program, healthy, "{command}"], name=f"{id}, healthy")

    return ClientMutant(id, _first_line(fault), tuple(catches), open_faulty, open_healthy)


def _first_line(of: object) -> str:
    if isinstance(of, Changing | str):
        return of if isinstance(of, str) else of.text
    return (of.__doc__ or "").strip().partition("\n")[0]


def faulty_stream(stream: FrameStream, fault: ClientFault) -> FrameStream:
    """A stream that all frames of a client pass a fault on."""
    return FaultyStream(stream, fault.hears, fault.says)


class _FaultyTransport(httpx.AsyncBaseTransport):
    def __init__(self, fault: HTTPFault) -> None:
        self._fault = fault
        self._network = httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return await self._fault.request(request, self._network.handle_async_request)

    async def aclose(self) -> None:
        await self._network.aclose()


def with_body(request: httpx.Request, content: bytes | JSONObject) -> httpx.Request:
    """The same request with another body."""
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    headers = [(k, v) for k, v in request.headers.multi_items() if k.lower() != "content-length"]
    return httpx.Request(
        request.method, request.url, headers=headers, content=body, extensions=request.extensions
    )


def body_of(request: httpx.Request) -> JSONObject:
    """The message in a request; empty if there is none that is an object."""
    try:
        value = json.loads(request.content)
    except (ValueError, httpx.RequestNotRead):
        return {}
    return value if isinstance(value, dict) else {}
