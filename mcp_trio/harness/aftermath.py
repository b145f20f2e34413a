"""After something odd was sent: has the server survived it, and has it kept silent about it?

A crash, a hang and an answer to what deserves none look alike to a check that only waits for a
reply. These functions ask something harmless afterwards, and then look at what has come.
"""

from typing import Final

import trio

from mcp_trio.harness.model import Failed, Transport
from mcp_trio.harness.session import MOMENT, Received, Session

FRAMED: Final[tuple[Transport, ...]] = ("stdio", "stream", "websocket", "memory")
"""Transports on which a frame may hold anything. On HTTP a bad one has a status as its answer."""


def harmless(session: Session) -> str:
    """A method that every server has and that changes nothing."""
    return "server/discover" if session.is_modern else "ping"


async def survives(session: Session, what: str, requirement: str | None = None) -> None:
    """See to it that the server still answers after `what` was sent.

    Raises:
        Failed: It does not; the message says after what.
    """
    try:
        await session.request(harmless(session))
    except Failed as exc:
        raise Failed(f"after {what}: {exc.message}", requirement=requirement) from exc
    await trio.sleep(MOMENT)


def strays(session: Session, since: int) -> list[Received]:
    """Answers that belong to no request which the session has numbered itself."""
    given = session.next_id()
    return [
        received
        for received in session.received[since:]
        if _has_answers(received) and not _is_between(received.object.get("id"), given)
    ]


def _has_answers(received: Received) -> bool:
    return received.is_answer or isinstance(received.value, list)


def _is_between(id: object, given: int) -> bool:
    return type(id) is int and 0 < id < given
