"""Ping, cancellation, progress, logging, completion: checks."""
