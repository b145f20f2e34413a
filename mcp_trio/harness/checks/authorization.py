"""What a protected server says to who has no token, or a wrong one: checks.

A server that answers without a token asks for no authorization, and none of this applies to it. A
token that is right is one of the target's headers: `--header "Authorization: Bearer ..."`.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import attrs
import httpx

from mcp_trio.harness.checks import MODERN, REVISIONS, check
from mcp_trio.harness.checks.http_common import calls, is_local, some_requests, web_target
from mcp_trio.harness.http_plain import HTTPClient, HTTPReply
from mcp_trio.harness.http_talk import HTTPTalk, talk_of
from mcp_trio.harness.model import NotApplicable
from mcp_trio.harness.probe import ServerProbe, expect, require
from mcp_trio.harness.session import CLIENT_INFO
from mcp_trio.wire.jsonrpc import JSONObject

AUTHORIZED: Final = REVISIONS[1:]
"""The revisions that say how a server is protected."""
METADATA: Final = REVISIONS[2:]
"""Those in which a protected server names its authorization servers."""
FIRST: Final = ("2025-03-26",)
"""The one in which a protected server is an authorization server itself."""
WHOLE_DISCOVERY: Final = "2025-11-25"
"""From here on the metadata may also be found at a well-known place alone."""

AUTHORIZATION: Final = "Authorization"
RESOURCE_PLACE: Final = "/.well-known/oauth-protected-resource"
SERVER_PLACE: Final = "/.well-known/oauth-authorization-server"

_PARAMETER: Final = re.compile(r'([A-Za-z_]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))')


@attrs.frozen
class Denied:
    """A request without a right token, and what came of it."""

    http: HTTPClient
    reply: HTTPReply

    @property
    def challenge(self) -> str:
        """The header WWW-Authenticate; empty if it is missing."""
        return str(self.reply.headers.get("www-authenticate", ""))


def parameters(challenge: str) -> dict[str, str]:
    """What a challenge says, by name."""
    found = _PARAMETER.findall(challenge)
    return {name.lower(): quoted or plain for name, quoted, plain in found}


@asynccontextmanager
async def denied(probe: ServerProbe, token: str | None = None) -> AsyncIterator[Denied]:
    """Ask without the token that is right.

    Raises:
        NotApplicable: The server answers also without any.
    """
    async with probe.open_session(handshake=False) as session:
        talk = HTTPTalk(session)
        reply = await ask(probe, talk, None)
        asks = reply.status in (401, 403) or "www-authenticate" in reply.headers
        require(asks, f"the server asks for no authorization: it answers {reply.brief()}")
        if token is not None:
            reply = await ask(probe, talk, f"Bearer {token}")
        yield Denied(talk.http, reply)


async def ask(probe: ServerProbe, talk: HTTPTalk, authorization: str | None) -> HTTPReply:
    """The first request of a client, with that for Authorization."""
    if talk.session.is_modern:
        request = talk.message("server/discover")
    else:
        hello = {"protocolVersion": probe.revision, "capabilities": {}, "clientInfo": CLIENT_INFO}
        request = talk.message("initialize", hello)
    return await talk.post(request, {AUTHORIZATION: authorization})


# Tokens


@check(
    "missing-token-gets-401",
    "auth-84",
    "auth-138",
    meaning="A protected server answers a request without a token by status 401.",
    transports=("http",),
    revisions=AUTHORIZED,
)
async def missing_token_gets_401(probe: ServerProbe) -> None:
    async with denied(probe) as it:
        expect(it.reply.status == 401, f"a request without a token got {it.reply.brief()}")


@check(
    "everybody-needs-a-token",
    "http-5",
    meaning="A server that others can reach, or that has tokens, answers nobody without one.",
    transports=("http",),
    revisions=AUTHORIZED,
)
async def everybody_needs_a_token(probe: ServerProbe) -> None:
    target = web_target(probe)
    given = {name.lower() for name in target.headers or {}}
    protected = AUTHORIZATION.lower() in given or not is_local(httpx.URL(target.name))
    require(protected, "only this computer reaches the server, and no token was given for it")
    async with probe.open_session(handshake=False) as session:
        reply = await ask(probe, HTTPTalk(session), None)
    expect(not reply.ok, f"a request without a token got {reply.brief()}")


@check(
    "invalid-token-gets-401",
    "auth-76",
    "auth-73",
    "auth-123",
    meaning="A token that is not valid gets status 401.",
    transports=("http",),
    revisions=AUTHORIZED,
)
async def invalid_token_gets_401(probe: ServerProbe) -> None:
    for token in ("harness", "harness.is.invalid", "0" * 64):
        async with denied(probe, token) as it:
            seen = f"a token that is not valid got {it.reply.brief()} instead of 401"
            expect(it.reply.status == 401, seen)


@check(
    "refusals-carry-a-challenge",
    "auth-75",
    meaning="An answer with status 401 has the header WWW-Authenticate.",
    transports=("http",),
    revisions=AUTHORIZED,
)
async def refusals_carry_a_challenge(probe: ServerProbe) -> None:
    async with denied(probe, "harness") as it:
        require(it.reply.status == 401, "a token that is not valid gets no 401")
        expect(it.challenge, "an answer with status 401 has no WWW-Authenticate")


@check(
    "token-for-others-is-refused",
    "auth-74",
    "auth-78",
    "auth-79",
    "auth-98",
    "auth-122",
    "auth-124",
    meaning="A token that says it is for another server is refused.",
    transports=("http",),
    revisions=METADATA,
)
async def token_for_others_is_refused(probe: ServerProbe) -> None:
    for token in tokens_for_others(probe):
        async with denied(probe, token) as it:
            expect(not it.reply.ok, f"a token for another server got {it.reply.brief()}")


def tokens_for_others(probe: ServerProbe) -> list[str]:
    """Tokens in the usual form, for another audience: unsigned, and with the target's signature."""
    header, _, signature = own_token(probe).partition(".")
    signature = signature.rpartition(".")[2] or "AAAA"
    claims = packed({"aud": "https://other.invalid", "sub": "harness", "exp": 4_102_444_800})
    unsigned = packed({"alg": "none", "typ": "JWT"})
    return [f"{unsigned}.{claims}.", f"{header or unsigned}.{claims}.{signature}"]


def own_token(probe: ServerProbe) -> str:
    headers = web_target(probe).headers or {}
    given = {name.lower(): value for name, value in headers.items()}
    return given.get(AUTHORIZATION.lower(), "").rpartition(" ")[2]


def packed(value: JSONObject) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


# Metadata of the resource


@check(
    "metadata-can-be-found",
    "auth-4",
    "auth-132",
    meaning="The challenge says where the metadata is (or, since 2025-11-25, a well-known place).",
    transports=("http",),
    revisions=METADATA,
)
async def metadata_can_be_found(probe: ServerProbe) -> None:
    async with denied(probe) as it:
        if probe.revision < WHOLE_DISCOVERY:
            named = "resource_metadata" in parameters(it.challenge)
            seen = f"the challenge names no resource_metadata: {it.challenge[:120]!r}"
            expect(named, seen, "auth-132")
        else:
            found = await resource_metadata(it)
            expect(found is not None, "neither the challenge nor a well-known place has metadata")


@check(
    "metadata-is-served",
    "auth-1",
    "auth-41",
    "auth-2",
    meaning="The metadata is a JSON object that names the resource and an authorization server.",
    transports=("http",),
    revisions=METADATA,
)
async def metadata_is_served(probe: ServerProbe) -> None:
    async with denied(probe) as it:
        found = await resource_metadata(it)
    if found is None:
        expect(False, "no metadata of the protected resource is served")
        return
    expect(isinstance(found.get("resource"), str), "the metadata names no `resource`")
    servers = found.get("authorization_servers")
    named = isinstance(servers, list) and servers and all(isinstance(s, str) for s in servers)
    expect(named, f"the metadata has authorization_servers {servers!r}", "auth-2")


async def resource_metadata(it: Denied) -> JSONObject | None:
    """What the challenge names, or else what is at the well-known places; None if nothing is."""
    named = parameters(it.challenge).get("resource_metadata")
    url = httpx.URL(it.http.url)
    path = url.path if url.path != "/" else ""
    places = [named] if named else [place(url, RESOURCE_PLACE + path), place(url, RESOURCE_PLACE)]
    for where in places:
        found = await document(it.http, where)
        if found is not None:
            return found
    return None


def place(url: httpx.URL, path: str) -> str:
    return str(url.copy_with(path=path, query=None, fragment=None))


async def document(http: HTTPClient, url: str) -> JSONObject | None:
    """A JSON object at a URL; None if there is none."""
    reply = await http.request("GET", {"Accept": "application/json", AUTHORIZATION: None}, url=url)
    value = reply.json
    return value if reply.status == 200 and isinstance(value, dict) else None


@check(
    "resource-has-no-slash-at-its-end",
    "auth-67",
    meaning="The metadata names the resource without a slash that means nothing.",
    transports=("http",),
    revisions=METADATA,
)
async def resource_has_no_slash_at_its_end(probe: ServerProbe) -> None:
    async with denied(probe) as it:
        found = await resource_metadata(it)
    resource = str((found or {}).get("resource", ""))
    require(resource, "the metadata names no resource")
    meant = web_target(probe).name.endswith("/") and httpx.URL(resource).path != "/"
    expect(meant or not resource.endswith("/"), f"the metadata names the resource {resource!r}")


# Challenges


@check(
    "challenge-names-scopes",
    "auth-47",
    meaning="The challenge names the scopes that are needed.",
    transports=("http",),
    revisions=REVISIONS[3:],
)
async def challenge_names_scopes(probe: ServerProbe) -> None:
    async with denied(probe) as it:
        seen = f"the challenge names no scope: {it.challenge[:120]!r}"
        expect("scope" in parameters(it.challenge), seen)


@check(
    "offline-access-is-not-asked-for",
    "auth-83",
    meaning="Neither challenge nor scopes_supported have offline_access.",
    transports=("http",),
    revisions=MODERN,
)
async def offline_access_is_not_asked_for(probe: ServerProbe) -> None:
    async with denied(probe) as it:
        scopes = parameters(it.challenge).get("scope", "").split()
        expect("offline_access" not in scopes, f"the challenge asks for {' '.join(scopes)}")
        supported = (await resource_metadata(it) or {}).get("scopes_supported") or []
        expect("offline_access" not in supported, f"scopes_supported are {supported}")


@check(
    "too-little-scope-is-told",
    "auth-85",
    "auth-86",
    meaning="Status 403 for too little scope says so, with `scope` and `resource_metadata`.",
    transports=("http",),
    revisions=REVISIONS[3:],
)
async def too_little_scope_is_told(probe: ServerProbe) -> None:
    talk = await talk_of(probe)
    for request in (*some_requests(talk), *await all_calls(probe, talk)):
        reply = await talk.post(request)
        if reply.status == 403:
            said = parameters(reply.headers.get("www-authenticate", ""))
            what = f"{request['method']} got status 403, whose challenge"
            expect(said.get("error") == "insufficient_scope", f"{what} says {said}")
            expect("scope" in said, f"{what} names no scope", "auth-86")
            expect("resource_metadata" in said, f"{what} names no resource_metadata")
            return
    raise NotApplicable("the token that was given is enough for everything")


async def all_calls(probe: ServerProbe, talk: HTTPTalk) -> list[JSONObject]:
    try:
        first = (await probe.callable_tools())[0]
    except NotApplicable:
        return []
    call = talk.message("tools/call", {"name": first.get("name"), "arguments": {}})
    return [call, *await calls(probe, talk)]


@check(
    "host-may-be-in-capitals",
    "auth-66",
    meaning="The server's name counts in any case.",
    transports=("http",),
    revisions=METADATA,
)
async def host_may_be_in_capitals(probe: ServerProbe) -> None:
    talk = await talk_of(probe)
    url = httpx.URL(talk.http.url)
    port = f":{url.port}" if url.port else ""
    name = "localhost" if is_local(url) else url.host
    usual = await talk.post(talk.harmless(), {"Host": name + port})
    require(usual.ok and name.upper() != name, f"the server does not go by the name {name}")
    reply = await talk.post(talk.harmless(), {"Host": name.upper() + port})
    expect(reply.ok, f"a request for {name.upper()} got {reply.brief()}")


# The authorization server of 2025-03-26


async def own_server(probe: ServerProbe, it: Denied) -> JSONObject | None:
    """The metadata of the server as an authorization server.

    Raises:
        NotApplicable: It leaves authorization to another one, as newer revisions want it.
    """
    require(await resource_metadata(it) is None, "authorization is left to another server")
    return await document(it.http, place(httpx.URL(web_target(probe).name), SERVER_PLACE))


@check(
    "authorization-metadata-is-served",
    "auth-135",
    "auth-140",
    meaning="The metadata of the authorization server is at the well-known place of the host.",
    transports=("http",),
    revisions=FIRST,
)
async def authorization_metadata_is_served(probe: ServerProbe) -> None:
    async with denied(probe) as it:
        found = await own_server(probe, it)
    expect(found is not None, f"there is no metadata at {SERVER_PLACE}", "auth-135")


@check(
    "default-endpoints-are-there",
    "auth-136",
    meaning="Without metadata, /authorize and /token are there.",
    transports=("http",),
    revisions=FIRST,
)
async def default_endpoints_are_there(probe: ServerProbe) -> None:
    async with denied(probe) as it:
        require(await own_server(probe, it) is None, "there is metadata")
        for method, path in (("GET", "/authorize"), ("POST", "/token")):
            where = place(httpx.URL(it.http.url), path)
            reply = await it.http.request(method, {AUTHORIZATION: None}, url=where)
            expect(reply.status != 404, f"{method} {path} got {reply.brief()}")


@check(
    "clients-may-register",
    "auth-157",
    "auth-158",
    meaning="The metadata names an endpoint where clients register.",
    transports=("http",),
    revisions=FIRST,
)
async def clients_may_register(probe: ServerProbe) -> None:
    async with denied(probe) as it:
        found = await own_server(probe, it)
    require(found is not None, "there is no metadata of an authorization server")
    assert found is not None
    expect("registration_endpoint" in found, "the metadata names no registration_endpoint")


@check(
    "authorization-is-over-https",
    "auth-159",
    meaning="All endpoints that the metadata names are https, but for those of this computer.",
    transports=("http",),
    revisions=FIRST,
)
async def authorization_is_over_https(probe: ServerProbe) -> None:
    async with denied(probe) as it:
        found = await own_server(probe, it)
    named = {key: str(url) for key, url in (found or {}).items() if key.endswith("_endpoint")}
    require(named, "there is no metadata of an authorization server")
    for key, text in named.items():
        url = httpx.URL(text)
        expect(url.scheme == "https" or is_local(url), f"the {key} is {text}")


@check(
    "redirects-are-not-open",
    "auth-148",
    meaning="Nobody is redirected to a place that no client has registered.",
    transports=("http",),
    revisions=FIRST,
)
async def redirects_are_not_open(probe: ServerProbe) -> None:
    query: dict[str, Any] = {
        "response_type": "code",
        "client_id": "harness",
        "redirect_uri": "https://elsewhere.invalid/",
        "code_challenge": "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
        "code_challenge_method": "S256",
    }
    async with denied(probe) as it:
        found = await own_server(probe, it) or {}
        url = str(
            found.get("authorization_endpoint") or place(httpx.URL(it.http.url), "/authorize")
        )
        where = str(httpx.URL(url).copy_merge_params(query))
        reply = await it.http.request("GET", {AUTHORIZATION: None}, url=where)
    to = reply.headers.get("location", "")
    expect("elsewhere.invalid" not in httpx.URL(to).host, f"the user was redirected to {to[:120]}")
