"""Content blocks: what tools and prompts return, and what models read and write."""

from typing import ClassVar, Literal, TypeAlias

import attrs

from mcp_trio.protocol.types.base import JSON, Annotations, Icon, JSONObject, Record
from mcp_trio.wire.jsonrpc import MISSING


@attrs.frozen(repr=False)
class Content(Record):
    """The base of the content blocks that carry annotations."""

    annotations: Annotations | None = attrs.field(default=None, kw_only=True)
    meta: JSONObject | None = attrs.field(default=None, kw_only=True)


@attrs.frozen(repr=False)
class TextContent(Content):
    """Text."""

    type: ClassVar[Literal["text"]] = "text"
    text: str


@attrs.frozen(repr=False)
class ImageContent(Content):
    """An image: base64 of its bytes, and their MIME type."""

    type: ClassVar[Literal["image"]] = "image"
    data: str
    mime_type: str


@attrs.frozen(repr=False)
class AudioContent(Content):
    """Sound: base64 of its bytes, and their MIME type (from 2025-03-26)."""

    type: ClassVar[Literal["audio"]] = "audio"
    data: str
    mime_type: str


@attrs.frozen(repr=False)
class ResourceContents(Record):
    """What was read from a resource, of neither kind that is known here."""

    uri: str
    mime_type: str | None = attrs.field(default=None, kw_only=True)
    meta: JSONObject | None = attrs.field(default=None, kw_only=True)


@attrs.frozen(repr=False)
class TextResourceContents(ResourceContents):
    """Text that was read from a resource."""

    text: str


@attrs.frozen(repr=False)
class BlobResourceContents(ResourceContents):
    """Bytes that were read from a resource, in base64."""

    blob: str


@attrs.frozen(repr=False)
class EmbeddedResource(Content):
    """The contents of a resource, within the content of something else."""

    type: ClassVar[Literal["resource"]] = "resource"
    resource: TextResourceContents | BlobResourceContents | ResourceContents


@attrs.frozen(repr=False)
class ResourceLink(Content):
    """A resource that the client may read (from 2025-06-18); ``size`` is in bytes."""

    type: ClassVar[Literal["resource_link"]] = "resource_link"
    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    icons: list[Icon] | None = None


@attrs.frozen(repr=False)
class UnknownContent(Record):
    """A content block of a type that is newer than this package; ``extra`` holds all its fields."""

    type: str


ContentBlock: TypeAlias = (
    TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource | UnknownContent
)


@attrs.frozen(repr=False)
class ToolUseContent(Record):
    """A model wants to call a tool (sampling, from 2025-11-25)."""

    type: ClassVar[Literal["tool_use"]] = "tool_use"
    id: str
    name: str
    input: JSONObject
    meta: JSONObject | None = attrs.field(default=None, kw_only=True)


@attrs.frozen(repr=False)
class ToolResultContent(Record):
    """What the tool said that a model wanted to call (sampling, from 2025-11-25)."""

    type: ClassVar[Literal["tool_result"]] = "tool_result"
    tool_use_id: str
    content: list[ContentBlock]
    structured_content: JSON = MISSING
    is_error: bool | None = None
    meta: JSONObject | None = attrs.field(default=None, kw_only=True)


SamplingMessageContentBlock: TypeAlias = (
    TextContent | ImageContent | AudioContent | ToolUseContent | ToolResultContent | UnknownContent
)
