"""Resources over the wire: lists, reading, templates, what is not found."""

import base64
from typing import Any, Literal

import pytest

from mcp_trio import Context, MCPError, ResourceNotFound, Server
from mcp_trio.protocol.revisions import LEGACY
from tests.server.raw import Raw, open_legacy, open_raw


async def read(raw: Raw, uri: str) -> dict[str, Any]:
    (contents,) = (await raw.result("resources/read", {"uri": uri}))["contents"]
    found: dict[str, Any] = contents
    return found


async def test_definitions_say_what_was_registered() -> None:
    """Static resources and templates are listed apart, with all that was given."""
    server = Server("s")
    about: dict[str, Any] = {
        "title": "T",
        "mime_type": "text/x-a",
        "icons": [{"src": "https://example.com/i.png"}],
        "annotations": {"audience": ["user"], "priority": 0.5},
        "meta": {"acme.example/x": 1},
    }

    @server.resource("a://b", size=3, **about)
    async def static() -> str:
        """A static one."""
        return "abc"

    @server.resource("a://{x}/y", name="named", description="Many.", **about)
    async def template(x: str) -> str:
        return x

    wire = {
        "title": "T",
        "mimeType": "text/x-a",
        "icons": [{"src": "https://example.com/i.png"}],
        "annotations": {"audience": ["user"], "priority": 0.5},
        "_meta": {"acme.example/x": 1},
    }
    async with open_raw(server) as raw:
        (resource,) = (await raw.result("resources/list"))["resources"]
        (many,) = (await raw.result("resources/templates/list"))["resourceTemplates"]
    own = {"uri": "a://b", "name": "static", "description": "A static one.", "size": 3}
    assert resource == {**own, **wire}
    assert many == {"uriTemplate": "a://{x}/y", "name": "named", "description": "Many.", **wire}


async def test_contents_by_type() -> None:
    """Text, bytes and JSON become text and base64 with a MIME type, under the URI asked for."""
    server = Server("s")
    server.add_resource("a://text", lambda: "t\u2028", name="text")
    server.add_resource("a://bytes", lambda: b"\x00\xff", name="bytes")
    server.add_resource("a://json", lambda: [1, {"a": None}], name="json")
    server.add_resource("a://typed", lambda: "# x", name="typed", mime_type="text/markdown")
    async with open_raw(server) as raw:
        assert await read(raw, "a://text") == {
            "uri": "a://text",
            "mimeType": "text/plain",
            "text": "t\u2028",
        }
        blob = await read(raw, "a://bytes")
        assert base64.b64decode(blob["blob"], validate=True) == b"\x00\xff"
        assert blob["mimeType"] == "application/octet-stream"
        json = await read(raw, "a://json")
        assert (json["mimeType"], json["text"]) == ("application/json", '[1,{"a":null}]')
        assert (await read(raw, "a://typed"))["mimeType"] == "text/markdown"


async def test_templates_give_their_variables() -> None:
    """Variables reach the function decoded and typed; the URI in the result is as it came."""
    server = Server("s")

    @server.resource("a://{city}/{day}")
    async def day(ctx: Context, city: str, day: int) -> list[Any]:
        return [city, day, ctx.method]

    async with open_raw(server) as raw:
        contents = await read(raw, "a://S%C3%A3o%20Paulo/3")
        assert contents["uri"] == "a://S%C3%A3o%20Paulo/3"
        assert contents["text"] == '["São Paulo",3,"resources/read"]'


async def test_first_match_wins_and_static_comes_first() -> None:
    """A resource wins over templates, an earlier template over a later one, where types fit."""
    server = Server("s")

    @server.resource("a://{number}")
    async def by_number(number: int) -> str:
        return f"number {number}"

    @server.resource("a://{kind}")
    async def by_kind(kind: Literal["x", "y"]) -> str:
        return f"kind {kind}"

    @server.resource("a://{name}")
    async def by_name(name: str) -> str:
        return f"name {name}"

    @server.resource("a://7")
    async def seven() -> str:
        return "seven"

    async with open_raw(server) as raw:
        texts = {name: (await read(raw, f"a://{name}"))["text"] for name in ("7", "8", "x", "z")}
    assert texts == {"7": "seven", "8": "number 8", "x": "kind x", "z": "name z"}


@pytest.mark.parametrize("version", [*LEGACY, None])
async def test_not_found_by_era(version: str | None) -> None:
    """-32002 in the legacy era, -32602 in the modern one, with the URI, also from a handler."""
    server = Server("s")

    @server.resource("a://{name}")
    async def one(name: str) -> str:
        raise ResourceNotFound

    async with open_raw(server) as raw:
        if version is not None:
            await raw.initialize(version)
        for uri in ("a://x", "b://nothing/of/this/kind", ""):
            ask = raw.modern if version is None else raw.request
            error = (await ask("resources/read", {"uri": uri}))["error"]
            assert error["code"] == (-32602 if version is None else -32002)
            assert error["data"] == {"uri": uri}


async def test_uris_are_compared_as_they_are() -> None:
    """Spelling matters: neither case nor escapes nor a slash at the end are made equal."""
    server = Server("s")
    spelt = "file:///Ä b%20c/"
    server.add_resource(spelt, lambda: "x", name="x")
    async with open_raw(server) as raw:
        assert (await read(raw, spelt))["uri"] == spelt
        for other in ("file:///ä b%20c/", "file:///%C3%84%20b%20c/", "file:///Ä b%20c"):
            assert "error" in await raw.modern("resources/read", {"uri": other})


async def test_malformed_read_names_the_field() -> None:
    """A missing or wrong uri is -32602 in every era."""
    async with open_legacy(Server("s")) as raw:
        for params in ({}, {"uri": 3}):
            for error in (
                await raw.error("resources/read", params),
                (await raw.request("resources/read", params))["error"],
            ):
                assert error["code"] == -32602
                assert "'uri'" in error["message"]


async def test_failures_of_resources() -> None:
    """An MCPError is the answer; anything else is an internal error that tells nothing."""
    server = Server("s")

    @server.resource("a://{how}")
    async def fail(how: str) -> str:
        raise MCPError(5, "own") if how == "own" else RuntimeError("secret")

    async with open_raw(server) as raw:
        assert (await raw.error("resources/read", {"uri": "a://own"}))["code"] == 5
        error = await raw.error("resources/read", {"uri": "a://other"})
        assert error["code"] == -32603
        assert "secret" not in str(error)


def test_variables_and_parameters_must_match() -> None:
    """A template and a function that do not fit are found when they are registered."""
    server = Server("s")
    with pytest.raises(ValueError, match="'b'"):
        server.add_resource("a://{a}", lambda a, b: "", name="x")
    with pytest.raises(ValueError, match="'b'"):
        server.add_resource("a://{a}/{b}", lambda a: "", name="x")
    with pytest.raises(ValueError, match="'a'"):
        server.add_resource("a://x", lambda a: "", name="x")
    server.add_resource("a://{a}", lambda a, b=1: "", name="x")
    with pytest.raises(ValueError, match="already"):
        server.add_resource("a://{a}", lambda a: "", name="y")
    server.remove_resource("a://{a}")
    with pytest.raises(KeyError):
        server.remove_resource("a://{a}")
