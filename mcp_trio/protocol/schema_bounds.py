"""How much work a JSON Schema can cause, found before anything is validated with it.

A schema comes from the peer, and so may the value: together they must not be able to keep a
program busy for ever. Three shapes of schema can. One nests deeply, one has very many subschemas,
and one doubles: ``a0`` applies ``a1`` twice, ``a1`` applies ``a2`` twice, and so on, which is a
handful of lines and a million evaluations. So the schema is read as a graph: a node for each
subschema, an edge to each subschema that it applies, ``$ref`` included, and its strongly connected
components (Tarjan) are the recursive parts.

MCP 2026-07-28, basic/index, "Composition-Keyword Resource Use".
"""

from collections.abc import Iterator
from typing import Any

import attrs

MAX_DEPTH = 256
MAX_SUBSCHEMAS = 20_000
MAX_EVALUATIONS = 10_000_000
MAX_STEPS = 200_000  # from one subschema to another: an anchor that stands often leads to many
MAX_INDEX_DIGITS = 9  # of an index in a reference; Python converts no more than 4,300

# Keywords by the shape of what they hold, and by whether the subschema sees the same value as its
# parent ("in place") or a part of it.
IN_PLACE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas")
ELSEWHERE = (
    "properties",
    "patternProperties",
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "items",
    "prefixItems",
    "additionalItems",
    "unevaluatedItems",
    "contains",
)
DEFINITIONS = ("$defs", "definitions")
NAMED = {"properties", "patternProperties", "dependentSchemas", "dependencies", *DEFINITIONS}
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
UNEVALUATED = ("unevaluatedProperties", "unevaluatedItems")

Node = dict[str, Any]


class TooComplex(ValueError):
    """The schema could cost more than the bounds of this module allow."""


@attrs.frozen
class Survey:
    """What a walk over a schema found.

    Attributes:
        evaluations: How many subschemas one value can meet, references followed, recursion once.
        branching: Whether a recursive part of the schema leads back into itself twice for the
            same value, so that work could double with each level of the value.
        dialects: Every ``$schema`` that stands in the schema, with the path to it.
    """

    evaluations: int
    branching: bool
    dialects: tuple[tuple[str, Any], ...]


def survey(schema: Node) -> Survey:
    """Walk a schema once. Raises `TooComplex` if it is beyond the bounds."""
    nodes = list(_subschemas(schema))
    graph = _Graph(schema, [node for _, node in nodes])
    graph.visit(schema, 0)
    if graph.evaluations > MAX_EVALUATIONS:
        raise TooComplex(
            f"with its references followed, one value could meet {graph.evaluations} subschemas; "
            f"at most {MAX_EVALUATIONS} are allowed"
        )
    dialects = tuple((path, node["$schema"]) for path, node in nodes if "$schema" in node)
    return Survey(graph.evaluations, graph.branching, dialects)


def _subschemas(schema: Node) -> Iterator[tuple[str, Node]]:
    """Each subschema with its JSON pointer, the root first; iterative, so depth cannot hurt."""
    waiting: list[tuple[str, Any, int]] = [("#", schema, 0)]
    found = 0
    while waiting:
        path, value, depth = waiting.pop()
        if depth > MAX_DEPTH:
            raise TooComplex(f"it is nested deeper than {MAX_DEPTH} levels at {path[:200]}")
        if isinstance(value, list):
            waiting += [(f"{path}/{n}", item, depth + 1) for n, item in enumerate(value)]
        if not isinstance(value, dict):
            continue
        found += 1
        if found > MAX_SUBSCHEMAS:
            raise TooComplex(f"it has more than {MAX_SUBSCHEMAS} subschemas")
        yield path, value
        for keyword in (*IN_PLACE, *ELSEWHERE, *DEFINITIONS, "dependencies"):
            held = value.get(keyword)
            if keyword in NAMED and isinstance(held, dict):
                waiting += [(f"{path}/{keyword}/{k}", v, depth + 1) for k, v in held.items()]
            elif held is not None:
                waiting.append((f"{path}/{keyword}", held, depth + 1))


class _Graph:
    """Tarjan's algorithm, with the cost of each node added up on the way out."""

    def __init__(self, root: Node, nodes: list[Node]) -> None:
        self.root = root
        self.anchors: dict[str, list[Node]] = {}
        for node in nodes:
            for keyword in ("$anchor", "$dynamicAnchor", "$id", "id"):
                if isinstance(name := node.get(keyword), str):
                    self.anchors.setdefault(name.lstrip("#"), []).append(node)
        self.index: dict[int, int] = {}
        self.low: dict[int, int] = {}
        self.cost: dict[int, int] = {}
        self.stack: list[Node] = []
        self.on_stack: set[int] = set()
        self.branching = False
        self.steps = 0

    @property
    def evaluations(self) -> int:
        return self.cost[id(self.root)]

    def visit(self, node: Node, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise TooComplex(f"its references nest deeper than {MAX_DEPTH} levels")
        key = id(node)
        self.index[key] = self.low[key] = len(self.index)
        self.stack.append(node)
        self.on_stack.add(key)
        for group in self.edges(node):
            self.steps += len(group)
            if self.steps > MAX_STEPS:
                raise TooComplex(f"its subschemas apply others more than {MAX_STEPS} times")
            for child in group:
                if id(child) not in self.index:
                    self.visit(child, depth + 1)
                    self.low[key] = min(self.low[key], self.low[id(child)])
                elif id(child) in self.on_stack:
                    self.low[key] = min(self.low[key], self.index[id(child)])
        if self.low[key] == self.index[key]:
            self.close_component(key)

    def close_component(self, key: int) -> None:
        members: list[Node] = []
        while not members or id(members[-1]) != key:
            members.append(self.stack.pop())
            self.on_stack.discard(id(members[-1]))
        inside = {id(member) for member in members}
        for member in members:
            groups = [list(group) for group in self.edges(member)]
            self.cost[id(member)] = 1 + sum(
                1 if id(child) in inside else self.cost[id(child)]
                for group in groups
                for child in group
            )
            ways_back = sum(any(id(child) in inside for child in group) for group in groups)
            if ways_back < 2:
                continue
            self.branching = True
            if any(keyword in other for other in members for keyword in UNEVALUATED):
                raise TooComplex(
                    "unevaluatedProperties or unevaluatedItems stand in a recursive part that "
                    "leads back to itself in more than one way"
                )

    def edges(self, node: Node) -> Iterator[list[Node]]:
        """The subschemas a node applies, grouped: of one group, a value meets only one."""
        for keyword in REFERENCES:
            if isinstance(reference := node.get(keyword), str):
                yield from ([target] for target in self.targets(reference))
        for keyword in (*IN_PLACE, "dependencies"):
            held = node.get(keyword)
            several = held.values() if keyword in NAMED and isinstance(held, dict) else held
            yield from ([child] for child in _dicts(several))
        # Different properties are different values; a pattern may match any of them again.
        parts: list[Node] = []
        for keyword in ELSEWHERE:
            held = node.get(keyword)
            if keyword == "patternProperties" and isinstance(held, dict):
                yield from ([child] for child in _dicts(held.values()))
            else:
                several = held.values() if keyword in NAMED and isinstance(held, dict) else held
                parts += _dicts(several)
        yield parts

    def targets(self, reference: str) -> list[Node]:
        """Where a local reference leads; elsewhere is for the validator to refuse."""
        if reference.startswith("#/"):
            return _dicts(_follow(self.root, reference[2:].split("/")))
        if reference in ("#", ""):
            return [self.root]
        return self.anchors.get(reference.lstrip("#"), [])


def _dicts(held: Any) -> list[Node]:
    several = [held] if isinstance(held, dict) else held
    return [child for child in several or () if isinstance(child, dict)] if _many(several) else []


def _many(held: Any) -> bool:
    return not isinstance(held, bool | str | int | float | None)


def _follow(value: Any, pointer: list[str]) -> Any:
    for raw in pointer:
        name = raw.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value.get(name)
        elif isinstance(value, list) and _is_index(name) and int(name) < len(value):
            value = value[int(name)]
        else:
            return None
    return value


def _is_index(name: str) -> bool:
    return name.isdecimal() and len(name) <= MAX_INDEX_DIGITS
