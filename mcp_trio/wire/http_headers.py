"""HTTP headers that repeat parts of a message, so that whoever forwards it need not read the body.

In the modern era each POST carries the protocol version, the method, the name of the tool, prompt
or resource, and those arguments of a tool that its schema marks (see `header_params`). A load
balancer routes by the headers and the server acts by the body: if the two could differ, a request
could pass the one as something else than it is to the other. So a client derives the headers from
the message (`mirror`), and a server refuses a message that they do not fit (`check_request`,
`check_arguments`).

A header holds printable ASCII on one line, a name or an argument any text. What does not fit, and
what would not survive (spaces at an edge, which HTTP strips), travels as base64 between two marks.
Text that looks as if it were so encoded is encoded as well, which makes decoding unambiguous.

MCP 2026-07-28, basic/transports/streamable-http, "Request Metadata".
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Final, TypeAlias

from .header_params import LARGEST_INTEGER, TOKEN, HeaderParam, out_of_range
from .jsonrpc import JSON, JSONObject

PROTOCOL_VERSION: Final = "MCP-Protocol-Version"
METHOD: Final = "Mcp-Method"
NAME: Final = "Mcp-Name"
SESSION_ID: Final = "Mcp-Session-Id"
LAST_EVENT_ID: Final = "Last-Event-ID"

Headers: TypeAlias = Iterable[tuple[bytes, bytes]]
"""Names and values as they came, in any case and with repetitions: as h11 and ASGI give them."""

_PREFIX: Final = "=?base64?"
_SUFFIX: Final = "?="
_SPACE: Final = b" \t"  # HTTP's optional whitespace around a value, and not what Python strips

# Possessive (`*+`): what they have taken they never give back, so the time is linear.
_PLAIN = re.compile(r"(?! )[ -~]*+(?<! )")
_FRAMING = frozenset({"content-length", "transfer-encoding"})
_FIELD_VALUE = re.compile(r"(?![ \t])[\t -~]*+(?<![ \t])")
_RECEIVABLE = re.compile(rb"[\t -~]*+")
_INTEGER = re.compile(r"(-?)(?=[0-9])0*+([0-9]*+)(?:\.0++)?")


class HeaderError(ValueError):
    """A value cannot stand in its header, or a header does not say what it should."""


# Values ---------------------------------------------------------------------------------------


def encode_value(text: str) -> str:
    """`text` as the value of ``Mcp-Name`` or ``Mcp-Param-*``: itself, or as base64 if it has to be.

    Raises HeaderError for a lone surrogate, which no UTF-8 can say.
    """
    if _PLAIN.fullmatch(text) and not _looks_encoded(text):
        return text
    try:
        return _PREFIX + base64.b64encode(text.encode()).decode() + _SUFFIX
    except UnicodeEncodeError:
        raise HeaderError("it holds a lone surrogate, which is no character") from None


def decode_value(value: str) -> str:
    """The inverse of `encode_value`.

    Raises HeaderError for base64 in any but its one proper spelling: what two readers could take
    for different things must not get through.
    """
    if not _looks_encoded(value):
        return value
    body = value[len(_PREFIX) : -len(_SUFFIX)]
    try:
        decoded = base64.b64decode(body, validate=True)
        # The decoder forgives stray bits before the padding; comparing does not.
        if _PREFIX + base64.b64encode(decoded).decode() + _SUFFIX == value:
            return decoded.decode()
    except ValueError:
        pass
    raise HeaderError("it is no proper base64 of UTF-8 text")


def _looks_encoded(text: str) -> bool:
    return text.startswith(_PREFIX) and text.endswith(_SUFFIX)


def _argument_text(value: JSON) -> str | None:
    """How a header says an argument; None for null and for what no header can say.

    Raises HeaderError for an integer beyond what all readers agree on.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if out_of_range(value):
        raise HeaderError(f"an integer in a header is at most {LARGEST_INTEGER} either way")
    # In JSON Schema 42.0 is an integer too. 1.5 is of no type that may be marked, but it is for the
    # check of the arguments to say so, and peers do repeat it.
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return str(int(value))
    return repr(value) if isinstance(value, float) and isfinite(value) else None


# Client ---------------------------------------------------------------------------------------


def mirror(
    method: str,
    params: JSONObject,
    *,
    version: str,
    name_field: str | None = None,
    header_params: Iterable[HeaderParam] = (),
) -> dict[str, str]:
    """The headers for a message in the modern era.

    `version` is the protocol version in its ``_meta``; `name_field` the member of `params` that
    ``Mcp-Name`` repeats, by the method table; `header_params` what the schema of the called tool
    marks. What is missing, null or of a kind that no header can say has no header: the server
    refuses such a name or argument for what it is.

    Raises HeaderError, naming the header, for what must not be sent: a method that is not plain
    ASCII (which has no encoding), a lone surrogate, an integer that is too large.
    """
    headers = {PROTOCOL_VERSION: _plain(PROTOCOL_VERSION, version), METHOD: _plain(METHOD, method)}
    if name_field is not None and isinstance(name := params.get(name_field), str):
        headers[NAME] = _encoded(NAME, name)
    arguments = params.get("arguments")
    for param in header_params:
        try:
            text = _argument_text(param.value_in(arguments))
        except HeaderError as error:
            raise HeaderError(f"{param.header} cannot be sent: {error}") from None
        if text is not None:
            headers[param.header] = _encoded(param.header, text)
    return headers


def check_headers(headers: Mapping[str, str]) -> None:
    """Find out whether headers of a user can be sent, before a message of somebody else shows them.

    Raises ValueError, which names the header and never its value: that may be secret.
    """
    for name, value in headers.items():
        if not TOKEN.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a header")
        if name.lower() in _FRAMING:
            raise ValueError(f"the header {name} says where a message ends, and cannot be chosen")
        if not _FIELD_VALUE.fullmatch(value):
            text = "may hold printable ASCII characters only, and no space at either end"
            raise ValueError(f"the header {name} {text}")


def _plain(header: str, text: str) -> str:
    if _PLAIN.fullmatch(text):
        return text
    raise HeaderError(f"{header} cannot be sent: it has to be plain ASCII, not {_clipped(text)}")


def _encoded(header: str, text: str) -> str:
    try:
        return encode_value(text)
    except HeaderError as error:
        raise HeaderError(f"{header} cannot be sent: {error}") from None


# Server ---------------------------------------------------------------------------------------


def check_request(
    headers: Headers,
    method: str,
    params: JSONObject,
    *,
    version: str | None,
    name_field: str | None = None,
) -> str | None:
    """Why the headers of a request in the modern era do not fit its body; None if they do.

    `version` is the protocol version in the body's ``_meta``, `name_field` as in `mirror`. Where
    the body itself lacks one of these the header is not compared with it: the body is at fault, and
    its own check says how. The reason is a sentence for the message of a HeaderMismatch error.

    Header names count in any case and values in their own; spaces around a value do not count. A
    header that stands twice is refused, since one reader may take the first and one the last.
    """
    name = params.get(name_field) if name_field is not None else None
    try:
        found = _Found(headers)
        _compare(PROTOCOL_VERSION, found.required(PROTOCOL_VERSION), version)
        _compare(METHOD, found.required(METHOD), method)
        if isinstance(name, str):
            _compare(NAME, _decoded(NAME, found.required(NAME)), name)
    except HeaderError as error:
        return str(error)
    return None


def check_arguments(
    headers: Headers, arguments: JSON, header_params: Iterable[HeaderParam]
) -> str | None:
    """Why the ``Mcp-Param-*`` headers of a tool call do not fit its arguments; None if they do.

    An argument that is there needs its header; one that is missing or null, or no value that a
    header can say, must have none. Integers are compared as numbers. Headers that no one of
    `header_params` names are somebody else's. The reason names no values: they may be private.
    """
    try:
        found = _Found(headers)
        for param in header_params:
            _check_argument(found.get(param.header), param, param.value_in(arguments))
    except HeaderError as error:
        return str(error)
    return None


def _check_argument(received: str | None, param: HeaderParam, value: JSON) -> None:
    where = ".".join(param.path)
    try:
        expected = _argument_text(value)
    except HeaderError as error:
        raise HeaderError(f"{param.header} cannot repeat the argument {where}: {error}") from None
    if received is None and expected is None:
        return
    if received is None:
        raise HeaderError(f"{param.header} is missing and the argument {where} is not")
    if expected is None:
        raise HeaderError(f"{param.header} is there and the argument {where} is not")
    text = _decoded(param.header, received)
    if not isinstance(value, str | bool):
        text = _integer(text)
    if text != expected:
        raise HeaderError(f"{param.header} differs from the argument {where}")


def _integer(text: str) -> str:
    """`text` in the one spelling that Python gives an integer: 42 for 42.0 and 042."""
    # Not by way of int(), which takes 1_0 and other digits, and refuses very many.
    if not (match := _INTEGER.fullmatch(text)):
        return text
    sign, digits = match.groups()
    return sign + digits if digits else "0"


class _Found:
    """The headers of MCP in one request."""

    def __init__(self, headers: Headers) -> None:
        self._values: dict[bytes, list[bytes]] = {}
        for name, value in headers:
            if (name := name.lower()).startswith(b"mcp-"):
                self._values.setdefault(name, []).append(value)

    def get(self, header: str) -> str | None:
        """The value without the spaces around it; None if there is none."""
        values = self._values.get(header.lower().encode())
        if values is None:
            return None
        if len(values) > 1:
            raise HeaderError(f"{header} stands more than once")
        value = values[0].strip(_SPACE)
        if not _RECEIVABLE.fullmatch(value):
            raise HeaderError(f"{header} holds characters that a header must not hold")
        return value.decode()

    def required(self, header: str) -> str:
        """As `get`; raises if there is none."""
        if (value := self.get(header)) is None:
            raise HeaderError(f"{header} is missing")
        return value


def _decoded(header: str, value: str) -> str:
    try:
        return decode_value(value)
    except HeaderError as error:
        raise HeaderError(f"{header} cannot be decoded: {error}") from None


def _compare(header: str, received: str, expected: str | None) -> None:
    if expected is not None and received != expected:
        raise HeaderError(
            f"{header} is {_clipped(received)} and the body says {_clipped(expected)}"
        )


def _clipped(text: str) -> str:
    return repr(text) if len(text) <= 100 else f"{text[:100]!r}..."
