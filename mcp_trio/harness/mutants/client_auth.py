"""Authorization: mutants of clients.

The healthy one is the demo client with `PlainOAuth`. A fault stands between it and the network, and
changes what it asks; or it changes what it is told, so that it does not see what it should refuse.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, Final, TypeAlias
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx

from mcp_trio.harness.demo_client import play
from mcp_trio.harness.mutants import ClientMutant
from mcp_trio.harness.mutants.client_faults import Client, HTTPFault, other_client
from mcp_trio.harness.oauth.client import AuthorizationFailed, PlainOAuth

Send: TypeAlias = Callable[[httpx.Request], Awaitable[httpx.Response]]
Fields: TypeAlias = dict[str, Any]
OWN_DOCUMENT: Final = "https://client.invalid/oauth/metadata.json"


def _step(request: httpx.Request) -> str:
    return request.url.path.rpartition("/")[2]


class Asks(HTTPFault):
    """Changes the parameters of what the client asks its authorization server."""

    steps: ClassVar[tuple[str, ...]] = ()

    def changed(self, fields: Fields) -> Fields:
        return fields

    async def request(self, request: httpx.Request, send: Send) -> httpx.Response:
        step = _step(request)
        if step not in self.steps:
            return await send(request)
        if step == "authorize":
            url = request.url.copy_with(query=None)
            fields = self.changed(dict(parse_qsl(request.url.query.decode())))
            return await send(httpx.Request("GET", f"{url}?{urlencode(fields)}"))
        body = request.read()
        if step == "register":
            return await send(
                httpx.Request("POST", request.url, json=self.changed(json.loads(body)))
            )
        fields = self.changed(dict(parse_qsl(body.decode())))
        return await send(httpx.Request("POST", request.url, data=fields))


def drops(*names: str, steps: tuple[str, ...] = ("authorize", "token", "register")) -> type[Asks]:
    """A fault that leaves parameters out."""

    class Drops(Asks):
        def changed(self, fields: Fields) -> Fields:
            return {name: value for name, value in fields.items() if name not in names}

    Drops.steps = steps
    Drops.__doc__ = f"Sends no {' and no '.join(names)}."
    return Drops


def sets(steps: tuple[str, ...] = ("authorize", "token", "register"), **values: Any) -> type[Asks]:
    """A fault that sets parameters."""

    class Sets(Asks):
        def changed(self, fields: Fields) -> Fields:
            return {**fields, **values}

    Sets.steps = steps
    told = " and ".join(f"{name} as {value!r}" for name, value in values.items())
    Sets.__doc__ = f"Sends {told}."
    return Sets


class Told(HTTPFault):
    """Changes what the client is told."""

    async def request(self, request: httpx.Request, send: Send) -> httpx.Response:
        response = await send(request)
        if "location" in response.headers:
            target, _, query = response.headers["location"].partition("?")
            answer = self.response(dict(parse_qsl(urlsplit(f"?{query}").query)), request)
            response.headers["location"] = f"{target}?{urlencode(answer)}"
        elif "/.well-known/" in request.url.path and response.status_code == 200:
            document = self.metadata(json.loads(await response.aread()), request)
            response = httpx.Response(200, json=document, request=request)
        return response

    def response(self, fields: Fields, request: httpx.Request) -> Fields:
        return fields

    def metadata(self, document: Fields, request: httpx.Request) -> Fields:
        return document


class BelievesAnyIss(Told):
    """Does not look at the iss of an authorization response."""

    def response(self, fields: Fields, request: httpx.Request) -> Fields:
        origin = f"{request.url.scheme}://{request.url.netloc.decode()}"
        return {**fields, "iss": origin}


class BelievesAnyState(Told):
    """Does not look at the state of an authorization response."""

    def response(self, fields: Fields, request: httpx.Request) -> Fields:
        return {**fields, "state": dict(parse_qsl(request.url.query.decode()))["state"]}


class BelievesAnyIssuer(Told):
    """Uses metadata whatever issuer it names."""

    def metadata(self, document: Fields, request: httpx.Request) -> Fields:
        if "issuer" in document:
            origin = f"{request.url.scheme}://{request.url.netloc.decode()}"
            return {**document, "issuer": origin}
        return document


class SupposesPKCE(Told):
    """Supposes that PKCE is supported."""

    def metadata(self, document: Fields, request: httpx.Request) -> Fields:
        return {"code_challenge_methods_supported": ["S256"], **document}


class SupposesEndpoints(Told):
    """Asks at the default endpoints, whatever the metadata says."""

    def metadata(self, document: Fields, request: httpx.Request) -> Fields:
        if "issuer" not in document:
            return document
        origin = document["issuer"]
        return {
            **document,
            "authorization_endpoint": f"{origin}/authorize",
            "token_endpoint": f"{origin}/token",
            "registration_endpoint": f"{origin}/register",
        }


class NeverUsesDocuments(Told):
    """Registers even where metadata documents are supported."""

    def metadata(self, document: Fields, request: httpx.Request) -> Fields:
        return {**document, "client_id_metadata_document_supported": False}


class AlwaysUsesDocuments(Told):
    """Uses its metadata document even where that is not supported."""

    def metadata(self, document: Fields, request: httpx.Request) -> Fields:
        return {**document, "client_id_metadata_document_supported": True}


class IgnoresScopesSupported(Told):
    """Does not ask for the scopes that the resource metadata lists."""

    def metadata(self, document: Fields, request: httpx.Request) -> Fields:
        return {name: value for name, value in document.items() if name != "scopes_supported"}


def skips(*parts: str) -> type[HTTPFault]:
    """A fault that never asks for metadata at places with one of these parts."""

    class Skips(HTTPFault):
        async def request(self, request: httpx.Request, send: Send) -> httpx.Response:
            if any(part in request.url.path for part in parts):
                return httpx.Response(404, request=request)
            return await send(request)

    Skips.__doc__ = f"Does not look for metadata at {' or '.join(parts)}."
    return Skips


class SkipsTheRoot(HTTPFault):
    """Does not look for metadata at the root."""

    async def request(self, request: httpx.Request, send: Send) -> httpx.Response:
        if request.url.path.endswith("/.well-known/oauth-protected-resource"):
            return httpx.Response(404, request=request)
        return await send(request)


class NeedsMetadata(HTTPFault):
    """Does nothing without metadata."""

    async def request(self, request: httpx.Request, send: Send) -> httpx.Response:
        if request.url.path in ("/authorize", "/register"):
            return httpx.Response(404, request=request)
        return await send(request)


class GivesUp(HTTPFault):
    """Looks for the metadata, and then does nothing more."""

    async def request(self, request: httpx.Request, send: Send) -> httpx.Response:
        response = await send(request)
        if "/.well-known/oauth-auth" in request.url.path:
            return httpx.Response(500, request=request)
        return response


class IgnoresTheNamedPlace(HTTPFault):
    """Looks for the metadata at the well-known place, whatever the challenge says."""

    async def request(self, request: httpx.Request, send: Send) -> httpx.Response:
        response = await send(request)
        if response.status_code == 401:
            response.headers["www-authenticate"] = "Bearer"
        return response


class IgnoresTheChallengedScope(HTTPFault):
    """Does not look at the scopes of a challenge."""

    async def request(self, request: httpx.Request, send: Send) -> httpx.Response:
        response = await send(request)
        challenge = response.headers.get("www-authenticate", "")
        response.headers["www-authenticate"] = challenge.replace(" scope=", " x-scope=")
        return response


class TokenInTheURL(HTTPFault):
    """Puts the access token into the URL as well."""

    async def request(self, request: httpx.Request, send: Send) -> httpx.Response:
        value = request.headers.get("authorization", "").partition(" ")[2]
        if value:
            request.url = request.url.copy_merge_params({"access_token": value})
        return await send(request)


class TokenNowAndThen(HTTPFault):
    """Leaves the token out of every other request."""

    def __init__(self) -> None:
        self._with = 0

    async def request(self, request: httpx.Request, send: Send) -> httpx.Response:
        if "authorization" in request.headers:
            self._with += 1
            if self._with % 2 == 0:
                del request.headers["authorization"]
        return await send(request)


class OnlyTheNewScope(Asks):
    """Drops the scopes that it had when it asks for more."""

    steps = ("authorize",)

    def changed(self, fields: Fields) -> Fields:
        scopes = fields.get("scope", "").split()
        more = [scope for scope in scopes if "more" in scope]
        return {**fields, "scope": " ".join(more or scopes)}


class NeverStepsUp(Asks):
    """Asks for the first scopes again when it needs more."""

    steps = ("authorize",)

    def changed(self, fields: Fields) -> Fields:
        scopes = fields.get("scope", "").split()
        return {**fields, "scope": " ".join(s for s in scopes if "more" not in s)}


class OtherRedirect(Asks):
    """Comes back to another place than it registered."""

    steps = ("register",)

    def changed(self, fields: Fields) -> Fields:
        return {**fields, "redirect_uris": ["http://localhost:1/other"]}


class KeepsItsRegistration(HTTPFault):
    """Uses one client id at every authorization server."""

    def __init__(self) -> None:
        self._id: str | None = None

    async def request(self, request: httpx.Request, send: Send) -> httpx.Response:
        if _step(request) != "register":
            return await send(request)
        if self._id is None:
            response = await send(request)
            self._id = json.loads(await response.aread()).get("client_id")
        return httpx.Response(201, json={"client_id": self._id}, request=request)


class RegistersAnyway(HTTPFault):
    """Goes on with a client id of its own when registration is refused."""

    async def request(self, request: httpx.Request, send: Send) -> httpx.Response:
        response = await send(request)
        if _step(request) == "register" and response.status_code == 400:
            return httpx.Response(201, json={"client_id": "my-own"}, request=request)
        return response


class NeedsRefreshTokens(HTTPFault):
    """Tries to refresh, and nothing else, when its token has expired."""

    def __init__(self) -> None:
        self._had = False

    async def request(self, request: httpx.Request, send: Send) -> httpx.Response:
        if _step(request) == "authorize" and self._had:
            return httpx.Response(500, request=request)
        self._had = self._had or _step(request) == "token"
        return await send(request)


class Overhears(HTTPFault):
    """Repeats the error description of any authorization response."""

    async def request(self, request: httpx.Request, send: Send) -> httpx.Response:
        response = await send(request)
        query = response.headers.get("location", "").partition("?")[2]
        described = dict(parse_qsl(query)).get("error_description")
        if described:
            raise AuthorizationFailed(described)
        return response


class _Persistent(PlainOAuth):
    rounds = 7


class _Transport(httpx.AsyncBaseTransport):
    """The network, and a fault before it."""

    def __init__(self, fault: HTTPFault) -> None:
        self._network = httpx.AsyncHTTPTransport()
        self._fault = fault

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return await self._fault.request(request, self._network.handle_async_request)

    async def aclose(self) -> None:
        await self._network.aclose()


def _client(fault: Callable[[], HTTPFault], auth: Callable[[], httpx.Auth]) -> Client:
    async def client(target: Any, **_: Any) -> None:
        transport = _Transport(fault())
        async with httpx.AsyncClient(
            transport=transport,
            timeout=None,
            auth=auth(),
            max_redirects=1000,  # httpx counts what an `Auth` sends on the way
        ) as http:
            await play(target, http=http)

    return client


def _oauth() -> PlainOAuth:
    return PlainOAuth(metadata_url=OWN_DOCUMENT)


def _mutant(
    id: str,
    fault: Callable[[], HTTPFault],
    *catches: str,
    auth: Callable[[], httpx.Auth] = _oauth,
    text: str = "",
) -> ClientMutant:
    return other_client(
        id,
        _client(fault, auth),
        catches,
        healthy=_client(HTTPFault, _oauth),
        transport="http",
        text=text or (fault.__doc__ or "").strip().partition("\n")[0],
    )


ISS: Final = (
    "client-refuses-a-foreign-iss",
    "client-refuses-an-unannounced-foreign-iss",
    "client-misses-a-promised-iss",
    "client-compares-iss-exactly",
)
PKCE: Final = ("client-needs-pkce-in-oauth-metadata", "client-needs-pkce-in-openid-metadata")
AUTHORIZE: Final = ("authorize",)
REGISTER: Final = ("register",)

MUTANTS: Final[tuple[ClientMutant, ...]] = (
    # Discovery
    _mutant("auth-gives-up", GivesUp, "client-acts-on-401"),
    _mutant("auth-ignores-named", IgnoresTheNamedPlace, "client-follows-the-named-metadata"),
    _mutant(
        "auth-no-path-document",
        skips("protected-resource/"),
        "client-finds-metadata-below-the-path",
    ),
    _mutant("auth-no-root-document", SkipsTheRoot, "client-finds-metadata-at-the-root"),
    _mutant(
        "auth-no-openid",
        skips("openid-configuration"),
        "client-finds-openid-metadata",
        "client-finds-oauth-metadata-of-a-path",
    ),
    _mutant(
        "auth-supposes-endpoints", SupposesEndpoints, "client-uses-the-endpoints-of-the-metadata"
    ),
    _mutant("auth-believes-issuer", BelievesAnyIssuer, "client-refuses-metadata-of-another-issuer"),
    _mutant("auth-no-fallback", NeedsMetadata, "client-falls-back-to-default-endpoints"),
    # Registration
    _mutant("auth-other-redirect", OtherRedirect, "client-gets-a-client-id"),
    _mutant(
        "auth-no-application-type",
        drops("application_type", steps=REGISTER),
        "client-says-what-kind-of-application-it-is",
    ),
    _mutant(
        "auth-on-the-web",
        sets(REGISTER, application_type="web"),
        "client-says-what-kind-of-application-it-is",
    ),
    _mutant(
        "auth-plain-redirect",
        sets(REGISTER, redirect_uris=["http://client.invalid/back"]),
        "client-redirects-are-safe",
    ),
    _mutant(
        "auth-no-refresh-grant",
        sets(REGISTER, grant_types=["authorization_code"]),
        "client-asks-for-refresh-tokens",
    ),
    _mutant("auth-registers-anyway", RegistersAnyway, "client-survives-refused-registration"),
    _mutant("auth-never-documents", NeverUsesDocuments, "client-uses-its-metadata-document"),
    _mutant("auth-always-documents", AlwaysUsesDocuments, "client-uses-no-document-unasked"),
    _mutant("auth-one-registration", KeepsItsRegistration, "client-registers-anew-elsewhere"),
    # Scopes
    _mutant(
        "auth-ignores-challenge",
        IgnoresTheChallengedScope,
        "client-asks-for-the-challenged-scopes",
    ),
    _mutant(
        "auth-ignores-supported", IgnoresScopesSupported, "client-asks-for-the-supported-scopes"
    ),
    _mutant(
        "auth-own-scopes",
        sets(AUTHORIZE, scope="everything"),
        "client-asks-for-no-scopes-of-its-own",
        "client-asks-for-the-supported-scopes",
    ),
    _mutant("auth-forgets-scopes", OnlyTheNewScope, "client-steps-up"),
    _mutant("auth-never-steps-up", NeverStepsUp, "client-steps-up"),
    _mutant(
        "auth-steps-up-for-ever",
        HTTPFault,
        "client-gives-up-stepping-up",
        auth=_Persistent,
        text="Asks for more scopes as often as it is told to.",
    ),
    # The authorization response
    _mutant("auth-believes-iss", BelievesAnyIss, *ISS),
    _mutant("auth-overhears", Overhears, "client-ignores-errors-of-others"),
    _mutant("auth-no-state", drops("state", steps=AUTHORIZE), "client-sends-state"),
    _mutant("auth-one-state", sets(AUTHORIZE, state=""), "client-sends-state"),
    _mutant("auth-believes-state", BelievesAnyState, "client-refuses-a-foreign-state"),
    # PKCE
    _mutant("auth-no-pkce", drops("code_challenge", steps=AUTHORIZE), "client-uses-pkce"),
    _mutant(
        "auth-plain-pkce",
        sets(AUTHORIZE, code_challenge_method="plain"),
        "client-uses-pkce",
    ),
    _mutant("auth-supposes-pkce", SupposesPKCE, *PKCE),
    # Tokens
    _mutant("auth-no-resource", drops("resource"), "client-names-the-resource"),
    _mutant(
        "auth-other-resource",
        sets(("token",), resource="http://other.invalid/mcp"),
        "client-names-the-resource",
    ),
    _mutant("auth-now-and-then", TokenNowAndThen, "client-sends-its-token-each-time"),
    _mutant("auth-token-in-url", TokenInTheURL, "client-keeps-tokens-out-of-urls"),
    _mutant("auth-needs-refresh", NeedsRefreshTokens, "client-works-without-refresh-tokens"),
)
