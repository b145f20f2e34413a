"""JSON Schema as this protocol uses it: a stated dialect, nothing fetched, bounded work.

A schema says which dialect it is written in with ``$schema``; without one it is 2020-12. Supported
are 2020-12, 2019-09, draft-07, draft-06 and draft-04, and a schema in any other is refused rather
than read as something it is not. A ``$ref`` that leads out of the schema is refused as well:
nothing is ever fetched from a network or read from a file.

The work is done by ``jsonschema_rs``, which judges ``{"a": 1, "b": 2}`` against a two-integer
schema in a tenth of a microsecond (``jsonschema`` takes eight), keeps integers of any size exact,
and matches patterns in linear time, or with a limit where a pattern needs backtracking. It is
imported when the first schema is compiled.

MCP 2026-07-28, basic/index, "JSON Schema Usage".
"""

import marshal
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from itertools import islice
from reprlib import Repr
from types import ModuleType, NoneType
from typing import Any
from urllib.parse import unquote

import attrs

from mcp_trio.protocol.schema_bounds import Survey, TooComplex, survey

JSONObject = dict[str, Any]
FormatCheck = Callable[[str], bool]

DEFAULT_DIALECT = "https://json-schema.org/draft/2020-12/schema"
# Written without scheme and fragment, for people write http and https, "#" and none.
DIALECTS = {
    "json-schema.org/draft/2020-12/schema": "Draft202012Validator",
    "json-schema.org/draft/2019-09/schema": "Draft201909Validator",
    "json-schema.org/draft-07/schema": "Draft7Validator",
    "json-schema.org/draft-06/schema": "Draft6Validator",
    "json-schema.org/draft-04/schema": "Draft4Validator",
}

SCALARS = (str, int, float, NoneType)
MAX_VIOLATIONS = 20
# A list of every violation, with the reasons of every branch, can cost a thousand times a verdict.
MAX_DETAILED_EVALUATIONS = 5_000
MAX_BACKTRACKS = 100_000
MAX_MESSAGE = 400
MAX_BRANCHES = 4

_SHORT = Repr()
_SHORT.maxlevel, _SHORT.maxstring, _SHORT.maxlong = 3, 120, 60

EXPECTED_FORMATS = {
    "byte": "base64 text",
    "date": "a date such as 2026-12-31",
    "date-time": "a date and time with an offset, such as 2026-12-31T10:00:00Z",
    "duration": "an ISO 8601 duration of weeks, days, hours, minutes and seconds, such as PT1H30M",
    "email": "an e-mail address",
    "time": "a time such as 10:00:00Z",
    "uri": "an absolute URI",
    "uuid": "a UUID",
}


class InvalidSchema(ValueError):
    """The schema is not valid in its dialect, leads outside itself, or is beyond the bounds."""


class UnsupportedDialect(InvalidSchema):
    """The schema's ``$schema`` names a dialect that is not supported."""


@attrs.frozen
class Violation:
    """One way in which a value does not fit.

    Attributes:
        path: Where in the value, as in ``days`` or ``route[0].city``; empty for the value itself.
        message: What is wrong there, as in ``9 is greater than the maximum of 7``.
    """

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


@attrs.frozen
class Validator:
    """A compiled schema. Made by `compile_schema`; safe to keep and to share.

    Values are JSON as the codec decodes it: ``dict``, ``list``, ``str``, ``int``, ``float``,
    ``bool`` and ``None``. Anything else, and nesting beyond about 2,000 levels, does not fit.
    """

    schema: JSONObject
    _judge: Any
    _survey: Survey
    _parts: Callable[[], Any]

    def is_valid(self, value: Any) -> bool:
        """Whether the value fits. Never raises."""
        try:
            _check_depth(value)
            return bool(self._judge.is_valid(value))
        except ValueError:
            return False

    def violations(self, value: Any) -> list[Violation]:
        """Every way in which the value does not fit, at most `MAX_VIOLATIONS`. Never raises."""
        try:
            _check_depth(value)
            if self._judge.is_valid(value):
                return []
            if self._survey.branching or self._survey.evaluations > MAX_DETAILED_EVALUATIONS:
                found = self._by_property(value)
            else:
                errors = self._judge.iter_errors(value)
                found = (violation for error in errors for violation in _explain(error))
            return list(islice(found, MAX_VIOLATIONS))
        except ValueError as error:
            return [Violation("", f"this is no JSON value: {error}")]

    def _by_property(self, value: Any) -> Iterator[Violation]:
        """For schemas whose details are too dear: which properties do not fit, and no reasons."""
        parts = self._parts()
        wrong = False
        for name in value if isinstance(value, dict) else ():
            part = parts.get(f"#/properties/{_escape(name)}")
            if part is not None and not part.is_valid(value[name]):
                wrong = True
                yield Violation(name, f"{_show(value[name])} does not fit its schema")
        if not wrong:
            yield Violation("", f"{_show(value)} does not fit the schema")


def compile_schema(
    schema: JSONObject, *, formats: Mapping[str, FormatCheck] | None = None
) -> Validator:
    """Compile a JSON Schema into a `Validator`.

    ``formats`` None leaves ``format`` an annotation, as the dialects have it. With a mapping,
    possibly empty, formats are checked: those in the mapping by its functions, the rest as
    JSON Schema defines them.

    Raises `UnsupportedDialect` or `InvalidSchema`, naming what is wrong and where.
    """
    if not isinstance(schema, dict):
        raise InvalidSchema(f"a schema has to be a JSON object, and this is {_show(schema)}")
    try:
        found = survey(schema)
    except TooComplex as error:
        raise InvalidSchema(f"the schema is too complex: {error}") from None
    names = {path: _dialect(path, declared) for path, declared in found.dialects}
    engine = _engine()
    options = {
        "offline": True,
        "pattern_options": engine.FancyRegexOptions(backtrack_limit=MAX_BACKTRACKS),
        "formats": dict(formats or {}),
        "validate_formats": formats is not None,
    }
    validator_class = getattr(engine, names.get("#", DIALECTS[_bare(DEFAULT_DIALECT)]))
    try:
        judge = validator_class(schema, **options)
    except (ValueError, engine.ReferencingError) as error:
        raise InvalidSchema(_invalid(error)) from None

    parts = cache(partial(engine.validator_map_for, schema, **options))
    return Validator(schema, judge, found, parts)


def _engine() -> ModuleType:
    import jsonschema_rs

    return jsonschema_rs


def _dialect(path: str, declared: Any) -> str:
    name = DIALECTS.get(_bare(declared)) if isinstance(declared, str) else None
    if name is None:
        supported = ", ".join(sorted(dialect.split("/schema")[0] for dialect in DIALECTS))
        raise UnsupportedDialect(
            f"the JSON Schema dialect {declared!r} at {path} is not supported; "
            f"supported are {supported}"
        )
    return name


def _bare(dialect: str) -> str:
    return dialect.partition("://")[2].removesuffix("#")


def _check_depth(value: Any) -> None:
    """Raise ValueError where a native validator, recursing on the C stack, would overflow it.

    ``marshal`` walks a value at the speed of C, stops at 2,000 levels, and refuses what is no
    plain data, all with a ValueError. Arguments are mostly scalars, for which it is not needed.
    """
    for item in value.values() if type(value) is dict else (value,):
        if not isinstance(item, SCALARS):
            marshal.dumps(value)
            break


def _explain(error: Any) -> Iterator[Violation]:
    path, kind = _path(error.instance_path), error.kind
    if kind.name == "required":
        yield Violation(_join(path, kind.property), "is required, and missing")
    elif kind.name in ("additionalProperties", "unevaluatedProperties"):
        for name in kind.unexpected:
            yield Violation(_join(path, name), "is not known here")
    elif kind.name == "propertyNames":
        yield Violation(_join(path, str(kind.error.instance)), "is no name that may stand here")
    elif kind.name == "format":
        expected = EXPECTED_FORMATS.get(kind.format, f"of the format {kind.format}")
        yield Violation(path, f"{_show(error.instance)} is not {expected}")
    elif kind.name in ("anyOf", "oneOfNotValid"):
        reasons = [str(reason) for branch in kind.context for reason in _reasons(error, branch)]
        yield Violation(path, _shorten(" and ".join(dict.fromkeys(reasons)) or error.message))
    else:
        yield Violation(path, _shorten(error.message))


def _reasons(whole: Any, branch: list[Any]) -> Iterator[str]:
    """Why one branch of an anyOf does not fit, told relative to the value that was judged."""
    base = _path(whole.instance_path)
    for error in branch[:MAX_BRANCHES]:
        for violation in _explain(error):
            inner = violation.path.removeprefix(base).removeprefix(".")
            yield f"{inner}: {violation.message}" if inner else violation.message


def _path(steps: list[str | int]) -> str:
    path = ""
    for step in steps:
        path = f"{path}[{step}]" if isinstance(step, int) else _join(path, step)
    return path


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _show(value: Any) -> str:
    """A value as people may see it, however large or deep it is."""
    try:
        return _SHORT.repr(value)
    except ValueError:  # Python converts no integer of more than 4,300 digits
        return "a number of thousands of digits"


def _shorten(text: str) -> str:
    """Keep both ends: messages begin with the value, which may be a megabyte."""
    if len(text) <= MAX_MESSAGE:
        return text
    half = MAX_MESSAGE // 2
    return f"{text[:half]} ... {text[-half:]}"


def _invalid(error: Exception) -> str:
    message = getattr(error, "message", None) or str(error)
    where = "/".join(["#", *map(str, getattr(error, "instance_path", ()))])
    if "Retrieval is disabled" in message or "No base URI" in message or "registry" in message:
        uri = message.split("'")[1] if "'" in message else message
        return f"the schema refers to {unquote(uri)!r}, outside itself; nothing is ever fetched"
    return f"the schema is not valid: at {where}: {_shorten(message)}"
