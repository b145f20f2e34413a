"""Subscriptions of the modern era: one long request, and what arrives while it is open."""

import attrs

from mcp_trio.protocol import meta as keys
from mcp_trio.protocol.types.base import (
    Implementation,
    NotificationParams,
    Record,
    RequestId,
    RequestParams,
    Result,
)


@attrs.frozen(repr=False)
class SubscriptionFilter(Record):
    """What a client wants to hear of, or what a server agreed to."""

    tools_list_changed: bool | None = None
    prompts_list_changed: bool | None = None
    resources_list_changed: bool | None = None
    resource_subscriptions: list[str] | None = None


@attrs.frozen(repr=False)
class SubscriptionsListenRequestParams(RequestParams):
    """Opens a subscription."""

    notifications: SubscriptionFilter


@attrs.frozen(repr=False)
class SubscriptionsAcknowledgedNotificationParams(NotificationParams):
    """The first message of a subscription: what the server agreed to."""

    notifications: SubscriptionFilter


@attrs.frozen(repr=False)
class SubscriptionsListenResultMetaObject(Record):
    """The ``_meta`` of the result that ends a subscription."""

    subscription_id: RequestId = attrs.field(metadata={"wire": keys.SUBSCRIPTION_ID})
    server_info: Implementation | None = attrs.field(
        default=None, metadata={"wire": keys.SERVER_INFO}
    )


@attrs.frozen(repr=False)
class SubscriptionsListenResult(Result):
    """The server ended the subscription; ``meta`` names which."""
