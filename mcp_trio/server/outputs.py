"""What a tool gives: the output schema from the return annotation.

Structured output has to be an object in most revisions. Objects are given as they are, everything
else stands in ``{"result": ...}``, in the schema as in the result. Text, bytes and content have no
schema: they are content and nothing else.
"""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Literal, get_args, get_origin

import attrs

from mcp_trio.protocol.json_schema import Validator, compile_schema
from mcp_trio.protocol.types.base import Record
from mcp_trio.server.hints import is_type_alias, unwrap
from mcp_trio.server.media import Media
from mcp_trio.server.scalars import FORMATS, JSONObject
from mcp_trio.server.schemas import Shapes
from mcp_trio.wire.jsonrpc import MISSING

Form = Literal["content", "unknown", "object", "wrapped"]

UNKNOWN = (Any, object, MISSING)
CONTENT_ONLY = (None, type(None), str)
RAW = (bytes, bytearray, memoryview)


@attrs.define
class Output:
    """How the results of a function are given.

    Attributes:
        form: "content": as content only. "object": structured, as they are. "wrapped": structured,
            in ``{"result": ...}``. "unknown": no annotation says, so each value does.
        schema: The JSON Schema of the structured content, None if there is none to promise.
    """

    form: Form
    schema: JSONObject | None = None

    @cached_property
    def validator(self) -> Validator | None:
        """Judges structured content. Compiled on first use."""
        return compile_schema(self.schema, formats=FORMATS) if self.schema is not None else None


def raw_output(schema: JSONObject) -> Output:
    """An output whose schema the user wrote: results are structured as they are."""
    return Output("object", schema)


def output_of(hint: Any, local: Mapping[str, Any] | None, called: str) -> Output:
    """The output of a function that is annotated to return ``hint``. Raises TypeError."""
    bare, _ = unwrap(hint)
    if bare in UNKNOWN:
        return Output("unknown")
    if bare in CONTENT_ONLY or is_content(bare):
        return Output("content")
    shapes = Shapes("output", local)
    try:
        schema = shapes.of(hint).schema
    except TypeError as error:
        raise TypeError(f"what {called} returns: {error}") from None
    whole = shapes.whole(schema)
    if whole.get("type") == "object":
        return Output("object", whole)
    wrapping = {"type": "object", "properties": {"result": schema}, "required": ["result"]}
    return Output("wrapped", shapes.whole(wrapping))


def is_content(hint: Any) -> bool:
    """Whether a type is content (or a whole result), or a union or list of which some is."""
    hint, _ = unwrap(hint)
    if is_type_alias(hint):
        return is_content(hint.__value__)
    if isinstance(hint, type) and get_origin(hint) is None:
        return issubclass(hint, (*RAW, Media, Record))
    origin = get_origin(hint)
    if origin in (dict, Mapping, Callable):
        return False
    return any(is_content(argument) for argument in get_args(hint))
