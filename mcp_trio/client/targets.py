"""What a client can be opened on, and how each becomes a stream of frames."""

import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Protocol, TypeAlias, runtime_checkable

import attrs
import trio

from mcp_trio.connection import (
    FrameStream,
    LineStream,
    memory_frame_pair,
    open_private_nursery,
)
from mcp_trio.transports.parameters import StdioParameters


@runtime_checkable
class InProcessServer(Protocol):
    """What a client in the same process needs of a server; `mcp_trio.Server` has it."""

    async def serve_frames(self, stream: FrameStream) -> object:
        """Serve one client until it is gone."""


Target: TypeAlias = (
    InProcessServer | StdioParameters | Sequence[str] | trio.abc.Stream | FrameStream | str
)


@attrs.frozen
class Opened:
    """An open stream, and what to call once the handshake over it is done."""

    stream: FrameStream
    established: Callable[[], None] = lambda: None


@asynccontextmanager
async def open_target(
    target: Target, *, line_limit: int, on_stderr: Callable[[str], object] | None
) -> AsyncIterator[Opened]:
    """Open the stream to a target.

    Raises:
        TypeError: It is nothing that a client can be opened on.
        ValueError: It is a URL of a transport that is not available.
        OSError: A command cannot be started.
    """
    if on_stderr is not None and not isinstance(target, StdioParameters | list | tuple):
        raise TypeError("on_stderr is for servers that are started by a command")
    match target:
        case str():
            raise ValueError(_about_string(target))
        case FrameStream():
            yield Opened(target)
        case trio.abc.Stream():
            yield Opened(LineStream(target, target, line_limit))
        case StdioParameters():
            async with _open_command(target, line_limit, on_stderr) as opened:
                yield opened
        case InProcessServer():
            near, far = memory_frame_pair()
            async with open_private_nursery() as nursery:
                nursery.start_soon(target.serve_frames, far)
                yield Opened(near)
        case list() | tuple():
            parameters = StdioParameters.from_argv(list(target))
            async with _open_command(parameters, line_limit, on_stderr) as opened:
                yield opened
        case _:
            raise TypeError(
                f"cannot open a client on {type(target).__name__}: expected a list of argv, "
                "StdioParameters, a trio.abc.Stream or a Server"
            )


@asynccontextmanager
async def _open_command(
    parameters: StdioParameters, line_limit: int, on_stderr: Callable[[str], object] | None
) -> AsyncIterator[Opened]:
    # Only who starts processes pays for what that takes.
    from mcp_trio.transports.stdio import open_stdio

    if on_stderr is not None:
        parameters = attrs.evolve(parameters, stderr=on_stderr)
    async with open_stdio(parameters, line_limit=line_limit) as (stream, child):

        def established() -> None:
            child.established = True

        yield Opened(stream, established)


def _about_string(target: str) -> str:
    scheme = target.partition("://")[0] if "://" in target else ""
    if scheme in ("http", "https", "ws", "wss"):
        return f"{scheme} URLs need a network transport, which this version does not have yet"
    hint = f"[{target!r}]" if os.sep in target or " " not in target else repr(target.split())
    return f"a command is a list of argv, not a string: did you mean {hint}?"
