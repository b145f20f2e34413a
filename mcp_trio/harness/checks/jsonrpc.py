"""Messages, requests, responses and errors: checks of what JSON-RPC asks of a server."""

from mcp_trio.harness.checks import check
from mcp_trio.harness.probe import ServerProbe
from mcp_trio.protocol.errors import METHOD_NOT_FOUND


@check(
    "unknown-method-is-refused",
    "base-11",
    meaning="A request for a method that does not exist gets -32601.",
)
async def unknown_method_is_refused(probe: ServerProbe) -> None:
    session = await probe.session()
    reply = await session.request("harness/no_such_method")
    reply.expect_error(METHOD_NOT_FOUND)
