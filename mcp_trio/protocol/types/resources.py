"""Resources: what a server lets its client read."""

import attrs

from mcp_trio.protocol.types.base import (
    Annotations,
    CacheablePage,
    CacheableResult,
    Icon,
    InputResponseRequestParams,
    JSONObject,
    NotificationParams,
    Record,
    RequestParams,
)
from mcp_trio.protocol.types.content import (
    BlobResourceContents,
    ResourceContents,
    TextResourceContents,
)


@attrs.frozen(repr=False)
class Resource(Record):
    """A resource as its server lists it; ``size`` is in bytes."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    annotations: Annotations | None = None
    icons: list[Icon] | None = None
    meta: JSONObject | None = attrs.field(default=None, kw_only=True)


@attrs.frozen(repr=False)
class ResourceTemplate(Record):
    """Many resources at once: an RFC 6570 template of their URIs."""

    uri_template: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    annotations: Annotations | None = None
    icons: list[Icon] | None = None
    meta: JSONObject | None = attrs.field(default=None, kw_only=True)


@attrs.frozen(repr=False)
class ListResourcesResult(CacheablePage):
    """One page of the resources."""

    resources: list[Resource]


@attrs.frozen(repr=False)
class ListResourceTemplatesResult(CacheablePage):
    """One page of the resource templates."""

    resource_templates: list[ResourceTemplate]


@attrs.frozen(repr=False)
class ReadResourceRequestParams(InputResponseRequestParams):
    """Reads the resource ``uri``."""

    uri: str


@attrs.frozen(repr=False)
class ReadResourceResult(CacheableResult):
    """What was read: often one piece, several where the resource is, say, a folder."""

    contents: list[TextResourceContents | BlobResourceContents | ResourceContents]


@attrs.frozen(repr=False)
class ResourceRequestParams(RequestParams):
    """Parameters of a request about one resource."""

    uri: str


@attrs.frozen(repr=False)
class SubscribeRequestParams(ResourceRequestParams):
    """Asks to be told when the resource changes (legacy)."""


@attrs.frozen(repr=False)
class UnsubscribeRequestParams(ResourceRequestParams):
    """Asks not to be told any more (legacy)."""


@attrs.frozen(repr=False)
class ResourceUpdatedNotificationParams(NotificationParams):
    """The resource ``uri`` changed, or something below it."""

    uri: str
