"""The official JSON schemas of the revisions, as judges of what this package sends and reads.

They are looked for in the folder that the environment variable MCP_SPEC_SCHEMAS names, else in
``shared/spec/schema`` beside the repository. Where they are absent, the tests that need them are
skipped. Their known faults are listed in `ERRATA`, and mended before they judge.
"""

import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema  # type: ignore[import-untyped]  # it has no type hints
import pytest

from mcp_trio.protocol.revisions import REVISIONS

FOLDER = Path(
    os.environ.get("MCP_SPEC_SCHEMAS") or Path(__file__).parents[3] / "shared" / "spec" / "schema"
)

needs_schemas = pytest.mark.skipif(
    not FOLDER.is_dir(), reason=f"the official schemas are not at {FOLDER} (see MCP_SPEC_SCHEMAS)"
)


class Erratum(NamedTuple):
    """A fault of a schema: where, how to mend it, and a value that it wrongly refuses."""

    name: str
    revisions: tuple[str, ...]
    definition: str
    why: str
    refused: Any
    mend: Callable[[dict[str, Any]], None]


def _any_number_in_content(definition: dict[str, Any]) -> None:
    values = definition["properties"]["content"]["additionalProperties"]
    for option in values.get("anyOf", [values]):
        if "integer" in option["type"]:
            option["type"] = ["string", "number", "boolean"]


def _any_json(definition: dict[str, Any]) -> None:
    definition["anyOf"][-1]["type"] = ["string", "number", "boolean", "null"]


ERRATA = (
    Erratum(
        "fractions in ElicitResult.content",
        ("2025-06-18", "2025-11-25", "2026-07-28"),
        "ElicitResult",
        "forms may ask for a number, but the generator made every number an integer",
        {"action": "accept", "content": {"height": 1.5}},
        _any_number_in_content,
    ),
    Erratum(
        "fractions and null in JSONValue",
        ("2026-07-28",),
        "JSONValue",
        "JSON has both; the generator made every number an integer and lost null",
        [1.5, None],
        _any_json,
    ),
)


def judge_of(schema: dict[str, Any]) -> Any:
    """A judge of the values of any JSON Schema, in the dialect that it declares."""
    return jsonschema.validators.validator_for(schema)(schema)


@cache
def raw_schema(revision: str) -> dict[str, Any]:
    """A revision's schema as it was published."""
    loaded: dict[str, Any] = json.loads((FOLDER / f"{revision}.json").read_text())
    return loaded


def definitions_key(revision: str) -> str:
    """Where a revision's schema keeps its definitions."""
    return "$defs" if "$defs" in raw_schema(revision) else "definitions"


def reference(name: str, revision: str) -> str:
    """A reference to a definition within its revision's schema."""
    return f"#/{definitions_key(revision)}/{name}"


@cache
def definitions(revision: str) -> dict[str, Any]:
    """A revision's definitions, mended."""
    text = json.dumps(raw_schema(revision)[definitions_key(revision)])
    mended: dict[str, Any] = json.loads(text)
    for erratum in ERRATA:
        if revision in erratum.revisions:
            erratum.mend(mended[erratum.definition])
    return mended


def resolve(schema: dict[str, Any], revision: str) -> dict[str, Any]:
    """A schema without a reference or an ``allOf`` at its root."""
    while "$ref" in schema:
        schema = definitions(revision)[schema["$ref"].rpartition("/")[2]]
    if "allOf" in schema:
        merged: dict[str, Any] = {"type": "object", "properties": {}, "required": []}
        for part in schema["allOf"]:
            one = resolve(part, revision)
            merged["properties"] |= one.get("properties", {})
            merged["required"] += one.get("required", [])
        return merged
    return schema


@cache
def validator(name: str, revision: str) -> Any:
    """A judge of the values of one definition."""
    key = definitions_key(revision)
    dialect = raw_schema(revision)["$schema"]
    return judge_of(
        {"$schema": dialect, "$ref": reference(name, revision), key: definitions(revision)}
    )


def complaints(value: Any, name: str, revision: str) -> list[str]:
    """What is wrong with a value, by the definition ``name``; empty if nothing is."""
    return [
        f"{'/'.join(map(str, error.path))}: {error.message[:300]}"
        for error in validator(name, revision).iter_errors(value)
    ]


def places() -> list[tuple[str, str]]:
    """Every (definition, revision) there is; none where the schemas are absent."""
    if not FOLDER.is_dir():
        return []
    return [(name, revision) for revision in REVISIONS for name in definitions(revision)]
