"""Bytes to messages and back, without I/O.

`ndjson` cuts a byte stream into lines and `sse` into events; `jsonrpc` turns one such text into a
message. `http_headers` repeats parts of a message in HTTP headers, and `header_params` reads which
arguments of a tool belong there. All are plain values and functions, so they are tested without an
event loop and work over any transport.
"""
