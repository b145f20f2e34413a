"""Foreign clients that do as they are told: one interpreter of steps for each implementation.

A client is run by its own interpreter, gets one JSON document as its argument, and prints one:

    {"mode": "auto", "command": ["my-server"], "steps": [{"do": "call", "name": "add", ...}]}
    {"mode": "auto", "url": "http://localhost:8000/mcp", "steps": [...]}     (or /sse for HTTP+SSE)
    {"version": "2026-07-28", "outcomes": [{"result": {...}}], "asked": [...], "logs": [...]}

Outcomes stand in the order of the steps. Each holds `result`, in wire form; or `error`, a JSON-RPC
error; or `raised`, what else the implementation said. See `steps.py` for what steps there are.
"""
