"""What a protected server says to who has no token, or a wrong one: mutants."""

from __future__ import annotations

import base64
import json
from typing import Any, Final

from mcp_trio.harness.mutants import Mutant
from mcp_trio.harness.mutants.http import JSON_FIELDS, HTTPFault, Setting, http_mutant
from mcp_trio.transports.http_exchange import Exchange, Handle

RESOURCE_PLACE: Final = "/.well-known/oauth-protected-resource"
SERVER_PLACE: Final = "/.well-known/oauth-authorization-server"
TOKEN: Final = "harness-token-that-is-right"


class Protected(HTTPFault):
    """Lets in who has the token. This is the healthy one."""

    challenge = 'Bearer resource_metadata="{origin}{place}", scope="use"'
    refusal = 401
    scopes: tuple[str, ...] = ("use",)
    servers: tuple[str, ...] = ("https://login.invalid",)
    resource = "{origin}/mcp"
    place: str = f"{RESOURCE_PLACE}/mcp"

    async def handle(self, exchange: Exchange, serve: Handle) -> None:
        origin = f"http://{exchange.request.headers.get('host')}"
        if exchange.request.path in (RESOURCE_PLACE, f"{RESOURCE_PLACE}/mcp"):
            await send(exchange, self.metadata(origin))
        elif exchange.request.path == "/mcp":
            await self.guard(exchange, serve, origin)
        else:
            await self.elsewhere(exchange, origin)

    async def guard(self, exchange: Exchange, serve: Handle, origin: str) -> None:
        """Let pass who may."""
        if self.is_right(exchange.request.headers.get("authorization")):
            await super().handle(exchange, serve)
            return
        challenge = self.challenge.format(origin=origin, place=self.place)
        fields = {"www-authenticate": challenge} if challenge else {}
        await exchange.respond(self.refusal, fields)

    def is_right(self, authorization: str | None) -> bool:
        return authorization == f"Bearer {TOKEN}"

    def metadata(self, origin: str) -> dict[str, Any] | None:
        return {
            "resource": self.resource.format(origin=origin),
            "authorization_servers": list(self.servers),
            "scopes_supported": list(self.scopes),
        }

    async def elsewhere(self, exchange: Exchange, origin: str) -> None:
        """Answer what is neither the server nor its metadata."""
        await exchange.respond(404)


async def send(exchange: Exchange, value: dict[str, Any] | None) -> None:
    if value is None:
        await exchange.respond(404)
    else:
        await exchange.respond(200, JSON_FIELDS, json.dumps(value).encode())


class AnybodyMayCome(Protected):
    """Asks for no token, though there are some."""

    def is_right(self, authorization: str | None) -> bool:
        return True


class MissingTokenGets403(Protected):
    """Refuses who has no token by status 403."""

    refusal = 403


class AnyTokenWillDo(Protected):
    """Lets in who has any token."""

    def is_right(self, authorization: str | None) -> bool:
        return bool(authorization)


class AnyIssuedTokenWillDo(Protected):
    """Lets in who has a token that looks like one, whomever it is for."""

    def is_right(self, authorization: str | None) -> bool:
        parts = (authorization or "").removeprefix("Bearer ").split(".")
        try:
            claims = json.loads(base64.urlsafe_b64decode(parts[1] + "==")) if parts[1:] else {}
        except ValueError:
            claims = {}
        return super().is_right(authorization) or "sub" in claims


class RefusesWithoutAChallenge(Protected):
    """Refuses without WWW-Authenticate, and hides the metadata."""

    challenge = ""

    def metadata(self, origin: str) -> dict[str, Any] | None:
        return None


class NamesNoAuthorizationServer(Protected):
    """Names no authorization server in its metadata."""

    servers = ()


class ResourceEndsWithASlash(Protected):
    """Names itself with a slash at the end."""

    resource = "{origin}/mcp/"


class ChallengeWithoutScopes(Protected):
    """Does not say which scopes are needed."""

    challenge = 'Bearer resource_metadata="{origin}{place}"'


class AsksForOfflineAccess(Protected):
    """Asks for offline access."""

    scopes = ("use", "offline_access")


class TooLittleScope(Protected):
    """Refuses calls of tools, as the token has not the scope for it. This is a healthy one."""

    told = 'Bearer error="insufficient_scope", scope="use call", resource_metadata="{url}"'

    async def guard(self, exchange: Exchange, serve: Handle, origin: str) -> None:
        if exchange.request.headers.get("mcp-method") == "tools/call":
            told = self.told.format(url=origin + self.place)
            await exchange.respond(403, {"www-authenticate": told})
        else:
            await super().guard(exchange, serve, origin)


class TooLittleScopeIsASecret(TooLittleScope):
    """Refuses calls of tools, and does not say which scope is needed."""

    told = "Bearer"


class HostInCapitalsIsRefused(Protected):
    """Does not know its name in capitals."""

    async def guard(self, exchange: Exchange, serve: Handle, origin: str) -> None:
        if "LOCALHOST" in origin:
            await exchange.respond(421)
        else:
            await super().guard(exchange, serve, origin)


class Issuing(Protected):
    """Is its own authorization server, as in 2025-03-26. This is a healthy one."""

    challenge = "Bearer"
    https = "https://login.invalid"
    paths: tuple[str, ...] = ("/authorize", "/token", "/register")

    def metadata(self, origin: str) -> dict[str, Any] | None:
        return None

    def described(self) -> dict[str, Any] | None:
        """What is said of it as an authorization server."""
        return {
            "issuer": self.https,
            "authorization_endpoint": f"{self.https}/authorize",
            "token_endpoint": f"{self.https}/token",
            "registration_endpoint": f"{self.https}/register",
        }

    async def elsewhere(self, exchange: Exchange, origin: str) -> None:
        if exchange.request.path == SERVER_PLACE:
            await send(exchange, self.described())
        elif exchange.request.path in self.paths:
            await self.authorize(exchange)
        else:
            await exchange.respond(404)

    async def authorize(self, exchange: Exchange) -> None:
        await exchange.respond(400)


class IssuingByDefault(Issuing):
    """The same at the default paths, without metadata. This is a healthy one."""

    def described(self) -> dict[str, Any] | None:
        return None


class IssuingNowhere(IssuingByDefault):
    """Has neither metadata nor the default paths."""

    paths = ()


class IssuingToTheKnown(Issuing):
    """Lets no client register."""

    def described(self) -> dict[str, Any] | None:
        described = super().described() or {}
        return {key: url for key, url in described.items() if key != "registration_endpoint"}


class IssuingInTheOpen(Issuing):
    """Has its endpoints without encryption."""

    https = "http://login.invalid"


class RedirectsAnywhere(IssuingByDefault):
    """Redirects wherever it is told to."""

    async def authorize(self, exchange: Exchange) -> None:
        await exchange.respond(302, {"location": "https://elsewhere.invalid/?error=x"})


_HEADERS: Final = {"Authorization": f"Bearer {TOKEN}"}
PROTECTED: Final = Setting(benign=Protected, headers=_HEADERS)
SCOPED: Final = Setting(benign=TooLittleScope, headers=_HEADERS)
ISSUING: Final = Setting(benign=Issuing, headers=_HEADERS)
BY_DEFAULT: Final = Setting(benign=IssuingByDefault, headers=_HEADERS)

MUTANTS: Final[tuple[Mutant, ...]] = tuple(
    http_mutant(id, fault, checks, setting)
    for id, fault, checks, setting in (
        ("anybody-may-come", AnybodyMayCome, ["everybody-needs-a-token"], PROTECTED),
        ("missing-token-gets-403", MissingTokenGets403, ["missing-token-gets-401"], PROTECTED),
        ("any-token-will-do", AnyTokenWillDo, ["invalid-token-gets-401"], PROTECTED),
        (
            "any-issued-token-will-do",
            AnyIssuedTokenWillDo,
            ["token-for-others-is-refused"],
            PROTECTED,
        ),
        (
            "refuses-without-a-challenge",
            RefusesWithoutAChallenge,
            [
                "refusals-carry-a-challenge",
                "metadata-can-be-found",
                "metadata-is-served",
                "challenge-names-scopes",
            ],
            PROTECTED,
        ),
        (
            "names-no-authorization-server",
            NamesNoAuthorizationServer,
            ["metadata-is-served"],
            PROTECTED,
        ),
        (
            "resource-ends-with-a-slash",
            ResourceEndsWithASlash,
            ["resource-has-no-slash-at-its-end"],
            PROTECTED,
        ),
        (
            "challenge-without-scopes",
            ChallengeWithoutScopes,
            ["challenge-names-scopes"],
            PROTECTED,
        ),
        (
            "asks-for-offline-access",
            AsksForOfflineAccess,
            ["offline-access-is-not-asked-for"],
            PROTECTED,
        ),
        (
            "too-little-scope-is-a-secret",
            TooLittleScopeIsASecret,
            ["too-little-scope-is-told"],
            SCOPED,
        ),
        (
            "host-in-capitals-is-refused",
            HostInCapitalsIsRefused,
            ["host-may-be-in-capitals"],
            PROTECTED,
        ),
        (
            "authorization-is-nowhere",
            IssuingNowhere,
            ["default-endpoints-are-there"],
            BY_DEFAULT,
        ),
        ("issuing-by-default", IssuingByDefault, ["authorization-metadata-is-served"], ISSUING),
        ("issuing-to-the-known", IssuingToTheKnown, ["clients-may-register"], ISSUING),
        ("issuing-in-the-open", IssuingInTheOpen, ["authorization-is-over-https"], ISSUING),
        ("redirects-anywhere", RedirectsAnywhere, ["redirects-are-not-open"], BY_DEFAULT),
    )
)
