"""The plain OAuth client and the scripted authorization server, held against each other.

Both are pure, so there is no network here: a mock transport hands each request of the one to the
other.
"""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from mcp_trio.harness.oauth.client import AuthorizationFailed, PlainOAuth, read_challenge
from mcp_trio.harness.oauth.server import OAUTH, OPENID, RESOURCE, Guard

ORIGIN = "http://127.0.0.1:8000"
ENDPOINT = "/public/mcp"


def guard(**changes: Any) -> Guard:
    return Guard(ORIGIN, ENDPOINT, **changes)


def client_of(guard: Guard, auth: PlainOAuth | None = None) -> httpx.AsyncClient:
    """An HTTP client whose every request goes to the guard; what passes it gets 200."""

    def handle(request: httpx.Request) -> httpx.Response:
        target = request.url.raw_path.decode()
        headers = {name.lower(): value for name, value in request.headers.items()}
        answer = guard.answer(request.method, target, headers, request.content)
        if answer is None:
            return httpx.Response(200, json={})
        return httpx.Response(answer.status, headers=list(answer.headers), content=answer.body)

    transport = httpx.MockTransport(handle)
    return httpx.AsyncClient(transport=transport, auth=auth or PlainOAuth())


async def call(client: httpx.AsyncClient, method: str = "tools/list") -> int:
    response = await client.post(f"{ORIGIN}{ENDPOINT}", json={"jsonrpc": "2.0", "method": method})
    return response.status_code


async def test_the_whole_dance() -> None:
    """A client without a token gets one, by PKCE, for this resource, and uses it from then on."""
    here = guard()
    async with client_of(here) as client:
        assert await call(client) == 200
        assert await call(client) == 200
    steps = [asked.step for asked in here.log]
    assert steps == [
        "request",
        "resource metadata",
        "server metadata",
        "register",
        "authorize",
        "token",
        "request",
        "request",
    ]
    (asked,), (redeemed,) = here.asked("authorize"), here.asked("token")
    assert asked.query["code_challenge_method"] == "S256"
    assert asked.query["resource"] == redeemed.fields["resource"] == here.resource
    assert "scope" not in asked.query
    assert here.asked("request")[-1].authorization == "Bearer access-3"


@pytest.mark.parametrize("places", [(RESOURCE + ENDPOINT,), (RESOURCE,)])
@pytest.mark.parametrize("named", [True, False])
async def test_resource_metadata_is_found(places: tuple[str, ...], named: bool) -> None:
    """By the challenge, below the endpoint's path, and at the root."""
    async with client_of(guard(resource_paths=places, names_metadata=named)) as client:
        assert await call(client) == 200


@pytest.mark.parametrize(
    ("issuer_path", "place"),
    [
        ("", OAUTH),
        ("", OPENID),
        ("/tenant", f"{OAUTH}/tenant"),
        ("/tenant", f"{OPENID}/tenant"),
        ("/tenant", f"/tenant{OPENID}"),
    ],
)
async def test_server_metadata_is_found(issuer_path: str, place: str) -> None:
    """At each place where the two standards have it."""
    here = guard(issuer_path=issuer_path, metadata_paths=(place,))
    async with client_of(here) as client:
        assert await call(client) == 200


async def test_servers_of_2025_03_26() -> None:
    """Without any metadata the endpoints are at the root of the server's URL."""
    here = guard(names_metadata=False, resource_paths=("/none",), metadata_paths=("/none",))
    async with client_of(here) as client:
        assert await call(client) == 200
    assert here.asked("authorize")[0].path == "/authorize"


REFUSALS: dict[str, tuple[dict[str, Callable[[dict[str, Any]], dict[str, Any]]], str]] = {
    "issuer": ({"change_metadata": lambda d: {**d, "issuer": "http://other"}}, "another issuer"),
    "no PKCE": (
        {"change_metadata": lambda d: {**d, "code_challenge_methods_supported": None}},
        "PKCE",
    ),
    "foreign iss": ({"change_response": lambda d: {**d, "iss": "http://other"}}, "expected issuer"),
    "iss with a slash": (
        {"change_response": lambda d: {**d, "iss": f"{ORIGIN}/"}},
        "expected issuer",
    ),
    "no iss": (
        {"change_response": lambda d: {k: v for k, v in d.items() if k != "iss"}},
        "expected issuer",
    ),
    "foreign state": ({"change_response": lambda d: {**d, "state": "x"}}, "our state"),
    "no token": ({"change_token": lambda _: {}}, "no token"),
}


@pytest.mark.parametrize("name", REFUSALS)
async def test_bad_answers_are_refused(name: str) -> None:
    """What a careless client would take, this one does not; and no code goes anywhere."""
    changes, message = REFUSALS[name]
    here = guard(**changes)
    async with client_of(here) as client:
        with pytest.raises(AuthorizationFailed, match=message):
            await call(client)
    assert not here.asked("token") or name == "no token"


async def test_registration_refused() -> None:
    """A refused registration is an error with its reason."""
    async with client_of(guard(refuses_registration=True)) as client:
        with pytest.raises(AuthorizationFailed, match="invalid_redirect_uri"):
            await call(client)


async def test_scopes_are_chosen_and_kept() -> None:
    """The challenge's scopes first, else the resource's; and with more, those had before."""
    here = guard(scopes_supported=("read", "list"), needs={"tools/call": "write"})
    async with client_of(here) as client:
        assert await call(client) == 200
        assert await call(client, "tools/call") == 200
    first, second = here.asked("authorize")
    assert first.query["scope"] == "list read"
    assert set(second.query["scope"].split()) == {"list", "read", "write"}


async def test_scopes_of_the_challenge_count() -> None:
    """A challenge with scopes is asked for as it is, whatever the metadata lists."""
    here = guard(scopes_supported=("read", "list"), challenge_scope="other")
    async with client_of(here) as client:
        assert await call(client) == 200
    assert here.asked("authorize")[0].query["scope"] == "other"


async def test_servers_that_are_never_content() -> None:
    """Such a server is given up on after a few rounds, and its refusal is the answer."""
    here = guard(is_never_content=True)
    async with client_of(here) as client:
        assert await call(client) == 401
    assert len(here.asked("request")) == 4


async def test_expired_tokens_are_refreshed() -> None:
    """A refresh token spares the user another question."""
    here = guard(expires_after=1)
    async with client_of(here) as client:
        for _ in range(3):
            assert await call(client) == 200
    assert len(here.asked("authorize")) == 1
    assert [asked.fields["grant_type"] for asked in here.asked("token")] == [
        "authorization_code",
        "refresh_token",
        "refresh_token",
    ]


async def test_registered_elsewhere() -> None:
    """A client id is worth something only where it was given."""
    auth = PlainOAuth(client_id="me", registered_at="http://elsewhere")
    async with client_of(guard(), auth) as client:
        with pytest.raises(AuthorizationFailed, match="elsewhere"):
            await call(client)


async def test_ways_of_registration() -> None:
    """A client id from beforehand comes first, then a metadata document, then registration."""

    def supports(document: dict[str, Any]) -> dict[str, Any]:
        return {**document, "client_id_metadata_document_supported": True}

    url = "https://client.example/metadata.json"
    for auth, expected in (
        (PlainOAuth(client_id="me", metadata_url=url), "me"),
        (PlainOAuth(metadata_url=url), url),
    ):
        here = guard(change_metadata=supports)
        async with client_of(here, auth) as client:
            assert await call(client) == 200
        assert here.asked("authorize")[0].query["client_id"] == expected
        assert not here.asked("register")


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ('Bearer realm="x", scope="a b", error=invalid_token', {"scope": "a b"}),
        ('bearer resource_metadata="http://h/p?q=1,2"', {"resource_metadata": "http://h/p?q=1,2"}),
        ('Bearer error_description="say \\"no\\"", scope=a', {"error_description": 'say "no"'}),
        ("Basic realm=x", {}),
    ],
)
def test_challenges_are_read(header: str, expected: dict[str, str]) -> None:
    """Quoted and plain parameters, commas inside quotes, and other schemes."""
    found = read_challenge(httpx.Response(401, headers={"WWW-Authenticate": header}))
    assert expected.items() <= found.items()
    assert bool(found) == bool(expected)
