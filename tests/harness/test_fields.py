"""What the harness calls wrong is wrong, and what is right it lets pass."""

import json
from typing import Any

import pytest

from mcp_trio.harness.checks.asking import doubled_keys, form_faults, misfilled, unbalanced
from mcp_trio.harness.checks.resources import outward
from mcp_trio.harness.checks.tools import schema_fault, stands_in_text
from mcp_trio.harness.fields import (
    is_base64,
    is_mime_type,
    is_uri,
    is_uri_template,
    wrong_kinds,
)


@pytest.mark.parametrize(
    "text",
    [
        "file:///a/b.txt",
        "demo://about",
        "urn:isbn:0451450523",
        "http://[2001:db8::1]:80/?q=1#top",
        "mailto:a@example.org",
        "x:/a",
        "a+b-c.d://host",
        "shop://a%20b",
        "custom:",
    ],
)
def test_uris(text: str) -> None:
    """RFC 3986 allows these, and no server may be blamed for them."""
    assert is_uri(text)


@pytest.mark.parametrize(
    "text", ["about", "/etc", "a b:c", "demo://a b", "demo://{x}", "demo://%zz", "1a:b", "d://é", 7]
)
def test_no_uris(text: Any) -> None:
    """These are none by RFC 3986."""
    assert not is_uri(text)


@pytest.mark.parametrize("text", ["a://{b}", "a://{+b,c*}/{d:3}{?e}", "a://plain", "a://é/{x.y}"])
def test_templates(text: str) -> None:
    """RFC 6570 allows these."""
    assert is_uri_template(text)


@pytest.mark.parametrize("text", ["a://{b", "a://b}", "a://{}", "a://{b c}", "a b", "a://{$x}"])
def test_no_templates(text: str) -> None:
    """These are none by RFC 6570."""
    assert not is_uri_template(text)


def test_media() -> None:
    """Base64 is padded and plain; a MIME type has two parts, and perhaps parameters."""
    assert [is_base64(text) for text in ("", "aGk=", "aGk", "a-_=", None)] == [
        True,
        True,
        *[False] * 3,
    ]
    assert is_mime_type("text/plain; charset=utf-8")
    assert is_mime_type("image/svg+xml")
    assert not is_mime_type("png")
    assert not is_mime_type(None)


def test_kinds_of_content() -> None:
    """Audio and links are new in their revisions, and not before."""
    blocks = [{"type": kind} for kind in ("text", "image", "resource", "audio", "resource_link")]
    faults = {
        r: len(list(wrong_kinds(blocks, r))) for r in ("2024-11-05", "2025-03-26", "2025-06-18")
    }
    assert faults == {"2024-11-05": 2, "2025-03-26": 1, "2025-06-18": 0}
    assert list(wrong_kinds([{"type": "video"}], "2026-07-28"))


@pytest.mark.parametrize(
    ("value", "texts", "fine"),
    [
        ({"a": 1}, ['{"a":1}'], True),
        ({"a": 1}, ["a is 1"], False),
        ({"result": 3}, ["3"], True),
        ({"result": "x"}, ["x"], True),
        ({"result": ["x", "y"]}, ["x", "y"], True),
        ({"result": ["x", "y"]}, ["x"], False),
        ([1, 2], ["[1, 2]"], True),
        ({"a": True}, ['{"a": 1}'], True),
        (True, ["1"], False),
    ],
)
def test_text_of_structured_content(value: Any, texts: list[str], fine: bool) -> None:
    """The JSON itself will do, and what SDKs write of a value that they had to wrap."""
    assert stands_in_text(value, [{"type": "text", "text": text} for text in texts]) is fine


def test_schemas() -> None:
    """A schema is judged in its own dialect, and one in an unknown dialect not at all."""
    assert schema_fault({"type": "object"}) is None
    assert schema_fault({"type": "objekt"})
    assert schema_fault(None)
    assert (
        schema_fault({"$schema": "http://json-schema.org/draft-07/schema#", "items": [{}]}) is None
    )
    assert schema_fault({"$schema": "https://example.org/mine", "type": 7}) is None


def test_doubled_keys() -> None:
    """Keys count that stand twice in inputRequests, not those that different objects share."""
    asks = '{"a": {"method": "x"}, "b": {"method": "x"}}'
    assert doubled_keys(f'{{"result": {{"inputRequests": {asks}}}}}'.encode()) == []
    asks = '{"a": {}, "a": {}, "b": {}}'
    assert doubled_keys(f'{{"result": {{"inputRequests": {asks}}}}}'.encode()) == ["a"]


def test_forms() -> None:
    """Choices with titles are new in 2025-11-25; forms within forms are nowhere."""
    titled = {"type": "string", "oneOf": [{"const": "a", "title": "A"}]}
    form = {"type": "object", "properties": {"x": titled}}
    assert list(form_faults(form, "2025-06-18"))
    assert not list(form_faults(form, "2025-11-25"))
    assert list(
        form_faults({"type": "object", "properties": {"x": {"type": "object"}}}, "2026-07-28")
    )


def test_misfilled_forms() -> None:
    """Content that does not fit has a word in it by which it is found again."""
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "integer"}, "c": {}},
    }
    found = dict(misfilled(schema))
    assert set(found) == {"a", "b"}
    assert all("harness-was-here" in json.dumps(content) for content in found.values())


def test_balance_of_tools_in_sampling() -> None:
    """Each use has its result in the next message, which has nothing else."""
    use = {"role": "assistant", "content": [{"type": "tool_use", "id": i} for i in ("1", "2")]}
    results = [{"type": "tool_result", "toolUseId": i} for i in ("1", "2")]
    text = {"type": "text", "text": "x"}

    def faults(*contents: Any) -> list[str]:
        after = [{"role": "user", "content": content} for content in contents]
        return [requirement for requirement, _ in unbalanced([use, *after])]

    assert faults(results, text) == []
    assert faults(results[:1]) == ["sampling-18"]
    assert faults() == ["sampling-8"]
    assert "sampling-7" in faults([*results, text])


def test_outward_paths() -> None:
    """The variables of templates, and the last steps of URIs, are where paths lead out."""
    found = outward(["file:///srv/a.txt"], ["file:///srv/{name}"])
    assert all(uri.startswith("file:///srv/") and uri.endswith("passwd") for uri in found)
    assert any("%2F" in uri for uri in found)
