"""OAuth for the harness: a scripted authorization server, and a plain client to hold against it.

`server` plays the authorization server and the guard of a protected MCP server, and remembers what
it was asked, so that checks of clients can judge it. `client` is the healthy counterpart: an
`httpx.Auth` that does what the specification asks of a client, for a user who always agrees. It
keeps everything in memory and is no substitute for an authorization library.
"""
