"""A scripted authorization server, and the guard in front of a protected MCP server.

Both are one function from a request to an answer, so that any HTTP server can carry them:

    guard = Guard("http://127.0.0.1:8000", "/mcp")
    answer = guard.answer(method, target, headers, body)     # None: go on, the token is good

It knows every client, agrees to everything at once (a redirect takes the place of the user), and
writes down what it was asked, checked by nobody: `guard.asked("token")`. What it does otherwise
than a good server is said in its fields: a check changes one, and looks at what the client does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import parse_qsl, urlencode, urlsplit

import attrs

Step: TypeAlias = Literal[
    "resource metadata", "server metadata", "register", "authorize", "token", "request"
]
JSONObject: TypeAlias = dict[str, Any]

WELL_KNOWN: Final = "/.well-known/"
RESOURCE: Final = f"{WELL_KNOWN}oauth-protected-resource"
OAUTH: Final = f"{WELL_KNOWN}oauth-authorization-server"
OPENID: Final = f"{WELL_KNOWN}openid-configuration"


@attrs.frozen
class Asked:
    """One request to the authorization server, or to what it protects.

    Attributes:
        step: Which part of the dance it is.
        path: The path of its URL.
        query: The parameters in its URL.
        fields: The parameters in its body: of a form, or of a JSON object.
        authorization: Its `Authorization` header.
        status: What it was answered with; None where it was let through.
    """

    step: Step
    path: str
    query: Mapping[str, str]
    fields: Mapping[str, Any]
    authorization: str | None
    status: int | None


@attrs.frozen
class Answer:
    """An HTTP response."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


def json_answer(status: int, value: object, *headers: tuple[str, str]) -> Answer:
    typed = (("content-type", "application/json"), *headers)
    return Answer(status, typed, json.dumps(value).encode())


@attrs.define
class Guard:
    """An authorization server and what it protects, at one origin.

    Attributes:
        origin: Where everything is, such as "http://127.0.0.1:8000".
        endpoint: The path of the protected MCP endpoint.
        issuer_path: The path of the issuer: empty, or such as "/tenant".
        names_metadata: Whether a 401 says where the resource metadata is.
        resource_paths: Where the resource metadata is; by default below the endpoint's path.
        metadata_paths: Where the metadata of the authorization server is; by default OAuth's place.
        challenge_scope: The scopes that a 401 asks for, if any.
        scopes_supported: Those that the resource metadata lists, if any.
        needs: The scopes that a request needs, by its JSON-RPC method; others need none.
        change_metadata: Makes the authorization server's metadata into another.
        change_response: The same for the parameters of the authorization response.
        change_token: The same for the token response.
        refuses_registration: Registration fails because of its redirect URIs.
        is_never_content: No token is good enough.
        has_never_enough: No token has the scopes that `needs` asks for.
        expires_after: How many requests an access token is good for.
        log: What was asked, in order.
        clients: The issuer at which each client id was given out.
    """

    origin: str
    endpoint: str
    issuer_path: str = ""
    names_metadata: bool = True
    resource_paths: tuple[str, ...] | None = None
    metadata_paths: tuple[str, ...] | None = None
    challenge_scope: str | None = None
    scopes_supported: tuple[str, ...] | None = None
    needs: Mapping[str, str] = attrs.field(factory=dict)
    change_metadata: Callable[[JSONObject], JSONObject] = lambda document: document
    change_response: Callable[[JSONObject], JSONObject] = lambda fields: fields
    change_token: Callable[[JSONObject], JSONObject] = lambda document: document
    refuses_registration: bool = False
    is_never_content: bool = False
    has_never_enough: bool = False
    expires_after: int | None = None
    log: list[Asked] = attrs.field(factory=list)
    clients: dict[str, str] = attrs.field(factory=dict)
    _codes: dict[str, JSONObject] = attrs.field(factory=dict)
    _tokens: dict[str, JSONObject] = attrs.field(factory=dict)
    _made: int = 0

    @property
    def issuer(self) -> str:
        return f"{self.origin}{self.issuer_path}"

    @property
    def resource(self) -> str:
        """The canonical URI of what is protected."""
        return f"{self.origin}{self.endpoint}"

    def asked(self, step: Step) -> list[Asked]:
        """What was asked in one step, in order."""
        return [asked for asked in self.log if asked.step == step]

    def answer(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes
    ) -> Answer | None:
        """The answer to a request; None if it is for the protected endpoint and may pass.

        Args:
            target: Path and query.
            headers: With names in lower case.
        """
        parts = urlsplit(target)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        fields = _fields(headers.get("content-type", ""), body)
        found = self._route(method, parts.path, query, fields, headers.get("authorization"))
        if found is None:
            return Answer(404)
        step, answer = found
        status = None if answer is None else answer.status
        authorization = headers.get("authorization")
        self.log.append(Asked(step, parts.path, query, fields, authorization, status))
        return answer

    def _route(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        fields: Mapping[str, Any],
        authorization: str | None,
    ) -> tuple[Step, Answer | None] | None:
        if path == self.endpoint:
            return "request", self._guarded(fields, authorization)
        if path.startswith(RESOURCE):
            places = self._resource_places()
            return "resource metadata", self._document(path in places, self._resource_metadata())
        if path.startswith((OAUTH, OPENID)) or path.endswith(OPENID):
            own = (OAUTH + self.issuer_path,)
            places = own if self.metadata_paths is None else self.metadata_paths
            return "server metadata", self._document(path in places, self._server_metadata())
        step = path.rpartition("/")[2]
        if step == "register" and method == "POST":
            return "register", self._register(fields)
        if step == "authorize" and method == "GET":
            return "authorize", self._authorize(query)
        if step == "token" and method == "POST":
            return "token", self._redeem(fields)
        return None

    # The protected endpoint

    def _guarded(self, message: Mapping[str, Any], authorization: str | None) -> Answer | None:
        scheme, _, value = (authorization or "").partition(" ")
        token = self._tokens.get(value) if scheme.lower() == "bearer" else None
        if token is None or self.is_never_content:
            return self._challenge(401, self.challenge_scope, "invalid_token" if value else None)
        token["used"] += 1
        if self.expires_after is not None and token["used"] > self.expires_after:
            del self._tokens[value]
            return self._challenge(401, self.challenge_scope, "invalid_token")
        needed = set(self.needs.get(str(message.get("method")), "").split())
        if needed and (self.has_never_enough or not needed <= set(token["scope"].split())):
            return self._challenge(403, " ".join(sorted(needed)), "insufficient_scope")
        return None

    def _challenge(self, status: int, scope: str | None, error: str | None) -> Answer:
        places = self._resource_places()
        named = f"{self.origin}{places[0]}" if self.names_metadata and places else None
        parameters = {"error": error, "scope": scope, "resource_metadata": named}
        said = ", ".join(f'{name}="{value}"' for name, value in parameters.items() if value)
        header = ("www-authenticate", f"Bearer {said}".strip())
        return json_answer(status, {"error": error or "unauthorized"}, header)

    def move(self, issuer_path: str) -> None:
        """Be protected by another authorization server from now on: no token is good any more."""
        self.issuer_path = issuer_path
        self._tokens.clear()
        self._codes.clear()

    # Documents

    def _resource_places(self) -> tuple[str, ...]:
        own = (RESOURCE + self.endpoint,)
        return own if self.resource_paths is None else self.resource_paths

    def _document(self, here: bool, document: JSONObject) -> Answer:
        return json_answer(200, document) if here else json_answer(404, {"error": "not_found"})

    def _resource_metadata(self) -> JSONObject:
        document: JSONObject = {
            "resource": self.resource,
            "authorization_servers": [self.issuer],
            "bearer_methods_supported": ["header"],
        }
        if self.scopes_supported is not None:
            document["scopes_supported"] = list(self.scopes_supported)
        return document

    def _server_metadata(self) -> JSONObject:
        return self.change_metadata(
            {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "registration_endpoint": f"{self.issuer}/register",
                "response_types_supported": ["code"],
                "grant_types_supported": ["authorization_code", "refresh_token"],
                "token_endpoint_auth_methods_supported": ["none"],
                "code_challenge_methods_supported": ["S256"],
                "authorization_response_iss_parameter_supported": True,
            }
        )

    # Endpoints

    def _register(self, fields: Mapping[str, Any]) -> Answer:
        if self.refuses_registration:
            return json_answer(400, {"error": "invalid_redirect_uri"})
        client_id = self._new("client")
        self.clients[client_id] = self.issuer
        return json_answer(201, {**fields, "client_id": client_id})

    def _authorize(self, query: Mapping[str, str]) -> Answer:
        code = self._new("code")
        self._codes[code] = dict(query)
        answer: JSONObject = {"code": code, "iss": self.issuer}
        if "state" in query:
            answer["state"] = query["state"]
        answer = self.change_response(answer)
        location = f"{query.get('redirect_uri', '')}?{urlencode(answer)}"
        return Answer(302, (("location", location),))

    def _redeem(self, fields: Mapping[str, Any]) -> Answer:
        kind = fields.get("grant_type")
        granted = self._codes.pop(str(fields.get("code")), None)
        if kind == "refresh_token":
            granted = self._codes.pop(str(fields.get("refresh_token")), None)
        if granted is None:
            return json_answer(400, {"error": "invalid_grant"})
        access, refresh = self._new("access"), self._new("refresh")
        self._tokens[access] = {"scope": granted.get("scope", ""), "used": 0}
        self._codes[refresh] = granted
        document: JSONObject = {
            "access_token": access,
            "token_type": "Bearer",
            "expires_in": 3600,
            "refresh_token": refresh,
        }
        if granted.get("scope"):
            document["scope"] = granted["scope"]
        return json_answer(200, self.change_token(document), ("cache-control", "no-store"))

    def _new(self, kind: str) -> str:
        self._made += 1
        return f"{kind}-{self._made}"


def _fields(content_type: str, body: bytes) -> Mapping[str, Any]:
    if content_type.startswith("application/x-www-form-urlencoded"):
        return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
