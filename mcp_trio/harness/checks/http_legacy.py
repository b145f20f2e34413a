"""Streamable HTTP with sessions, and HTTP+SSE: checks."""
