"""URI templates (RFC 6570): expanding them, and matching URIs against them.

Expansion is a kept library's. Matching is not in the RFC, for it cannot always be done: ``{a}{b}``
does not say where ``a`` ends. The rule here is that matching what a template expands to gives the
variables back, and that a template for which this is hopeless is refused when it is made:

* two variables with nothing between them: ``{a}{b}``
* several variables, or an exploded one, in an operator whose values may contain the separator:
  ``{+a,b}``, ``{#a*}``, ``{.a,b}``
* a prefix ``{a:3}`` where ``{a}`` itself is not in the template to complete it

Lists and objects come back from exploded variables (``{/path*}``, ``{?filter*}``); without the
star, a value is one string. Where a URI could be read in several ways still, as ``{name}.{ext}``
with more than one dot, variables to the left take as much as they can.

Each part of a template is matched from the right against all positions at once, so that time is
the length of the URI times the number of parts, and no template or URI can make it explode.
"""

import re
from collections.abc import Iterator
from string import ascii_letters, digits, hexdigits
from typing import Any
from urllib.parse import unquote_to_bytes

import attrs

MAX_URI = 64 * 1024

UNRESERVED = frozenset(ascii_letters + digits + "-._~")
RESERVED = frozenset(":/?#[]@!$&'()*+,;=")
VALUE = UNRESERVED | {"%"}
# What people write in URIs by hand, where an expansion would have been percent-encoded.
LENIENT = VALUE | RESERVED - set("/?#")

EXPRESSION = re.compile(r"\{([^{}]*)\}")
VARIABLE = re.compile(
    r"(?P<name>(?:[A-Za-z0-9_.]|%[0-9A-Fa-f]{2})+)(?::(?P<prefix>[1-9][0-9]{0,3})|(?P<star>\*))?"
)


@attrs.frozen
class Operator:
    """A row of RFC 6570's table of operators (appendix A)."""

    first: str
    separator: str
    named: bool = False
    if_empty: str = ""
    reserved: bool = False


OPERATORS = {
    "": Operator("", ","),
    "+": Operator("", ",", reserved=True),
    "#": Operator("#", ",", reserved=True),
    ".": Operator(".", "."),
    "/": Operator("/", "/"),
    ";": Operator(";", ";", named=True),
    "?": Operator("?", "&", named=True, if_empty="="),
    "&": Operator("&", "&", named=True, if_empty="="),
}


@attrs.frozen
class Variable:
    name: str
    prefix: int | None = None
    exploded: bool = False


@attrs.frozen
class Expression:
    """One ``{...}``. What it matches is empty, or begins with its operator's first character."""

    text: str
    operator: Operator
    variables: tuple[Variable, ...]
    strict: frozenset[str]
    lenient: frozenset[str]

    @property
    def several(self) -> bool:
        return len(self.variables) > 1 or self.variables[0].exploded


Part = str | Expression
Values = dict[str, Any]


class UriTemplate:
    """A URI template that can be expanded and matched.

    Raises ValueError for what is no template or cannot be matched, saying why.
    """

    def __init__(self, template: str) -> None:
        self.template = template
        self.parts: tuple[Part, ...] = tuple(_parse(template))
        expressions = [part for part in self.parts if isinstance(part, Expression)]
        found = [variable for part in expressions for variable in part.variables]
        self.variables: tuple[str, ...] = tuple(dict.fromkeys(v.name for v in found))
        for problem in _problems(self.parts, found):
            raise ValueError(f"the URI template {template!r} cannot be matched: {problem}")

    def __repr__(self) -> str:
        return f"UriTemplate({self.template!r})"

    def expand(self, values: Values) -> str:
        """The URI for some values: strings, numbers, or lists and dicts of these."""
        import uritemplate

        expanded: str = uritemplate.expand(self.template, values)
        return expanded

    def match(self, uri: str) -> Values | None:
        """The variables of a URI, decoded, or None if it is not one of this template.

        Variables that the URI leaves out are not in the result. URIs are compared as RFC 3986
        says, ``%7e`` being ``~``; other characters than ASCII may be encoded or not.
        """
        if len(uri) > MAX_URI:
            return None
        text = _normalize(uri)
        beginning = self.parts[0] if self.parts and isinstance(self.parts[0], str) else ""
        if not text.startswith(beginning):
            return None
        for lenient in (False, True):
            possible = _possible_starts(self.parts, text, lenient=lenient)
            if not possible[0][0]:
                continue
            for prefer_later in (True, False):
                values = self._read(text, possible, lenient=lenient, prefer_later=prefer_later)
                if values is not None:
                    return values
        return None

    def _read(
        self, text: str, possible: list[list[bool]], *, lenient: bool, prefer_later: bool
    ) -> Values | None:
        values: Values = {}
        prefixes: list[tuple[str, str]] = []
        position = 0
        for index, part in enumerate(self.parts):
            start = position
            if isinstance(part, str):
                position += len(part)
                continue
            following = self.parts[index + 1] if index + 1 < len(self.parts) else ""
            first = following.operator.first if isinstance(following, Expression) else ""
            ends = _ends(part, text, start, possible[index + 1], lenient=lenient)
            wanted = [end for end in ends if first and text.startswith(first, end)]
            position = max(wanted if prefer_later and wanted else ends)
            found = _values(part, text[start:position])
            if found is None:
                return None
            for variable, value in found:
                if variable.prefix is not None:
                    prefixes.append((variable.name, value))
                elif values.setdefault(variable.name, value) != value:
                    return None
        agree = all(values.get(name, value).startswith(value) for name, value in prefixes)
        return values if agree else None


def _parse(template: str) -> Iterator[Part]:
    position = 0
    for found in EXPRESSION.finditer(template):
        yield from _literal(template, template[position : found.start()])
        yield _expression(template, found[1])
        position = found.end()
    yield from _literal(template, template[position:])


def _literal(template: str, text: str) -> Iterator[str]:
    if "{" in text or "}" in text:
        raise ValueError(f"the URI template {template!r} has a brace without its partner")
    if text:
        yield _normalize(text)


def _expression(template: str, inside: str) -> Expression:
    sign = inside[0] if inside and inside[0] in OPERATORS else ""
    operator = OPERATORS[sign]
    variables = []
    for spec in inside[len(sign) :].split(","):
        found = VARIABLE.fullmatch(spec)
        if found is None:
            raise ValueError(
                f"the URI template {template!r} has {{{inside}}}, where {spec!r} is no variable"
            )
        prefix = int(found["prefix"]) if found["prefix"] else None
        variables.append(Variable(found["name"], prefix, bool(found["star"])))
    value = VALUE | RESERVED if operator.reserved else VALUE
    several = len(variables) > 1 or variables[0].exploded
    marks = set(operator.separator) if several else set()
    marks |= set("=") if operator.named or variables[-1].exploded else set()
    lenient = LENIENT - ({operator.separator} if several else set())
    return Expression(
        f"{{{inside}}}", operator, tuple(variables), value | marks, value | lenient | marks
    )


def _problems(parts: tuple[Part, ...], variables: list[Variable]) -> Iterator[str]:
    """Why the expansions of a template cannot be told apart."""
    whole = {variable.name for variable in variables if variable.prefix is None}
    for variable in variables:
        if variable.prefix is not None and variable.name not in whole:
            yield f"of {variable.name!r} it only has the first {variable.prefix} characters"
    for index, part in enumerate(parts):
        if isinstance(part, str):
            continue
        before = parts[index - 1] if index else ""
        if isinstance(before, Expression) and not part.operator.first:
            yield f"nothing stands between {before.text} and {part.text}"
        if part.several and (part.operator.reserved or part.operator.first == "."):
            yield f"the values in {part.text} may contain {part.operator.separator!r} themselves"
        if not part.operator.named and any(v.exploded for v in part.variables[:-1]):
            yield f"only the last variable of {part.text} can have a star"


# --- Matching


def _possible_starts(parts: tuple[Part, ...], text: str, *, lenient: bool) -> list[list[bool]]:
    """For each part, and for the end, the positions from which the rest of the template fits."""
    size = len(text)
    inside_escape = {p + n for p, c in enumerate(text) if c == "%" for n in (1, 2)}
    following = [False] * size + [True]
    tables = [following]
    for part in reversed(parts):
        if isinstance(part, str):
            here = [
                text.startswith(part, p) and following[p + len(part)] for p in _starts(size, part)
            ]
            here += [False] * (size + 1 - len(here))
        else:
            here = _expression_starts(part, text, following, lenient=lenient)
        following = [fits and p not in inside_escape for p, fits in enumerate(here)]
        tables.append(following)
    return tables[::-1]


def _starts(size: int, part: str) -> range:
    return range(max(0, size + 1 - len(part)))


def _expression_starts(
    part: Expression, text: str, following: list[bool], *, lenient: bool
) -> list[bool]:
    allowed = part.lenient if lenient else part.strict
    first = part.operator.first
    reaches = [False] * (len(text) + 1)  # whether allowed characters lead to where the rest fits
    for p in range(len(text), -1, -1):
        reaches[p] = following[p] or (p < len(text) and text[p] in allowed and reaches[p + 1])
    if not first:
        return reaches
    return [
        following[p] or (text.startswith(first, p) and reaches[p + 1]) for p in range(len(reaches))
    ]


def _ends(
    part: Expression, text: str, start: int, following: list[bool], *, lenient: bool
) -> list[int]:
    """Where what a part matches from ``start`` on may end, so that the rest still fits."""
    allowed = part.lenient if lenient else part.strict
    first = part.operator.first
    ends = [start] if following[start] else []
    if not text.startswith(first, start):
        return ends
    position = start + len(first)
    if first and following[position]:
        ends.append(position)
    while position < len(text) and text[position] in allowed:
        position += 1
        if following[position]:
            ends.append(position)
    return ends


# --- Reading what was matched


def _values(part: Expression, text: str) -> list[tuple[Variable, Any]] | None:
    """The variables in the text that an expression matched, or None if it cannot have made it."""
    operator = part.operator
    try:
        if operator.named:
            return _named_values(part, text[1:].split(operator.separator) if text else [])
        if not text and (operator.first or part.several):
            return []
        text = text[len(operator.first) :]
        if not part.several:
            return [(part.variables[0], _decode(text))]
        return _listed_values(part, text.split(operator.separator))
    except UnicodeDecodeError:
        return None


def _listed_values(part: Expression, pieces: list[str]) -> list[tuple[Variable, Any]] | None:
    last = part.variables[-1]
    single = part.variables[:-1] if last.exploded else part.variables
    values: list[tuple[Variable, Any]] = [
        (variable, _decode(piece)) for variable, piece in zip(single, pieces, strict=False)
    ]
    rest = pieces[len(single) :]
    if rest and not last.exploded:
        return None
    if rest:
        pairs = [piece.partition("=") for piece in rest]
        is_object = all(equals for _, equals, _ in pairs)
        decoded = {_decode(key): _decode(value) for key, _, value in pairs} if is_object else None
        values.append((last, decoded or [_decode(piece) for piece in rest]))
    return values


def _named_values(part: Expression, pieces: list[str]) -> list[tuple[Variable, Any]] | None:
    known = {variable.name: variable for variable in part.variables}
    exploded = [variable for variable in part.variables if variable.exploded]
    singles: dict[str, str] = {}
    lists: dict[str, list[str]] = {}
    members: dict[str, str] = {}
    for piece in pieces:
        raw, _, value = piece.partition("=")
        variable = known.get(raw)
        if variable is not None and variable.exploded:
            lists.setdefault(raw, []).append(_decode(value))
        elif variable is not None and raw not in singles:
            singles[raw] = _decode(value)
        elif len(exploded) == 1 and _decode(raw) not in members and variable is None:
            members[_decode(raw)] = _decode(value)
        else:
            return None
    if members and lists:  # an object with a member that is called like its variable
        members |= {name: values[-1] for name, values in lists.items()}
        lists = {}
    found: list[tuple[Variable, Any]] = [(known[name], value) for name, value in singles.items()]
    found += [(known[name], value) for name, value in lists.items()]
    return found + ([(exploded[0], members)] if members else [])


def _decode(text: str) -> str:
    return unquote_to_bytes(text).decode("utf-8")


def _normalize(uri: str) -> str:
    """A URI with all escapes that it needs, in capitals, and none that it does not."""
    normal = []
    position = 0
    while position < len(uri):
        character = uri[position]
        escape = uri[position + 1 : position + 3]
        if character == "%" and len(escape) == 2 and set(escape) <= set(hexdigits):
            decoded = chr(int(escape, 16))
            normal.append(decoded if decoded in UNRESERVED else f"%{escape.upper()}")
            position += 3
            continue
        if character in UNRESERVED or character in RESERVED:
            normal.append(character)
        else:
            normal += [f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass")]
        position += 1
    return "".join(normal)
