"""Byte streams in memory."""

import trio
import trio.testing


def memory_pair() -> tuple[trio.abc.Stream, trio.abc.Stream]:
    """Two ends of a two-way byte stream in memory.

    Give one to `open_client` and the other to `Server.serve_stream`, or write bytes of your own
    to see what a peer makes of them:

        near, far = memory_pair()
        nursery.start_soon(server.serve_stream, far)
        await near.send_all(b'not JSON\\n')

    For a client and a server without a wire between them, `open_client(server)` is simpler.
    """
    return trio.testing.memory_stream_pair()
