"""What checks are run on: a target that somebody names, or the demo server on every transport."""

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import attrs
import trio

from mcp_trio.cli.targets import DEMO
from mcp_trio.harness import client_probe, spoken
from mcp_trio.harness.client_runner import check_client
from mcp_trio.harness.handover import ClientTarget, program_target
from mcp_trio.harness.model import Report, Transport
from mcp_trio.harness.probe import Options
from mcp_trio.harness.runner import check_server
from mcp_trio.harness.stages import playable
from mcp_trio.harness.targets import ServerTarget, command_target, server_target, url_target
from mcp_trio.protocol.revisions import REVISIONS

LOCALHOST: Final = "127.0.0.1"

Revisions = tuple[str, ...]


@attrs.frozen(kw_only=True)
class Job:
    """One target, and how it is checked.

    Attributes:
        name: What it is called.
        transport: What it is reached over.
        check: Checks it; takes what `check_server` takes behind the target.
        newest: Asks which revisions it speaks: the newest of each era.
        every: The same, but all of them.
        allowed: Those that may be spoken over this transport.
    """

    name: str
    transport: Transport
    check: Callable[..., Awaitable[Report]]
    newest: Callable[[Options], Awaitable[Revisions]]
    every: Callable[[Options], Awaitable[Revisions]]
    allowed: Revisions = REVISIONS

    @property
    def label(self) -> str:
        """What tells it from other ways to the same target."""
        return f"{self.name} over {self.transport}"


def server_job(target: ServerTarget, name: str) -> Job:
    """A server to check."""
    return Job(
        name=name,
        transport=target.transport,
        check=partial(check_server, target),
        newest=partial(spoken.newest_of_each_era, target),
        every=partial(spoken.revisions_of, target),
    )


def client_job(target: ClientTarget, name: str) -> Job:
    """A client to check."""

    async def every(options: Options) -> Revisions:
        found = []
        for revision in REVISIONS:
            if playable(revision, target.transport):
                recording = await client_probe.record(target, revision, options)
                if client_probe.speaks(recording):
                    found.append(revision)
        return tuple(found)

    return Job(
        name=name,
        transport=target.transport,
        check=partial(check_client, target),
        newest=partial(client_probe.newest_of_each_era, target),
        every=every,
        allowed=_allowed(target.transport),
    )


def _allowed(transport: Transport) -> Revisions:
    return tuple(revision for revision in REVISIONS if playable(revision, transport))


def demo_clients(transports: Sequence[Transport]) -> list[Job]:
    """The demo client, over each of the transports."""
    argv = [sys.executable, "-m", "mcp_trio.harness.demo_client"]
    return [
        client_job(program_target(argv, transport=transport), "demo client")
        for transport in transports
    ]


@asynccontextmanager
async def open_demo_server(transports: Sequence[Transport]) -> AsyncIterator[list[Job]]:
    """The demo server on each of the transports.

    Over stdio it is a process, as it always is. On all others it is in this process: starting
    Python takes longer than many checks do.
    """
    from mcp_trio.demo import server

    async with server.running(), trio.open_nursery() as nursery:

        async def port(serve: Callable[..., Awaitable[object]]) -> int:
            listeners = await nursery.start(partial(serve, 0, host=LOCALHOST))
            number: int = listeners[0].socket.getsockname()[1]
            return number

        targets: list[ServerTarget] = []
        if "stdio" in transports:
            argv = [sys.executable, "-P", "-m", "mcp_trio.demo"]
            targets.append(command_target(argv, DEMO, DEMO))
        if {"http", "sse"} & set(transports):
            web = await port(partial(server.serve_http, sse_path="/sse"))
        if "http" in transports:
            targets.append(_at(f"http://{LOCALHOST}:{web}/mcp", "http"))
        if "sse" in transports:
            targets.append(_at(f"http://{LOCALHOST}:{web}/sse", "sse"))
        if "websocket" in transports:
            targets.append(
                _at(f"ws://{LOCALHOST}:{await port(server.serve_websocket)}", "websocket")
            )
        if "stream" in transports:
            serve = partial(trio.serve_tcp, server.serve_stream)
            targets.append(_at(f"tcp:{LOCALHOST}:{await port(serve)}", "stream"))
        if "memory" in transports:
            targets.append(server_target(server, DEMO, _words("memory")))
        yield [_demo_job(target) for target in targets]
        nursery.cancel_scope.cancel()


def _demo_job(target: ServerTarget) -> Job:
    job = server_job(target, DEMO)
    job = attrs.evolve(job, allowed=_allowed(target.transport))
    if target.transport != "sse":
        return job

    async def oldest(_options: Options) -> Revisions:
        """The server would speak others there, too; but no other revision has this transport."""
        return job.allowed

    return attrs.evolve(job, newest=oldest, every=oldest)


def _at(url: str, transport: Transport) -> ServerTarget:
    return url_target(url, sse=transport == "sse", words=_words(transport))


def _words(transport: Transport) -> str:
    """The port is another one each time; this way it is found again."""
    return f"--transport {transport}"
