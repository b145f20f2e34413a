"""JSON Schema from Python types, and values structured into them: both from one `Shape`.

For each kind of type there is one function here, which gives a `Shape`: a schema, and a function
that makes the Python value from a JSON value that the schema has accepted. Because the two are
written side by side, whatever the schema accepts can be structured, and nothing else: "5" is no
integer and true is no integer, but 5.0 is one, since JSON Schema says so.

A class's schema stands where the class is used. Only a class (or alias) that contains itself has a
place in ``$defs``, for models and clients read flat schemas better than references.
"""

import collections.abc
from collections.abc import Callable, Mapping
from enum import Enum, Flag
from functools import cached_property, partial
from typing import Any, ForwardRef, Literal, TypeVar, get_args, get_origin

import attrs
import msgspec

from mcp_trio.protocol.convert import StructureError, show_path
from mcp_trio.protocol.convert import is_record as is_protocol_type
from mcp_trio.protocol.convert import structure as structure_protocol_type
from mcp_trio.protocol.json_schema import Validator, Violation, compile_schema
from mcp_trio.server.hints import annotate, is_type_alias, is_union, substitute, unwrap
from mcp_trio.server.jsonable import NotJSONError, enum_values, to_json
from mcp_trio.server.records import Field, description_of, fields_of, is_record
from mcp_trio.server.scalars import CLASS, EXACT, FORMATS, SCALARS, JSONObject, Scalar
from mcp_trio.wire.jsonrpc import MISSING

Structure = Callable[[Any], Any]
Mode = Literal["input", "output"]

LISTS = (
    list,
    collections.abc.Sequence,
    collections.abc.MutableSequence,
    collections.abc.Collection,
    collections.abc.Iterable,
)
SETS = {
    set: set,
    collections.abc.MutableSet: set,
    frozenset: frozenset,
    collections.abc.Set: frozenset,
}
MAPPINGS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
INTEGER_KEY = {"pattern": "^(0|-?[1-9][0-9]{0,300})$"}

# What a constructor or a validator of the user's may raise to say that a value will not do.
REFUSALS = (ValueError, TypeError, ArithmeticError, LookupError, msgspec.MsgspecError)


@attrs.frozen
class Shape:
    """A type as JSON: its schema, and how to structure what the schema accepts.

    ``structure`` is None where the JSON value is the Python value. ``rank`` orders the options of
    a union; ``hashable`` says whether sets may hold such values.
    """

    schema: JSONObject
    structure: Structure | None = None
    rank: int = CLASS
    hashable: bool = False


class InvalidValue(ValueError):
    """A value does not fit a type; ``violations`` says where and why."""

    def __init__(self, violations: list[Violation]) -> None:
        super().__init__("; ".join(map(str, violations)))
        self.violations = violations


@attrs.define
class TypeSchema:
    """A type's JSON Schema, and the only way in for values. Made by `type_schema`."""

    schema: JSONObject
    _structure: Structure | None

    @cached_property
    def validator(self) -> Validator:
        return compile_schema(self.schema, formats=FORMATS)

    def structure(self, value: Any) -> Any:
        """A Python value of the type, from a JSON value. Raises `InvalidValue`."""
        if violations := self.validator.violations(value):
            raise InvalidValue(violations)
        return structured(self._structure, value)


def type_schema(hint: Any, *, mode: Mode = "input") -> TypeSchema:
    """The schema of a type. Raises TypeError, naming the part, for what JSON has no schema for.

    ``mode`` "input" refuses unknown fields and shows defaults; "output" describes what is written:
    every field is there, and a subclass may add some.
    """
    shapes = Shapes(mode)
    shape = shapes.of(hint)
    return TypeSchema(shapes.whole(shape.schema), shape.structure)


def structured(structure: Structure | None, value: Any) -> Any:
    """Apply a shape's function to a value that its schema accepted. Raises `InvalidValue`."""
    if structure is None:
        return value
    try:
        return structure(value)
    except StructureError as error:
        raise InvalidValue([Violation(show_path(error.path), error.reason)]) from error.__cause__
    except REFUSALS as error:
        raise InvalidValue([Violation("", str(error))]) from error


class Shapes:
    """Makes shapes of types, and collects the definitions of those that contain themselves."""

    def __init__(self, mode: Mode = "input", local: Mapping[str, Any] | None = None) -> None:
        self.mode = mode
        self.local = local
        self.definitions: JSONObject = {}
        self._named: dict[Any, _Named] = {}

    def whole(self, schema: JSONObject) -> JSONObject:
        """A root schema: with the definitions that it needs, and without a ``$ref`` of its own."""
        name = schema.get("$ref", "").removeprefix("#/$defs/")
        if name in self.definitions:
            rest = {key: value for key, value in schema.items() if key != "$ref"}
            schema = {**self.definitions[name], **rest}
        return {**schema, "$defs": self.definitions} if self.definitions else schema

    def of(self, hint: Any) -> Shape:
        """The shape of a type. Raises TypeError."""
        bare, metadata = unwrap(hint)
        shape = self._of_bare(bare)
        return attrs.evolve(shape, schema=annotate(shape.schema, metadata)) if metadata else shape

    def _of_bare(self, hint: Any) -> Shape:
        scalar = SCALARS.get(hint) if isinstance(hint, collections.abc.Hashable) else None
        if hint is None or scalar is not None:
            return _scalar(scalar or SCALARS[type(None)])
        if isinstance(hint, TypeVar):
            return self.of(hint.__bound__ or Any)
        if is_union(hint):
            return self._union(get_args(hint))
        if is_type_alias(hint) or is_type_alias(get_origin(hint)):
            return self._name(hint, partial(self._alias, hint))
        if get_origin(hint) is Literal:
            return _literal(hint)
        if isinstance(hint, type) and issubclass(hint, Enum):
            return _enum(hint)
        if is_protocol_type(hint):
            return Shape({"type": "object"}, partial(structure_protocol_type, cls=hint))
        if is_record(hint):
            return self._name(hint, partial(self._record, hint))
        return self._container(get_origin(hint) or hint, get_args(hint), hint)

    # --- names: classes and aliases, which may contain themselves

    def _name(self, hint: Any, build: Callable[[], Shape]) -> Shape:
        named = self._named.get(hint)
        if named is None:
            named = self._named[hint] = _Named(self._free_name(hint))
            named.shape = build()
            if named.contains_itself:
                self.definitions[named.name] = named.shape.schema
                named.shape = attrs.evolve(named.shape, schema=named.reference)
        elif named.shape is None:
            named.contains_itself = True
            return Shape(named.reference, named.structure, hashable=False)
        return named.shape

    def _free_name(self, hint: Any) -> str:
        name = str(getattr(hint, "__name__", None) or get_origin(hint).__name__)
        taken = {named.name for named in self._named.values()}
        return next(
            free
            for n in range(1, len(taken) + 2)
            if (free := f"{name}{n}" if n > 1 else name) not in taken
        )

    def _alias(self, hint: Any) -> Shape:
        alias = get_origin(hint) or hint
        value = alias.__value__
        if isinstance(value, str | ForwardRef):
            raise TypeError(f"the type alias {alias.__name__} has to be a type, not a string")
        arguments = dict(zip(alias.__type_params__, get_args(hint), strict=False))
        return self.of(substitute(value, arguments))

    # --- unions

    def _union(self, hints: tuple[Any, ...]) -> Shape:
        shapes = [self.of(hint) for hint in hints]
        schemas: list[JSONObject] = []
        for shape in shapes:
            if shape.schema not in schemas:
                schemas.append(shape.schema)
        hashable = all(shape.hashable for shape in shapes)
        rank = max(shape.rank for shape in shapes)
        schema = {} if {} in schemas else {"anyOf": schemas} if len(schemas) > 1 else schemas[0]
        if all(shape.structure is None for shape in shapes):
            return Shape(schema, None, rank, hashable)
        options = [_Option(shape, self.definitions) for shape in sorted(shapes, key=_rank)]
        return Shape(schema, partial(_structure_option, options), rank, hashable)

    # --- classes with fields

    def _record(self, hint: Any) -> Shape:
        cls = get_origin(hint) or hint
        properties: JSONObject = {}
        plan = []
        fields = [f for f in fields_of(hint, self.local) if self._shows(f)]
        for field in fields:
            try:
                shape = self.of(field.hint)
            except TypeError as error:
                raise TypeError(f"{cls.__qualname__}.{field.attribute}: {error}") from None
            properties[field.key] = self.with_default(shape.schema, field.default)
            plan.append((field.key, field.argument or field.attribute, shape.structure))
        schema: JSONObject = {"type": "object", "properties": properties}
        if description := description_of(cls):
            schema["description"] = description
        if required := [field.key for field in fields if self._requires(field, cls)]:
            schema["required"] = required
        if self.mode == "input":
            schema["additionalProperties"] = False
        hashable = isinstance(cls, type) and cls.__hash__ is not None
        return Shape(schema, partial(_structure_record, cls, plan), CLASS, hashable)

    def _shows(self, field: Field) -> bool:
        return self.mode == "output" or field.argument is not None

    def _requires(self, field: Field, cls: Any) -> bool:
        always_written = self.mode == "output" and not issubclass(cls, dict)
        return field.required or always_written

    def with_default(self, schema: JSONObject, default: Any) -> JSONObject:
        """The schema of a field or parameter, showing its default if that can be shown."""
        if self.mode == "output" or default is MISSING:
            return schema
        if default is None and not _takes_null(schema):
            return schema  # `x: int = None`: None says "not given", and null would be refused
        try:
            return {**schema, "default": to_json(default)}
        except NotJSONError:
            return schema

    # --- containers

    def _container(self, origin: Any, arguments: tuple[Any, ...], hint: Any) -> Shape:
        if origin in LISTS:
            return self._list(arguments)
        if origin in SETS:
            return self._set(SETS[origin], arguments)
        if origin is tuple:
            return self._tuple(arguments)
        if origin in MAPPINGS:
            return self._mapping(arguments)
        name = getattr(hint, "__qualname__", None) or repr(hint)
        raise TypeError(
            f"there is no JSON Schema for {name}; use JSON's own types, an attrs class, a "
            "dataclass, a TypedDict, or annotate it as something that JSON has"
        )

    def _list(self, arguments: tuple[Any, ...]) -> Shape:
        item = self.of(arguments[0] if arguments else Any)
        schema = {"type": "array", "items": item.schema} if item.schema else {"type": "array"}
        return Shape(schema, item.structure and partial(_structure_items, list, item.structure))

    def _set(self, kind: type, arguments: tuple[Any, ...]) -> Shape:
        item = self.of(arguments[0] if arguments else str)
        if not item.hashable:
            raise TypeError(f"a set of {arguments[0]!r} cannot be: its items are not hashable")
        schema = {"type": "array", "items": item.schema, "uniqueItems": True}
        structure = partial(_structure_items, kind, item.structure) if item.structure else kind
        return Shape(schema, structure, hashable=kind is frozenset)

    def _tuple(self, arguments: tuple[Any, ...]) -> Shape:
        if not arguments or arguments[1:] == (...,):
            item = self.of(arguments[0] if arguments else Any)
            schema: JSONObject = {"type": "array"} | ({"items": item.schema} if item.schema else {})
            structure = partial(_structure_items, tuple, item.structure or _same)
            return Shape(schema, structure, hashable=item.hashable)
        shapes = [self.of(argument) for argument in arguments if argument != ()]
        schema = {"type": "array", "minItems": len(shapes), "maxItems": len(shapes)}
        if shapes:
            schema["prefixItems"] = [shape.schema for shape in shapes]
        functions = [shape.structure or _same for shape in shapes]
        hashable = all(shape.hashable for shape in shapes)
        return Shape(schema, partial(_structure_tuple, functions), hashable=hashable)

    def _mapping(self, arguments: tuple[Any, ...]) -> Shape:
        key_hint, value_hint = arguments or (str, Any)
        key, value = self.of(key_hint), self.of(value_hint)
        schema: JSONObject = {"type": "object"}
        if value.schema:
            schema["additionalProperties"] = value.schema
        if key.schema.get("type") == "integer" and key_hint is int:
            schema["propertyNames"] = INTEGER_KEY
        elif key.schema.get("type") != "string":
            raise TypeError(f"the keys of an object in JSON are strings, not {key_hint!r}")
        elif key.schema != {"type": "string"}:
            schema["propertyNames"] = key.schema
        if key.structure is None and value.structure is None:
            return Shape(schema)
        read = partial(_structure_mapping, key.structure or _same, value.structure or _same)
        return Shape(schema, read)


@attrs.define
class _Named:
    """A class or alias on its way to a shape; met again meanwhile, it contains itself."""

    name: str
    shape: Shape | None = None
    contains_itself: bool = False

    @property
    def reference(self) -> JSONObject:
        return {"$ref": f"#/$defs/{self.name}"}

    def structure(self, value: Any) -> Any:
        assert self.shape is not None
        return self.shape.structure(value) if self.shape.structure else value


@attrs.define
class _Option:
    """One type of a union. Which it is, its own schema says: so the answer cannot disagree."""

    shape: Shape
    definitions: JSONObject

    @cached_property
    def accepts(self) -> Callable[[Any], bool]:
        schema = {**self.shape.schema, "$defs": self.definitions}
        return compile_schema(schema, formats=FORMATS).is_valid


def _structure_option(options: list[_Option], value: Any) -> Any:
    for option in options:
        if option.accepts(value):
            return option.shape.structure(value) if option.shape.structure else value
    raise StructureError("it is none of the alternatives")


def _structure_record(cls: Any, plan: list[tuple[str, str, Structure | None]], value: Any) -> Any:
    arguments = {}
    for key, name, structure in plan:
        if key in value:
            try:
                arguments[name] = structure(value[key]) if structure else value[key]
            except StructureError as error:
                raise error.within(key) from error.__cause__
    try:
        return cls(**arguments)
    except REFUSALS as error:
        raise StructureError(f"{cls.__name__} refuses it: {error}") from error


def _structure_items(make: Callable[[Any], Any], structure: Structure, value: list[Any]) -> Any:
    items: list[Any] = []
    try:
        for item in value:
            items.append(structure(item))
    except StructureError as error:
        raise error.within(len(items)) from error.__cause__
    return make(items)


def _structure_tuple(functions: list[Structure], value: list[Any]) -> tuple[Any, ...]:
    return tuple(structure(item) for structure, item in zip(functions, value, strict=True))


def _structure_mapping(read_key: Structure, read: Structure, value: JSONObject) -> dict[Any, Any]:
    found = {}
    for key, item in value.items():
        try:
            found[read_key(key)] = read(item)
        except StructureError as error:
            raise error.within(key) from error.__cause__
    return found


def _same(value: Any) -> Any:
    return value


def _rank(shape: Shape) -> int:
    return shape.rank


def _takes_null(schema: JSONObject) -> bool:
    if "anyOf" in schema:
        return any(_takes_null(option) for option in schema["anyOf"])
    return schema.get("type") == "null" or not {"type", "enum", "$ref"} & schema.keys()


def _scalar(scalar: Scalar) -> Shape:
    return Shape(scalar.schema, scalar.read, scalar.rank, hashable=bool(scalar.schema))


def _literal(hint: Any) -> Shape:
    values = {value: to_json(value) for value in get_args(hint)}
    return _choice({(type(plain), plain): value for value, plain in values.items()})


def _enum(cls: type[Enum]) -> Shape:
    if issubclass(cls, Flag) or not list(cls):
        raise TypeError(f"there is no JSON Schema for {cls.__qualname__}: a flag or an empty enum")
    shape = _choice({(type(v), v): member for member, v in enum_values(cls).items()})
    description = description_of(cls)
    return (
        attrs.evolve(shape, schema={**shape.schema, "description": description})
        if description and description != "An enumeration."
        else shape
    )


def _choice(choices: dict[tuple[type, Any], Any]) -> Shape:
    """One of several values; by type too, for True is 1 in Python and not in JSON."""
    plain = [value for _, value in choices]
    schema: JSONObject = {"enum": plain}
    kinds = {JSON_TYPES.get(kind) for kind, _ in choices}
    if len(kinds) == 1 and None not in kinds:
        schema = {"type": kinds.pop(), **schema}
    if all(type(value) is str and choices[str, value] is value for value in plain):
        return Shape(schema, None, EXACT, hashable=True)
    numbers = {value: made for (kind, value), made in choices.items() if kind in (int, float)}

    def choose(value: Any) -> Any:
        return numbers[value] if type(value) in (int, float) else choices[type(value), value]

    return Shape(schema, choose, EXACT, hashable=True)


JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
