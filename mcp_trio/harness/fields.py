"""What stands in the fields of results, judged: base64, MIME types, URIs, templates, content.

Each function says in words what is wrong, or None.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from mcp_trio.protocol.convert import StructureError, structure
from mcp_trio.protocol.methods import METHODS
from mcp_trio.protocol.revisions import supports
from mcp_trio.wire.jsonrpc import JSON, JSONObject

_PCHAR: Final = r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@]|%[0-9A-Fa-f]{2})"
_HOST: Final = r"(?:\[[0-9A-Fa-fvV.:]+\]|(?:[A-Za-z0-9\-._~!$&'()*+,;=]|%[0-9A-Fa-f]{2})*)"
_USER: Final = r"(?:(?:[A-Za-z0-9\-._~!$&'()*+,;=:]|%[0-9A-Fa-f]{2})*@)?"
_URI: Final = re.compile(
    rf"[A-Za-z][A-Za-z0-9+.\-]*:"
    rf"(?://{_USER}{_HOST}(?::[0-9]*)?(?:/{_PCHAR}*)*|/?(?:{_PCHAR}+(?:/{_PCHAR}*)*)?)"
    rf"(?:\?(?:{_PCHAR}|[/?])*)?(?:#(?:{_PCHAR}|[/?])*)?"
)
"""RFC 3986, appendix A: a URI with its scheme."""

_VARIABLE: Final = r"(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})(?:\.?(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2}))*"
_SPEC: Final = rf"{_VARIABLE}(?:\*|:[1-9][0-9]{{0,3}})?"
_TEMPLATE: Final = re.compile(
    rf"(?:[^\x00-\x20\"'<>\\^`{{|}}%]|%[0-9A-Fa-f]{{2}}|\{{[+#./;?&]?{_SPEC}(?:,{_SPEC})*\}})*"
)
"""RFC 6570, section 2."""

_TOKEN: Final = r"[A-Za-z0-9!#$%&'*+\-.^_`|~]+"
_MIME: Final = re.compile(rf"{_TOKEN}/{_TOKEN}(?:\s*;\s*{_TOKEN}=(?:{_TOKEN}|\"[^\"]*\"))*\s*")

KNOWN_SCHEMES: Final = ("http", "https", "file", "git")
"""The schemes that the specification speaks of; all others are the server's own."""


def is_uri(text: JSON) -> bool:
    """Whether something is a URI by RFC 3986."""
    return isinstance(text, str) and _URI.fullmatch(text) is not None


def is_uri_template(text: JSON) -> bool:
    """Whether something is a URI template by RFC 6570."""
    return isinstance(text, str) and _TEMPLATE.fullmatch(text) is not None


def is_mime_type(text: JSON) -> bool:
    return isinstance(text, str) and _MIME.fullmatch(text) is not None


def is_base64(text: JSON) -> bool:
    """Whether something is base64 as RFC 4648 has it: padded, in its plain alphabet."""
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError, TypeError):
        return False
    return True


def misfit(value: JSON, kind: Any) -> str | None:
    """Why a JSON value is not of a type of the protocol."""
    try:
        structure(value, kind)
    except StructureError as exc:
        return str(exc)
    return None


def misfit_of_result(result: JSON, method: str) -> str | None:
    """Why a result is none that a method may have."""
    return misfit(result, METHODS[method].result_type())


_KINDS: Final = {
    "text": None,
    "image": None,
    "resource": None,
    "audio": "audio",
    "resource_link": "resource_links",
}
"""Kinds of content, and the feature without which a revision does not have them."""


def wrong_kinds(blocks: Iterable[JSON], revision: str) -> Iterator[str]:
    """What is wrong with content because a revision has no such kind."""
    for block in _objects(blocks):
        kind = block.get("type")
        feature = _KINDS.get(kind) if isinstance(kind, str) else None
        if kind not in _KINDS or (feature and not supports(feature, revision)):
            yield f"{revision} has no content of type {kind!r}"


def wrong_media(blocks: Iterable[JSON], kind: str) -> Iterator[str]:
    """What is wrong with the images, or the audio, among blocks of content."""
    for block in _objects(blocks):
        if block.get("type") == kind:
            if not is_base64(block.get("data")):
                yield f"the data of {kind} content is not base64"
            if not is_mime_type(block.get("mimeType")):
                yield f"{kind} content has no valid MIME type: {block.get('mimeType')!r}"


def wrong_resources(blocks: Iterable[JSON]) -> Iterator[str]:
    """What is wrong with the resources that are embedded in blocks of content."""
    for block in _objects(blocks):
        if block.get("type") == "resource":
            resource = block.get("resource")
            if not isinstance(resource, dict):
                yield "an embedded resource is missing"
            else:
                yield from wrong_contents(resource)


def wrong_contents(contents: JSONObject) -> Iterator[str]:
    """What is wrong with the contents of a resource."""
    if not is_uri(contents.get("uri")):
        yield f"{contents.get('uri')!r} is no valid URI"
    if "text" not in contents and "blob" not in contents:
        yield "the contents of a resource have neither text nor blob"
    if "text" in contents and not isinstance(contents["text"], str):
        yield "the text of a resource is no string"
    if "blob" in contents and not is_base64(contents["blob"]):
        yield "the blob of a resource is not base64"


def _objects(values: Iterable[JSON]) -> list[JSONObject]:
    return [value for value in values if isinstance(value, dict)]
