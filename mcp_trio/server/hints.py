"""Type hints as they are written: what `Annotated` says about a type, and where names resolve.

What may stand in ``Annotated[T, ...]`` of a parameter or a field:

* a plain string: its description
* ``msgspec.Meta(ge=1, le=7, min_length=..., pattern=..., title=..., examples=...)``, or any other
  object with attributes of these names, as in the package ``annotated_types``
* a dict: raw JSON Schema keywords, as in ``{"x-mcp-header": "Region"}``
* `Alias`: its name in JSON, where that is no Python identifier

Everything else is somebody else's, and ignored.
"""

import sys
from collections.abc import Callable, Mapping
from types import FrameType, UnionType
from typing import Annotated, Any, NewType, TypeVar, Union, get_args, get_origin, get_type_hints

import attrs

JSONObject = dict[str, Any]

NUMBER_KEYWORDS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
}
LENGTH_KEYWORDS = {
    "string": {"min_length": "minLength", "max_length": "maxLength"},
    "array": {"min_length": "minItems", "max_length": "maxItems"},
    "object": {"min_length": "minProperties", "max_length": "maxProperties"},
}
# Keyword, then the JSON types that it constrains.
CONSTRAINTS = {
    **{name: ({"number", "integer"}, keyword) for name, keyword in NUMBER_KEYWORDS.items()},
    "pattern": ({"string"}, "pattern"),
}
TEXTS = ("title", "description", "examples")


@attrs.frozen
class Alias:
    """The name of a parameter or field in JSON, as in ``Annotated[str, Alias("class")]``."""

    name: str


def unwrap(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """A hint without `Annotated` and `NewType` around it, and the metadata, the outermost last."""
    metadata: tuple[Any, ...] = ()
    while True:
        if get_origin(hint) is Annotated:
            hint, metadata = hint.__origin__, hint.__metadata__ + metadata
        elif isinstance(hint, NewType):
            hint = hint.__supertype__
        else:
            return hint, metadata


def alias_of(hint: Any, name: str) -> str:
    """What a parameter or field is called in JSON."""
    _, metadata = unwrap(hint)
    return next((item.name for item in metadata if isinstance(item, Alias)), name)


def annotate(schema: JSONObject, metadata: tuple[Any, ...]) -> JSONObject:
    """The schema with everything that the metadata of `Annotated` says about it.

    Raises TypeError for a constraint that nothing in the schema could meet, as ``ge`` of a string.
    """
    for item in metadata:
        if isinstance(item, str):
            schema = {**schema, "description": item}
        elif isinstance(item, dict):
            schema = {**schema, **item}
        elif not isinstance(item, Alias | type):
            schema = {**schema, **_constraints(schema, item), **_texts(item)}
    return schema


def _texts(item: Any) -> JSONObject:
    found = {name: getattr(item, name, None) for name in TEXTS}
    said = {name: value for name, value in found.items() if isinstance(value, str | list)}
    return {**said, **(getattr(item, "extra_json_schema", None) or {})}


def _constraints(schema: JSONObject, item: Any) -> JSONObject:
    types = json_types(schema)
    found: JSONObject = {}
    for name, (constrained, keyword) in CONSTRAINTS.items():
        if (limit := getattr(item, name, None)) is not None and not callable(limit):
            _require(types & constrained, name, limit, types)
            found[keyword] = limit
    for name in ("min_length", "max_length"):
        if (limit := getattr(item, name, None)) is not None:
            sized = types & set(LENGTH_KEYWORDS)
            _require(sized, name, limit, types)
            found |= {LENGTH_KEYWORDS[kind][name]: limit for kind in sized}
    return found


def _require(applicable: set[str], name: str, limit: Any, types: set[str]) -> None:
    if not applicable:
        kinds = " or ".join(sorted(types)) or "anything"
        raise TypeError(f"the constraint {name}={limit!r} says nothing about {kinds}")


def json_types(schema: JSONObject) -> set[str]:
    """The JSON types that a generated schema speaks of; base64 text has no length of its own."""
    if "anyOf" in schema:
        return {kind for option in schema["anyOf"] for kind in json_types(option)}
    if "contentEncoding" in schema or "type" not in schema:
        return set()
    declared = schema["type"]
    return set(declared) if isinstance(declared, list) else {declared}


def is_union(hint: Any) -> bool:
    return get_origin(hint) in (Union, UnionType)


def is_type_alias(hint: Any) -> bool:
    """Whether a hint is a PEP 695 alias, of `typing` or of `typing_extensions`."""
    return type(hint).__name__ == "TypeAliasType"


def substitute(hint: Any, arguments: Mapping[Any, Any]) -> Any:
    """A hint with type variables replaced, as the ``T`` in a field of ``Box[int]``."""
    if isinstance(hint, TypeVar):
        return arguments.get(hint, hint)
    free = getattr(hint, "__parameters__", ())
    if free and not isinstance(hint, type):
        return hint[tuple(arguments.get(parameter, parameter) for parameter in free)]
    return hint


def class_hints(cls: Any, local: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The hints of a class's fields, resolved. Raises TypeError if a name in them is unknown."""
    generic = get_origin(cls) or cls
    try:
        hints = get_type_hints(generic, localns=dict(local or {}), include_extras=True)
    except NameError as error:
        raise TypeError(
            f"an annotation of {generic.__qualname__} cannot be resolved: {error}; "
            "the types it names have to be defined at the top of its module"
        ) from None
    arguments = dict(zip(getattr(generic, "__parameters__", ()), get_args(cls), strict=False))
    return {name: substitute(hint, arguments) for name, hint in hints.items()}


def defining_scope(function: Callable[..., Any]) -> dict[str, Any]:
    """The variables of the function or class body that is just defining this function.

    Annotations that are strings may name them, and no attribute of a function leads there: but the
    code of the one being defined is a constant of the code that defines it.
    """
    code = getattr(function, "__code__", None)
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if code is not None and code in frame.f_code.co_consts:
            return dict(frame.f_locals)
        frame = frame.f_back
    return {}
