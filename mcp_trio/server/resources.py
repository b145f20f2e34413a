"""Resources: what a client may read, by URI, one by one or as a template for many.

A URI is a name and nothing else here. It is compared with what was registered, character by
character, and handed on as it came; that two spellings of it may mean the same is for whoever
gives them out to know. (MCP 2026-07-28, server/resources)
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict

import attrs

from mcp_trio.incoming import sole_exception
from mcp_trio.protocol.errors import resource_not_found
from mcp_trio.server.calling import as_async
from mcp_trio.server.context import Context
from mcp_trio.server.definitions import check_options, described, name_of
from mcp_trio.server.dispatch import CacheHint, Work
from mcp_trio.server.pagination import Registry
from mcp_trio.server.params import required
from mcp_trio.wire.jsonrpc import JSONObject

if TYPE_CHECKING:
    from mcp_trio.protocol.types import Annotations, Icon
    from mcp_trio.server.signature import FunctionSchema
    from mcp_trio.server.uri_template import UriTemplate


class ResourceNotFound(Exception):
    """Raised by the function of a template for a URI that fits it but names nothing."""


class ResourceOptions(TypedDict, total=False):
    """What may be said about a resource or a template besides its URI.

    name: The function's name by default.
    title: The name for people.
    description: The function's docstring by default.
    mime_type: Of what it contains; text/plain, application/json or application/octet-stream by
        default, as the content is.
    size: Of the content, in bytes; not for templates.
    icons: Pictures for people.
    annotations: Who it is for and how much it matters.
    meta: Its `_meta`.
    cache_hint: How long a modern client may keep what it read; the server's hint for
        "resources/read" by default.
    thread: Run a plain function that blocks in a thread; see `ToolOptions`.
    """

    name: str | None
    title: str | None
    description: str | None
    mime_type: str | None
    size: int | None
    icons: "Sequence[Icon | JSONObject] | None"
    annotations: "Annotations | JSONObject | None"
    meta: JSONObject | None
    cache_hint: CacheHint | None
    thread: bool


@attrs.frozen
class Resource:
    """A registered resource or template; `definition` is as the list has it."""

    uri: str
    definition: JSONObject
    template: "UriTemplate | None"
    signature: "FunctionSchema"
    call: Callable[..., Awaitable[Any]]
    result: Callable[[Any, str], JSONObject]
    hint: CacheHint | None

    def bind(self, uri: str) -> dict[str, Any] | None:
        """The keyword arguments of the function for a URI; None if the URI is not one of these.

        A variable that the function's annotations refuse makes it none: ``{id}`` that is no
        integer is the URI of something else.
        """
        found = self.template.match(uri) if self.template is not None else {}
        try:
            return None if found is None else self.signature.bind_text(found)
        except ValueError:
            return None


class Resources:
    """The resources and templates of a server; the arguments are those of `Tools`."""

    def __init__(self, changed: Callable[[], None], page_size: int | None) -> None:
        self._static: Registry[Resource] = Registry("resource", changed)
        self._templates: Registry[Resource] = Registry("resource template", changed)
        self._page_size = page_size

    def handlers(self) -> Mapping[str, Work]:
        """What answers the methods of this module."""
        return {
            "resources/list": partial(self._list, self._static, "resources"),
            "resources/templates/list": partial(self._list, self._templates, "resourceTemplates"),
            "resources/read": self._read,
        }

    def add(self, uri: str, function: Callable[..., Any], options: ResourceOptions) -> None:
        """Register a function; see `Server.resource`."""
        check_options("resource", options, ResourceOptions)
        self._registry_of(uri).add(uri, _make_resource(uri, function, options))

    def remove(self, uri: str) -> None:
        self._registry_of(uri).remove(uri)

    def variables(self, uri: str) -> Sequence[str] | None:
        """The variables of a template (none for a resource), or None if there is neither."""
        found = self._registry_of(uri).get(uri)
        if found is None:
            return None
        return [parameter.name for parameter in found.signature.parameters]

    def _registry_of(self, uri: str) -> Registry[Resource]:
        return self._templates if "{" in uri else self._static

    async def _list(
        self, registry: Registry[Resource], key: str, _ctx: Context, params: JSONObject
    ) -> JSONObject:
        resources, following = registry.page(params, self._page_size)
        result: JSONObject = {key: [resource.definition for resource in resources]}
        if following is not None:
            result["nextCursor"] = following
        return result

    async def _read(self, ctx: Context, params: JSONObject) -> JSONObject:
        uri = required(params, "uri", str)
        for resource in self._candidates(uri):
            keywords = resource.bind(uri)
            if keywords is not None:
                break
        else:
            raise resource_not_found(uri, ctx.protocol_version)
        if resource.signature.context is not None:
            keywords[resource.signature.context] = ctx
        try:
            result = resource.result(await resource.call(**keywords), uri)
        except Exception as exc:
            if isinstance(sole_exception(exc), ResourceNotFound):
                raise resource_not_found(uri, ctx.protocol_version) from exc
            raise
        if resource.hint is None or not ctx.info.modern:
            return result
        return {**resource.hint.fields(), **result}

    def _candidates(self, uri: str) -> Iterator[Resource]:
        """What may have this URI: the resource of that name, then templates as registered."""
        static = self._static.get(uri)
        if static is not None:
            yield static
        yield from self._templates


def _make_resource(uri: str, function: Callable[..., Any], options: ResourceOptions) -> Resource:
    from mcp_trio.server.results import to_resource_result
    from mcp_trio.server.signature import function_schema

    signature = function_schema(function, context_type=Context)
    template = None
    if "{" in uri:
        from mcp_trio.server.uri_template import UriTemplate

        template = UriTemplate(uri)
    name = name_of(signature.name, options.get("name"), "resource")
    _check_variables(uri, template, signature)
    description = options.get("description")
    definition = described(
        **{"uri" if template is None else "uriTemplate": uri},
        name=name,
        title=options.get("title"),
        description=signature.description if description is None else description,
        mimeType=options.get("mime_type"),
        size=options.get("size"),
        icons=options.get("icons"),
        annotations=options.get("annotations"),
        _meta=options.get("meta"),
    )
    return Resource(
        uri,
        definition,
        template,
        signature,
        call=as_async(function, thread=options.get("thread", False)),
        result=partial(to_resource_result, mime_type=options.get("mime_type")),
        hint=options.get("cache_hint"),
    )


def _check_variables(uri: str, template: "UriTemplate | None", signature: "FunctionSchema") -> None:
    """Raise unless the function takes exactly the template's variables."""
    variables = set() if template is None else set(template.variables)
    parameters = {parameter.name for parameter in signature.parameters}
    needed = {parameter.name for parameter in signature.parameters if parameter.required}
    for name in sorted(needed - variables):
        raise ValueError(f"{uri!r} has no variable for the parameter {name!r}.")
    for name in sorted(variables - parameters):
        raise ValueError(f"The function for {uri!r} has no parameter for the variable {name!r}.")
