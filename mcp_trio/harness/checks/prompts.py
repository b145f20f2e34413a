"""Prompts: checks."""
