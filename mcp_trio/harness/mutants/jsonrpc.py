"""Messages, requests, responses and errors: mutants of servers."""

from collections.abc import Iterable
from typing import Final

from mcp_trio.harness.mutants import Mutant
from mcp_trio.harness.mutants.frames import Back, Fault, Frame, frame_mutant


class UnknownMethodsSucceed(Fault):
    """Answers a method that does not exist with an empty result."""

    def sent(self, frame: Frame) -> Iterable[Frame | Back]:
        if isinstance(frame, dict) and frame.get("error", {}).get("code") == -32601:
            yield {"jsonrpc": "2.0", "id": frame["id"], "result": {}}
        else:
            yield frame


MUTANTS: Final[tuple[Mutant, ...]] = (
    frame_mutant("unknown-methods-succeed", UnknownMethodsSucceed, ["unknown-method-is-refused"]),
)
