"""Bytes to messages and back, without I/O.

`ndjson` cuts a byte stream into lines, `jsonrpc` turns a line into a message. Both are plain
values and functions, so they are tested without an event loop and work over any transport.
"""
