"""Starts the everything-server, in the two ways in which it can be reached over HTTP."""

import re
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from subprocess import PIPE, STDOUT

import attrs
import trio

from tests.conformance import server
from tests.conformance.suite import ROOT

FACES: dict[str, Sequence[str]] = {
    "serve_http": ("-m", server.__name__),
    "Hypercorn": ("-m", "hypercorn", "-k", "trio", "-b", "127.0.0.1:0", f"{server.__name__}:app"),
}
START_TIME = 30.0
"""Seconds within which a server has to listen."""

_LISTENING = re.compile(rb"Running on (http://[\d.:]+)")


@attrs.define
class Face:
    """A server that runs; what it has `said` grows as it speaks."""

    url: str
    said: bytearray

    def complaints(self) -> list[str]:
        """All lines but the one that says where it listens: there should be none."""
        lines = self.said.decode("utf-8", "replace").splitlines()
        return [line for line in lines if "Running on" not in line]


@asynccontextmanager
async def started(name: str) -> AsyncIterator[Face]:
    """Run the everything-server for the length of a block."""
    argv = [sys.executable, *FACES[name]]
    run = partial(trio.run_process, argv, cwd=ROOT, stdout=PIPE, stderr=STDOUT, check=False)
    async with trio.open_nursery() as nursery:
        process: trio.Process = await nursery.start(run)
        assert process.stdout is not None
        said = bytearray()
        with trio.fail_after(START_TIME):
            while not (listening := _LISTENING.search(said)):
                piece = await process.stdout.receive_some()
                assert piece, f"{name} did not start:\n{said.decode()}"
                said += piece
        nursery.start_soon(_collect, process.stdout, said)
        yield Face(f"{listening[1].decode()}/mcp", said)
        nursery.cancel_scope.cancel()


async def _collect(stream: trio.abc.ReceiveStream, said: bytearray) -> None:
    async for piece in stream:
        said += piece
