"""Clients over Streamable HTTP: checks."""
