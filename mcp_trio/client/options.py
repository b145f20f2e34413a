"""How a client behaves: what `open_client` can be told, checked before anything is started."""

from collections.abc import Callable
from typing import Any

import attrs

from mcp_trio.client.handshake import offers_of
from mcp_trio.client.questions import OnElicit, OnListRoots, OnSample
from mcp_trio.incoming import Handler
from mcp_trio.protocol.types.base import LOGGING_LEVELS, Implementation, LoggingLevel
from mcp_trio.protocol.types.notifications import LoggingMessageNotificationParams
from mcp_trio.wire.jsonrpc import JSONObject, Notification

#: Seconds for connecting and negotiating, unless told otherwise.
CONNECT_TIMEOUT = 30.0
#: Seconds without an answer to `server/discover` after which a server counts as legacy.
PROBE_TIMEOUT = 5.0


def check_log_level(level: object) -> None:
    """Refuse what is no log level.

    Raises:
        ValueError: It names the levels there are.
    """
    if level not in LOGGING_LEVELS:
        raise ValueError(f"{level!r} is no log level; one of {', '.join(LOGGING_LEVELS)}")


def _mode(_instance: object, _attribute: object, mode: str) -> None:
    offers_of(mode)


def _log_level(_instance: object, _attribute: object, level: str | None) -> None:
    if level is not None:
        check_log_level(level)


def _callback(_instance: object, attribute: "attrs.Attribute[Any]", value: object) -> None:
    if value is not None and not callable(value):
        raise TypeError(f"{attribute.name} must be a function, not {type(value).__name__}")


def _not_negative(
    _instance: object, attribute: "attrs.Attribute[Any]", value: float | None
) -> None:
    if value is not None and not value >= 0:  # NaN is not, either
        raise ValueError(f"{attribute.name} must be 0 or more, not {value!r}")


@attrs.frozen(kw_only=True)
class ClientOptions:
    """The parameters of `open_client`, which explains them.

    Raises:
        ValueError: An unknown mode or log level; a number that is negative, or none.
        TypeError: A callback that cannot be called.
    """

    mode: str = attrs.field(default="auto", validator=_mode)
    on_elicit: OnElicit | None = attrs.field(default=None, validator=_callback)
    on_sample: OnSample | None = attrs.field(default=None, validator=_callback)
    on_list_roots: OnListRoots | None = attrs.field(default=None, validator=_callback)
    on_log: Callable[[LoggingMessageNotificationParams], object] | None = attrs.field(
        default=None, validator=_callback
    )
    on_notification: Callable[[Notification], object] | None = attrs.field(
        default=None, validator=_callback
    )
    on_request: Handler | None = attrs.field(default=None, validator=_callback)
    log_level: LoggingLevel | None = attrs.field(default=None, validator=_log_level)
    client_info: Implementation | None = None
    capabilities: JSONObject = attrs.field(factory=dict)
    timeout: float | None = attrs.field(default=None, validator=_not_negative)
    max_timeout: float | None = attrs.field(default=None, validator=_not_negative)
    connect_timeout: float = attrs.field(default=CONNECT_TIMEOUT, validator=_not_negative)
    probe_timeout: float = attrs.field(default=PROBE_TIMEOUT, validator=_not_negative)
    max_rounds: int = attrs.field(default=10, validator=_not_negative)
    round_backoff: float = attrs.field(default=0.1, validator=_not_negative)
    validate_output: bool = True
    cache: bool = False
