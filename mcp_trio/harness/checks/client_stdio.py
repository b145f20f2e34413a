"""Clients over stdio: checks."""
