"""Progress, log messages and cancellation."""

import attrs

from mcp_trio.protocol.types.base import (
    JSON,
    LoggingLevel,
    NotificationParams,
    ProgressToken,
    RequestId,
    RequestParams,
)


@attrs.frozen(repr=False)
class ProgressNotificationParams(NotificationParams):
    """How far a request has come: ``progress`` of ``total``, and a text from 2025-03-26."""

    progress_token: ProgressToken
    progress: float
    total: float | None = None
    message: str | None = None


@attrs.frozen(repr=False)
class LoggingMessageNotificationParams(NotificationParams):
    """A log message; ``data`` is any JSON value."""

    level: LoggingLevel
    data: JSON
    logger: str | None = None


@attrs.frozen(repr=False)
class SetLevelRequestParams(RequestParams):
    """From which level on the server sends log messages (legacy)."""

    level: LoggingLevel


@attrs.frozen(repr=False)
class CancelledNotificationParams(NotificationParams):
    """Nobody waits for the request any more."""

    request_id: RequestId | None = None
    reason: str | None = None
