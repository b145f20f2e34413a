"""Tools: checks."""
