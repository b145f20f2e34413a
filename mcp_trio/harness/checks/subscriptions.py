"""Subscriptions and what changes: checks."""
