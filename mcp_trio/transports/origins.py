"""Which web pages may talk to us, and under which names: the defence against DNS rebinding.

A server on localhost is reachable by every web page that its user's browser has open. The browser
does say, in Origin, where a page came from; but a page whose own name is made to resolve to
127.0.0.1 is of the same origin as what it asks there, and the browser need not say anything.
What remains is the name that the request is for, in Host: the page's, not ours. So both are
compared with lists, which hold this computer's own names and nothing else unless somebody adds
to them. (MCP 2026-07-28, basic/transports/streamable-http, "Security & Endpoint")
"""

import re
from collections.abc import Collection

#: In a list: everything is allowed.
ANY = "*"

_OWN_NAME = r"(?:localhost|127\.0\.0\.1|\[::1\])(?::[0-9]{1,5})?"
_OWN_HOST = re.compile(_OWN_NAME, re.IGNORECASE)
_OWN_ORIGIN = re.compile(rf"https?://{_OWN_NAME}", re.IGNORECASE)
_PORT = re.compile(r":[0-9]{1,5}\Z")


def is_origin_allowed(origin: str, allowed: Collection[str]) -> bool:
    """Whether a web page may connect: it is of this computer, or one of `allowed`.

    `allowed` are origins as browsers send them, such as "https://example.com".
    """
    if _OWN_ORIGIN.fullmatch(origin) or ANY in allowed:
        return True
    origin = origin.lower()
    listed = (other.lower() for other in allowed)
    return any(origin in (other, other.removesuffix("/")) for other in listed)


def is_host_allowed(host: str, allowed: Collection[str]) -> bool:
    """Whether a request is for us: the Host is a name of this computer, or one of `allowed`.

    `allowed` are names, with a port or for any port: "example.com", "example.com:8443".
    """
    if _OWN_HOST.fullmatch(host) or ANY in allowed:
        return True
    host = host.lower()
    names = {host, _PORT.sub("", host)}
    return any(other.lower() in names for other in allowed)


def names_of(host: str | None) -> list[str]:
    """What clients may call a server that listens at this name or address.

    That is nothing in particular if it listens at all addresses.
    """
    if host is None or host in ("", "0.0.0.0", "::"):
        return []
    return [f"[{host}]" if ":" in host else host]
