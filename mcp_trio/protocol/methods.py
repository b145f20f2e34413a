"""The method table: every request and notification of all five revisions, in both directions.

Dispatch, client methods, conformance checks and documentation read this one table. A row says who
may send the method in which revision, what its parameters and result are, and how it behaves. The
types are named, not imported: reading the table costs nothing, and `Method.params_type` loads the
module of one feature when a message of that feature turns up.
"""

from importlib import import_module
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from mcp_trio.protocol.revisions import LEGACY, MODERN, REVISIONS, supports

Side: TypeAlias = Literal["client", "server"]


class Method(NamedTuple):
    """One row: a request or a notification."""

    name: str
    kind: Literal["request", "notification"]
    params: str
    """The type of its parameters: "module:Class" in `mcp_trio.protocol.types`."""
    result: str | None = None
    """The type of its result, likewise; None for a notification."""
    client: tuple[str, ...] = ()
    """The revisions in which a client may send it."""
    server: tuple[str, ...] = ()
    """The revisions in which a server may send it, as a message of its own."""
    input_request: tuple[str, ...] = ()
    """The revisions in which a server may ask it within an ``input_required`` result."""
    capability: str | None = None
    """The dotted path of the capability it needs: of a request's receiver, a notification's
    sender."""
    capability_feature: str | None = None
    """The feature without which a revision does not ask for that capability."""
    cacheable: bool = False
    """Its result carries ``ttlMs`` and ``cacheScope`` in the modern era."""
    may_ask: bool = False
    """Its result may be ``input_required`` in the modern era."""
    header_field: str | None = None
    """The parameter that the modern HTTP header ``Mcp-Name`` repeats."""
    items: str | None = None
    """The list in its result that comes in pages."""
    early: bool = False
    """A legacy session allows it before the handshake is complete."""
    cancellable: bool = True
    """A request that ``notifications/cancelled`` may name."""
    stale: tuple[str, ...] = ()
    """The requests whose cached results this notification makes stale."""
    filter_field: str | None = None
    """The field of a modern subscription's filter that asks for this notification."""

    @property
    def senders(self) -> frozenset[Side]:
        """Who may send it as a message, in any revision."""
        sides: tuple[Side, ...] = ("client", "server")
        return frozenset(side for side in sides if getattr(self, side))

    @property
    def revisions(self) -> tuple[str, ...]:
        """The revisions that have it, oldest first, in whatever direction and manner."""
        have = {*self.client, *self.server, *self.input_request}
        return tuple(revision for revision in REVISIONS if revision in have)

    def may_send(self, side: Side, version: str) -> bool:
        """Whether ``side`` may send it as a message in the revision ``version``."""
        return version in (self.client if side == "client" else self.server)

    def needs(self, version: str) -> str | None:
        """The capability that it needs in the revision ``version``, as `capability`."""
        if self.capability_feature and not supports(self.capability_feature, version):
            return None
        return self.capability

    def params_type(self) -> Any:
        """The class, or union of classes, of its parameters; loads their module."""
        return _load(self.params)

    def result_type(self) -> Any:
        """The class of its result; loads its module. None for a notification."""
        return None if self.result is None else _load(self.result)


def _load(reference: str) -> Any:
    module, _, name = reference.partition(":")
    return getattr(import_module(f"mcp_trio.protocol.types.{module}"), name)


def _having(feature: str) -> tuple[str, ...]:
    return tuple(revision for revision in REVISIONS if supports(feature, revision))


_REQUESTS = (
    # Meeting
    Method(
        "initialize",
        "request",
        "lifecycle:InitializeRequestParams",
        "lifecycle:InitializeResult",
        client=_having("handshake"),
        early=True,
        cancellable=False,
    ),
    Method(
        "server/discover",
        "request",
        "base:RequestParams",
        "lifecycle:DiscoverResult",
        client=_having("discover"),
        cacheable=True,
    ),
    Method(
        "ping",
        "request",
        "base:RequestParams",
        "base:EmptyResult",
        client=_having("ping"),
        server=_having("ping"),
        early=True,
    ),
    # Tools
    Method(
        "tools/list",
        "request",
        "base:PaginatedRequestParams",
        "tools:ListToolsResult",
        client=REVISIONS,
        capability="tools",
        cacheable=True,
        items="tools",
    ),
    Method(
        "tools/call",
        "request",
        "tools:CallToolRequestParams",
        "tools:CallToolResult",
        client=REVISIONS,
        capability="tools",
        may_ask=True,
        header_field="name",
    ),
    # Resources
    Method(
        "resources/list",
        "request",
        "base:PaginatedRequestParams",
        "resources:ListResourcesResult",
        client=REVISIONS,
        capability="resources",
        cacheable=True,
        items="resources",
    ),
    Method(
        "resources/templates/list",
        "request",
        "base:PaginatedRequestParams",
        "resources:ListResourceTemplatesResult",
        client=REVISIONS,
        capability="resources",
        cacheable=True,
        items="resourceTemplates",
    ),
    Method(
        "resources/read",
        "request",
        "resources:ReadResourceRequestParams",
        "resources:ReadResourceResult",
        client=REVISIONS,
        capability="resources",
        cacheable=True,
        may_ask=True,
        header_field="uri",
    ),
    Method(
        "resources/subscribe",
        "request",
        "resources:SubscribeRequestParams",
        "base:EmptyResult",
        client=_having("subscribe"),
        capability="resources.subscribe",
    ),
    Method(
        "resources/unsubscribe",
        "request",
        "resources:UnsubscribeRequestParams",
        "base:EmptyResult",
        client=_having("subscribe"),
        capability="resources.subscribe",
    ),
    # Prompts and completion
    Method(
        "prompts/list",
        "request",
        "base:PaginatedRequestParams",
        "prompts:ListPromptsResult",
        client=REVISIONS,
        capability="prompts",
        cacheable=True,
        items="prompts",
    ),
    Method(
        "prompts/get",
        "request",
        "prompts:GetPromptRequestParams",
        "prompts:GetPromptResult",
        client=REVISIONS,
        capability="prompts",
        may_ask=True,
        header_field="name",
    ),
    Method(
        "completion/complete",
        "request",
        "completion:CompleteRequestParams",
        "completion:CompleteResult",
        client=REVISIONS,
        capability="completions",
        capability_feature="completions_capability",
    ),
    # Logging and subscriptions
    Method(
        "logging/setLevel",
        "request",
        "notifications:SetLevelRequestParams",
        "base:EmptyResult",
        client=_having("set_level"),
        capability="logging",
    ),
    Method(
        "subscriptions/listen",
        "request",
        "subscriptions:SubscriptionsListenRequestParams",
        "subscriptions:SubscriptionsListenResult",
        client=_having("listen"),
    ),
    # What a server asks its client
    Method(
        "roots/list",
        "request",
        "base:RequestParams",
        "roots:ListRootsResult",
        server=_having("server_requests"),
        input_request=_having("mrtr"),
        capability="roots",
    ),
    Method(
        "sampling/createMessage",
        "request",
        "sampling:CreateMessageRequestParams",
        "sampling:CreateMessageResult",
        server=_having("server_requests"),
        input_request=_having("mrtr"),
        capability="sampling",
    ),
    Method(
        "elicitation/create",
        "request",
        "elicitation:ElicitRequestParams",
        "elicitation:ElicitResult",
        server=tuple(v for v in LEGACY if supports("elicitation", v)),
        input_request=_having("mrtr"),
        capability="elicitation",
    ),
    # Tasks (experimental), in both directions
    Method(
        "tasks/get",
        "request",
        "tasks:TaskRequestParams",
        "tasks:GetTaskResult",
        client=_having("tasks"),
        server=_having("tasks"),
        capability="tasks",
    ),
    Method(
        "tasks/result",
        "request",
        "tasks:TaskRequestParams",
        "tasks:GetTaskPayloadResult",
        client=_having("tasks"),
        server=_having("tasks"),
        capability="tasks",
    ),
    Method(
        "tasks/list",
        "request",
        "base:PaginatedRequestParams",
        "tasks:ListTasksResult",
        client=_having("tasks"),
        server=_having("tasks"),
        capability="tasks.list",
        items="tasks",
    ),
    Method(
        "tasks/cancel",
        "request",
        "tasks:TaskRequestParams",
        "tasks:CancelTaskResult",
        client=_having("tasks"),
        server=_having("tasks"),
        capability="tasks.cancel",
    ),
)

_NOTIFICATIONS = (
    Method(
        "notifications/initialized",
        "notification",
        "base:NotificationParams",
        client=_having("handshake"),
        early=True,
    ),
    Method(
        "notifications/cancelled",
        "notification",
        "notifications:CancelledNotificationParams",
        client=REVISIONS,
        server=REVISIONS,
        early=True,
    ),
    Method(
        "notifications/progress",
        "notification",
        "notifications:ProgressNotificationParams",
        client=LEGACY,
        server=REVISIONS,
        early=True,
    ),
    Method(
        "notifications/message",
        "notification",
        "notifications:LoggingMessageNotificationParams",
        server=REVISIONS,
        capability="logging",
        early=True,
    ),
    Method(
        "notifications/tools/list_changed",
        "notification",
        "base:NotificationParams",
        server=REVISIONS,
        capability="tools.listChanged",
        stale=("tools/list",),
        filter_field="toolsListChanged",
    ),
    Method(
        "notifications/prompts/list_changed",
        "notification",
        "base:NotificationParams",
        server=REVISIONS,
        capability="prompts.listChanged",
        stale=("prompts/list",),
        filter_field="promptsListChanged",
    ),
    Method(
        "notifications/resources/list_changed",
        "notification",
        "base:NotificationParams",
        server=REVISIONS,
        capability="resources.listChanged",
        stale=("resources/list", "resources/templates/list"),
        filter_field="resourcesListChanged",
    ),
    Method(
        "notifications/resources/updated",
        "notification",
        "resources:ResourceUpdatedNotificationParams",
        server=REVISIONS,
        capability="resources.subscribe",
        stale=("resources/read",),
        filter_field="resourceSubscriptions",
    ),
    Method(
        "notifications/subscriptions/acknowledged",
        "notification",
        "subscriptions:SubscriptionsAcknowledgedNotificationParams",
        server=MODERN,
    ),
    Method(
        "notifications/roots/list_changed",
        "notification",
        "base:NotificationParams",
        client=_having("roots_list_changed"),
        capability="roots.listChanged",
    ),
    Method(
        "notifications/elicitation/complete",
        "notification",
        "elicitation:ElicitationCompleteNotificationParams",
        server=_having("elicitation_id"),
    ),
    Method(
        "notifications/tasks/status",
        "notification",
        "tasks:TaskStatusNotificationParams",
        client=_having("tasks"),
        server=_having("tasks"),
    ),
)

METHODS: Final[dict[str, Method]] = {row.name: row for row in (*_REQUESTS, *_NOTIFICATIONS)}
"""Every method of the protocol, by name."""


def find_method(name: str, sender: Side, version: str) -> Method | None:
    """The row of a message that ``sender`` may send in ``version``, or None if it may not."""
    row = METHODS.get(name)
    return row if row is not None and row.may_send(sender, version) else None
