"""Streamable HTTP: what both eras ask for: checks."""
