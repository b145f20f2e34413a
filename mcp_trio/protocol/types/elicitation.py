"""Elicitation: a server asks the client's user."""

from typing import ClassVar, Literal, TypeAlias

import attrs

from mcp_trio.protocol.types.base import (
    JSONObject,
    NotificationParams,
    Record,
    RequestParams,
    Result,
)
from mcp_trio.protocol.types.tasks import TaskMetadata


@attrs.frozen(repr=False)
class ElicitRequestFormParams(RequestParams):
    """Asks the user to fill in a form.

    ``requested_schema`` is a flat JSON Schema object as a plain dict; each of its properties has
    the form of a `PrimitiveSchemaDefinition`.
    """

    OPTIONAL_CONSTANTS: ClassVar[tuple[str, ...]] = ("mode",)
    mode: ClassVar[Literal["form"]] = "form"
    message: str
    requested_schema: JSONObject
    task: TaskMetadata | None = attrs.field(default=None, kw_only=True)


@attrs.frozen(repr=False)
class ElicitRequestURLParams(RequestParams):
    """Asks the user to visit a web page (from 2025-11-25; ``elicitation_id`` only there)."""

    mode: ClassVar[Literal["url"]] = "url"
    message: str
    url: str
    elicitation_id: str | None = None
    task: TaskMetadata | None = attrs.field(default=None, kw_only=True)


ElicitRequestParams: TypeAlias = ElicitRequestFormParams | ElicitRequestURLParams

ElicitAction: TypeAlias = Literal["accept", "decline", "cancel"]


@attrs.frozen(repr=False)
class ElicitResult(Result):
    """What the user did; ``content`` are the form's values when the action is "accept"."""

    action: ElicitAction
    content: dict[str, str | int | float | bool | list[str]] | None = None


@attrs.frozen(repr=False)
class ElicitationCompleteNotificationParams(NotificationParams):
    """What had to be done on the web page is done (2025-11-25)."""

    elicitation_id: str


@attrs.frozen(repr=False)
class StringSchema(Record):
    """A line of text; ``format`` is "email", "uri", "date" or "date-time"."""

    type: ClassVar[Literal["string"]] = "string"
    title: str | None = None
    description: str | None = None
    min_length: int | None = None
    max_length: int | None = None
    format: Literal["email", "uri", "date", "date-time"] | None = None
    default: str | None = None


@attrs.frozen(repr=False)
class NumberSchema(Record):
    """A number, or an integer."""

    type: Literal["number", "integer"]
    title: str | None = None
    description: str | None = None
    minimum: float | None = None
    maximum: float | None = None
    default: float | None = None


@attrs.frozen(repr=False)
class BooleanSchema(Record):
    """Yes or no."""

    type: ClassVar[Literal["boolean"]] = "boolean"
    title: str | None = None
    description: str | None = None
    default: bool | None = None


@attrs.frozen(repr=False)
class EnumOption(Record):
    """One choice: the value, and what the user sees."""

    const: str
    title: str


@attrs.frozen(repr=False)
class UntitledSingleSelectEnumSchema(Record):
    """One of several values."""

    type: ClassVar[Literal["string"]] = "string"
    enum: list[str]
    title: str | None = None
    description: str | None = None
    default: str | None = None


@attrs.frozen(repr=False)
class TitledSingleSelectEnumSchema(Record):
    """One of several values, each with a title (from 2025-11-25)."""

    type: ClassVar[Literal["string"]] = "string"
    one_of: list[EnumOption]
    title: str | None = None
    description: str | None = None
    default: str | None = None


@attrs.frozen(repr=False)
class UntitledItems(Record):
    """The values of an `UntitledMultiSelectEnumSchema`."""

    type: ClassVar[Literal["string"]] = "string"
    enum: list[str]


@attrs.frozen(repr=False)
class TitledItems(Record):
    """The values of a `TitledMultiSelectEnumSchema`."""

    any_of: list[EnumOption]


@attrs.frozen(repr=False)
class UntitledMultiSelectEnumSchema(Record):
    """Some of several values (from 2025-11-25)."""

    type: ClassVar[Literal["array"]] = "array"
    items: UntitledItems
    title: str | None = None
    description: str | None = None
    min_items: int | None = None
    max_items: int | None = None
    default: list[str] | None = None


@attrs.frozen(repr=False)
class TitledMultiSelectEnumSchema(Record):
    """Some of several values, each with a title (from 2025-11-25)."""

    type: ClassVar[Literal["array"]] = "array"
    items: TitledItems
    title: str | None = None
    description: str | None = None
    min_items: int | None = None
    max_items: int | None = None
    default: list[str] | None = None


@attrs.frozen(repr=False)
class LegacyTitledEnumSchema(Record):
    """One of several values whose titles stand in a second list, as in 2025-06-18."""

    type: ClassVar[Literal["string"]] = "string"
    enum: list[str]
    enum_names: list[str] | None = None
    title: str | None = None
    description: str | None = None
    default: str | None = None


SingleSelectEnumSchema: TypeAlias = TitledSingleSelectEnumSchema | UntitledSingleSelectEnumSchema
MultiSelectEnumSchema: TypeAlias = TitledMultiSelectEnumSchema | UntitledMultiSelectEnumSchema
EnumSchema: TypeAlias = SingleSelectEnumSchema | MultiSelectEnumSchema | LegacyTitledEnumSchema
PrimitiveSchemaDefinition: TypeAlias = EnumSchema | StringSchema | BooleanSchema | NumberSchema
"""One property of a form."""
