"""The checks, area by area, and how one is written.

    @check(
        "ping-is-answered",
        "ping-1", "ping-2",
        meaning="A ping gets an empty result.",
        revisions=LEGACY,
    )
    async def ping_is_answered(probe: ServerProbe) -> None:
        session = await probe.session()
        result = (await session.request("ping")).expect_result()
        expect(not result, f"expected an empty result, got {result}")

The decorated name is a `Check`. A module of checks is listed in `AREAS`; that is all it takes. What
is written here of a check besides its code is what people read of it on a command line, so the id
and the meaning say what a good peer does. A check that fails says in its message what was seen.

Which requirements a check tests is written at the check and nowhere else. If one of them is only a
SHOULD and another a MUST, the check says in `Failed` which one is broken.
"""

from collections.abc import Awaitable, Callable, Iterable
from functools import cache
from importlib import import_module
from typing import Any, Final, TypeAlias

from mcp_trio.harness.model import TRANSPORTS, Check, Role, Transport
from mcp_trio.protocol.revisions import LEGACY, MODERN, REVISIONS, supports

__all__ = ["AREAS", "LEGACY", "MODERN", "REVISIONS", "check", "having", "load_checks"]

AREAS: Final[tuple[str, ...]] = (
    "jsonrpc",
    "lifecycle",
    "versioning",
    "utilities",
    "tools",
    "resources",
    "prompts",
    "listing",
    "asking",
    "subscriptions",
    "tasks",
    "stdio",
    "http_common",
    "http_legacy",
    "http_modern",
    "authorization",
    "robustness",
    "client_base",
    "client_versions",
    "client_features",
    "client_asking",
    "client_stdio",
    "client_http",
    "client_auth",
    "client_tasks",
)
"""The modules with checks, in the order in which they are run and reported."""

CheckFunction: TypeAlias = Callable[[Any], Awaitable[None]]


def check(
    id: str,
    *requirements: str,
    meaning: str,
    role: Role = "server",
    revisions: Iterable[str] = REVISIONS,
    transports: Iterable[Transport] = TRANSPORTS,
) -> Callable[[CheckFunction], Check]:
    """Make a check of an async function that takes a probe; see the fields of `Check`."""

    def decorate(function: CheckFunction) -> Check:
        return Check(
            id=id,
            role=role,
            requirements=requirements,
            meaning=meaning,
            revisions=tuple(revisions),
            transports=tuple(transports),
            run=function,
        )

    return decorate


def having(feature: str) -> tuple[str, ...]:
    """The revisions that have a feature of `mcp_trio.protocol.revisions.FEATURES`."""
    return tuple(revision for revision in REVISIONS if supports(feature, revision))


@cache
def load_checks(role: Role | None = None) -> tuple[Check, ...]:
    """All checks, or those for one role, in the order of the areas."""
    found = [
        value
        for area in AREAS
        for value in vars(import_module(f"{__name__}.{area}")).values()
        if isinstance(value, Check)
    ]
    return tuple(check for check in found if role in (None, check.role))
