"""MCP over HTTP, the server's half: one handler, whatever reads the bytes below it.

handler      whose request it is: the path, Host and Origin, who asks, which era
modern       one POST is one request: answered where it was read, JSON or a stream
stateless    the same for legacy clients, without sessions
sessions     legacy sessions: a peer each, found by an id, gone when nobody comes any more
legacy       their POST, GET and DELETE
streams      which message of a session goes to which HTTP response, now or later
events       what was sent, kept for clients that lost their connection
old_sse      HTTP+SSE, the transport of 2024-11-05
"""
