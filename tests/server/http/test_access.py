"""Who may come in at all: Host, Origin, paths, and whether the server runs."""

import logging
from typing import Any

import pytest
import trio

from mcp_trio import Server
from mcp_trio.server.http.handler import HTTPHandler
from mcp_trio.server.http.options import Settings
from mcp_trio.transports.origins import is_host_allowed, is_origin_allowed, names_of
from tests.server.http.web import Web, open_web

OWN_HOSTS = ["localhost", "localhost:8000", "127.0.0.1", "127.0.0.1:1", "[::1]:80", "LOCALHOST:9"]
FOREIGN_HOSTS = [
    "",
    "example.com",
    "localhost.example.com",
    "localhost:8000.example.com",
    "127.0.0.1.nip.io",
    "localhost@example.com",
    "localhost:",
    "localhost:99999999",
    "localhost, localhost",
    "localhost\n",
    "[::1",
    "0.0.0.0",
]


@pytest.mark.parametrize("host", OWN_HOSTS)
def test_own_names(host: str) -> None:
    """This computer's own names are always allowed, with any port, as host and as origin."""
    assert is_host_allowed(host, ())
    assert is_origin_allowed(f"http://{host}", ())
    assert is_origin_allowed(f"https://{host}", ())


@pytest.mark.parametrize("host", FOREIGN_HOSTS)
def test_foreign_names(host: str) -> None:
    """Everything else is not, however much it looks like it."""
    assert not is_host_allowed(host, ())
    assert not is_origin_allowed(f"http://{host}", ())
    assert not is_origin_allowed(f"http://{host}", ["https://allowed.example"])


@pytest.mark.parametrize(
    "origin", ["null", "", "localhost", "file://", "chrome-extension://localhost"]
)
def test_odd_origins(origin: str) -> None:
    """An origin that is no web page of this computer has to be listed."""
    assert not is_origin_allowed(origin, ())
    assert is_origin_allowed(origin, [origin] if origin else ["*"])


def test_lists() -> None:
    """Names may be added, with a port or for all ports; a star is everything."""
    assert is_host_allowed("Example.com:8443", ["example.com"])
    assert is_host_allowed("example.com:8443", ["EXAMPLE.com:8443"])
    assert not is_host_allowed("example.com:80", ["example.com:8443"])
    assert not is_host_allowed("sub.example.com", ["example.com"])
    assert is_host_allowed("anything", ["*"])
    assert is_origin_allowed("https://example.com", ["https://example.com/"])
    assert not is_origin_allowed("http://example.com", ["https://example.com"])
    assert not is_origin_allowed("https://example.com:444", ["https://example.com"])
    assert is_origin_allowed("null", ["*"])


def test_names_of_addresses() -> None:
    """A server goes by the address that it listens at, unless that is all of them."""
    assert names_of("192.0.2.1") == ["192.0.2.1"]
    assert names_of("fe80::1") == ["[fe80::1]"]
    assert names_of("0.0.0.0") == names_of("::") == names_of("") == names_of(None) == []


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE", "OPTIONS"])
async def test_foreign_requests_are_refused(method: str) -> None:
    """A request for another name is 421, one from another page 403, before all else."""

    def never(_request: object) -> None:
        raise AssertionError("nobody is asked for credentials before this")

    async with open_web(Server("s"), authenticate=never, sse_path="/sse") as web:
        for path in ("/mcp", "/sse", "/messages"):
            exchange = await web.fetch(method, path, headers={"host": "evil.example"})
            assert exchange.status == 421
            for origin in ("http://evil.example", "null"):
                exchange = await web.fetch(method, path, headers={"origin": origin})
                assert exchange.status == 403
                assert "id" not in await exchange.answer()


async def test_listed_names_come_in() -> None:
    """Names and pages that are listed may come in."""
    options: Any = {"hosts": ["mcp.example"], "origins": ["https://app.example"]}
    async with open_web(Server("s"), **options) as web:
        headers = {"host": "mcp.example", "origin": "https://app.example"}
        assert "result" in await web.modern("tools/list", headers=headers).answer()


# Paths


@pytest.mark.parametrize("option", ["/mcp", "/mcp/"])
@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
async def test_slashes(option: str, path: str) -> None:
    """A slash at the end makes no difference, in the option and in the request."""
    async with open_web(Server("s"), path=option) as web:
        assert (await web.fetch("PUT", path)).status == 405


@pytest.mark.parametrize("path", ["/", "", "/mcp/x", "/mcpx", "/MCP", "//mcp", "/sse", "/messages"])
async def test_other_paths(path: str) -> None:
    """Everything else is 404, without a JSON-RPC error: there is no server of this protocol."""
    async with open_web(Server("s")) as web:
        exchange = await web.fetch("POST", path)
        assert exchange.status == 404
        assert exchange.headers["content-type"].startswith("text/plain")


async def test_the_root_as_path() -> None:
    """The endpoint may be the root of where it is mounted."""
    async with open_web(Server("s"), path="/") as web:
        assert (await web.fetch("PUT", "/")).status == 405
        assert (await web.fetch("PUT", "/mcp")).status == 404


@pytest.mark.parametrize(
    "options",
    [
        {"path": "mcp"},
        {"hosts": "example.com"},
        {"origins": "https://example.com"},
        {"session_idle": 0},
        {"max_sessions": 0},
        {"keep_alive": -1},
        {"sse_path": "/mcp/"},
        {"messages_path": "/mcp", "sse_path": "/sse"},
        {"messages_path": "/sse", "sse_path": "/sse"},
    ],
)
def test_options_are_checked(options: Any) -> None:
    """An option that makes no sense is an error at once, and not with the first request."""
    with pytest.raises(ValueError, match=next(iter(options)).split("_")[0]):
        Settings(**options)
    with pytest.raises(TypeError):
        Server("s").asgi_app(no_such_option=1)  # type: ignore[call-arg]  # it is the point


# Running


async def test_a_server_that_does_not_run(caplog: pytest.LogCaptureFixture) -> None:
    """Without `running`, a request is 500, and both sides are told what is missing."""
    async with trio.open_nursery() as nursery:
        web = Web(HTTPHandler(Server("s")), nursery)
        with caplog.at_level(logging.ERROR):
            exchange = await web.fetch("POST")
    assert exchange.status == 500
    assert b"server.running()" in exchange.text
    assert "server.running()" in caplog.text
