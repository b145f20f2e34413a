"""Servers reached over Streamable HTTP."""
