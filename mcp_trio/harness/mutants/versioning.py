"""Versions and metadata in each request, and server/discover: mutants of servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mcp_trio.demo import server as demo
from mcp_trio.harness.mutants import Mutant
from mcp_trio.harness.mutants.frames import Back, Fault, Faulty, Frame, frame_mutant
from mcp_trio.harness.mutants.jsonrpc import Answers, Frames
from mcp_trio.harness.mutants.lifecycle import is_method, refusal
from mcp_trio.protocol.meta import CLIENT_CAPABILITIES, CLIENT_INFO, META, PROTOCOL_VERSION
from mcp_trio.wire.jsonrpc import JSONObject


def meta_of(frame: Frame) -> JSONObject:
    """The _meta of a request; empty if it has none."""
    found = frame.get("params", {}).get(META, {}) if isinstance(frame, dict) else {}
    return found if isinstance(found, dict) else {}


# Versions


class ServesAnyVersion(Fault):
    """Serves a request in whatever version it says that it is."""

    def received(self, frame: Frame) -> Frames:
        meta = meta_of(frame)
        if isinstance(meta.get(PROTOCOL_VERSION), str):
            meta[PROTOCOL_VERSION] = "2026-07-28"
        yield frame


class TakesTheFirstForLegacy(Fault):
    """Serves a connection by the older rules if it begins with an unknown version."""

    def __init__(self) -> None:
        self.legacy: bool | None = None

    def received(self, frame: Frame) -> Frames:
        meta = meta_of(frame)
        if self.legacy is None:
            self.legacy = meta.get(PROTOCOL_VERSION, "2026-07-28") != "2026-07-28"
        if self.legacy:
            meta[PROTOCOL_VERSION] = "2026-07-28"
        yield frame


class NamesNoVersions(Answers):
    """Refuses an unknown version and does not say which are known."""

    def change(self, answer: JSONObject) -> Frame:
        if answer.get("error", {}).get("code") == -32022:
            answer["error"].pop("data", None)
        return answer


class KeepsTheFirstVersion(Fault):
    """Takes the version of the first request for that of all later ones."""

    def __init__(self) -> None:
        self.first: object = None

    def received(self, frame: Frame) -> Frames:
        meta = meta_of(frame)
        if PROTOCOL_VERSION in meta:
            self.first = self.first or meta[PROTOCOL_VERSION]
            meta[PROTOCOL_VERSION] = self.first
        yield frame


class WantsDiscovery(Fault):
    """Refuses requests until server/discover has been asked."""

    def __init__(self) -> None:
        self.discovered = False

    def received(self, frame: Frame) -> Frames:
        self.discovered = self.discovered or is_method(frame, "server/discover")
        if self.discovered or not isinstance(frame, dict) or "id" not in frame:
            yield frame
        else:
            yield refusal(frame, message="discover first")


class OwnToolsForEach:
    """Gives each connection tools of its own."""

    def __init__(self) -> None:
        self.connections = 0

    def __call__(self) -> Fault:
        self.connections += 1
        return _Renamed(self.connections)


class _Renamed(Answers):
    def __init__(self, number: int) -> None:
        self.number = number

    def change(self, answer: JSONObject) -> Frame:
        for tool in answer.get("result", {}).get("tools", ()):
            tool["name"] += str(self.number)
        return answer


# Metadata


class _Assumes(Fault):
    """Fills in a key of _meta."""

    key = ""
    value: object = None

    def received(self, frame: Frame) -> Frames:
        if isinstance(frame, dict) and "id" in frame and "params" in frame:
            frame["params"].setdefault(META, {}).setdefault(self.key, self.value)
        yield frame


class AssumesCapabilities(_Assumes):
    """Serves a request that does not say what its client can do."""

    key = CLIENT_CAPABILITIES
    value: object = {}


class AssumesTheVersion(_Assumes):
    """Serves a request that does not say its version."""

    key = PROTOCOL_VERSION
    value = "2026-07-28"


class TakesAnyCapabilities(Fault):
    """Serves a request whose capabilities are no object."""

    def received(self, frame: Frame) -> Frames:
        meta = meta_of(frame)
        if not isinstance(meta.get(CLIENT_CAPABILITIES, {}), dict):
            meta[CLIENT_CAPABILITIES] = {}
        yield frame


class WantsAName(Fault):
    """Refuses requests of a client that does not say its name."""

    def received(self, frame: Frame) -> Frames:
        meta = meta_of(frame)
        if isinstance(frame, dict) and PROTOCOL_VERSION in meta and CLIENT_INFO not in meta:
            yield refusal(frame, -32602, "who are you?")
        else:
            yield frame


class WantsKnownExtensions(Fault):
    """Refuses requests of a client with an extension that it does not know."""

    def received(self, frame: Frame) -> Frames:
        if isinstance(frame, dict) and "extensions" in meta_of(frame).get(CLIENT_CAPABILITIES, {}):
            yield refusal(frame, -32602, "no such extension")
        else:
            yield frame


# Discovery


class OldDiscovery(Answers):
    """Names in server/discover only versions of the other era."""

    def change(self, answer: JSONObject) -> Frame:
        if "supportedVersions" in answer.get("result", {}):
            answer["result"]["supportedVersions"] = ["2025-11-25"]
        return answer


class NamelessDiscovery(Answers):
    """Does not say its name in server/discover."""

    def change(self, answer: JSONObject) -> Frame:
        if "supportedVersions" in answer.get("result", {}):
            answer["result"].pop(META, None)
        return answer


class ShortNames(Answers):
    """Declares an extension whose name has no prefix."""

    def change(self, answer: JSONObject) -> Frame:
        if "supportedVersions" in answer.get("result", {}):
            answer["result"]["capabilities"]["extensions"] = {"ui": {}}
        return answer


# The other era


class ModernOnly(Fault):
    """Refuses initialize, and names the version that it serves instead."""

    def received(self, frame: Frame) -> Frames:
        if isinstance(frame, dict) and is_method(frame, "initialize"):
            yield self.refuse(frame)
        else:
            yield frame

    def refuse(self, frame: JSONObject) -> Back:
        return refusal(frame, -32022, "too old", supported=["2026-07-28"], requested="2025-11-25")


class ModernAndCurt(ModernOnly):
    """Refuses initialize and does not say what it serves instead."""

    def refuse(self, frame: JSONObject) -> Back:
        return refusal(frame, -32601, "no such method")


def _mutant(id: str, fault: Callable[[], Fault], *catches: str) -> Mutant:
    return frame_mutant(id, fault, catches)


MUTANTS: Final[tuple[Mutant, ...]] = (
    _mutant("serves-any-version", ServesAnyVersion, "unknown-version-is-refused"),
    _mutant(
        "takes-the-first-for-legacy",
        TakesTheFirstForLegacy,
        "first-request-of-an-unknown-version-is-refused",
    ),
    _mutant("names-no-versions", NamesNoVersions, "unknown-version-is-refused"),
    _mutant("keeps-the-first-version", KeepsTheFirstVersion, "each-request-has-its-version"),
    _mutant("wants-discovery", WantsDiscovery, "first-request-may-be-any"),
    _mutant("own-tools-for-each", OwnToolsForEach(), "connections-see-the-same"),
    _mutant("assumes-capabilities", AssumesCapabilities, "missing-meta-is-refused"),
    _mutant("assumes-the-version", AssumesTheVersion, "missing-meta-is-refused"),
    _mutant("takes-any-capabilities", TakesAnyCapabilities, "malformed-meta-is-refused"),
    _mutant("wants-a-name", WantsAName, "client-may-be-nameless"),
    _mutant(
        "wants-known-extensions",
        WantsKnownExtensions,
        "unknown-client-capabilities-are-ignored",
    ),
    _mutant("old-discovery", OldDiscovery, "discover-is-served"),
    _mutant("nameless-discovery", NamelessDiscovery, "discover-names-the-server"),
    _mutant("short-names", ShortNames, "extensions-have-legal-names"),
    frame_mutant(
        "modern-and-curt",
        ModernAndCurt,
        ["refused-initialize-names-versions"],
        server=lambda: Faulty(demo, ModernOnly),
    ),
)
