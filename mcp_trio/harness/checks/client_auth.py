"""Authorization: checks of clients of a protected server.

Each plays a protected server together with its authorization server, which remembers what it was
asked (`mcp_trio.harness.oauth.server.Guard`). A client that does nothing about a 401 takes no part
in this, and none of these checks applies to it.

A person's consent is not asked for: the authorization endpoint answers with a redirect at once. A
client that opens a browser finds one in the environment variable BROWSER, which follows it.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import groupby
from typing import Any, Final
from urllib.parse import urlsplit

import attrs

from mcp_trio.harness.checks import REVISIONS, check
from mcp_trio.harness.client_probe import ClientProbe
from mcp_trio.harness.http_scripted import HTTPRequest
from mcp_trio.harness.model import Failed, NotApplicable
from mcp_trio.harness.oauth.server import OAUTH, OPENID, RESOURCE, Guard, JSONObject
from mcp_trio.harness.probe import expect
from mcp_trio.harness.scripted import Answers, Scene

client_check = partial(check, role="client", transports=("http",))

V2, V3, V4, V5 = REVISIONS[1:]
FROM_V2: Final = (V2, V3, V4, V5)
FROM_V3: Final = (V3, V4, V5)
FROM_V4: Final = (V4, V5)

OTHER_ISSUER: Final = "https://issuer.invalid"
SECRET_ERROR: Final = "harness-words-of-somebody-else"
MOST_STEP_UPS: Final = 5
"""How often a client may ask for more scopes for one request: "no more than a few times"."""


@attrs.define
class Protected:
    """The guard of the server that is played; it is there once the client has asked something.

    Attributes:
        changes: In what it differs from a good one.
        on_request: Called with each message that the guard lets through, before it is answered;
            true if the guard is to look at it again.
    """

    changes: dict[str, Any]
    on_request: Callable[[Guard, JSONObject], bool] | None = None
    guard: Guard | None = None

    async def __call__(self, request: HTTPRequest) -> bool:
        """Answer a request, if it is for the authorization server or may not pass."""
        if self.guard is None:
            origin = f"http://{request.header('host')}"
            self.guard = Guard(origin, request.path, **self.changes)
        headers = dict(request.headers)
        answer = self.guard.answer(request.method, request.target, headers, request.body)
        passed = dict(self.guard.log[-1].fields) if answer is None else {}
        if passed and self.on_request is not None and self.on_request(self.guard, passed):
            answer = self.guard.answer(request.method, request.target, headers, request.body)
        if answer is None:
            return False
        await request.reply.whole(answer.status, answer.body, headers=answer.headers)
        return True

    @property
    def used(self) -> Guard:
        """The guard, for a client that takes part.

        Raises:
            NotApplicable: The client does not try to authorize itself.
        """
        steps = {asked.step for asked in self.guard.log} if self.guard else set()
        if self.guard is None or not steps & {"resource metadata", "server metadata"}:
            raise NotApplicable("the client does not try to authorize itself after a 401")
        return self.guard


@asynccontextmanager
async def protected(
    probe: ClientProbe, answers: Answers | None = None, **changes: Any
) -> AsyncIterator[tuple[Scene, Protected]]:
    """A protected server for the length of a block; `changes` are fields of `Guard`."""
    server = Protected(changes)
    async with probe.play(answers, on_http=server) as scene:
        yield scene, server


async def danced(probe: ClientProbe, **changes: Any) -> Guard:
    """Play a protected server until the client has done all that it does; what it was asked."""
    async with protected(probe, **changes) as (scene, server):
        await scene.over()
    return server.used


def got_in(guard: Guard) -> bool:
    """Whether some request was let through."""
    return any(asked.status is None for asked in guard.asked("request"))


def expect_in(guard: Guard, why: str, requirement: str | None = None) -> None:
    steps = [asked.step for asked in guard.log if asked.step != "request"]
    expect(
        got_in(guard), f"{why}, the client got no token; it did: {', '.join(steps)}", requirement
    )


def expect_stopped(guard: Guard, why: str, requirement: str | None = None) -> None:
    """The client must not have asked for a token."""
    if not guard.asked("authorize"):
        raise NotApplicable("the client does not get as far as the authorization endpoint")
    expect(not guard.asked("token"), f"{why}, and yet the client asked for a token", requirement)


def only(guard: Guard, step: Any) -> Any:
    """The first request of a step.

    Raises:
        NotApplicable: There is none.
    """
    found = guard.asked(step)
    if not found:
        raise NotApplicable(f"the client does not get as far as: {step}")
    return found[0]


# Discovery ----------------------------------------------------------------------------------------


@client_check(
    "client-acts-on-401",
    "auth-6",
    "auth-42",
    "auth-5",
    meaning="After a 401 the client gets a token from the authorization server that is named.",
    revisions=FROM_V3,
)
async def client_acts_on_401(probe: ClientProbe) -> None:
    expect_in(await danced(probe), "with metadata named in WWW-Authenticate")


@client_check(
    "client-follows-the-named-metadata",
    "auth-5",
    meaning="The client asks for the metadata where WWW-Authenticate says, first of all.",
    revisions=FROM_V4,
)
async def client_follows_the_named_metadata(probe: ClientProbe) -> None:
    place = f"{RESOURCE}/harness/elsewhere"
    guard = await danced(probe, resource_paths=(place,))
    first = only(guard, "resource metadata").path
    expect(first == place, f"the challenge names {place}, the client asked for {first}")
    expect_in(guard, "with metadata at a place of its own")


@client_check(
    "client-finds-metadata-below-the-path",
    "auth-5",
    meaning="Without a place in the challenge the client tries the well-known URI of the path.",
    revisions=FROM_V4,
)
async def client_finds_metadata_below_the_path(probe: ClientProbe) -> None:
    guard = await danced(probe, names_metadata=False)
    first = only(guard, "resource metadata").path
    expected = RESOURCE + guard.endpoint
    expect(first == expected, f"the client first asked for {first}, not for {expected}")
    expect_in(guard, "with metadata at the well-known URI of the endpoint's path")


@client_check(
    "client-finds-metadata-at-the-root",
    "auth-5",
    meaning="Without metadata for the path the client tries the well-known URI of the root.",
    revisions=FROM_V4,
)
async def client_finds_metadata_at_the_root(probe: ClientProbe) -> None:
    guard = await danced(probe, names_metadata=False, resource_paths=(RESOURCE,))
    asked = [asked.path for asked in guard.asked("resource metadata")]
    expect(RESOURCE in asked, f"the client asked for {', '.join(asked) or 'nothing'}")
    expect_in(guard, "with metadata at the well-known URI of the root")


@client_check(
    "client-finds-oauth-metadata-of-a-path",
    "auth-8",
    "auth-7",
    meaning="For an issuer with a path the client tries OAuth, OpenID, and OpenID appended.",
    revisions=FROM_V4,
)
async def client_finds_oauth_metadata_of_a_path(probe: ClientProbe) -> None:
    places = [f"{OAUTH}/tenant", f"{OPENID}/tenant", f"/tenant{OPENID}"]
    guard = await danced(probe, issuer_path="/tenant", metadata_paths=(places[-1],))
    asked = [asked.path for asked in guard.asked("server metadata")]
    tried = [path for path, _ in groupby(path for path in asked if path in places)]
    expect(tried[:3] == places, f"the client tried {', '.join(asked) or 'nothing'}")
    expect_in(guard, "with metadata at the third place")


@client_check(
    "client-finds-openid-metadata",
    "auth-9",
    "auth-7",
    "auth-44",
    meaning="An authorization server that has OpenID's metadata only is found.",
    revisions=FROM_V4,
)
async def client_finds_openid_metadata(probe: ClientProbe) -> None:
    guard = await danced(probe, metadata_paths=(OPENID,))
    asked = [asked.path for asked in guard.asked("server metadata")]
    expect(asked[:1] == [OAUTH], f"the client first asked for {asked[:1]}")
    expect_in(guard, "with metadata of OpenID Connect only")


@client_check(
    "client-uses-the-endpoints-of-the-metadata",
    "auth-133",
    "auth-131",
    "auth-160",
    "auth-42",
    meaning="The client asks at the endpoints that the metadata names.",
    revisions=FROM_V2,
)
async def client_uses_the_endpoints_of_the_metadata(probe: ClientProbe) -> None:
    def moved(document: JSONObject) -> JSONObject:
        names = ("authorization_endpoint", "token_endpoint", "registration_endpoint")
        changed = {
            name: document[name].replace(document["issuer"], document["issuer"] + "/some/where")
            for name in names
        }
        return {**document, **changed}

    guard = await danced(probe, change_metadata=moved)
    for step in ("register", "authorize", "token"):
        for asked in guard.asked(step):
            expect(asked.path.startswith("/some/where/"), f"{step} was asked at {asked.path}")
    expect_in(guard, "with endpoints at places of their own")


@client_check(
    "client-refuses-metadata-of-another-issuer",
    "auth-10",
    "auth-11",
    "auth-12",
    meaning="Metadata that names another issuer is not used.",
    revisions=(V5,),
)
async def client_refuses_metadata_of_another_issuer(probe: ClientProbe) -> None:
    guard = await danced(
        probe, change_metadata=lambda document: {**document, "issuer": OTHER_ISSUER}
    )
    only(guard, "server metadata")
    used = [asked.step for asked in guard.log if asked.step in ("register", "authorize", "token")]
    expect(
        not used, f"the metadata names {OTHER_ISSUER}, and the client went on: {', '.join(used)}"
    )


@client_check(
    "client-falls-back-to-default-endpoints",
    "auth-141",
    "auth-139",
    "auth-142",
    meaning="Without metadata the client uses /authorize, /token and /register at the root.",
    revisions=(V2,),
)
async def client_falls_back_to_default_endpoints(probe: ClientProbe) -> None:
    guard = await danced(probe, names_metadata=False, resource_paths=(), metadata_paths=())
    steps = [asked.step for asked in guard.log]
    expect("server metadata" in steps, "no metadata was looked for first", "auth-142")
    expect_in(guard, "without any metadata")
    paths = {asked.path for asked in guard.log if asked.step in ("authorize", "token", "register")}
    expect(paths <= {"/authorize", "/token", "/register"}, f"the client asked at {sorted(paths)}")


# Registration -------------------------------------------------------------------------------------


@client_check(
    "client-gets-a-client-id",
    "auth-46",
    "auth-112",
    "auth-129",
    "auth-134",
    "auth-157",
    "auth-158",
    meaning="The client registers, with the redirect URIs that it then uses.",
    revisions=FROM_V2,
)
async def client_gets_a_client_id(probe: ClientProbe) -> None:
    guard = await danced(probe)
    asked = only(guard, "authorize").query
    client_id = asked.get("client_id")
    expect(client_id, "the authorization request has no client_id", _said("auth-46", probe))
    registered = guard.asked("register")
    if not registered:
        raise NotApplicable("the client does not register itself")
    expect(client_id in guard.clients, f"the client registered, and calls itself {client_id!r}")
    uris = registered[-1].fields.get("redirect_uris") or []
    uri = asked.get("redirect_uri")
    expect(uri in uris, f"redirect_uri {uri!r} was not registered", _said("auth-112", probe))


def _said(requirement: str, probe: ClientProbe) -> str | None:
    """A requirement if the revision of the probe has it."""
    from mcp_trio.harness.requirements import load_requirements

    return requirement if probe.revision in load_requirements()[requirement].revisions else None


@client_check(
    "client-says-what-kind-of-application-it-is",
    "auth-28",
    "auth-29",
    meaning="Registration says `application_type`: native for a program on the user's machine.",
    revisions=(V5,),
)
async def client_says_what_kind_of_application_it_is(probe: ClientProbe) -> None:
    fields = only(await danced(probe), "register").fields
    kind = fields.get("application_type")
    expect(kind in ("native", "web"), f"application_type is {kind!r}")
    local = [uri for uri in fields.get("redirect_uris") or [] if _is_local(uri)]
    native = kind == "native" or not local
    expect(native, f"a client at {local[:1]} says that it is on the web", "auth-29")


def _is_local(uri: str) -> bool:
    return urlsplit(uri).hostname in ("localhost", "127.0.0.1", "::1")


@client_check(
    "client-redirects-are-safe",
    "auth-104",
    meaning="Redirect URIs have HTTPS or are local.",
    revisions=FROM_V2,
)
async def client_redirects_are_safe(probe: ClientProbe) -> None:
    guard = await danced(probe)
    only(guard, "authorize")
    uris = [asked.query.get("redirect_uri", "") for asked in guard.asked("authorize")]
    uris += [u for asked in guard.asked("register") for u in asked.fields.get("redirect_uris", ())]
    for uri in uris:
        # A scheme of the program's own never leaves the machine either (RFC 8252).
        safe = not uri.startswith("http:") or _is_local(uri)
        expect(safe, f"the redirect URI {uri} is neither local nor HTTPS")


@client_check(
    "client-asks-for-refresh-tokens",
    "auth-81",
    meaning="The client's metadata has refresh_token among its grant_types.",
    revisions=(V5,),
)
async def client_asks_for_refresh_tokens(probe: ClientProbe) -> None:
    fields = only(await danced(probe), "register").fields
    grants = fields.get("grant_types")
    expect("refresh_token" in (grants or ()), f"grant_types is {grants!r}")


@client_check(
    "client-survives-refused-registration",
    "auth-31",
    meaning="A refused registration is an error, not a crash, and nothing is asked without an id.",
    revisions=(V5,),
)
async def client_survives_refused_registration(probe: ClientProbe) -> None:
    async with protected(probe, refuses_registration=True) as (scene, server):
        await scene.over()
        status = None if scene.running is None else scene.running.status
    guard = server.used
    only(guard, "register")
    expect(not guard.asked("authorize"), "with its registration refused, the client went on")
    expect(status is None or status >= 0, f"the client was ended by signal {-(status or 0)}")


@client_check(
    "client-uses-its-metadata-document",
    "auth-14",
    "auth-13",
    "auth-40",
    "auth-17",
    meaning="Where it is supported, the client's id is the HTTPS URL of its metadata document.",
    revisions=FROM_V4,
)
async def client_uses_its_metadata_document(probe: ClientProbe) -> None:
    guard = await danced(probe, change_metadata=_supporting_documents)
    client_id = str(only(guard, "authorize").query.get("client_id"))
    registered = client_id in guard.clients
    expect(not registered, "the client registered, though metadata documents are supported")
    parts = urlsplit(client_id)
    if "://" in client_id:
        good = parts.scheme == "https" and parts.path not in ("", "/")
        expect(good, f"the client id {client_id} is no HTTPS URL with a path", "auth-17")


def _supporting_documents(document: JSONObject) -> JSONObject:
    return {**document, "client_id_metadata_document_supported": True}


@client_check(
    "client-uses-no-document-unasked",
    "auth-26",
    meaning="Where metadata documents are not said to be supported, the client's id is no URL.",
    revisions=FROM_V4,
)
async def client_uses_no_document_unasked(probe: ClientProbe) -> None:
    client_id = str(only(await danced(probe), "authorize").query.get("client_id"))
    plain = not client_id.startswith("https:")
    expect(plain, f"the client id is {client_id}, but documents are not supported")


@client_check(
    "client-registers-anew-elsewhere",
    "auth-34",
    "auth-33",
    "auth-3",
    "auth-77",
    meaning="With another authorization server the client registers there, and gets a token there.",
    revisions=(V5,),
)
async def client_registers_anew_elsewhere(probe: ClientProbe) -> None:
    moved: list[int] = []

    def move(guard: Guard, message: JSONObject) -> bool:
        if message.get("method") != "tools/list" or moved:
            return False
        moved.append(len(guard.log))
        guard.move("/other")
        return True

    async with protected(probe) as (scene, server):
        server.on_request = move
        await scene.over()
    guard = server.used
    if not moved:
        raise NotApplicable("the client does not get as far as tools/list")
    later = guard.log[moved[0] :]
    for asked in later:
        client_id = asked.query.get("client_id") or asked.fields.get("client_id")
        if asked.step in ("authorize", "token") and client_id in guard.clients:
            given, here = guard.clients[client_id], guard.origin + asked.path.rpartition("/")[0]
            expect(given == here, f"the client id of {given} was used at {here} ({asked.step})")
    if not any(asked.step == "authorize" for asked in later):
        raise NotApplicable("the client does not look for the other authorization server")


# Scopes -------------------------------------------------------------------------------------------


def scopes(query: Any) -> set[str]:
    """The scopes that were asked for, but for the one that refresh tokens may need."""
    return set(str(query.get("scope", "")).split()) - {"offline_access"}


@client_check(
    "client-asks-for-the-challenged-scopes",
    "auth-49",
    "auth-48",
    "auth-53",
    meaning="The client asks for the scopes of the challenge, whatever else is supported.",
    revisions=FROM_V4,
)
async def client_asks_for_the_challenged_scopes(probe: ClientProbe) -> None:
    guard = await danced(probe, challenge_scope="harness:a harness:b", scopes_supported=("other",))
    asked = scopes(only(guard, "authorize").query)
    challenged = {"harness:a", "harness:b"}
    expect(challenged <= asked, f"challenged for {sorted(challenged)}, asked for {sorted(asked)}")
    expect(asked <= challenged, f"not challenged for {sorted(asked - challenged)}", "auth-53")


@client_check(
    "client-asks-for-the-supported-scopes",
    "auth-53",
    "auth-127",
    meaning="Without scopes in the challenge, the client asks for scopes_supported.",
    revisions=FROM_V4,
)
async def client_asks_for_the_supported_scopes(probe: ClientProbe) -> None:
    guard = await danced(probe, scopes_supported=("harness:a", "harness:b"))
    asked = scopes(only(guard, "authorize").query)
    expect(asked == {"harness:a", "harness:b"}, f"the client asked for {sorted(asked)}")


@client_check(
    "client-asks-for-no-scopes-of-its-own",
    "auth-53",
    "auth-52",
    meaning="Where nobody names scopes, the client asks for none.",
    revisions=FROM_V4,
)
async def client_asks_for_no_scopes_of_its_own(probe: ClientProbe) -> None:
    asked = scopes(only(await danced(probe), "authorize").query)
    expect(not asked, f"the client asked for {sorted(asked)}")


@client_check(
    "client-steps-up",
    "auth-91",
    "auth-90",
    "auth-50",
    meaning="On insufficient_scope the client gets a token with these scopes and those it had.",
    revisions=FROM_V4,
)
async def client_steps_up(probe: ClientProbe) -> None:
    needs = {"tools/call": "harness:more"}
    guard = await danced(probe, challenge_scope="harness:basic", needs=needs)
    if not any(asked.status == 403 for asked in guard.asked("request")):
        raise NotApplicable("the client calls no tool")
    asked = [scopes(asked.query) for asked in guard.asked("authorize")]
    expect(any("harness:more" in s for s in asked), f"the client asked for {asked}")
    kept = any({"harness:more", "harness:basic"} <= s for s in asked)
    lost = f"with the new scope the client dropped the old one: {asked}"
    expect(kept, lost, _said("auth-50", probe))


@client_check(
    "client-gives-up-stepping-up",
    "auth-92",
    meaning="A client that never gets enough scopes stops asking for more.",
    revisions=FROM_V4,
)
async def client_gives_up_stepping_up(probe: ClientProbe) -> None:
    guard = await danced(
        probe,
        challenge_scope="harness:basic",
        needs={"tools/call": "harness:more"},
        has_never_enough=True,
    )
    if not any(asked.status == 403 for asked in guard.asked("request")):
        raise NotApplicable("the client calls no tool")
    refused = [asked.fields.get("id") for asked in guard.asked("request") if asked.status == 403]
    most = max(len(list(times)) for _, times in groupby(refused))
    expect(most <= MOST_STEP_UPS, f"one request was sent {most} times, with ever new tokens")


# The authorization response -----------------------------------------------------------------------


@client_check(
    "client-refuses-a-foreign-iss",
    "auth-57",
    "auth-54",
    meaning="A response with another issuer's `iss` is refused before its code is used.",
    revisions=(V5,),
)
async def client_refuses_a_foreign_iss(probe: ClientProbe) -> None:
    guard = await danced(probe, change_response=lambda fields: {**fields, "iss": OTHER_ISSUER})
    expect_stopped(guard, f"the response says iss={OTHER_ISSUER}")


@client_check(
    "client-refuses-an-unannounced-foreign-iss",
    "auth-57",
    meaning="A foreign `iss` is refused, even where the metadata does not announce any.",
    revisions=(V5,),
)
async def client_refuses_an_unannounced_foreign_iss(probe: ClientProbe) -> None:
    def silent(document: JSONObject) -> JSONObject:
        return {**document, "authorization_response_iss_parameter_supported": False}

    guard = await danced(
        probe,
        change_metadata=silent,
        change_response=lambda fields: {**fields, "iss": OTHER_ISSUER},
    )
    expect_stopped(guard, f"the response says iss={OTHER_ISSUER}")


@client_check(
    "client-misses-a-promised-iss",
    "auth-57",
    meaning="A response without the `iss` that the metadata promises is refused.",
    revisions=(V5,),
)
async def client_misses_a_promised_iss(probe: ClientProbe) -> None:
    def without(fields: JSONObject) -> JSONObject:
        return {name: value for name, value in fields.items() if name != "iss"}

    guard = await danced(probe, change_response=without)
    expect_stopped(guard, "the response lacks the promised iss")


@client_check(
    "client-compares-iss-exactly",
    "auth-59",
    "auth-57",
    meaning="An `iss` that only looks like the issuer is refused.",
    revisions=(V5,),
)
async def client_compares_iss_exactly(probe: ClientProbe) -> None:
    guard = await danced(probe, change_response=lambda f: {**f, "iss": f"{f['iss']}/"})
    expect_stopped(guard, "the response says the issuer with a slash behind it")


@client_check(
    "client-ignores-errors-of-others",
    "auth-60",
    meaning="What an error response of another issuer says is not shown to anybody.",
    revisions=(V5,),
)
async def client_ignores_errors_of_others(probe: ClientProbe) -> None:
    def refused(fields: JSONObject) -> JSONObject:
        error = {"error": "access_denied", "error_description": SECRET_ERROR}
        return {"state": fields.get("state", ""), "iss": OTHER_ISSUER, **error}

    guard = await danced(probe, change_response=refused)
    only(guard, "authorize")
    said = [e.data for e in probe.exchange.entries if e.kind in ("stderr", "note")]
    shown = any(SECRET_ERROR.encode() in data for data in said)
    expect(not shown, "the client shows the error description of another issuer")


@client_check(
    "client-sends-state",
    "auth-114",
    meaning="Each authorization request has a `state` of its own.",
    revisions=FROM_V3,
)
async def client_sends_state(probe: ClientProbe) -> None:
    guard = await danced(probe)
    only(guard, "authorize")
    states = [asked.query.get("state") for asked in guard.asked("authorize")]
    expect(all(states), "the authorization request has no state")
    expect(len(set(states)) == len(states), "two authorization requests have one state")


@client_check(
    "client-refuses-a-foreign-state",
    "auth-114",
    meaning="A response with another `state` is refused before its code is used.",
    revisions=FROM_V3,
)
async def client_refuses_a_foreign_state(probe: ClientProbe) -> None:
    guard = await danced(probe, change_response=lambda f: {**f, "state": "harness-other-state"})
    expect_stopped(guard, "the response has another state")


# PKCE ---------------------------------------------------------------------------------------------


@client_check(
    "client-uses-pkce",
    "auth-105",
    "auth-106",
    meaning="The client sends a challenge with S256, and then its verifier.",
    revisions=FROM_V3,
)
async def client_uses_pkce(probe: ClientProbe) -> None:
    guard = await danced(probe)
    asked = only(guard, "authorize").query
    expect(asked.get("code_challenge"), "the authorization request has no code_challenge")
    method = asked.get("code_challenge_method")
    expect(method == "S256", f"the method is {method!r}, not S256", _said("auth-106", probe))
    verifier = str(only(guard, "token").fields.get("code_verifier", ""))
    digest = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode()
    fits = digest.rstrip("=") == asked["code_challenge"].rstrip("=")
    expect(fits, "the code_verifier does not fit the code_challenge")


def _without_pkce(document: JSONObject) -> JSONObject:
    return {k: v for k, v in document.items() if k != "code_challenge_methods_supported"}


@client_check(
    "client-needs-pkce-in-oauth-metadata",
    "auth-108",
    "auth-107",
    "auth-155",
    meaning="Without code_challenge_methods_supported in OAuth's metadata the client stops.",
    revisions=FROM_V4,
)
async def client_needs_pkce_in_oauth_metadata(probe: ClientProbe) -> None:
    guard = await danced(probe, change_metadata=_without_pkce)
    only(guard, "server metadata")
    went_on = bool(guard.asked("authorize"))
    expect(not went_on, "the metadata does not say that PKCE is supported, and the client went on")


@client_check(
    "client-needs-pkce-in-openid-metadata",
    "auth-110",
    "auth-109",
    meaning="Without code_challenge_methods_supported in OpenID's metadata the client stops.",
    revisions=FROM_V4,
)
async def client_needs_pkce_in_openid_metadata(probe: ClientProbe) -> None:
    guard = await danced(probe, metadata_paths=(OPENID,), change_metadata=_without_pkce)
    if not any(asked.status == 200 for asked in guard.asked("server metadata")):
        raise NotApplicable("the client does not look for metadata of OpenID Connect")
    went_on = bool(guard.asked("authorize"))
    expect(not went_on, "the metadata does not say that PKCE is supported, and the client went on")


# Tokens -------------------------------------------------------------------------------------------


@client_check(
    "client-names-the-resource",
    "auth-62",
    "auth-61",
    "auth-63",
    "auth-64",
    "auth-65",
    "auth-67",
    "auth-68",
    "auth-97",
    "auth-126",
    meaning="Authorization and token requests name the server by its canonical URI.",
    revisions=FROM_V3,
)
async def client_names_the_resource(probe: ClientProbe) -> None:
    guard = await danced(probe)
    only(guard, "authorize")
    named = [("authorization", asked.query) for asked in guard.asked("authorize")]
    named += [("token", asked.fields) for asked in guard.asked("token")]
    for what, fields in named:
        resource = fields.get("resource")
        if not resource:
            raise Failed(f"the {what} request has no `resource`")
        if resource == f"{guard.resource}/":
            raise Failed(f"resource is {resource!r}, with a slash", requirement="auth-67")
        if resource.rstrip("/") == guard.origin:
            raise Failed(f"resource is only the origin, {resource!r}", requirement="auth-65")
        told = f"the {what} request is for {resource!r}, the server is {guard.resource!r}"
        expect(resource == guard.resource, told, "auth-64")


@client_check(
    "client-sends-its-token-each-time",
    "auth-71",
    "auth-70",
    meaning="Each HTTP request carries the token, in the Authorization header.",
    revisions=FROM_V2,
)
async def client_sends_its_token_each_time(probe: ClientProbe) -> None:
    guard = await danced(probe)
    if not got_in(guard):
        raise NotApplicable("the client gets no token")
    sent = guard.asked("request")
    first = next(n for n, asked in enumerate(sent) if asked.authorization)
    for asked in sent[first:]:
        what = asked.fields.get("method", "a request without a message")
        expect(asked.authorization, f"{what} came without a token after one was had")
        scheme = str(asked.authorization).partition(" ")[0]
        expect(scheme.lower() == "bearer", f"the scheme is {scheme}, not Bearer", "auth-70")


@client_check(
    "client-keeps-tokens-out-of-urls",
    "auth-72",
    meaning="No access token is in a URL.",
    revisions=FROM_V2,
)
async def client_keeps_tokens_out_of_urls(probe: ClientProbe) -> None:
    guard = await danced(probe)
    only(guard, "token")
    for asked in guard.log:
        leaked = [name for name, value in asked.query.items() if value.startswith("access-")]
        expect(not leaked, f"a token is in the URL of {asked.path}, as {leaked}")


@client_check(
    "client-works-without-refresh-tokens",
    "auth-82",
    meaning="When a token has expired and there is no refresh token, the client gets a new one.",
    revisions=(V5,),
)
async def client_works_without_refresh_tokens(probe: ClientProbe) -> None:
    def without(document: JSONObject) -> JSONObject:
        return {name: value for name, value in document.items() if name != "refresh_token"}

    guard = await danced(probe, change_token=without, expires_after=1)
    passed = [asked for asked in guard.asked("request") if asked.status is None]
    if not passed:
        raise NotApplicable("the client gets no token")
    refused = [asked for asked in guard.asked("request") if asked.status == 401]
    if len(refused) < 2:
        raise NotApplicable("the client sends no second request")
    expect(len(passed) > 1, "after the first token had expired, no request got through")
    refreshed = [a for a in guard.asked("token") if a.fields.get("grant_type") == "refresh_token"]
    expect(not refreshed, "the client tried to refresh with a token that it was never given")
