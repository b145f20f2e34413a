"""The reference: what h11 on Trio costs by itself. Every POST is answered by the same bytes."""

import sys
from contextlib import suppress
from functools import partial

import h11
import trio

BODY = b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"3"}],"isError":false}}'
HEADERS = [("content-type", "application/json"), ("content-length", str(len(BODY)))]


async def serve(stream: trio.SocketStream) -> None:
    with suppress(trio.BrokenResourceError):  # wrk leaves without a goodbye
        await answer_all(stream)


async def answer_all(stream: trio.SocketStream) -> None:
    http = h11.Connection(h11.SERVER)
    while True:
        event = http.next_event()
        if event is h11.NEED_DATA:
            http.receive_data(await stream.receive_some(65_536))
        elif isinstance(event, h11.EndOfMessage):
            head = http.send(h11.Response(status_code=200, headers=HEADERS)) or b""
            body = http.send(h11.Data(data=BODY)) or b""
            await stream.send_all(head + body + (http.send(h11.EndOfMessage()) or b""))
            if http.our_state is not h11.DONE:
                return
            http.start_next_cycle()
        elif isinstance(event, h11.ConnectionClosed):
            return


if __name__ == "__main__":
    trio.run(partial(trio.serve_tcp, serve, int(sys.argv[1]), host="127.0.0.1"))
