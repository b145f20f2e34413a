"""Completion: what a user might mean to type for an argument."""

from typing import ClassVar, Literal, TypeAlias

import attrs

from mcp_trio.protocol.types.base import Record, RequestParams, Result


@attrs.frozen(repr=False)
class PromptReference(Record):
    """Completes an argument of the prompt ``name``."""

    type: ClassVar[Literal["ref/prompt"]] = "ref/prompt"
    name: str
    title: str | None = None


@attrs.frozen(repr=False)
class ResourceTemplateReference(Record):
    """Completes a variable of the resource template ``uri``."""

    type: ClassVar[Literal["ref/resource"]] = "ref/resource"
    uri: str


ResourceReference: TypeAlias = ResourceTemplateReference
"""Its name before 2025-06-18."""


@attrs.frozen(repr=False)
class CompletionArgument(Record):
    """The argument that is being typed, and what of it there is so far."""

    name: str
    value: str


@attrs.frozen(repr=False)
class CompletionContext(Record):
    """Arguments that were given before (from 2025-06-18)."""

    arguments: dict[str, str] | None = None


@attrs.frozen(repr=False)
class CompleteRequestParams(RequestParams):
    """Asks how ``argument`` of ``ref`` might go on."""

    ref: PromptReference | ResourceTemplateReference
    argument: CompletionArgument
    context: CompletionContext | None = None


@attrs.frozen(repr=False)
class Completion(Record):
    """At most 100 values; ``total`` counts those that were left out as well."""

    values: list[str]
    total: int | None = None
    has_more: bool | None = None


@attrs.frozen(repr=False)
class CompleteResult(Result):
    """How an argument might go on."""

    completion: Completion
