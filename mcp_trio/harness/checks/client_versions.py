"""How clients begin: checks of the handshake, of versions and eras, and of capabilities."""

from functools import partial
from typing import Final

from mcp_trio.harness.checks import LEGACY, MODERN, REVISIONS, check
from mcp_trio.harness.client_probe import BEFORE, OPENING, ClientProbe, speaks
from mcp_trio.harness.model import Failed, NotApplicable
from mcp_trio.harness.probe import expect, require
from mcp_trio.harness.scripted import HOLD, Answer, Call, Refusal, Scene, Step
from mcp_trio.protocol import meta as keys
from mcp_trio.protocol.errors import UNSUPPORTED_VERSION
from mcp_trio.protocol.methods import METHODS
from mcp_trio.protocol.revisions import LATEST_LEGACY
from mcp_trio.wire.jsonrpc import JSONObject

client_check = partial(check, role="client")

OLD: Final = "1999-12-31"
FAR: Final = "2099-12-31"
MOMENT: Final = 0.3
PROBE_PATIENCE: Final = 12.0
"""Seconds that a client may wait for the answer to its probe."""


async def _initialize(probe: ClientProbe) -> Call:
    """The client's first `initialize`, to a healthy legacy server."""
    scene = await probe.recording()
    calls = scene.requests_of("initialize")
    require(calls, "the client does not send initialize")
    return calls[0]


# The handshake


@client_check(
    "client-begins-with-initialize",
    "lifecycle-1",
    meaning="The first thing that a legacy server hears is `initialize`, but for a modern probe.",
    revisions=LEGACY,
)
async def client_begins_with_initialize(probe: ClientProbe) -> None:
    scene = await probe.recording()
    said = [said for said in scene.messages() if said.method != "server/discover"]
    said = [message for message in said if message.method != "notifications/cancelled"]
    require(said, "the client says nothing")
    expect(said[0].method == "initialize", f"the client begins with {said[0].method}")


@client_check(
    "client-initialize-is-complete",
    "lifecycle-2",
    meaning="`initialize` has a version, capabilities and the client's name and version.",
    revisions=LEGACY,
)
async def client_initialize_is_complete(probe: ClientProbe) -> None:
    params = (await _initialize(probe)).params
    version = params.get("protocolVersion")
    expect(isinstance(version, str), f"initialize has the protocolVersion {version!r}")
    offered = params.get("capabilities")
    expect(isinstance(offered, dict), f"initialize has the capabilities {offered!r}")
    info = params.get("clientInfo")
    named = isinstance(info, dict) and all(
        isinstance(info.get(k), str) for k in ("name", "version")
    )
    expect(named, f"initialize has the clientInfo {info!r}")


@client_check(
    "client-says-initialized",
    "lifecycle-4",
    meaning="`notifications/initialized` follows the answer to `initialize`, once.",
    revisions=LEGACY,
)
async def client_says_initialized(probe: ClientProbe) -> None:
    call = await _initialize(probe)
    scene = call.scene
    notes = scene.messages("notifications/initialized")
    expect(notes, "notifications/initialized never came")
    starts = len([one for one in scene.requests_of("initialize") if one.answered])
    expect(len(notes) <= starts, f"notifications/initialized came {len(notes)} times")
    expect(notes[0].at >= (call.answered_at or 0), "it came before the answer to initialize")


@client_check(
    "client-waits-for-initialize",
    "lifecycle-5",
    meaning="Until `initialize` is answered the client asks nothing else, but may ping.",
    revisions=LEGACY,
)
async def client_waits_for_initialize(probe: ClientProbe) -> None:
    async with probe.play({"initialize": HOLD}) as scene:
        held = await scene.call("initialize")
        await scene.pause(MOMENT)
        early = [
            said.method
            for said in scene.messages()
            if said.at >= held.said.at and said.method not in (*BEFORE, "ping")
        ]
        expect(not early, f"{early[:1]} came before initialize was answered")


@client_check(
    "client-initialize-stands-alone",
    "lifecycle-17",
    meaning="`initialize` is not part of a batch.",
    revisions=("2025-03-26",),
)
async def client_initialize_stands_alone(probe: ClientProbe) -> None:
    call = await _initialize(probe)
    expect(not call.said.batched, "initialize came in a batch")


@client_check(
    "client-accepts-the-version-it-asks-for",
    "lifecycle-7",
    meaning="The version that the client asks for is one that it speaks.",
    revisions=LEGACY,
)
async def client_accepts_the_version_it_asks_for(probe: ClientProbe) -> None:
    def same(call: Call) -> Answer:
        return {**_welcome(call), "protocolVersion": call.params.get("protocolVersion")}

    asked = (await _initialize(probe)).params.get("protocolVersion")
    async with probe.play({"initialize": same}) as scene:
        await scene.over()
        expect(speaks(scene), f"the client asks for {asked}, gets it, and says no more")


def _welcome(call: Call) -> JSONObject:
    from mcp_trio.harness.healthy import SERVER_INFO, capabilities

    revision = call.scene.revision
    revision = LATEST_LEGACY if revision in MODERN else revision
    return {
        "protocolVersion": revision,
        "capabilities": capabilities(revision),
        "serverInfo": SERVER_INFO,
    }


@client_check(
    "client-asks-for-its-newest-version",
    "lifecycle-8",
    meaning="The client does not speak a newer version than the one that it asks for.",
    revisions=LEGACY,
)
async def client_asks_for_its_newest_version(probe: ClientProbe) -> None:
    call = await _initialize(probe)
    asked = str(call.params.get("protocolVersion"))
    newer = asked < probe.revision and speaks(call.scene)
    expect(not newer, f"the client asks for {asked} and speaks {probe.revision}")


@client_check(
    "client-leaves-if-the-version-is-unknown",
    "lifecycle-12",
    meaning="A client that does not speak the server's version does not go on.",
    revisions=LEGACY,
)
async def client_leaves_if_the_version_is_unknown(probe: ClientProbe) -> None:
    await _initialize(probe)

    def other(call: Call) -> Answer:
        return {**_welcome(call), "protocolVersion": OLD}

    async with probe.play({"initialize": other}) as scene:
        await scene.over()
        later = [said.method for said in scene.messages() if said.method not in BEFORE]
        expect(not later, f"the client gets version {OLD} and goes on with {later[:1]}")


@client_check(
    "client-copes-with-a-refused-initialize",
    "lifecycle-16",
    meaning="After an error of `initialize` the client does not go on as if all were well.",
    revisions=LEGACY,
)
async def client_copes_with_a_refused_initialize(probe: ClientProbe) -> None:
    await _initialize(probe)
    data: JSONObject = {"supported": [OLD], "requested": probe.revision}
    refusal = Refusal(-32602, "Unsupported protocol version", data)
    async with probe.play({"initialize": refusal}) as scene:
        await scene.over()
        later = [said.method for said in scene.messages() if said.method not in BEFORE]
        expect(not later, f"initialize is refused, and the client goes on with {later[:1]}")
        again = len(scene.requests_of("initialize"))
        expect(again <= len(REVISIONS), f"the client sends initialize {again} times")


# Capabilities


NEEDS: Final = {
    "tools/": "tools",
    "resources/": "resources",
    "prompts/": "prompts",
    "logging/": "logging",
    "completion/": "completions",
}
"""Methods and the capability that a server has to declare for them."""


@client_check(
    "client-uses-only-what-is-declared",
    "lifecycle-14",
    "lifecycle-18",
    "prompts-11",
    meaning="What the server did not declare is not asked for.",
)
async def client_uses_only_what_is_declared(probe: ClientProbe) -> None:
    def bare(call: Call) -> Answer:
        return {**_welcome(call), "capabilities": {}}

    async def bare_discovery(call: Call) -> Answer:
        answer = await call.scene.healthy_answer(call)
        return {**answer, "capabilities": {}} if isinstance(answer, dict) else answer

    require(speaks(await probe.recording()), "the client does not speak this revision")
    answers: dict[str, Step] = {"server/discover": bare_discovery}
    if probe.revision not in MODERN:
        answers["initialize"] = bare
    else:
        await probe.asks_for("server/discover")
    async with probe.play(answers) as scene:
        await scene.over()
        for said in scene.messages():
            for prefix, capability in NEEDS.items():
                if str(said.method).startswith(prefix) and not _free(probe.revision, capability):
                    requirement = "prompts-11" if capability == "prompts" else None
                    if probe.revision in MODERN and requirement is None:
                        continue  # no sentence of this revision forbids it
                    raise Failed(
                        f"the client sends {said.method}, and the server did not declare "
                        f"{capability}",
                        requirement=requirement or _keep(probe.revision),
                    )


def _free(revision: str, capability: str) -> bool:
    """Whether a revision knows no such capability, so that nobody can declare it."""
    return capability == "completions" and revision == REVISIONS[0]


def _keep(revision: str) -> str:
    return "lifecycle-14" if revision >= "2025-06-18" else "lifecycle-18"


def _unknown(scene: Scene) -> list[str]:
    """Methods that the client uses and the revision does not have."""
    require(speaks(scene), "the client does not speak this revision")
    found: list[str] = []
    for said in scene.messages():
        method = METHODS.get(str(said.method))
        known = method is not None and method.may_send("client", scene.revision)
        if not known and said.method not in BEFORE:
            found.append(str(said.method))
    return found


@client_check(
    "client-keeps-to-the-revision",
    "lifecycle-14",
    "lifecycle-18",
    meaning="Only methods are used that the negotiated revision has.",
    revisions=LEGACY,
)
async def client_keeps_to_the_revision(probe: ClientProbe) -> None:
    unknown = _unknown(await probe.recording())
    expect(not unknown, f"the client sends {unknown[:1]}, which {probe.revision} does not have")


@client_check(
    "client-uses-no-undeclared-extension",
    "versioning-5",
    meaning="No method is used that only an extension could have, which the server does not.",
    revisions=MODERN,
)
async def client_uses_no_undeclared_extension(probe: ClientProbe) -> None:
    unknown = [method for method in _unknown(await probe.recording()) if method not in METHODS]
    expect(not unknown, f"the client sends {unknown[:1]}, and the server declares no extension")


@client_check(
    "client-uses-no-removed-methods",
    meaning="Methods of older revisions, such as ping, are not used in a newer one.",
    revisions=MODERN,
)
async def client_uses_no_removed_methods(probe: ClientProbe) -> None:
    unknown = [method for method in _unknown(await probe.recording()) if method in METHODS]
    expect(not unknown, f"the client sends {unknown[:1]}, which {probe.revision} does not have")


@client_check(
    "client-extensions-have-names",
    "versioning-4",
    meaning="Extensions that the client declares have names with a prefix.",
    revisions=MODERN,
)
async def client_extensions_have_names(probe: ClientProbe) -> None:
    scene = await probe.recording()
    require(scene.calls, "the client makes no requests")
    for call in scene.calls:
        offered = call.meta.get(keys.CLIENT_CAPABILITIES)
        extensions = offered.get("extensions") if isinstance(offered, dict) else None
        for name in extensions if isinstance(extensions, dict) else ():
            expect(keys.is_extension_id(name), f"an extension is called {name!r}")


# Eras


@client_check(
    "client-probes-first",
    "discover-2",
    "stdio-14",
    "versioning-9",
    meaning="A client of both eras begins with `server/discover`, in its newest revision.",
    revisions=MODERN,
)
async def client_probes_first(probe: ClientProbe) -> None:
    scene = await probe.recording()
    require(speaks(scene), "the client does not speak this revision")
    await _needs_both_eras(probe)
    said = scene.messages()
    expect(said[0].method == "server/discover", f"the client begins with {said[0].method}")
    asked = said[0].meta.get(keys.PROTOCOL_VERSION)
    expect(asked == probe.revision, f"the probe is in revision {asked!r}", "stdio-14")


async def _needs_both_eras(probe: ClientProbe) -> None:
    """A client falls back when it meets a legacy server; one of a single era does not."""
    async with probe.play(revision=LATEST_LEGACY) as scene:
        try:
            await scene.message(lambda said: said.method not in BEFORE, "more than initialize")
        except NotApplicable as exc:
            raise NotApplicable("the client speaks no revision before 2026-07-28") from exc


@client_check(
    "client-falls-back-on-any-error",
    "stdio-15",
    meaning="Any error of `server/discover` that is not a modern one leads to `initialize`.",
    revisions=MODERN,
    transports=("stdio", "memory", "sse"),
)
async def client_falls_back_on_any_error(probe: ClientProbe) -> None:
    await probe.asks_for("server/discover")
    await _needs_both_eras(probe)
    for code in (-32601, -32602, -32600, -32000, 1):
        refusal = Refusal(code, "What is that?")
        async with probe.play({"server/discover": refusal}, revision=LATEST_LEGACY) as scene:
            try:
                await scene.call("initialize")
            except NotApplicable as exc:
                text = f"server/discover gets error {code}, and initialize does not follow"
                raise Failed(text) from exc


@client_check(
    "client-falls-back-on-silence",
    "stdio-15",
    meaning="No answer to `server/discover` leads to `initialize` within some seconds.",
    revisions=MODERN,
    transports=("stdio", "memory", "sse"),
)
async def client_falls_back_on_silence(probe: ClientProbe) -> None:
    await probe.asks_for("server/discover")
    await _needs_both_eras(probe)
    async with probe.play({"server/discover": HOLD}, revision=LATEST_LEGACY) as scene:
        await scene.call("server/discover")
        try:
            await scene.call("initialize", timeout=PROBE_PATIENCE)
        except NotApplicable as exc:
            if not scene.has_ended():
                raise NotApplicable(f"it still waits after {PROBE_PATIENCE:g} s") from exc
            raise Failed("server/discover is not answered, and the client leaves") from exc


@client_check(
    "client-remembers-the-era",
    "versioning-7",
    meaning="Once a client knows that a server is legacy, it does not probe it again.",
    revisions=MODERN,
)
async def client_remembers_the_era(probe: ClientProbe) -> None:
    await _needs_both_eras(probe)
    async with probe.play(revision=LATEST_LEGACY) as scene:
        await scene.over()
        first = scene.requests_of("initialize")[0]
        later = scene.calls[scene.calls.index(first) :]
        again = [call for call in later if call.method == "server/discover"]
        same = [call for call in again if call.said.link is first.said.link]
        expect(not same, "the client sends server/discover after initialize")


@client_check(
    "client-copes-with-unsupported-versions",
    "versioning-2",
    meaning="If the server speaks none of its versions, the client says so and stops.",
    revisions=MODERN,
)
async def client_copes_with_unsupported_versions(probe: ClientProbe) -> None:
    await probe.asks_for("server/discover")

    def refuse(call: Call) -> Refusal:
        data = {"supported": [FAR], "requested": call.meta.get(keys.PROTOCOL_VERSION)}
        return Refusal(UNSUPPORTED_VERSION, "Unsupported protocol version", data)

    made = {call.method for call in (await probe.recording()).calls}
    async with probe.play(dict.fromkeys({*made, "initialize"}, refuse)) as scene:
        await scene.over()
        later = [call.method for call in scene.calls if call.method not in OPENING]
        expect(not later, f"no version is supported, and the client goes on with {later[:1]}")
        tried = [call for call in scene.calls if call.method == "server/discover"]
        expect(len(tried) <= 3, f"no version is supported, and the client asks {len(tried)} times")


@client_check(
    "client-does-not-fall-back-after-a-modern-error",
    "stdio-15",
    meaning="A modern error of `server/discover` does not lead to `initialize`.",
    revisions=MODERN,
    transports=("stdio", "memory"),
)
async def client_does_not_fall_back_after_a_modern_error(probe: ClientProbe) -> None:
    await probe.asks_for("server/discover")
    data: JSONObject = {"supported": [FAR], "requested": probe.revision}
    refusal = Refusal(UNSUPPORTED_VERSION, "Unsupported protocol version", data)
    async with probe.play({"server/discover": refusal}) as scene:
        await scene.over()
        fell = scene.requests_of("initialize")
        expect(not fell, "a modern server refuses a version, and the client sends initialize")
