"""What a function takes and gives, as JSON: the schema of a tool from its signature.

A tool's arguments are the function's parameters, by name; its description is the docstring. The
parameter annotated with the context class is not the client's to give, and found by that
annotation alone, so that parameters may be called ``ctx``, ``self`` or anything else.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict

import attrs
import msgspec

from mcp_trio.protocol.json_schema import Validator, Violation, compile_schema
from mcp_trio.server.hints import alias_of, defining_scope, is_union, unwrap
from mcp_trio.server.outputs import Output, output_of
from mcp_trio.server.records import fields_of
from mcp_trio.server.scalars import FORMATS, JSONObject
from mcp_trio.server.schemas import InvalidValue, Shape, Shapes, Structure, structured
from mcp_trio.wire.jsonrpc import MISSING

NO_CONTEXT = type("NoContext", (), {})


class ArgumentsInvalid(InvalidValue):
    """Arguments do not fit a function's parameters; ``violations`` says which and why."""


@attrs.frozen
class Parameter:
    """One argument of a tool, prompt or resource template.

    Attributes:
        name: What clients call it.
        variable: What the function calls it.
        schema: Its JSON Schema.
        required: Whether it has to be given.
    """

    name: str
    variable: str
    schema: JSONObject
    required: bool
    structure: Structure | None = attrs.field(default=None, repr=False)

    @property
    def description(self) -> str | None:
        found = self.schema.get("description")
        return found if isinstance(found, str) else None


@attrs.define
class FunctionSchema:
    """A function as clients see it. Made by `function_schema`.

    Attributes:
        name: The function's name, or None if it has none that could be called (a lambda).
        description: Its docstring.
        parameters: What clients may give, in order.
        input_schema: The JSON Schema of the arguments, always an object.
        context: The parameter that takes the context, or None.
    """

    name: str | None
    description: str | None
    parameters: tuple[Parameter, ...]
    input_schema: JSONObject
    context: str | None
    _output: Output | TypeError
    _rest: Shape | None
    _converters: tuple[tuple[str, Structure], ...] = ()
    _renamed: tuple[Parameter, ...] = ()

    @property
    def output(self) -> Output:
        """What becomes of results; ``output.schema`` is the output schema, or None.

        Raises TypeError if there is no schema for what is annotated: of a tool, that is a mistake,
        but what resources and prompts return has no schema anyway.
        """
        if isinstance(self._output, TypeError):
            raise self._output
        return self._output

    @cached_property
    def validator(self) -> Validator:
        """Judges arguments. Compiled on first use, which imports the validator's library."""
        return compile_schema(self.input_schema, formats=FORMATS)

    def bind(self, arguments: JSONObject | None) -> dict[str, Any]:
        """The keyword arguments for the function, without the context, from a client's arguments.

        Raises `ArgumentsInvalid`.
        """
        arguments = {} if arguments is None else arguments
        if not self.validator.is_valid(arguments):
            raise ArgumentsInvalid(self.validator.violations(arguments))
        bound = dict(arguments)
        for name, convert in self._converters:
            if name in bound:
                bound[name] = self._convert(name, convert, bound[name])
        if self._rest is not None and self._rest.structure is not None:
            known = {parameter.name for parameter in self.parameters}
            for name in bound.keys() - known:
                bound[name] = self._convert(name, self._rest.structure, bound[name])
        for parameter in self._renamed:
            if parameter.name in arguments:
                del bound[parameter.name]
        for parameter in self._renamed:
            if parameter.name in arguments:
                value = arguments[parameter.name]
                bound[parameter.variable] = self._convert(
                    parameter.name, parameter.structure, value
                )
        return bound

    def bind_text(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Like `bind` for arguments that are text only, as those of prompts and URI templates.

        A text stands for itself where the parameter takes it, and otherwise for the JSON in it:
        ``"3"`` is an integer where an integer is wanted. The same goes for the texts in the lists
        and objects that exploded template variables give. Raises `ArgumentsInvalid`.
        """
        return self.bind({name: self._from_text(name, text) for name, text in arguments.items()})

    def _from_text(self, name: str, text: Any) -> Any:
        parameter = self._parameter_validators.get(name)
        return text if parameter is None or parameter.is_valid(text) else _decode_text(text)

    @cached_property
    def _parameter_validators(self) -> dict[str, Validator]:
        definitions = self.input_schema.get("$defs", {})
        return {
            parameter.name: compile_schema(
                {**parameter.schema, "$defs": definitions}, formats=FORMATS
            )
            for parameter in self.parameters
        }

    @staticmethod
    def _convert(name: str, convert: Structure | None, value: Any) -> Any:
        try:
            return structured(convert, value)
        except InvalidValue as error:
            inside = [Violation(_within(name, v.path), v.message) for v in error.violations]
            raise ArgumentsInvalid(inside) from error.__cause__


def _decode_text(text: Any) -> Any:
    if isinstance(text, list):
        return [_decode_text(item) for item in text]
    if isinstance(text, dict):
        return {key: _decode_text(item) for key, item in text.items()}
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, ValueError):
        return text


def _within(name: str, path: str) -> str:
    return name + path if path.startswith("[") or not path else f"{name}.{path}"


def function_schema(
    function: Callable[..., Any],
    *,
    context_type: type | None = None,
) -> FunctionSchema:
    """Read a function's signature and docstring.

    ``context_type`` is the class whose annotation marks the context parameter. The function may be
    a coroutine function, a method, a `functools.partial` (what it holds is not the client's to
    give), an object with ``__call__``, or wrapped.

    Raises TypeError, naming function and parameter: for ``*args`` and positional-only parameters,
    types that have no JSON Schema, annotations that cannot be resolved, two context parameters.
    """
    plain = _plain_function(function)
    called = getattr(plain, "__qualname__", None) or repr(function)
    context_type = context_type or NO_CONTEXT
    scope = defining_scope(plain)
    hints = _hints(plain, scope, context_type, called)
    held = function.keywords if isinstance(function, partial) else {}
    taken = {
        name: found
        for name, found in _signature(function, called).parameters.items()
        if name not in held
    }
    contexts = [name for name in taken if _is_context(hints.get(name, Any), context_type)]
    if len(contexts) > 1:
        raise TypeError(f"{called} has two context parameters: {' and '.join(contexts)}")
    arguments = {name: found for name, found in taken.items() if name not in contexts}
    read = _Reader(called, Shapes("input", scope), hints, contexts)
    read.parameters_of(arguments)
    name = getattr(plain, "__name__", None)
    return FunctionSchema(
        None if name in ("<lambda>", "__call__") else name,
        _description(function, plain),
        tuple(read.parameters),
        read.schema(),
        contexts[0] if contexts else None,
        _output(hints.get("return", MISSING), scope, called),
        read.rest,
        tuple(
            (p.name, p.structure) for p in read.parameters if p.structure and p.name == p.variable
        ),
        tuple(p for p in read.parameters if p.name != p.variable),
    )


def _output(hint: Any, scope: Mapping[str, Any], called: str) -> Output | TypeError:
    try:
        return output_of(hint, scope, called)
    except TypeError as error:
        return error


@attrs.define
class _Reader:
    """Collects the parameters that clients may give."""

    called: str
    shapes: Shapes
    hints: Mapping[str, Any]
    contexts: list[str]
    parameters: list[Parameter] = attrs.field(factory=list)
    rest: Shape | None = None

    def parameters_of(self, arguments: Mapping[str, inspect.Parameter]) -> None:
        """Read them from the signature."""
        for variable, found in arguments.items():
            try:
                self._parameter(variable, self.hints.get(variable, Any), found)
            except TypeError as error:
                raise TypeError(f"parameter {variable!r} of {self.called}: {error}") from None

    def _parameter(self, variable: str, hint: Any, found: inspect.Parameter) -> None:
        if found.kind in (found.VAR_POSITIONAL, found.POSITIONAL_ONLY):
            raise TypeError("arguments in JSON have names, so it has to be takeable by name")
        if variable == "ctx" and variable not in self.hints:
            raise TypeError("annotate it as Context, or as Any if clients are to give it")
        if found.kind is found.VAR_KEYWORD and _is_unpacked(hint):
            for f in fields_of(get_args(hint)[0], self.shapes.local):
                shape = self.shapes.of(f.hint)
                self.parameters.append(
                    Parameter(f.key, f.attribute, shape.schema, f.required, shape.structure)
                )
        elif found.kind is found.VAR_KEYWORD:
            self.rest = self.shapes.of(hint)
        else:
            shape = self.shapes.of(hint)
            required = found.default is found.empty
            default = MISSING if required else found.default
            schema = self.shapes.with_default(shape.schema, default)
            name = alias_of(hint, variable)
            self.parameters.append(Parameter(name, variable, schema, required, shape.structure))

    def schema(self) -> JSONObject:
        """The JSON Schema of the parameters together."""
        schema: JSONObject = {"type": "object"}
        if self.parameters:
            schema["properties"] = {p.name: p.schema for p in self.parameters}
        if len(self.parameters) != len(schema.get("properties", {})):
            raise TypeError(f"two parameters of {self.called} have the same name for clients")
        if required := [p.name for p in self.parameters if p.required]:
            schema["required"] = required
        schema["additionalProperties"] = False if self.rest is None else self.rest.schema
        # With **kwargs, a client could else reach parameters that go by another name, or by none.
        names = {p.name for p in self.parameters}
        if self.rest and (
            hidden := {*self.contexts, *(p.variable for p in self.parameters)} - names
        ):
            schema["propertyNames"] = {"not": {"enum": sorted(hidden)}}
        return self.shapes.whole(schema)


def _is_unpacked(hint: Any) -> bool:
    return get_origin(hint) is not None and any(is_typeddict(arg) for arg in get_args(hint))


def _is_context(hint: Any, context_type: type) -> bool:
    """Whether a hint is the context class, a subclass or generic alias of it, or that or None."""
    hint, _ = unwrap(hint)
    if is_union(hint):
        return any(_is_context(option, context_type) for option in get_args(hint))
    hint = get_origin(hint) or hint
    return isinstance(hint, type) and issubclass(hint, context_type)


def _plain_function(function: Any) -> Any:
    """The function at the bottom of partials, methods, callable objects and wrappers."""
    while True:
        if isinstance(function, partial):
            function = function.func
        elif inspect.ismethod(function):
            function = function.__func__
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        elif inspect.isroutine(function) or isinstance(function, type):
            return function
        else:
            function = type(function).__call__


def _signature(function: Callable[..., Any], called: str) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except ValueError:
        raise TypeError(f"{called} does not tell its parameters; wrap it in a function") from None


def _hints(plain: Any, scope: Mapping[str, Any], context_type: type, called: str) -> dict[str, Any]:
    """The annotations as types, also those that are strings and name what is defined nearby."""
    if isinstance(plain, type):
        plain = plain.__init__  # type: ignore[misc]  # this very class is what will be called
    local = {**scope, **_closure(plain), **_type_parameters(plain)}
    # A context class that is imported for type checkers only is still known by its name.
    try:
        return get_type_hints(plain, None, local, include_extras=True)
    except NameError:
        local.setdefault(context_type.__name__, context_type)
    try:
        return get_type_hints(plain, None, local, include_extras=True)
    except NameError as error:
        raise TypeError(
            f"an annotation of {called} cannot be resolved: {error}; the types it names have to "
            "be defined where the function is, and imported also when the program runs"
        ) from None


def _closure(function: Any) -> dict[str, Any]:
    cells = getattr(function, "__closure__", None) or ()
    names = function.__code__.co_freevars if cells else ()
    found = {}
    for name, cell in zip(names, cells, strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return found


def _type_parameters(function: Any) -> dict[str, Any]:
    return {parameter.__name__: parameter for parameter in getattr(function, "__type_params__", ())}


def _description(function: Any, plain: Any) -> str | None:
    doc = getattr(plain, "__doc__", None)
    if (
        doc is None
        and not isinstance(function, functools.partial)
        and not inspect.isroutine(function)
    ):
        doc = type(function).__doc__
    return (inspect.cleandoc(doc) or None) if isinstance(doc, str) else None
