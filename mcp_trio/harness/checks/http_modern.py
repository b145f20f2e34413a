"""Streamable HTTP of the modern era: checks."""
