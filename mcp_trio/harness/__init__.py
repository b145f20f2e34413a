"""Conformance checks and fuzzing for anybody's MCP server or client."""
