"""A plain OAuth client, as an authentication flow of httpx.

An `httpx.Auth` is a generator: it yields requests and is sent their responses. So the whole dance
is written down here in the order in which it happens, without a word about how bytes move.

    401  →  protected resource metadata  →  authorization server metadata
         →  registration  →  authorization (PKCE, state, iss)  →  token  →  the request again

The user is a browser that agrees to everything: the authorization endpoint is asked for directly,
and has to answer with a redirect.

MCP 2026-07-28, basic/authorization. From 2025-03-26 it also knows servers without resource
metadata, whose authorization server is found at the root of the server's own URL.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from typing import Any, ClassVar, Final, TypeAlias
from urllib.parse import parse_qs, urlsplit

import attrs
import httpx

REDIRECT_URI: Final = "http://localhost:8976/callback"
Flow: TypeAlias = Generator[httpx.Request, httpx.Response, Any]
Metadata: TypeAlias = Mapping[str, Any]

_PARAMETER = re.compile(r'([A-Za-z_][\w-]*)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))')


class AuthorizationFailed(Exception):
    """There is no token to be had; the message says which step failed."""


@attrs.define
class Token:
    """An access token, and what was asked for with it."""

    access: str = attrs.field(repr=False)
    refresh: str | None = attrs.field(repr=False)
    scopes: frozenset[str]
    issuer: str


@attrs.define
class PlainOAuth(httpx.Auth):
    """Gets tokens for one user who agrees to everything. Keeps them as long as it lives.

    Attributes:
        client_id: A client id that was registered beforehand, with `registered_at`.
        registered_at: The issuer at which it was registered.
        metadata_url: An HTTPS URL that is this client's id where metadata documents are supported.
        redirect_uri: Where the browser comes back to.
        rounds: How often one request is tried again with a better token.
    """

    rounds: ClassVar[int] = 3

    client_id: str | None = None
    registered_at: str | None = None
    metadata_url: str | None = None
    redirect_uri: str = REDIRECT_URI
    _token: Token | None = None
    _ids: dict[str, str] = attrs.field(factory=dict)
    """Client ids by the issuer that gave them: they are worth nothing elsewhere."""

    async def async_auth_flow(
        self, request: httpx.Request
    ) -> AsyncGenerator[httpx.Request, httpx.Response]:
        flow = self.auth_flow(request)
        next_request = next(flow)
        while True:
            response = yield next_request
            if next_request is not request:  # the server's own replies may be endless streams
                await response.aread()
            try:
                next_request = flow.send(response)
            except StopIteration:
                return

    def auth_flow(self, request: httpx.Request) -> Flow:
        """Send a request with the token at hand, and get a better one when it is refused."""
        for better_tokens in range(self.rounds + 1):
            if self._token is not None:
                request.headers["Authorization"] = f"Bearer {self._token.access}"
            response = yield request
            challenge = read_challenge(response)
            if better_tokens == self.rounds:
                return
            if response.status_code == 401:
                refreshed = yield from self._refresh(request.url)
                if not refreshed:
                    yield from self._authorize(request.url, challenge)
            elif response.status_code == 403 and challenge.get("error") == "insufficient_scope":
                yield from self._authorize(request.url, challenge)
            else:
                return

    # Who gives tokens

    def _authorize(self, url: httpx.URL, challenge: Mapping[str, str]) -> Flow:
        resource = yield from find_resource(url, challenge.get("resource_metadata"))
        issuer = _first_issuer(resource) or _origin(url)
        server = yield from find_server(issuer, fallback=resource is None)
        scopes = self._scopes(challenge, resource or {}, issuer)
        client_id = yield from self._client_id(server, issuer)
        grant = _Grant(
            issuer=issuer,
            resource=canonical(url),
            client_id=client_id,
            redirect_uri=self.redirect_uri,
            scopes=scopes,
        )
        code = yield from grant.ask(server)
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.redirect_uri,
            "client_id": client_id,
            "code_verifier": grant.verifier,
            "resource": grant.resource,
        }
        self._token = yield from _redeem(server, issuer, fields, scopes)

    def _scopes(
        self, challenge: Mapping[str, str], resource: Metadata, issuer: str
    ) -> frozenset[str]:
        """What the challenge asks for, else what the resource is for; and what was had before."""
        before = self._token.scopes if self._token and self._token.issuer == issuer else frozenset()
        if "scope" in challenge:
            return before | frozenset(challenge["scope"].split())
        return before or frozenset(resource.get("scopes_supported") or ())

    def _client_id(self, server: Metadata, issuer: str) -> Flow:
        if self.client_id is not None:
            if self.registered_at not in (None, issuer):
                raise AuthorizationFailed(
                    f"the client is registered at {self.registered_at}, not at {issuer}"
                )
            return self.client_id
        if self.metadata_url and server.get("client_id_metadata_document_supported") is True:
            return self.metadata_url
        if issuer not in self._ids:
            self._ids[issuer] = yield from self._register(server)
        return self._ids[issuer]

    def _register(self, server: Metadata) -> Flow:
        endpoint = server.get("registration_endpoint")
        if not isinstance(endpoint, str):
            raise AuthorizationFailed("the authorization server registers no clients")
        response = yield httpx.Request(
            "POST",
            endpoint,
            json={
                "client_name": "mcp-trio demo client",
                "redirect_uris": [self.redirect_uri],
                "grant_types": ["authorization_code", "refresh_token"],
                "response_types": ["code"],
                "token_endpoint_auth_method": "none",
                "application_type": "native",
            },
        )
        client_id = _object(response).get("client_id")
        if response.status_code not in (200, 201) or not isinstance(client_id, str):
            raise AuthorizationFailed(f"registration was refused: {_error_in(response)}")
        return client_id

    def _refresh(self, url: httpx.URL) -> Flow:
        """Whether a refresh token got a new access token."""
        token, self._token = self._token, None
        if token is None or token.refresh is None:
            return False
        server = yield from find_server(token.issuer, fallback=True)
        fields = {
            "grant_type": "refresh_token",
            "refresh_token": token.refresh,
            "client_id": self.client_id or self._ids.get(token.issuer) or self.metadata_url or "",
            "resource": canonical(url),
        }
        try:
            self._token = yield from _redeem(server, token.issuer, fields, token.scopes)
        except AuthorizationFailed:
            return False
        return True


# Discovery --------------------------------------------------------------------------------------


def read_challenge(response: httpx.Response) -> dict[str, str]:
    """The parameters of the Bearer challenge in `WWW-Authenticate`; empty if there is none."""
    for value in response.headers.get_list("www-authenticate"):
        scheme, _, rest = value.strip().partition(" ")
        if scheme.lower() == "bearer":
            return {
                name.lower(): re.sub(r"\\(.)", r"\1", quoted) if quoted else plain
                for name, quoted, plain in _PARAMETER.findall(rest)
            }
    return {}


def find_resource(url: httpx.URL, named: str | None) -> Flow:
    """The protected resource metadata: where the challenge says, or at the well-known URIs."""
    origin, path = _origin(url), url.path.rstrip("/")
    well_known = f"{origin}/.well-known/oauth-protected-resource"
    places = [named] if named else list(dict.fromkeys([well_known + path, well_known]))
    for place in places:
        response = yield httpx.Request("GET", place)
        document = _object(response)
        if response.status_code == 200 and _first_issuer(document):
            return document
    return None


def find_server(issuer: str, *, fallback: bool) -> Flow:
    """The metadata of an authorization server, checked.

    Args:
        fallback: Without any, take the endpoints that 2025-03-26 names.
    """
    for place in metadata_places(issuer):
        response = yield httpx.Request("GET", place)
        document = _object(response)
        if response.status_code != 200 or not document:
            continue
        if document.get("issuer") != issuer:
            raise AuthorizationFailed(f"{place} names another issuer than {issuer}")
        if "S256" not in (document.get("code_challenge_methods_supported") or ()):
            raise AuthorizationFailed(f"{issuer} does not say that it supports PKCE with S256")
        return document
    if not fallback:
        raise AuthorizationFailed(f"{issuer} has no metadata")
    return {
        "issuer": issuer,
        "authorization_endpoint": f"{issuer}/authorize",
        "token_endpoint": f"{issuer}/token",
        "registration_endpoint": f"{issuer}/register",
    }


def metadata_places(issuer: str) -> list[str]:
    """Where the metadata of an authorization server may be, in the order to try."""
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    oauth = f"{origin}/.well-known/oauth-authorization-server{path}"
    openid = f"{origin}/.well-known/openid-configuration{path}"
    appended = [f"{origin}{path}/.well-known/openid-configuration"] if path else []
    return [oauth, openid, *appended]


# One authorization ------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class _Grant:
    """What has to be remembered between leaving for the browser and coming back."""

    issuer: str
    resource: str
    client_id: str
    redirect_uri: str
    scopes: frozenset[str]
    verifier: str = attrs.field(factory=lambda: secrets.token_urlsafe(48), repr=False)
    state: str = attrs.field(factory=lambda: secrets.token_urlsafe(16), repr=False)

    def ask(self, server: Metadata) -> Flow:
        """Have the user agree; the code."""
        digest = hashlib.sha256(self.verifier.encode()).digest()
        fields = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": self.redirect_uri,
            "state": self.state,
            "code_challenge": base64.urlsafe_b64encode(digest).decode().rstrip("="),
            "code_challenge_method": "S256",
            "resource": self.resource,
        }
        if self.scopes:
            fields["scope"] = " ".join(sorted(self.scopes))
        endpoint = httpx.URL(_endpoint(server, "authorization_endpoint"))
        response = yield httpx.Request("GET", endpoint.copy_merge_params(fields))
        location = response.headers.get("location", "")
        if not response.is_redirect or not location.startswith(self.redirect_uri):
            raise AuthorizationFailed(f"no redirect back, but status {response.status_code}")
        return self._code(parse_qs(urlsplit(location).query), server)

    def _code(self, answer: Mapping[str, Sequence[str]], server: Metadata) -> str:
        """The code in an authorization response, which may be somebody else's."""
        issuer = answer.get("iss")
        promised = server.get("authorization_response_iss_parameter_supported") is True
        # What a response says about an error is not for us before it is known to be for us.
        if issuer != [self.issuer] and (issuer is not None or promised):
            raise AuthorizationFailed("the authorization response is not from the expected issuer")
        if answer.get("state") != [self.state]:
            raise AuthorizationFailed("the authorization response does not carry our state")
        if "code" not in answer:
            raise AuthorizationFailed(f"the user did not agree: {answer.get('error')}")
        return answer["code"][0]


def _redeem(server: Metadata, issuer: str, fields: dict[str, str], scopes: frozenset[str]) -> Flow:
    response = yield httpx.Request("POST", _endpoint(server, "token_endpoint"), data=fields)
    document = _object(response)
    access, refresh = document.get("access_token"), document.get("refresh_token")
    if response.status_code != 200 or not isinstance(access, str):
        raise AuthorizationFailed(f"no token: {_error_in(response)}")
    return Token(access, refresh if isinstance(refresh, str) else None, scopes, issuer)


def canonical(url: httpx.URL) -> str:
    """A server's URL as the identifier of a resource: without query, fragment or last slash."""
    return f"{_origin(url)}{url.path.rstrip('/')}"


def _origin(url: httpx.URL) -> str:
    return f"{url.scheme}://{url.netloc.decode('ascii')}"


def _first_issuer(resource: Metadata | None) -> str | None:
    servers = (resource or {}).get("authorization_servers")
    return servers[0] if isinstance(servers, list) and servers else None


def _endpoint(server: Metadata, name: str) -> str:
    endpoint = server.get(name)
    if not isinstance(endpoint, str):
        raise AuthorizationFailed(f"the authorization server's metadata has no {name}")
    return endpoint


def _object(response: httpx.Response) -> dict[str, Any]:
    try:
        document = response.json()
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _error_in(response: httpx.Response) -> str:
    return f"{_object(response).get('error', 'no reason given')} (status {response.status_code})"
