"""Checking what a tool returns against the schema that it declared.

A tool that declares an output schema promises that its structured content fits
(MCP 2026-07-28, server/tools, "Output Schema"). The schemas come with the list of tools; a tool
that was never listed here is not checked.
"""

import logging
from collections.abc import Iterable

from mcp_trio.exceptions import ProtocolError
from mcp_trio.protocol.json_schema import Validator, compile_schema
from mcp_trio.protocol.types.tools import CallToolResult, Tool
from mcp_trio.wire.jsonrpc import MISSING, JSONObject

logger = logging.getLogger("mcp_trio")


class OutputChecks:
    """The output schemas of the tools that have been listed, compiled when first needed."""

    def __init__(self) -> None:
        self._schemas: dict[str, JSONObject | None] = {}
        self._validators: dict[str, Validator | None] = {}

    def learn(self, tools: Iterable[Tool]) -> None:
        """Note what tools declare."""
        for tool in tools:
            if self._schemas.get(tool.name) != tool.output_schema:
                self._validators.pop(tool.name, None)
            self._schemas[tool.name] = tool.output_schema

    def forget(self) -> None:
        """The tools are not what they were."""
        self._schemas.clear()
        self._validators.clear()

    def check(self, name: str, result: CallToolResult) -> None:
        """Check the result of a tool; one that failed promises nothing.

        Raises:
            ProtocolError: The tool broke its promise; says where.
        """
        validator = None if result.is_error else self._validator(name)
        if validator is None:
            return
        if result.structured_content is MISSING:
            raise ProtocolError(
                f"tool {name!r} has an output schema but returned no structured content"
            )
        violations = validator.violations(result.structured_content)
        if violations:
            text = "; ".join(map(str, violations))
            raise ProtocolError(f"tool {name!r} broke its own output schema: {text}")

    def _validator(self, name: str) -> Validator | None:
        """What checks the output of a tool; None if it is unknown, or its schema is unusable."""
        if name not in self._validators:
            schema = self._schemas.get(name)
            if schema is None:
                return None
            try:
                self._validators[name] = compile_schema(schema)
            except ValueError as error:
                logger.warning("the output schema of tool %r is not used: %s", name, error)
                self._validators[name] = None
        return self._validators[name]
