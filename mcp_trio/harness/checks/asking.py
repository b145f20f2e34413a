"""Servers that ask their client: sampling, elicitation, roots, and input_required: checks."""
