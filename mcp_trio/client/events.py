"""Changes that a server tells of: which lists changed, which resources were updated.

An event says that something is not what it was, not what it is now. So two equal events in a row
say no more than one, and events that nobody has read yet are a *set*: a reader that is away for
an hour while a resource changes a thousand times finds one event, and the set cannot grow beyond
what was subscribed to.
"""

import copy
from typing import TypeAlias

import attrs
import trio

from mcp_trio.wire.jsonrpc import JSONObject

#: Unread events of one subscription, beyond which an update of something *within* a resource
#: that was subscribed to is told as one of that resource.
MOST_PENDING = 1000


@attrs.frozen
class ToolsChanged:
    """The list of tools is not what it was."""


@attrs.frozen
class PromptsChanged:
    """The list of prompts is not what it was."""


@attrs.frozen
class ResourcesChanged:
    """The list of resources, or of templates, is not what it was."""


@attrs.frozen
class ResourceUpdated:
    """The contents of a resource are not what they were.

    `uri` may be that of something within a resource that was subscribed to, as a file in a folder.
    """

    uri: str


Event: TypeAlias = ToolsChanged | PromptsChanged | ResourcesChanged | ResourceUpdated

LISTS: dict[str, Event] = {
    "notifications/tools/list_changed": ToolsChanged(),
    "notifications/prompts/list_changed": PromptsChanged(),
    "notifications/resources/list_changed": ResourcesChanged(),
}


def read_event(method: str, params: JSONObject) -> Event | None:
    """The event that a notification is, None if it is none."""
    if method == "notifications/resources/updated":
        uri = params.get("uri")
        return ResourceUpdated(uri) if isinstance(uri, str) else None
    return LISTS.get(method)


def is_within(uri: str, resource: str) -> bool:
    """Whether a URI is that of `resource`, or of something within it.

    A server may tell of a sub-resource where the resource was subscribed to
    (`ResourceUpdatedNotification` in the schema of every revision).
    """
    if not uri.startswith(resource):
        return False
    return uri == resource or resource.endswith("/") or uri[len(resource)] in "/?#"


@attrs.frozen
class Granted:
    """What a subscription asks for, or what the server agreed to of it."""

    tools: bool = False
    prompts: bool = False
    resources: bool = False
    uris: frozenset[str] = frozenset()

    def wants(self, event: Event) -> bool:
        """Whether the event is one of those that were agreed on."""
        match event:
            case ToolsChanged():
                return self.tools
            case PromptsChanged():
                return self.prompts
            case ResourcesChanged():
                return self.resources
            case ResourceUpdated(uri):
                return self.covering(uri) is not None

    def covering(self, uri: str) -> str | None:
        """The URI that was subscribed to and is this one, or has it within."""
        if uri in self.uris:
            return uri
        return next((resource for resource in self.uris if is_within(uri, resource)), None)

    def everything(self) -> list[Event]:
        """All events that may come, as if everything had changed."""
        lists: list[tuple[bool, Event]] = [
            (self.tools, ToolsChanged()),
            (self.prompts, PromptsChanged()),
            (self.resources, ResourcesChanged()),
        ]
        updates = [ResourceUpdated(uri) for uri in sorted(self.uris)]
        return [event for wanted, event in lists if wanted] + updates

    def to_filter(self) -> JSONObject:
        """As `subscriptions/listen` writes it."""
        wanted: JSONObject = {
            "toolsListChanged": self.tools,
            "promptsListChanged": self.prompts,
            "resourcesListChanged": self.resources,
            "resourceSubscriptions": sorted(self.uris),
        }
        return {name: value for name, value in wanted.items() if value}

    @classmethod
    def from_filter(cls, wire: object) -> "Granted":
        """What a server acknowledges; what is malformed in it counts as refused."""
        fields = wire if isinstance(wire, dict) else {}
        uris = fields.get("resourceSubscriptions")
        return cls(
            fields.get("toolsListChanged") is True,
            fields.get("promptsListChanged") is True,
            fields.get("resourcesListChanged") is True,
            frozenset(uri for uri in uris if isinstance(uri, str))
            if isinstance(uris, list)
            else frozenset(),
        )


class Events:
    """The changes of one subscription: an asynchronous iterator, made by `Client.listen`.

    Equal events that nobody has read yet are one. The iterator ends when the server ends the
    subscription, or the block is left, and raises `ConnectionClosed` when the connection ends;
    events that came before are read first. Cancelling it loses no event, and several tasks may
    share it. `granted` says what the server agreed to tell of; what was asked for and is not in
    it will not come.
    """

    def __init__(self, asked: Granted) -> None:
        self.granted = asked
        self._pending: dict[Event, None] = {}
        self._changed = trio.lowlevel.ParkingLot()
        self._acknowledged = False
        self._ended = False
        self._failure: Exception | None = None

    def __aiter__(self) -> "Events":
        return self

    async def __anext__(self) -> Event:
        await trio.lowlevel.checkpoint_if_cancelled()
        waited = False
        while not self._pending:
            if self._ended:
                raise self._ending()
            await self._changed.park()
            waited = True
        event = next(iter(self._pending))
        del self._pending[event]
        if not waited:  # a checkpoint in any case, but from here on not one that loses the event
            await trio.lowlevel.cancel_shielded_checkpoint()
        return event

    # For the client that feeds it

    def put(self, event: Event) -> None:
        """Note a change, if it is one of those agreed on."""
        if not self.granted.wants(event):
            return
        if isinstance(event, ResourceUpdated) and len(self._pending) >= MOST_PENDING:
            event = ResourceUpdated(self.granted.covering(event.uri) or event.uri)
        self._pending[event] = None
        self._changed.unpark_all()

    def acknowledge(self, granted: Granted) -> None:
        """Note what the server agrees to.

        The second time, something broke in between, and whatever changed then was not told.
        """
        self.granted = granted
        if self._acknowledged:
            self.missed()
        self._acknowledged = True
        self._changed.unpark_all()

    def missed(self) -> None:
        """Note that anything may have changed."""
        for event in self.granted.everything():
            self.put(event)

    @property
    def is_acknowledged(self) -> bool:
        """True once the server has said what it agrees to."""
        return self._acknowledged

    def end(self, failure: Exception | None = None) -> None:
        """No event will come any more: normally, or because of a failure. The first end counts."""
        if self._ended:
            return
        self._ended = True
        self._failure = failure
        self._changed.unpark_all()

    async def acknowledged(self) -> None:
        """Wait for the server to say what it agrees to, or to end the subscription at once."""
        await trio.lowlevel.checkpoint()
        while not self._acknowledged:
            if self._failure is not None:
                raise self._ending()
            if self._ended:
                self.granted = Granted()  # it agreed to nothing
                return
            await self._changed.park()

    def _ending(self) -> Exception:
        """What the end of the events raises, afresh each time it is met."""
        if self._failure is None:
            return StopAsyncIteration()
        return copy.copy(self._failure)
