"""The legacy handshake, and what keeps to what it agreed on: mutants of servers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from mcp_trio.client.targets import InProcessServer
from mcp_trio.connection import FrameStream
from mcp_trio.demo import server as demo
from mcp_trio.harness.mutants import Mutant
from mcp_trio.harness.mutants.frames import Back, Fault, Frame, frame_mutant
from mcp_trio.harness.mutants.jsonrpc import Answers, Dies, Frames, is_answer
from mcp_trio.harness.targets import ServerTarget, server_target
from mcp_trio.wire.jsonrpc import JSONObject


def is_method(frame: Frame, method: str) -> bool:
    """Whether a frame is a message of a method."""
    return isinstance(frame, dict) and frame.get("method") == method


def refusal(frame: JSONObject, code: int = -32600, message: str = "refused", **data: Any) -> Back:
    """An error that answers a request in place of the server."""
    error = {"code": code, "message": message, **({"data": data} if data else {})}
    return Back({"jsonrpc": "2.0", "id": frame.get("id"), "error": error})


# initialize


class NoServerInfo(Answers):
    """Does not say its version when it is initialized."""

    def change(self, answer: JSONObject) -> Frame:
        answer.get("result", {}).get("serverInfo", {}).pop("version", None)
        return answer


class FlagCapabilities(Answers):
    """Declares capabilities as true instead of by objects."""

    def change(self, answer: JSONObject) -> Frame:
        if "serverInfo" in answer.get("result", {}):
            answer["result"]["capabilities"]["tools"] = True
        return answer


class Parrot(Fault):
    """Says that it speaks whatever version it is asked for."""

    def __init__(self) -> None:
        self.wanted: object = None

    def received(self, frame: Frame) -> Frames:
        if isinstance(frame, dict) and is_method(frame, "initialize"):
            self.wanted = frame.get("params", {}).get("protocolVersion")
        yield frame

    def sent(self, frame: Frame) -> Frames:
        if isinstance(frame, dict) and "protocolVersion" in frame.get("result", {}):
            frame["result"]["protocolVersion"] = self.wanted
        yield frame


class OffersWhatItHasNot(Parrot):
    """Offers its oldest version, but answers with the newest if that is asked for."""

    def sent(self, frame: Frame) -> Frames:
        if isinstance(frame, dict) and "protocolVersion" in frame.get("result", {}):
            offered = {"1999-12-31": "2024-11-05", "2024-11-05": "2025-11-25"}
            found = frame["result"]["protocolVersion"]
            frame["result"]["protocolVersion"] = offered.get(str(self.wanted), found)
        yield frame


class OffersTheOldest(Fault):
    """Offers its oldest version where it does not know the one that is asked for."""

    def received(self, frame: Frame) -> Frames:
        if isinstance(frame, dict) and is_method(frame, "initialize"):
            params = frame.get("params", {})
            if params.get("protocolVersion") == "2099-12-31":
                frame["params"] = {**params, "protocolVersion": "2024-11-05"}
        yield frame


class DiesOfBadInitialize(Dies):
    """Ends at an initialize without a version."""

    def kills(self, frame: Frame) -> bool:
        version = frame.get("params", {}).get("protocolVersion") if isinstance(frame, dict) else ""
        return is_method(frame, "initialize") and not isinstance(version, str)


class RefusesUnknownCapabilities(Fault):
    """Refuses a client with a capability that it does not know."""

    def received(self, frame: Frame) -> Frames:
        params = frame.get("params", {}) if isinstance(frame, dict) else {}
        if isinstance(frame, dict) and "harness" in params.get("capabilities", {}):
            yield refusal(frame)
        else:
            yield frame


class DiesOfSecondInitialize(Dies):
    """Ends when it is initialized again."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def kills(self, frame: Frame) -> bool:
        self.count += is_method(frame, "initialize")
        return self.count > 1


# Before the handshake is over


class _SpeaksFirst:
    """Sends a notification as soon as a client is there."""

    async def serve_frames(self, stream: FrameStream) -> object:
        await stream.send([b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'])
        return await demo.serve_frames(stream)


def served_mutant(id: str, faulty: Callable[[], InProcessServer], catches: Sequence[str]) -> Mutant:
    """A mutant that is a server of its own around the demo server, in memory."""

    @asynccontextmanager
    async def open_faulty() -> AsyncIterator[ServerTarget]:
        yield server_target(faulty(), id)

    @asynccontextmanager
    async def open_healthy() -> AsyncIterator[ServerTarget]:
        yield server_target(demo, f"{id}, healthy")

    text = (faulty.__doc__ or "").strip().partition("\n")[0]
    return Mutant(id, text, tuple(catches), open_faulty, open_healthy, virtual=True)


class AsksTooSoon(Fault):
    """Asks for the roots as soon as it has answered initialize."""

    def sent(self, frame: Frame) -> Frames:
        yield frame
        if isinstance(frame, dict) and "serverInfo" in frame.get("result", {}):
            yield {"jsonrpc": "2.0", "id": "roots", "method": "roots/list"}


class _Uninitialized(Fault):
    def __init__(self) -> None:
        self.initialized = False

    def too_soon(self, frame: Frame) -> bool:
        self.initialized = self.initialized or is_method(frame, "initialize")
        return not self.initialized and isinstance(frame, dict) and "id" in frame


class RefusesEarlyPings(_Uninitialized):
    """Refuses everything before initialize, pings too."""

    def received(self, frame: Frame) -> Frames:
        if self.too_soon(frame) and isinstance(frame, dict):
            yield refusal(frame)
        else:
            yield frame


class IgnoresEarlyRequests(_Uninitialized):
    """Does not answer what comes before initialize."""

    def received(self, frame: Frame) -> Frames:
        if not self.too_soon(frame):
            yield frame


# After it


class AsksAnybody(Fault):
    """Asks each client for its roots, whether it has them or not."""

    def received(self, frame: Frame) -> Frames:
        if is_method(frame, "tools/call"):
            yield Back({"jsonrpc": "2.0", "id": "roots", "method": "roots/list"})
        if not (is_answer(frame) and isinstance(frame, dict) and frame.get("id") == "roots"):
            yield frame


class TellsUnasked(Answers):
    """Tells of changes of its tools and declares nothing of the kind."""

    def change(self, answer: JSONObject) -> Frame:
        answer.get("result", {}).get("capabilities", {}).pop("tools", None)
        return answer

    def received(self, frame: Frame) -> Frames:
        yield frame
        if is_method(frame, "tools/call"):
            yield Back({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})


def _mutant(id: str, fault: Callable[[], Fault], *catches: str) -> Mutant:
    return frame_mutant(id, fault, catches)


MUTANTS: Final[tuple[Mutant, ...]] = (
    _mutant("no-server-version", NoServerInfo, "initialize-tells-who-answers"),
    _mutant("flag-capabilities", FlagCapabilities, "initialize-tells-who-answers"),
    _mutant("parrot", Parrot, "unknown-version-gets-another"),
    _mutant("offers-what-it-has-not", OffersWhatItHasNot, "offered-version-is-served"),
    _mutant("offers-the-oldest", OffersTheOldest, "newest-version-is-offered"),
    _mutant("dies-of-bad-initialize", DiesOfBadInitialize, "malformed-initialize-is-survived"),
    _mutant(
        "refuses-unknown-capabilities",
        RefusesUnknownCapabilities,
        "unknown-capabilities-are-ignored",
    ),
    _mutant("dies-of-second-initialize", DiesOfSecondInitialize, "second-initialize-is-survived"),
    served_mutant("speaks-first", _SpeaksFirst, ["server-waits-for-initialize"]),
    _mutant("asks-too-soon", AsksTooSoon, "server-waits-for-initialized"),
    _mutant("refuses-early-pings", RefusesEarlyPings, "ping-before-initialize"),
    _mutant(
        "ignores-early-requests",
        IgnoresEarlyRequests,
        "early-request-is-answered",
    ),
    _mutant(
        "asks-anybody",
        AsksAnybody,
        "undeclared-capabilities-are-not-used",
        "undeclared-capabilities-are-not-used-2025",
    ),
    _mutant(
        "tells-unasked",
        TellsUnasked,
        "only-declared-notifications-come",
        "only-declared-notifications-come-2025",
    ),
)
